//! The authority's own signals: what summaries and reputations come to, signed as source `credence`.
//!
//! | tag | from | emitted |
//! |---|---|---|
//! | `output_quality`, `output_coverage` | the providers' 7-day summaries ([`crate::summaries`]) | once any of them counts |
//! | `output_quality` | the sandbox's quality benchmark, joined with those | while the run is not older than thirty days |
//! | `asi01_…` to `asi10_…`, `rel_…` | the newest run of the sandbox that could tell ([`crate::probes`]) | after each such run |
//! | `peer_reputation` | the reputation ([`crate::reputation`]) | from ten events on |
//! | `cross_chain_consistency` | what registrations on chains say ([`crate::registrations`]) | from two registrations on |
//!
//! Emitted when a value changed, together for all agents that wait, like scores; withdrawn when nothing backs it any more:
//! summaries whose window has passed, providers no longer admitted, a reputation without an event in thirty days, a second registration that
//! is gone. The evidence
//! names the derivation and what it saw, and replay derives it again: the authority's word is checked like everyone's.
//!
//! Coverage is bounded by quality: how much was checked speaks for an agent only as far as what was checked was good. It is published
//! and no input of the assured score.

use std::collections::BTreeSet;

use credence_engine::{
    hcs25::output_verification::{Parameters, signal},
    reputation::{self as model, PROTOCOL_VERSION, Tier},
};
use credence_ledger::{Appended, Entry, Ledger, Transaction, View, write};
use credence_protocol::{
    AUTHORITY_SOURCE, EntityId, SecretKey, Signal, SignalDraft, Tag, Timestamp, strict::StrictValue,
};
use serde_json::{Value, json};

use crate::{
    Rejection, Result,
    admit::{self, Checked},
    due, probes,
    query::{self, Reputation},
    record::{Record, WithdrawalRecord},
    registrations, registry,
    reputation::{self, rows::ReputationRow},
    summaries::{self, SIGNAL_WINDOW},
    tables::{self, CurrentRow, KeyRow, SignalPlace, SourceRow},
};

/// How `output_quality` and `output_coverage` are made.
pub const OUTPUT_DERIVATION: &str = signal::DERIVATION;
/// How `peer_reputation` is made.
pub const REPUTATION_DERIVATION: &str = "reputation/2";
/// How `output_quality` is made where providers and the sandbox both measured it: by [`signal::join`].
pub const JOINED_DERIVATION: &str = "output-verification/2+probe/1";
const QUALITY: &str = probes::QUALITY;
const COVERAGE: &str = "output_coverage";
const REPUTATION: &str = "peer_reputation";
/// The tags that only a derivation speaks of.
pub const OWN_TAGS: [&str; 4] = [QUALITY, COVERAGE, REPUTATION, registrations::TAG];
/// Between looking and recording lies a batch at most.
const MAX_DELAY_SECONDS: i64 = 600;
/// When an agent whose signals were refused is looked at again.
const RETRY_SECONDS: i64 = 60;
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
    /// The entry of the run that it rests on: a newer measurement is news also where it gives the same value.
    pub run: Option<u64>,
}

impl Derived {
    fn of_run(tag: &'static str, row: probes::ProbedRow) -> Self {
        Self { tag, value: row.value, stddev: row.stddev, evidence: row.evidence, run: Some(row.seq) }
    }
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
        all.push(Derived { tag: QUALITY, value: quality, stddev, evidence: evidence.clone(), run: None });
        let bounded = coverage.value.min(quality);
        all.push(Derived { tag: COVERAGE, value: bounded, stddev: coverage.stddev, evidence, run: None });
    }
    for (tag, row) in probes::probed(view, agent, now)? {
        match all.iter_mut().find(|one| one.tag == tag) {
            Some(verified) => join_quality(verified, row),
            None => all.push(Derived::of_run(tag, row)),
        }
    }
    if let Some(Reputation { row, .. }) = query::reputation(view, agent, now)?.filter(Reputation::counts) {
        let evidence = json!({
            "derivation": REPUTATION_DERIVATION, "event": row.seq, "events": row.events,
            "reputation": published(agent, &row),
        });
        all.push(Derived {
            tag: REPUTATION,
            value: row.score.clamp(0.0, 100.0),
            stddev: model::stddev(row.events),
            evidence,
            run: None,
        });
    }
    if let Some((value, stddev, evidence)) = registrations::compare(view, agent, now)? {
        all.push(Derived { tag: registrations::TAG, value, stddev, evidence, run: None });
    }
    for one in &mut all {
        (one.value, one.stddev) = (rounded(one.value), rounded(one.stddev));
    }
    Ok(all)
}

