//! How sources are doing, in Prometheus' form. The numbers are those of the database: several nodes show the same.

use credence_ingest::Reason;
use credence_pipeline::links::feeding::CrawlRow;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabels {
    source: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    source: String,
    reason: String,
}

/// Numbers for each source.
#[derive(Default, Clone)]
pub(crate) struct CrawlMetrics {
    answers: Family<SourceLabels, Gauge>,
    signals: Family<SourceLabels, Gauge>,
    last_success: Family<SourceLabels, Gauge>,
    quota: Family<SourceLabels, Gauge>,
    alarm: Family<FailureLabels, Gauge>,
    failures: Family<FailureLabels, Gauge>,
}

impl CrawlMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("crawl_answers", "Answers of a source that were read", self.answers.clone());
        registry.register("crawl_signals", "Signals recorded from a source", self.signals.clone());
        let says = "When a source last answered with something to read, in seconds since 1970";
        registry.register("crawl_last_success_seconds", says, self.last_success.clone());
        registry.register("crawl_quota", "Requests that a source still allows, as it said last", self.quota.clone());
        let says = "Agents about whom a source answers otherwise than its file says";
        registry.register("crawl_alarm", says, self.alarm.clone());
        registry.register("crawl_failures", "Questions without a measurement, by reason", self.failures.clone());
    }

    pub(crate) fn set(&self, rows: &[(String, CrawlRow)]) {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        for (source, row) in rows {
            let labels = SourceLabels { source: source.clone() };
            self.answers.get_or_create(&labels).set(number(row.answers));
            self.signals.get_or_create(&labels).set(number(row.signals));
            if let Some(at) = row.last_success {
                self.last_success.get_or_create(&labels).set(at.micros() / 1_000_000);
            }
            if let Some(quota) = row.quota {
                self.quota.get_or_create(&labels).set(number(quota));
            }
            for reason in Reason::ALL.into_iter().filter(|reason| reason.is_alarming()) {
                let agents = row.alarms.get(reason.key()).map_or(0, |alarm| alarm.agents);
                let labels = FailureLabels { source: source.clone(), reason: reason.key().to_owned() };
                self.alarm.get_or_create(&labels).set(number(agents));
            }
            for (reason, count) in &row.failures {
                let labels = FailureLabels { source: source.clone(), reason: reason.clone() };
                self.failures.get_or_create(&labels).set(number(*count));
            }
        }
    }
}
