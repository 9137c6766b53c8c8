//! From the ledger to [`Contents`], and back: whether each number is in the entry that it cites.

use credence_engine::{hcs25::output_verification::Window, reputation::stddev, universal::Outcome};
use credence_ledger::{Checkpoint, LogVerifier, View};
use credence_pipeline::{
    integrity,
    query::{self, CurrentAssured, CurrentScore, Reading, Stats},
    reports::TokenHolder,
};
use credence_protocol::{Canonical, EntityId, ScoreStatus, Timestamp, Uuid, is_deceptive};
use serde::Serialize;
use serde_json::Value;

use crate::{
    Error, Result,
    contents::{
        AgentFacts, AssuredFacts, CitedLog, Contents, FORMAT, OutputFacts, PastScore, ReputationFacts, SignalFact,
        UniversalFacts,
    },
    incidents::Recorded,
};

/// Characters of what a drafter adds.
pub const MAX_SUMMARY: usize = 4_000;
/// Signals that are listed, the newest; the rest is counted.
const MAX_EVIDENCE: usize = 200;
/// Assured scores that are listed.
const MAX_HISTORY: usize = 12;
/// Reports of providers that are listed, of each window.
const MAX_PROVIDERS: usize = 20;
/// Events of a reputation among which a cited one is looked for.
const MAX_EVENTS: usize = 10_000;
/// Names elsewhere that are listed.
const MAX_ALIASES: usize = 20;

/// What a report is to be made of.
pub struct Request<'a> {
    /// How scores are read.
    pub reading: Reading<'a>,
    /// Verifies the log's checkpoints.
    pub log: &'a LogVerifier,
    /// About whom.
    pub agent: &'a EntityId,
    /// Who drafts.
    pub drafter: TokenHolder,
    /// What it adds in words of its own.
    pub summary: Option<String>,
    /// The time of day.
    pub now: Timestamp,
}

/// Reads what the ledger says of an agent. Rows that differ from the ledger are refused.
pub fn gather(view: &dyn View, request: Request<'_>) -> Result<Contents> {
    let Request { reading, log, agent, drafter, summary, now } = request;
    let summary = summary.map(|text| text.trim().replace("\r\n", "\n")).filter(|text| !text.is_empty());
    check_summary(summary.as_deref())?;
    let row = query::agent(view, agent)?;
    let score = reading.score(view, agent)?;
    integrity::basis(view, &score)?;
    let checkpoint = Checkpoint::open(&view.checkpoint()?.unwrap_or_default(), log)?;
    let recorded = Recorded::read(view, agent, checkpoint.size)?;
    let mut evidence: Vec<SignalFact> = score.inputs.iter().map(signal).collect::<Result<_>>()?;
    for one in &score.disputed {
        evidence.iter_mut().filter(|fact| fact.seq == one.seq).for_each(|fact| fact.disputed = Some(one.dispute));
    }
    evidence.sort_by_key(|one| std::cmp::Reverse(one.seq));
    let more_evidence = evidence.len().saturating_sub(MAX_EVIDENCE) as u64;
    evidence.truncate(MAX_EVIDENCE);
    let history = query::assured_history(view, agent, MAX_HISTORY)?.into_iter().map(|row| {
        let numbers = &row.recorded.assured;
        PastScore {
            seq: row.seq,
            recorded_at: row.recorded_at,
            score: numbers.score,
            estimate: numbers.estimate,
            low: numbers.low,
            high: numbers.high,
        }
    });
    let contents = Contents {
        format: FORMAT.to_owned(),
        report: Uuid::new_v4(),
        salt: Uuid::new_v4(),
        drafted_by: drafter,
        drafted_at: now,
        log: CitedLog { origin: checkpoint.origin, size: checkpoint.size, checkpoint: checkpoint.note },
        agent: AgentFacts {
            id: agent.clone(),
            name: row.name,
            owner: row.owner,
            aliases: row.aliases.iter().take(MAX_ALIASES).map(ToString::to_string).collect(),
            seq: row.seq,
            registered_at: row.registered_at,
            revoked: row.revoked,
        },
        summary,
        universal: universal(&score),
        assured: score.assured.as_ref().and_then(assured),
        history: history.collect(),
        evidence,
        more_evidence,
        outputs: outputs(view, agent, now)?,
        reputation: reputation(view, agent, now)?,
        entries: recorded.counts(),
        more_incidents: recorded.more,
        probe_runs: recorded.probe_runs.into(),
        incidents: recorded.incidents.into(),
    };
    // What cannot be found again in the entries is not worth a reviewer's time.
    verify(view, &contents)?;
    Ok(contents)
}

