//! Runs of the sandbox: each one is an entry, and what its counts come to are signals of the authority's own (DESIGN, *Sandbox*).
//!
//! The entry holds counts and digests, never a transcript. The values follow from the counts ([`credence_engine::probe`]), so that replay
//! makes every signal again. A run speaks only of what it tried: the newest run that came to a value for a tag stands, and one that could
//! not tell leaves it alone.

use std::{collections::BTreeSet, net::IpAddr, ops::ControlFlow};

use credence_engine::probe::{self, Estimate, Latency, NoSignal, Trials};
use credence_ledger::{Appended, Entry, Scan, Transaction, View, write};
use credence_protocol::{EntityId, Tag, Timestamp, Uuid, limits::MAX_CLOCK_SKEW_SECONDS};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::{Host, Url};

use crate::{
    Authority, Error, Result,
    admit::Admitted,
    domains, due, query,
    record::Record,
    registry,
    tables::{self, AgentRow},
};

/// The tags that a run can give, but for `output_quality`, which it shares with the verification of outputs.
pub const TAGS: [&str; 13] = [
    "asi01_goal_hijack",
    "asi02_tool_misuse",
    "asi03_privilege_abuse",
    "asi04_supply_chain",
    "asi05_code_execution",
    "asi06_memory_poisoning",
    "asi07_insecure_comms",
    "asi08_cascading_failures",
    "asi09_trust_exploitation",
    "asi10_rogue_agent",
    UPTIME,
    ERROR_RATE,
    LATENCY,
];
const UPTIME: &str = "rel_uptime";
const ERROR_RATE: &str = "rel_error_rate";
const LATENCY: &str = "rel_latency_p95";
pub(crate) const QUALITY: &str = "output_quality";
/// How long the quality benchmark of a run is joined with what providers report.
pub const QUALITY_HOLDS_SECONDS: i64 = 30 * 86_400;
/// Families of one threat: their counts have to fit into a signal's evidence.
const MAX_FAMILIES: usize = 24;
/// Characters of a family's or a transport's name.
const MAX_NAME: usize = 48;
/// The largest whole number that JSON keeps everywhere.
const MAX_INTEGER: u64 = 1 << 53;
/// How long after its end a run can be recorded: an old one must not look like a new measurement.
const MAX_DELAY_SECONDS: i64 = 86_400;

/// A run of the sandbox against an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeRecord {
    /// The run's id.
    pub run: Uuid,
    /// The agent.
    pub agent: EntityId,
    /// Scheme, host and port that were probed.
    pub target: String,
    /// How it was spoken to: `chat`, `responses`, `a2a`, `mcp`, `http`.
    pub transport: String,
    /// `sha256:` and the digest of the probes.
    pub suite: String,
    /// What the order of trials, the nonces and the tasks were made from.
    pub seed: u64,
    /// `sha256:` and the digest of the transcript, which stays with the operator.
    pub transcript: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// Requests sent.
    pub requests: u64,
    /// What was tried of each threat.
    pub threats: Vec<ThreatCounts>,
    /// What the benchmarks counted.
    pub benchmarks: Benchmarks,
}

/// What was tried of one threat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreatCounts {
    /// The threat.
    pub tag: Tag,
    /// Whether all its families were done: a threat that a run broke off has no value.
    pub finished: bool,
    /// The families that can be tried on this target; none where the threat is not applicable.
    pub families: Vec<FamilyCounts>,
}

/// What became of the trials of one family.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FamilyCounts {
    /// Its name.
    pub family: String,
    /// Whether the agent did the harmless version at least once. One that it never does says nothing of the threat.
    pub counted: bool,
    /// Trials, also those that count once with another because their answers are the same byte for byte.
    pub trials: u64,
    /// A sensor saw the attack take effect.
    pub effected: u64,
    /// The agent says so, and no sensor saw it.
    pub claimed: u64,
    /// Neither.
    pub resisted: u64,
    /// It could not be told.
    pub inconclusive: u64,
    /// Harmless requests that were refused.
    pub over_refusal: u64,
}

impl FamilyCounts {
    /// The trials that count.
    pub fn conclusive(&self) -> Trials {
        Trials::new(self.effected, self.effected.saturating_add(self.claimed).saturating_add(self.resisted))
    }
}

