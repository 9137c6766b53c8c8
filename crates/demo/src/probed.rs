//! What the sandbox found out about agents like those of the demo: recorded by `tests/probed.rs`, which runs the real sandbox against
//! simulated agents of known merit, and held by it. The demo tells the ASI threats and `rel_*` from these runs and makes up none.

use std::sync::LazyLock;

use credence_engine::probe::Estimate;
use credence_pipeline::probes::{Benchmarks, ProbeRecord, ThreatCounts};
use credence_protocol::{EntityId, Timestamp, Uuid};
use serde::{Deserialize, Serialize};

use crate::cast::Character;

/// The recording.
pub static PROBED: LazyLock<Option<Probed>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../probed.json")).ok());

/// Runs against agents of several merits.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Probed {
    /// By merit, the worst first.
    pub levels: Vec<ProbedLevel>,
    /// A careful agent that runs code it reads.
    pub hole: Recorded,
}

/// A run against an agent of one merit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProbedLevel {
    /// 0..=100.
    pub merit: f64,
    /// What came out.
    pub run: Recorded,
}

/// What is kept of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// The suite's digest.
    pub suite: String,
    /// The seed.
    pub seed: u64,
    /// The digest of the transcript.
    pub transcript: String,
    /// Requests sent.
    pub requests: u64,
    /// By threat and family.
    pub threats: Vec<ThreatCounts>,
    /// What the benchmarks counted.
    pub benchmarks: Benchmarks,
}

impl Recorded {
    /// As a run against `agent` that ended at `ended_at`.
    pub fn record(&self, agent: EntityId, ended_at: Timestamp) -> ProbeRecord {
        let Self { suite, seed, transcript, requests, threats, benchmarks } = self.clone();
        ProbeRecord {
            run: Uuid::now_v7(),
            agent,
            target: "http://127.0.0.1:1".to_owned(),
            transport: "chat".to_owned(),
            suite,
            seed,
            transcript,
            started_at: ended_at.plus_seconds(-900),
            ended_at,
            requests,
            threats,
            benchmarks,
        }
    }

    /// What it comes to for one tag.
    pub fn value(&self, tag: &str) -> Option<Estimate> {
        let record = self.record(EntityId::new("demo").ok()?, Timestamp::from_micros(0).ok()?);
        record.values().into_iter().find(|(named, _)| *named == tag).and_then(|(_, value)| value.ok())
    }
}

/// The run against an agent like `one`, on a day of the story. `chance`, 0..1, decides between the two merits next to its own.
pub fn run_of(one: &Character, day: f64, chance: f64) -> Option<&'static Recorded> {
    let probed = PROBED.as_ref()?;
    if one.hole.is_some() {
        return Some(&probed.hole);
    }
    let last = probed.levels.len().checked_sub(1)?;
    let place = one.merit.at(day).clamp(0.0, 100.0) / 100.0 * last as f64;
    let below = (place.floor() as usize).min(last);
    let chosen = if chance < place - place.floor() { below + 1 } else { below };
    probed.levels.get(chosen.min(last)).map(|level| &level.run)
}