fn check_summary(summary: Option<&str>) -> Result<()> {
    let fits = |text: &str| text.chars().count() <= MAX_SUMMARY && !text.chars().any(|c| is_deceptive(c) && c != '\n');
    if summary.is_none_or(fits) { Ok(()) } else { Err(Error::Summary(MAX_SUMMARY)) }
}

fn universal(score: &CurrentScore) -> Option<UniversalFacts> {
    let (Outcome::Rated(rated), Some(seq), Some(recorded_at)) = (&score.outcome, score.seq, score.recorded_at) else {
        return None;
    };
    (rated.status == ScoreStatus::Published).then_some(UniversalFacts {
        seq,
        recorded_at,
        score: rated.score,
        mean: rated.mean,
        stddev: rated.stddev,
        coverage: rated.coverage,
        sources: rated.sources,
        tier: rated.tier,
        tier_confidence: rated.tier_confidence,
    })
}

fn assured(current: &CurrentAssured) -> Option<AssuredFacts> {
    let numbers = &current.numbers;
    (numbers.status == ScoreStatus::Published).then(|| AssuredFacts {
        seq: current.seq,
        recorded_at: current.recorded_at,
        evaluated_at: current.evaluated_at,
        score: numbers.score,
        estimate: numbers.estimate,
        low: numbers.low,
        high: numbers.high,
        cap: numbers.cap,
        known: numbers.known,
        fragility: numbers.fragility,
        tier: numbers.tier,
        dimensions: numbers.dimensions.iter().map(|(dimension, score)| (*dimension, score.clone())).collect(),
    })
}

fn signal(input: &credence_pipeline::record::Input) -> Result<SignalFact> {
    Ok(SignalFact {
        seq: input.seq,
        source: input.source.clone(),
        tag: input.tag.clone(),
        value: input.value,
        stddev: input.stddev,
        observed_at: Timestamp::from_micros(input.observed_at)?,
        disputed: None,
    })
}

/// The reputation of the newest event, as it was computed then: statements up to it give it again.
fn reputation(view: &dyn View, agent: &EntityId, now: Timestamp) -> Result<Option<ReputationFacts>> {
    let Some(standing) = query::reputation(view, agent, now)?.map(|current| current.standing()) else {
        return Ok(None);
    };
    let newest = query::reputation_history(view, agent, 1)?.into_iter().next();
    Ok(newest.map(|row| ReputationFacts {
        seq: row.seq,
        at: row.at,
        score: row.score,
        stddev: stddev(row.events),
        events: row.events,
        standing: standing.to_owned(),
    }))
}

fn outputs(view: &dyn View, agent: &EntityId, now: Timestamp) -> Result<Vec<OutputFacts>> {
    let mut listed = Vec::new();
    for window in Window::ALL {
        let stats: Stats = query::stats(view, agent, window, now)?;
        for reported in stats.summaries.iter().take(MAX_PROVIDERS) {
            let summary = &reported.summary.0;
            let number = |name: &str| summary.get(name).and_then(Value::as_f64);
            listed.push(OutputFacts {
                seq: reported.seq,
                recorded_at: reported.recorded_at,
                provider: reported.provider.clone(),
                window: window.key().to_owned(),
                counted: stats.signal.providers.iter().any(|one| one.id == reported.provider && one.counted),
                checks: summary.get("totalChecks").and_then(Value::as_u64),
                allowed: number("allowRate"),
                uncertain: number("uncertainRate"),
                blocked: number("blockRate"),
                canaries: canaries(summary),
            });
        }
    }
    Ok(listed)
}

/// Canaries caught, of canaries made.
fn canaries(summary: &Value) -> Option<(u64, u64)> {
    let count = |name: &str| summary.pointer(name).and_then(Value::as_u64);
    count("/canaries/caught").zip(count("/canaries/checks"))
}