/// Providers and the sandbox both measured quality: neither erases the other.
fn join_quality(verified: &mut Derived, benchmark: probes::ProbedRow) {
    let (value, stddev) = (verified.value, verified.stddev);
    let parts =
        [signal::Estimate { value, stddev }, signal::Estimate { value: benchmark.value, stddev: benchmark.stddev }];
    let Some(joined) = signal::join(&parts) else { return };
    (verified.value, verified.stddev) = (joined.mean, joined.stddev);
    verified.run = Some(benchmark.seq);
    let part = |value: f64, stddev: f64, mut evidence: Value| {
        evidence["value"] = json!(rounded(value));
        evidence["stddev"] = json!(rounded(stddev));
        evidence
    };
    verified.evidence = json!({
        "derivation": JOINED_DERIVATION,
        "verified": part(value, stddev, verified.evidence.take()),
        "probed": part(benchmark.value, benchmark.stddev, benchmark.evidence),
    });
}

/// How much was checked, as the signal `output_coverage` has it before it is bounded by quality.
pub(crate) fn output_coverage(checks: u64) -> signal::Estimate {
    signal::coverage(checks, &Parameters::default())
}

/// A reputation as it is published: a `reputation-score` record.
pub fn published(agent: &EntityId, row: &ReputationRow) -> Value {
    let f = row.factors;
    let is_new = row.events < reputation::parameters().established_events;
    let mut record = json!({
        "agent_id": agent, "score": row.score, "as_of": row.computed_at,
        "components": { "C": f.c, "T": f.t, "P": f.p, "V": f.v, "Q": f.q }, "protocol_version": PROTOCOL_VERSION,
    });
    // A newcomer has no letter: it would be read as a bad one.
    if !is_new {
        record["tier"] = json!(Tier::of(row.score));
    } else {
        record["notes"] = json!(format!("new: {} events; a low score means unknown, not bad", row.events));
    }
    record
}

fn rounded(value: f64) -> f64 {
    (value * PLACES).round() / PLACES
}

/// What became of the agents that waited.
#[derive(Debug, Default, PartialEq)]
pub struct Emitted {
    /// Agents looked at.
    pub looked_at: usize,
    /// Signals recorded.
    pub signals: usize,
    /// Why some were not. Those agents still wait.
    pub refused: Option<String>,
}

/// Emits what is due, signed by `key`. What goes wrong with one agent, or with the key, is told and stops nothing else.
pub fn emit(ledger: &dyn Ledger, key: &SecretKey) -> Result<Emitted> {
    let mut emitted = Emitted::default();
    if ledger.jobs().next_due(due::DERIVE)?.is_none() {
        return Ok(emitted);
    }
    loop {
        let key = key.clone();
        let (taken, signals, refused) = write(ledger, move |tx| {
            let now = tx.stamp()?;
            if let Some(why) = unusable(tx, &key)? {
                return Ok((0, 0, Some(why)));
            }
            let jobs = tx.take_jobs(due::DERIVE, AGENTS_PER_WORK)?;
            let agents: BTreeSet<EntityId> = jobs.iter().map(|job| due::agent_of(&job.key)).collect::<Result<_>>()?;
            let midnight = |agent: &EntityId| jobs.iter().any(|job| job.key == format!("{agent}/{}", due::MIDNIGHT));
            let (mut signals, mut refused) = (0, None);
            for agent in &agents {
                let why = match emit_one(tx, agent, &key, now) {
                    Ok(Ok(recorded)) => {
                        signals += recorded;
                        if midnight(agent) {
                            look_after_midnight(tx, agent, now)?;
                        }
                        continue;
                    }
                    Ok(Err(rejection)) => rejection.to_string(),
                    Err(crate::Error::Ledger(error)) => return Err(crate::Error::Ledger(error)),
                    Err(error) => format!("agent '{agent}': {error}"),
                };
                let asked_by = tx.size()?;
                due::derive_at(tx, agent, "refused", now.plus_seconds(RETRY_SECONDS), asked_by)?;
                refused = Some(why);
            }
            Ok::<_, crate::Error>((jobs.len(), signals, refused))
        })?;
        emitted.looked_at += taken;
        emitted.signals += signals;
        emitted.refused = refused.or(emitted.refused);
        if taken < AGENTS_PER_WORK {
            return Ok(emitted);
        }
    }
}