/// What the benchmarks counted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Benchmarks {
    /// Whether, and how fast, the agent answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reliability: Option<ReliabilityCounts>,
    /// Whether its answers are right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<QualityCounts>,
}

/// Calls spread over the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReliabilityCounts {
    /// Calls made.
    pub calls: u64,
    /// Those without an answer.
    pub unanswered: u64,
    /// Answers that were errors.
    pub errors: u64,
    /// How long answers took; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
}

/// Tasks with answers that can be checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QualityCounts {
    /// Tasks set.
    pub tasks: u64,
    /// Tasks done right.
    pub passed: u64,
}

impl ProbeRecord {
    /// What the run comes to for each tag that it tried: a value, or why there is none.
    pub fn values(&self) -> Vec<(&'static str, std::result::Result<Estimate, NoSignal>)> {
        let mut all = Vec::new();
        for threat in &self.threats {
            let Some(tag) = TAGS.into_iter().find(|tag| *tag == threat.tag.as_str()) else { continue };
            let counted = threat.families.iter().filter(|family| family.counted);
            let families: Vec<Trials> = counted.map(FamilyCounts::conclusive).collect();
            if threat.finished {
                all.push((tag, probe::threat(&families)));
            }
        }
        if let Some(reliability) = &self.benchmarks.reliability {
            let ReliabilityCounts { calls, unanswered, errors, latency } = reliability.clone();
            let needed = probe::MIN_CALLS;
            all.push((UPTIME, probe::share(unanswered, calls, needed)));
            all.push((ERROR_RATE, probe::share(errors, calls.saturating_sub(unanswered), needed)));
            let none = Err(NoSignal::TooFewSamples { samples: 0, needed });
            all.push((LATENCY, latency.map_or(none, Latency::estimate)));
        }
        if let Some(QualityCounts { tasks, passed }) = self.benchmarks.quality {
            all.push((QUALITY, probe::quality(passed, tasks)));
        }
        all
    }

    /// The counts that a tag's value rests on, as a signal's evidence names them.
    fn counts(&self, tag: &str) -> Value {
        let b = &self.benchmarks;
        match (tag, &b.reliability, &b.quality) {
            (UPTIME | ERROR_RATE | LATENCY, Some(reliability), _) => json!({ "reliability": reliability }),
            (QUALITY, _, Some(quality)) => json!({ "quality": quality }),
            _ => {
                let threat = self.threats.iter().find(|threat| threat.tag.as_str() == tag);
                let families = threat.map(|threat| {
                    let pair = |family: &FamilyCounts| {
                        let Trials { effected, conclusive } = family.conclusive();
                        (family.family.clone(), json!([effected, conclusive]))
                    };
                    threat.families.iter().filter(|family| family.counted).map(pair).collect::<serde_json::Map<_, _>>()
                });
                json!({ "families": families })
            }
        }
    }
}

/// What the newest run that could tell says of one tag.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbedRow {
    /// The run's entry.
    pub seq: u64,
    /// When it was recorded.
    pub at: Timestamp,
    /// 0..=100.
    pub value: f64,
    /// 0..=50.
    pub stddev: f64,
    /// What the signal cites.
    pub evidence: Value,
}

impl Authority {
    /// Records a run. The same again is the same entry.
    pub fn record_probe(&self, record: ProbeRecord) -> Result<Admitted> {
        let admitted = write(self.ledger(), move |tx| {
            if let Some(seq) = tables::get::<u64>(tx, tables::RECORDS, &place_of_id(&record))? {
                let known: ProbeRecord = Entry::parse(seq, &tx.entry(seq)?.unwrap_or_default())?.record(seq)?;
                let used =
                    || Error::Probe(format!("run: the id {} was used for another run (entry {seq})", record.run));
                return if known == record { Ok(Admitted { seq, known: true }) } else { Err(used()) };
            }
            if tables::get::<AgentRow>(tx, tables::AGENTS, record.agent.as_str())?.is_none() {
                return Err(Error::UnknownAgent(record.agent.to_string()));
            }
            let at = Appended { seq: tx.size()?, recorded_at: tx.stamp()? };
            if let Some(why) = wrong_with(tx, &record, at)? {
                return Err(Error::Probe(why));
            }
            let seq = registry::append(tx, &record.agent, &Record::Probe(Box::new(record.clone())))?;
            Ok(Admitted { seq, known: false })
        })?;
        self.wake_scorer();
        Ok(admitted)
    }
}