/// Checks each number of a report against the entry that it cites: a row that was changed before anybody approved it is not signed.
pub fn verify(view: &dyn View, contents: &Contents) -> Result<()> {
    let agent = Value::from(contents.agent.id.as_str());
    let entry = |seq: u64, what: &'static str| -> Result<(Timestamp, Value)> {
        let missing = Error::NotInEntry { seq, what };
        if seq >= contents.log.size.max(1) { Err(missing) } else { query::recorded(view, seq).map_err(|_| missing) }
    };
    let holds =
        |seq: u64, what: &'static str, same: bool| if same { Ok(()) } else { Err(Error::NotInEntry { seq, what }) };
    let agrees = |seq: u64, what: &'static str, at: Timestamp, facts: Value, names: &[&str]| {
        let (recorded_at, body) = entry(seq, what)?;
        let same = names.iter().all(|name| body[*name] == facts[*name]);
        holds(seq, what, same && body["agent"] == agent && recorded_at == at)
    };
    let (registered_at, registered) = entry(contents.agent.seq, "registration")?;
    let same = registered["agent"] == agent && registered_at == contents.agent.registered_at;
    holds(contents.agent.seq, "registration", same)?;
    if let Some(facts) = &contents.universal {
        let names = ["score", "mean", "stddev", "coverage", "sources", "tier", "tier_confidence"];
        agrees(facts.seq, "universal score", facts.recorded_at, plain(facts)?, &names)?;
    }
    if let Some(facts) = &contents.assured {
        let names = ["score", "estimate", "low", "high", "cap", "known", "fragility", "tier", "evaluated_at"];
        agrees(facts.seq, "assured score", facts.recorded_at, plain(facts)?, &names)?;
        let (_, body) = entry(facts.seq, "assured score")?;
        for (dimension, score) in &facts.dimensions {
            let same = body["dimensions"][dimension.name()] == plain(score)?;
            holds(facts.seq, "dimension", same)?;
        }
    }
    for past in &contents.history {
        let names = ["score", "estimate", "low", "high"];
        agrees(past.seq, "score", past.recorded_at, plain(past)?, &names)?;
    }
    for fact in &contents.evidence {
        let (_, body) = entry(fact.seq, "signal")?;
        let tagged = body["tags"].as_array().is_some_and(|tags| tags.iter().any(|tag| *tag == fact.tag.as_str()));
        let same = body["agent"] == agent
            && body["source"] == fact.source.as_str()
            && body["value"].as_f64() == Some(fact.value)
            && body["stddev"].as_f64() == Some(fact.stddev);
        holds(fact.seq, "signal", tagged && same)?;
        if let Some(disputed) = fact.disputed {
            let (_, step) = entry(disputed, "dispute")?;
            holds(disputed, "dispute", step["agent"] == agent && step["signal"] == body["id"])?;
        }
    }
    if let Some(fact) = &contents.reputation {
        let row = query::reputation_history(view, &contents.agent.id, MAX_EVENTS)?
            .into_iter()
            .find(|row| row.seq == fact.seq);
        let same = row.is_some_and(|row| {
            row.score == fact.score
                && row.events == fact.events
                && row.at == fact.at
                && stddev(row.events) == fact.stddev
        });
        holds(fact.seq, "reputation", same)?;
    }
    for fact in &contents.outputs {
        let (_, body) = entry(fact.seq, "output verification")?;
        let (record, summary) = (&body["record"], &body["record"]["summary"]);
        let same = record["agent"] == agent
            && summary.get("totalChecks").and_then(Value::as_u64) == fact.checks
            && summary.get("allowRate").and_then(Value::as_f64) == fact.allowed
            && summary.get("uncertainRate").and_then(Value::as_f64) == fact.uncertain
            && summary.get("blockRate").and_then(Value::as_f64) == fact.blocked
            && canaries(summary) == fact.canaries;
        holds(fact.seq, "output verification", same)?;
    }
    let recorded = Recorded::read(view, &contents.agent.id, contents.log.size)?;
    let (listed, counts) = (Vec::from(recorded.incidents.clone()), recorded.counts());
    if let Some(seq) = first_difference(&listed, &contents.incidents, |one| one.seq) {
        return Err(Error::NotInEntry { seq, what: "incident" });
    }
    if let Some(seq) = first_difference(&Vec::from(recorded.probe_runs.clone()), &contents.probe_runs, |one| one.seq) {
        return Err(Error::NotInEntry { seq, what: "run of probes" });
    }
    if let Some(seq) = first_difference(&counts, &contents.entries, |one| one.last) {
        return Err(Error::NotInEntry { seq, what: "number of entries" });
    }
    Ok(())
}

/// Facts as an entry has them: canonical JSON writes whole numbers without a fraction.
fn plain(facts: &impl Serialize) -> Result<Value> {
    let parsed = serde_json::from_str(Canonical::of(facts)?.as_str());
    parsed.map_err(|e| credence_output::Error::Malformed(e.to_string()).into())
}

/// The entry at which two lists part.
fn first_difference<T: PartialEq>(one: &[T], other: &[T], seq: impl Fn(&T) -> u64) -> Option<u64> {
    let differing = one.iter().zip(other).find(|(a, b)| a != b).map(|(a, _)| a);
    let longer = if one.len() > other.len() { one.get(other.len()) } else { other.get(one.len()) };
    differing.or(longer).map(seq)
}