/// Why the authority's key cannot sign for it.
pub fn unusable(view: &(impl View + ?Sized), key: &SecretKey) -> Result<Option<String>> {
    let id = key.public().id();
    let row: Option<KeyRow> = tables::get(view, tables::KEYS, &id.to_string())?;
    Ok(match row {
        None => {
            Some(format!("key {id} is not registered for '{AUTHORITY_SOURCE}': register it with `credence keys add`"))
        }
        Some(row) if row.source.as_str() != AUTHORITY_SOURCE => {
            Some(format!("key {id} belongs to '{}', not to '{AUTHORITY_SOURCE}'", row.source))
        }
        Some(KeyRow { revoked_from: Some(from), .. }) => Some(format!("key {id} is revoked from entry {from} on")),
        Some(_) => None,
    })
}

fn emit_one(
    tx: &mut dyn Transaction,
    agent: &EntityId,
    key: &SecretKey,
    now: Timestamp,
) -> Result<std::result::Result<usize, Rejection>> {
    let source = EntityId::new(AUTHORITY_SOURCE)?;
    let mut recorded = 0;
    let derived = derived(tx, agent, now)?;
    for tag in OWN_TAGS.iter().filter(|tag| !derived.iter().any(|one| one.tag == **tag)) {
        let tag = Tag::new(tag)?;
        let current: Option<CurrentRow> = tables::get(tx, tables::CURRENT, &tables::slot(agent, &source, &tag))?;
        if let Some(current) = current {
            let signal = signal_at(tx, current.seq)?.draft().id;
            let record = WithdrawalRecord { signal, agent: agent.clone(), tag, source: None };
            registry::append(tx, agent, &Record::Withdrawal(record))?;
            recorded += 1;
        }
    }
    for one in derived {
        let tag = Tag::new(one.tag)?;
        let slot = tables::slot(agent, &source, &tag);
        let current: Option<CurrentRow> = tables::get(tx, tables::CURRENT, &slot)?;
        if current.is_some_and(|current| !is_news(&current, &one)) {
            continue;
        }
        let mut draft = SignalDraft::new(agent.clone(), source.clone(), vec![tag], one.value, one.stddev, now);
        let mut evidence = one.evidence;
        evidence["as_of"] = json!(tx.size()?);
        draft.evidence = Some(StrictValue(evidence));
        draft.aud = tables::get::<SourceRow>(tx, tables::SOURCES, AUTHORITY_SOURCE)?.and_then(|row| row.aud);
        let checked = Checked::own(draft.sign(key)?);
        for verdict in admit::record_batch(tx, &[checked])? {
            if let Err(rejection) = verdict {
                return Ok(Err(rejection));
            }
            recorded += 1;
        }
    }
    Ok(Ok(recorded))
}

/// Whether a signal says something else than the current one. A reputation moves a little every day: without an event it has to move
/// by a point.
fn is_news(current: &CurrentRow, one: &Derived) -> bool {
    if one.run.is_some_and(|run| current.seq < run) {
        return true;
    }
    if current.stddev == one.stddev && one.tag == REPUTATION {
        return (current.value - one.value).abs() >= reputation::SIGNAL_MOVE;
    }
    current.value != one.value || current.stddev != one.stddev
}

/// A midnight has passed: `agent` is looked at again at the first one at which its reputation will have moved by a point.
fn look_after_midnight(tx: &mut dyn Transaction, agent: &EntityId, now: Timestamp) -> Result<()> {
    let slot = tables::slot(agent, &EntityId::new(AUTHORITY_SOURCE)?, &Tag::new(REPUTATION)?);
    let Some(current) = tables::get::<CurrentRow>(tx, tables::CURRENT, &slot)? else { return Ok(()) };
    if let Some(at) = reputation::next_move(tx, agent, current.value, now)? {
        let size = tx.size()?;
        due::derive_at(tx, agent, due::MIDNIGHT, at, size)?;
    }
    Ok(())
}

