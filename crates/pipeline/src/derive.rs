//! The authority's own signals: what summaries and reputations come to, signed as source `credence`.
//!
//! | tag | from | emitted |
//! |---|---|---|
//! | `output_quality`, `output_coverage` | the providers' 7-day summaries ([`crate::summaries`]) | once any of them counts |
//! | `peer_reputation` | the reputation ([`crate::reputation`]) | from ten events on |
//!
//! Emitted when a value changed, together for all agents that wait, like scores. The evidence names the derivation and what
//! it saw, and replay derives it again: the authority's word is checked like everyone's.

use std::ops::ControlFlow;

use credence_engine::{
    hcs25::output_verification::{Parameters, signal},
    reputation::{self as model, PROTOCOL_VERSION, Tier},
};
use credence_ledger::{Ledger, Scan, Transaction, View, write};
use credence_protocol::{
    AUTHORITY_SOURCE, EntityId, SecretKey, Signal, SignalDraft, Tag, Timestamp, strict::StrictValue,
};
use serde_json::{Value, json};

use crate::{
    Rejection, Result,
    admit::{self, Checked},
    reputation::{self, rows::ReputationRow},
    summaries::{self, SIGNAL_WINDOW},
    tables::{self, CurrentRow},
};

/// How `output_quality` and `output_coverage` are made.
pub const OUTPUT_DERIVATION: &str = "output-verification/1";
/// How `peer_reputation` is made.
pub const REPUTATION_DERIVATION: &str = "reputation/1";
/// Agents looked at in one unit of work.
const AGENTS_PER_WORK: usize = 100;
/// Decimals that make a change: less is not worth an entry.
const PLACES: f64 = 1e6;

/// A signal that the tables imply.
#[derive(Debug, Clone, PartialEq)]
pub struct Derived {
    /// What it measures.
    pub tag: &'static str,
    /// 0..=100.
    pub value: f64,
    /// 0..=50.
    pub stddev: f64,
    /// What it rests on, but for `as_of`.
    pub evidence: Value,
}

/// What the tables imply for `agent` at `now`.
pub fn derived(view: &(impl View + ?Sized), agent: &EntityId, now: Timestamp) -> Result<Vec<Derived>> {
    let mut all = Vec::new();
    let stats = summaries::stats(view, agent, SIGNAL_WINDOW, now)?;
    if let (Some(quality), Some(stddev)) = (stats.signal.quality, stats.signal.stddev) {
        let providers: Vec<&str> =
            stats.signal.providers.iter().filter(|one| one.counted).map(|one| one.id.as_str()).take(16).collect();
        let evidence = json!({
            "derivation": OUTPUT_DERIVATION, "window": SIGNAL_WINDOW, "checks": stats.signal.checks,
            "providers": providers, "combined": stats.signal.combined, "disagreement": stats.signal.disagreement,
            "hcs25_quality": stats.hcs25.quality, "odd_stakes": stats.findings.len(),
        });
        let coverage = signal::coverage(stats.signal.checks, &Parameters::default());
        all.push(Derived { tag: "output_quality", value: quality, stddev, evidence: evidence.clone() });
        all.push(Derived { tag: "output_coverage", value: coverage.value, stddev: coverage.stddev, evidence });
    }
    let row: Option<ReputationRow> = tables::get(view, tables::REPUTATIONS, agent.as_str())?;
    if let Some(row) = row.filter(|row| row.events >= reputation::parameters().established_events) {
        let evidence = json!({
            "derivation": REPUTATION_DERIVATION, "protocol_version": PROTOCOL_VERSION, "event": row.seq,
            "events": row.events, "tier": Tier::of(row.score), "factors": row.factors,
        });
        all.push(Derived {
            tag: "peer_reputation",
            value: row.score.clamp(0.0, 100.0),
            stddev: model::stddev(row.events),
            evidence,
        });
    }
    for one in &mut all {
        (one.value, one.stddev) = (rounded(one.value), rounded(one.stddev));
    }
    Ok(all)
}

fn rounded(value: f64) -> f64 {
    (value * PLACES).round() / PLACES
}

