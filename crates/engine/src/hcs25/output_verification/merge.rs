//! One summary of several providers' summaries, for others to collect (seed 0, `GET /v1/stats/{agent}`).
//!
//! Checks add up; rates and confidence are means weighted by checks, as the reference collector merges them. Quality is not computed
//! from the result: merged rates would let one provider's blocks lend power to another's approvals
//! ([`providers::combine`](crate::hcs25::providers::combine) keeps them apart).

use credence_protocol::Timestamp;

use super::summary::{ProviderRef, StakeDistribution, StakeLevel, Summary};

impl Summary {
    /// Several providers' summaries over one window as one. Without any, nothing was checked: all numbers are 0.
    pub fn merged(parts: &[(&Summary, ProviderRef)], window_days: f64) -> Summary {
        let total: u64 = parts.iter().fold(0, |sum, (part, _)| sum.saturating_add(part.total_checks));
        let mean = |of: &dyn Fn(&Summary) -> f64| {
            let sum: f64 = parts.iter().map(|(part, _)| part.total_checks as f64 * of(part)).sum();
            if total == 0 { 0.0 } else { sum / total as f64 }
        };
        let uncertain = |part: &Summary| part.uncertain_rate.unwrap_or(0.0);
        let stakes: Vec<&StakeDistribution> =
            parts.iter().filter_map(|(part, _)| part.stake_distribution.as_ref()).collect();
        Summary {
            allow_rate: mean(&|part| part.allow_rate),
            block_rate: mean(&|part| part.block_rate),
            uncertain_rate: Some(mean(&uncertain)),
            avg_confidence: mean(&|part| part.avg_confidence),
            total_checks: total,
            stake_distribution: (!stakes.is_empty()).then(|| StakeDistribution {
                low: level(&stakes, |one| one.low),
                medium: level(&stakes, |one| one.medium),
                high: level(&stakes, |one| one.high),
                critical: level(&stakes, |one| one.critical),
            }),
            window_days: Some(window_days),
            providers: parts
                .iter()
                .map(|(part, provider)| ProviderRef { checks_contributed: Some(part.total_checks), ..provider.clone() })
                .collect(),
            canaries: None,
            controls: None,
            updated_at: parts.iter().filter_map(|(part, _)| part.updated_at).reduce(Timestamp::max),
        }
    }
}

/// Checks of one level; its rates where every part states them.
fn level(stakes: &[&StakeDistribution], of: fn(&StakeDistribution) -> Option<StakeLevel>) -> Option<StakeLevel> {
    let levels: Vec<StakeLevel> = stakes.iter().filter_map(|one| of(one)).collect();
    let checks: u64 = levels.iter().fold(0, |sum, level| sum.saturating_add(level.checks));
    let mean = |rate: fn(&StakeLevel) -> Option<f64>| -> Option<f64> {
        let sum: f64 = levels.iter().map(|level| Some(level.checks as f64 * rate(level)?)).sum::<Option<f64>>()?;
        (checks > 0).then(|| sum / checks as f64)
    };
    (!levels.is_empty()).then(|| StakeLevel {
        checks,
        allow_rate: mean(|level| level.allow_rate),
        avg_confidence: mean(|level| level.avg_confidence),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hcs25::output_verification::Report;

    fn summary(text: &str) -> Summary {
        match Summary::from_value(&serde_json::from_str(text).unwrap(), 10).unwrap() {
            Report::Applicable(summary) => summary,
            other => panic!("{other:?}"),
        }
    }

    fn provider(id: &str) -> ProviderRef {
        let methodology_url = Some(format!("https://{id}.example/method"));
        ProviderRef { id: id.to_owned(), signer_address: None, methodology_url, checks_contributed: None }
    }

    #[test]
    fn rates_are_weighted_by_checks() {
        let one = summary(
            r#"{"allowRate":0.99,"blockRate":0.01,"avgConfidence":0.95,"totalChecks":900,
                "stakeDistribution":{"high":{"checks":10,"allowRate":1.0},"low":{"checks":890}}}"#,
        );
        let other = summary(
            r#"{"allowRate":0.40,"blockRate":0.50,"uncertainRate":0.10,"avgConfidence":0.90,"totalChecks":100,
                "stakeDistribution":{"high":{"checks":30,"allowRate":0.5}}}"#,
        );
        let merged = Summary::merged(&[(&one, provider("a")), (&other, provider("b"))], 7.0);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(near(merged.allow_rate, 0.931) && near(merged.block_rate, 0.059), "{merged:?}");
        assert!(near(merged.uncertain_rate.unwrap(), 0.01) && near(merged.avg_confidence, 0.945), "{merged:?}");
        assert_eq!(merged.total_checks, 1000);
        let stakes = merged.stake_distribution.unwrap();
        let high = stakes.high.unwrap();
        assert!(high.checks == 40 && near(high.allow_rate.unwrap(), 0.625), "{high:?}");
        assert_eq!((stakes.low.unwrap().checks, stakes.low.unwrap().allow_rate), (890, None));
        let contributed: Vec<_> =
            merged.providers.iter().map(|one| (one.id.as_str(), one.checks_contributed)).collect();
        assert_eq!(contributed, [("a", Some(900)), ("b", Some(100))]);
    }

    #[test]
    fn without_reports_nothing_was_checked() {
        let none = Summary::merged(&[], 7.0);
        assert_eq!((none.total_checks, none.allow_rate, none.stake_distribution), (0, 0.0, None));
    }
}
