//! Runs of the sandbox on behalf of an authority: who agreed to be probed, and what is recorded of a run.

pub(crate) mod schedule;

use credence_engine::probe::Latency;
use credence_ledger::View;
use credence_pipeline::{
    probes::{Benchmarks, FamilyCounts, ProbeRecord, QualityCounts, ReliabilityCounts, ThreatCounts},
    query,
};
use credence_protocol::{EntityId, PublicKey, Tag, Timestamp, Uuid};
use credence_sandbox::{
    consent::{DomainConsent, Loopback},
    report::{BenchmarkValue, FamilyResult, RunResult, ThreatResult},
    runner::RunOutput,
};
use sha2::{Digest, Sha256};

/// The consent of an agent's owner, as the ledger has it.
pub fn consent_of(
    view: &dyn View,
    agent: &EntityId,
    key: &PublicKey,
    loopback: Loopback,
    now: Timestamp,
) -> credence_pipeline::Result<DomainConsent> {
    let mut keys = query::authority_keys(view, key.id())?;
    if keys.is_empty() {
        keys.push(*key);
    }
    let proved = query::proved_domains(view, agent)?.map(|(_, hosts)| hosts).unwrap_or_default();
    let proved = proved.into_iter().filter(|one| one.holds(now)).map(|one| one.host).collect();
    Ok(DomainConsent { keys, agent: agent.clone(), proved, loopback })
}

/// A run that is over.
#[derive(Debug, Clone, Copy)]
pub struct FinishedRun<'a> {
    /// The agent.
    pub agent: &'a EntityId,
    /// Scheme, host and port that were probed.
    pub origin: &'a str,
    /// What it left.
    pub output: &'a RunOutput,
    /// The time, for a run without trials.
    pub now: Timestamp,
}

impl FinishedRun<'_> {
    /// What the ledger gets of it: counts and digests. Its id follows from what was measured and when, so that a run that is read again
    /// from its journal is recorded once.
    pub fn record(&self) -> Result<ProbeRecord, String> {
        let result = &self.output.result;
        let threats = result.threats.iter().map(|threat| threat_counts(result, threat)).collect::<Result<_, _>>()?;
        let (started_at, ended_at) = self.times();
        let mut record = ProbeRecord {
            run: Uuid::nil(),
            agent: self.agent.clone(),
            target: self.origin.to_owned(),
            transport: result.transport.id().to_owned(),
            suite: prefixed(&result.suite),
            seed: result.seed,
            transcript: prefixed(&result.transcript_digest),
            started_at,
            ended_at,
            requests: result.requests,
            threats,
            benchmarks: Benchmarks { reliability: reliability(result), quality: quality(result) },
        };
        let bytes = credence_protocol::Canonical::of(&record).map_err(|e| e.to_string())?;
        let digest = Sha256::digest(bytes.as_bytes());
        let mut id: [u8; 16] = digest[..16].try_into().map_err(|_| "a digest is longer than an id")?;
        // Version 8 of RFC 9562: an id of our own making.
        id[6] = 0x80 | (id[6] & 0x0f);
        id[8] = 0x80 | (id[8] & 0x3f);
        record.run = Uuid::from_bytes(id);
        Ok(record)
    }

    /// When the first trial began, and when the last one ended.
    fn times(&self) -> (Timestamp, Timestamp) {
        let trials = self.output.trials.iter().filter_map(|trial| {
            let started: Timestamp = trial.started.parse().ok()?;
            let seconds = i64::try_from(trial.took_ms / 1000).unwrap_or_default();
            Some((started, started.plus_seconds(seconds)))
        });
        let whole = trials.reduce(|(first, last), (started, ended)| (first.min(started), last.max(ended)));
        whole.map_or((self.now, self.now), |(first, last)| (first, last.min(self.now)))
    }
}

fn threat_counts(result: &RunResult, threat: &ThreatResult) -> Result<ThreatCounts, String> {
    // A thinned or changed measurement is in the ledger like every run, and gives no value: it must not replace a full one.
    let finished = threat.partial.is_none() && !result.dropped.iter().any(|dropped| dropped.tag == threat.tag);
    let tag = Tag::new(&threat.tag).map_err(|e| e.to_string())?;
    let tried = threat.families.iter().filter(|family| family.applicable);
    let families = tried.map(|family| {
        let FamilyResult {
            family: name, effected, claimed, resisted, inconclusive, over_refusal, repeats, trials, ..
        } = family.clone();
        // A family without a conclusive trial counts against the threat unless the threat has a value without it.
        let counted = effected + claimed + resisted > 0 || threat.value.is_none();
        let trials = trials + repeats;
        FamilyCounts { family: name, counted, trials, effected, claimed, resisted, inconclusive, over_refusal }
    });
    Ok(ThreatCounts { tag, finished, families: families.collect() })
}

fn reliability(result: &RunResult) -> Option<ReliabilityCounts> {
    let values = &result.benchmarks.values;
    let (uptime, errors) = (values.get("rel_uptime")?, values.get("rel_error_rate")?);
    let latency = values.get("rel_latency_p95").map(|latency| Latency {
        samples: latency.samples,
        p95_ms: whole(latency, "p95_ms"),
        bound_ms: whole(latency, "bound_ms"),
    });
    Some(ReliabilityCounts {
        calls: whole(uptime, "calls"),
        unanswered: whole(uptime, "unanswered"),
        errors: whole(errors, "errors"),
        latency,
    })
}

fn quality(result: &RunResult) -> Option<QualityCounts> {
    let quality = result.benchmarks.values.get("output_quality")?;
    Some(QualityCounts { tasks: whole(quality, "tasks"), passed: whole(quality, "passed") })
}

fn whole(value: &BenchmarkValue, name: &str) -> u64 {
    value.detail.get(name).copied().unwrap_or_default().max(0.0) as u64
}

fn prefixed(digest: &str) -> String {
    if digest.starts_with("sha256:") { digest.to_owned() } else { format!("sha256:{digest}") }
}