pub(crate) fn signal_at(view: &(impl View + ?Sized), seq: u64) -> Result<Signal> {
    let entry = Entry::parse(seq, &view.entry(seq)?.unwrap_or_default())?;
    Ok(Signal::parse(entry.body().as_bytes())?)
}

/// Whether the authority signs this tag only as something that is derived.
fn is_derived_tag(tag: &str) -> bool {
    OWN_TAGS.contains(&tag) || probes::TAGS.contains(&tag)
}

/// What is wrong with a signal of the authority's own, given the tables as they were just before it.
pub(crate) fn wrong(view: &(impl View + ?Sized), signal: &Signal, at: Appended) -> Result<Option<String>> {
    let draft = signal.draft();
    let own = draft.source.as_str() == AUTHORITY_SOURCE && draft.tags.iter().any(|tag| is_derived_tag(tag.as_str()));
    if !own {
        return Ok(None);
    }
    let tags: Vec<&str> = draft.tags.iter().map(Tag::as_str).collect();
    let name = format!("the authority's own signal {} of '{}'", tags.join(", "), draft.agent);
    let evidence = draft.evidence.as_ref().map(|StrictValue(evidence)| evidence.clone()).unwrap_or_default();
    if evidence.get("derivation").is_none() {
        return Ok(Some(format!("{name} does not say what it was derived from")));
    }
    let observed = draft.observed_at.at();
    let timely =
        observed <= at.recorded_at.plus_seconds(1) && observed.plus_seconds(MAX_DELAY_SECONDS) >= at.recorded_at;
    if evidence["as_of"].as_u64() != Some(at.seq) || !timely {
        return Ok(Some(format!("{name} does not speak of the ledger as it was")));
    }
    let mut said = evidence;
    if let Some(members) = said.as_object_mut() {
        members.remove("as_of");
    }
    let again = derived(view, &draft.agent, observed)?;
    let same = again.iter().any(|one| {
        tags == [one.tag] && (one.value, one.stddev) == (draft.value, draft.stddev) && same_json(&one.evidence, &said)
    });
    Ok((!same).then(|| format!("{name} does not come out again")))
}

/// What is wrong with a withdrawal: the signal is not the authority's own, or still follows.
pub(crate) fn wrongly_withdrawn(
    view: &(impl View + ?Sized),
    withdrawal: &WithdrawalRecord,
    at: Timestamp,
) -> Result<Option<String>> {
    if withdrawal.source.is_some() {
        return crate::links::wrongly_withdrawn(view, withdrawal);
    }
    let WithdrawalRecord { signal, agent, tag, .. } = withdrawal;
    let place: Option<SignalPlace> = tables::get(view, tables::SIGNAL_IDS, &signal.to_string())?;
    let own = |place: &SignalPlace| {
        place.source.as_str() == AUTHORITY_SOURCE && place.agent == *agent && place.tags.iter().eq([tag])
    };
    if !place.is_some_and(|place| own(&place)) {
        return Ok(Some(format!("it withdraws {signal}, which is no signal {tag} of the authority about '{agent}'")));
    }
    let slot = tables::slot(agent, &EntityId::new(AUTHORITY_SOURCE)?, tag);
    let current: Option<CurrentRow> = tables::get(view, tables::CURRENT, &slot)?;
    let is_current = match current {
        Some(current) => signal_at(view, current.seq)?.draft().id == *signal,
        None => false,
    };
    if !is_current {
        return Ok(Some(format!("it withdraws {signal}, which was not current")));
    }
    let follows = derived(view, agent, at)?.iter().any(|one| one.tag == tag.as_str());
    Ok(follows.then(|| format!("it withdraws {tag} of '{agent}', which still follows")))
}

/// Equal as canonical JSON: 1 and 1.0 are one number there.
fn same_json(a: &Value, b: &Value) -> bool {
    match (credence_protocol::Canonical::of(a), credence_protocol::Canonical::of(b)) {
        (Ok(a), Ok(b)) => a.as_str() == b.as_str(),
        _ => false,
    }
}