fn place_of_id(record: &ProbeRecord) -> String {
    format!("probe/{}", record.run)
}

/// Folds a run in.
pub(crate) fn apply(tx: &mut dyn Transaction, at: Appended, record: &ProbeRecord) -> Result<()> {
    let agent = &record.agent;
    tables::put(tx, tables::RECORDS, &place_of_id(record), &at.seq)?;
    tables::put(tx, tables::PROBE_RUNS, &tables::agent_seq(agent, at.seq), &at.recorded_at)?;
    for (tag, value) in record.values() {
        let Ok(Estimate { value, stddev }) = value else { continue };
        let mut evidence = json!({
            "derivation": probe::DERIVATION, "run": at.seq, "suite": record.suite, "seed": record.seed,
            "transcript": record.transcript,
        });
        if let (Some(members), Value::Object(counts)) = (evidence.as_object_mut(), record.counts(tag)) {
            members.extend(counts);
        }
        let row = ProbedRow { seq: at.seq, at: at.recorded_at, value, stddev, evidence };
        tables::put(tx, tables::PROBED, &format!("{agent}/{tag}"), &row)?;
        if tag == QUALITY {
            due::derive_at(tx, agent, "probe", at.recorded_at.plus_seconds(QUALITY_HOLDS_SECONDS + 1), at.seq)?;
        }
    }
    due::derive(tx, agent.as_str(), at.seq)
}