/// What became of the agents that waited.
#[derive(Debug, Default, PartialEq)]
pub struct Emitted {
    /// Signals recorded.
    pub signals: usize,
    /// Why one was not: the authority's key is not in order. Those agents still wait.
    pub refused: Option<Rejection>,
}

/// Emits what is due, signed by `key`.
pub fn emit(ledger: &dyn Ledger, key: &SecretKey, now: Timestamp) -> Result<Emitted> {
    let mut emitted = Emitted::default();
    loop {
        let key = key.clone();
        let (agents, signals, refused) = write(ledger, move |tx| {
            let agents = waiting(tx)?;
            let mut signals = 0;
            for agent in &agents {
                match emit_one(tx, agent, &key, now)? {
                    Ok(recorded) => signals += recorded,
                    Err(refused) => return Ok((agents.len(), signals, Some(refused))),
                }
                tx.delete(tables::DERIVE, agent.as_str())?;
            }
            Ok::<_, crate::Error>((agents.len(), signals, None))
        })?;
        emitted.signals += signals;
        emitted.refused = refused;
        if agents < AGENTS_PER_WORK || emitted.refused.is_some() {
            return Ok(emitted);
        }
    }
}

fn waiting(view: &(impl View + ?Sized)) -> Result<Vec<EntityId>> {
    let mut agents = Vec::new();
    tables::scan(view, tables::DERIVE, Scan::all(), |key, _: u64| {
        agents.push(EntityId::new(key)?);
        Ok(if agents.len() == AGENTS_PER_WORK { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(agents)
}

fn emit_one(
    tx: &mut dyn Transaction,
    agent: &EntityId,
    key: &SecretKey,
    now: Timestamp,
) -> Result<std::result::Result<usize, Rejection>> {
    let source = EntityId::new(AUTHORITY_SOURCE)?;
    let mut recorded = 0;
    for one in derived(tx, agent, now)? {
        let tag = Tag::new(one.tag)?;
        let slot = tables::slot(agent, &source, &tag);
        let current: Option<CurrentRow> = tables::get(tx, tables::CURRENT, &slot)?;
        if current.is_some_and(|current| current.value == one.value && current.stddev == one.stddev) {
            continue;
        }
        let mut draft = SignalDraft::new(agent.clone(), source.clone(), vec![tag], one.value, one.stddev, now);
        let mut evidence = one.evidence;
        evidence["as_of"] = json!(tx.size()?);
        draft.evidence = Some(StrictValue(evidence));
        let checked = Checked::own(draft.sign(key)?);
        for verdict in admit::settle(tx, vec![checked])? {
            if let Err(rejection) = verdict {
                return Ok(Err(rejection));
            }
            recorded += 1;
        }
    }
    Ok(Ok(recorded))
}

/// What is wrong with a signal that claims to be derived, given the tables as they were just before it.
pub(crate) fn wrong(view: &(impl View + ?Sized), signal: &Signal) -> Result<Option<String>> {
    let draft = signal.draft();
    let Some(StrictValue(evidence)) = draft.evidence.as_ref().filter(|_| draft.source.as_str() == AUTHORITY_SOURCE)
    else {
        return Ok(None);
    };
    if evidence.get("derivation").is_none() {
        return Ok(None);
    }
    let mut said = evidence.clone();
    if let Some(members) = said.as_object_mut() {
        members.remove("as_of");
    }
    let again = derived(view, &draft.agent, draft.observed_at.at())?;
    let same = again.iter().any(|one| {
        draft.tags.iter().map(Tag::as_str).eq([one.tag])
            && (one.value, one.stddev) == (draft.value, draft.stddev)
            && same_json(&one.evidence, &said)
    });
    Ok((!same).then(|| {
        let tags: Vec<&str> = draft.tags.iter().map(Tag::as_str).collect();
        format!("the authority's own signal {} of '{}' does not come out again", tags.join(", "), draft.agent)
    }))
}

/// Equal as canonical JSON: 1 and 1.0 are one number there.
fn same_json(a: &Value, b: &Value) -> bool {
    match (credence_protocol::Canonical::of(a), credence_protocol::Canonical::of(b)) {
        (Ok(a), Ok(b)) => a.as_str() == b.as_str(),
        _ => false,
    }
}