/// What the runs say of each tag at `now`, in the order of the tags' names.
pub(crate) fn probed(
    view: &(impl View + ?Sized),
    agent: &EntityId,
    now: Timestamp,
) -> Result<Vec<(&'static str, ProbedRow)>> {
    let (prefix, mut all) = (format!("{agent}/"), Vec::new());
    tables::scan(view, tables::PROBED, Scan::prefix(&prefix), |key, row: ProbedRow| {
        let tag = TAGS.into_iter().chain([QUALITY]).find(|tag| *tag == &key[prefix.len()..]);
        let lapsed = tag == Some(QUALITY) && now > row.at.plus_seconds(QUALITY_HOLDS_SECONDS);
        all.extend(tag.filter(|_| !lapsed).map(|tag| (tag, row)));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(all)
}

/// At the door and in audits: what cannot be.
pub(crate) fn wrong_with(view: &(impl View + ?Sized), record: &ProbeRecord, at: Appended) -> Result<Option<String>> {
    if let Some(seq) = tables::get::<u64>(view, tables::RECORDS, &place_of_id(record))? {
        return Ok(Some(format!("run: the id {} was used for another run (entry {seq})", record.run)));
    }
    if let Some(why) = malformed(record) {
        return Ok(Some(why));
    }
    let latest = at.recorded_at.plus_seconds(MAX_CLOCK_SKEW_SECONDS);
    let is_old = record.ended_at.plus_seconds(MAX_DELAY_SECONDS) < at.recorded_at;
    if record.started_at > record.ended_at || record.ended_at > latest || is_old {
        let (from, to) = (record.started_at, record.ended_at);
        return Ok(Some(format!("started_at, ended_at: {from} to {to}, recorded at {}", at.recorded_at)));
    }
    Ok(match target_of(&record.target) {
        None => Some(format!("target: '{}' is not scheme, host and port, https or loopback", record.target)),
        Some(Target::Loopback) => None,
        Some(Target::Host(host)) => {
            let proved = query::proved_domains(view, &record.agent)?.map(|(_, hosts)| hosts).unwrap_or_default();
            let held = proved.iter().any(|one: &domains::Proved| one.host == host && one.holds(record.started_at));
            (!held).then(|| format!("target: control of {host} was not proved for '{}'", record.agent))
        }
    })
}

/// What was probed.
#[derive(Debug, PartialEq, Eq)]
enum Target {
    /// With its port where that is not 443.
    Host(String),
    Loopback,
}

fn target_of(origin: &str) -> Option<Target> {
    let url = Url::parse(origin).ok()?;
    let is_origin = url.origin().ascii_serialization() == origin;
    let host = url.host()?;
    let loopback = match &host {
        Host::Domain(name) => *name == "localhost",
        Host::Ipv4(ip) => IpAddr::from(*ip).is_loopback(),
        Host::Ipv6(ip) => IpAddr::from(*ip).is_loopback(),
    };
    match (url.scheme(), loopback) {
        _ if !is_origin => None,
        ("https" | "http", true) => Some(Target::Loopback),
        ("https", false) => {
            Some(Target::Host(url.port().map_or_else(|| host.to_string(), |port| format!("{host}:{port}"))))
        }
        _ => None,
    }
}

fn malformed(record: &ProbeRecord) -> Option<String> {
    let is_name = |text: &str| {
        (1..=MAX_NAME).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b))
    };
    let is_digest = |text: &str| {
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        text.strip_prefix("sha256:").is_some_and(|digest| digest.len() == 64 && digest.bytes().all(hex))
    };
    if !is_name(&record.transport) {
        return Some(format!("transport: '{}' is not a name", record.transport));
    }
    for (field, digest) in [("suite", &record.suite), ("transcript", &record.transcript)] {
        if !is_digest(digest) {
            return Some(format!("{field}: 'sha256:' and 64 hex digits"));
        }
    }
    if record.seed > MAX_INTEGER || record.requests > MAX_INTEGER {
        return Some("seed, requests: at most 2^53".to_owned());
    }
    let mut tags = BTreeSet::new();
    for ThreatCounts { tag, families, .. } in &record.threats {
        if !tag.as_str().starts_with("asi") || !TAGS.contains(&tag.as_str()) || !tags.insert(tag) {
            return Some(format!("threats: '{tag}' is not a threat, or stands there twice"));
        }
        let mut names = BTreeSet::new();
        if families.len() > MAX_FAMILIES {
            return Some(format!("threats: {tag} has {} families, and {MAX_FAMILIES} are the most", families.len()));
        }
        for family in families {
            let FamilyCounts { family: name, trials, effected, claimed, resisted, inconclusive, over_refusal, .. } =
                family;
            if !is_name(name) || !names.insert(name) {
                return Some(format!("threats: {tag}: '{name}' is not a family's name, or stands there twice"));
            }
            if !family.counted && family.conclusive().conclusive > 0 {
                return Some(format!("threats: {tag}: {name} has conclusive trials and is not counted"));
            }
            let all =
                [effected, claimed, resisted, inconclusive].into_iter().fold(0_u64, |sum, n| sum.saturating_add(*n));
            if all > *trials || *over_refusal > *trials || *trials > MAX_INTEGER {
                return Some(format!("threats: {tag}: {name}: more outcomes than trials"));
            }
        }
    }
    let Benchmarks { reliability, quality } = &record.benchmarks;
    let reliable = reliability.as_ref().is_none_or(|one| {
        let answered = one.calls.checked_sub(one.unanswered);
        let timed = one.latency.map_or(0, |latency| latency.samples);
        one.calls <= MAX_INTEGER
            && answered.is_some_and(|answered| one.errors <= answered && timed <= answered)
            && one.latency.is_none_or(|latency| latency.p95_ms <= latency.bound_ms && latency.bound_ms <= MAX_INTEGER)
    });
    let checked = quality.as_ref().is_none_or(|one| one.passed <= one.tasks && one.tasks <= MAX_INTEGER);
    (!reliable || !checked).then(|| "benchmarks: more of a part than of the whole".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_an_origin() {
        assert_eq!(target_of("https://shop.example"), Some(Target::Host("shop.example".into())));
        assert_eq!(target_of("https://shop.example:8443"), Some(Target::Host("shop.example:8443".into())));
        for loopback in ["http://127.0.0.1:8080", "http://localhost:1", "https://[::1]:9", "http://127.9.9.9"] {
            assert_eq!(target_of(loopback), Some(Target::Loopback), "{loopback}");
        }
        for bad in [
            "http://shop.example",
            "https://shop.example/",
            "https://user@shop.example",
            "https://shop.example:443",
            "https://localhost.evil.example/x",
            "ftp://127.0.0.1",
            "shop.example",
            "",
        ] {
            assert_eq!(target_of(bad), None, "{bad}");
        }
        // A name that only looks like loopback is a host, and has to be proved.
        assert_eq!(target_of("https://localhost.evil.example"), Some(Target::Host("localhost.evil.example".into())));
    }
}
