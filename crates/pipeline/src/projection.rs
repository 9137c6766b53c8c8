//! The fold: what each entry does to the tables. The same code runs online, right after the append and in the same
//! transaction, and in replay; it looks at the tables and at entries before it, never at a clock.
//!
//! The current signal of a slot (agent, source, tag) is the newest by (`observed_at`, `seq`) among those whose key still
//! counts and that no counting signal supersedes. A source's weight is applied later, when a score is made.

use std::{collections::BTreeSet, ops::ControlFlow};

use credence_engine::{assured, universal};
use credence_ledger::{Appended, Entry, Kind, Scan, Transaction};
use credence_protocol::{AUTHORITY_SOURCE, EntityId, KeyId, ScoreStatus, Signal, Tag, Uuid};

use crate::{
    Result, attestations, credentials, due, links, outcomes, probes, receipts,
    record::{AgentRecord, AssuredRecord, KeyRevocationRecord, Record, ScoreEvent, WithdrawalRecord},
    registrations, reports, reputation,
    statements::{
        ParsedStatement, StatementBody,
        groups::{self, Group, Pass},
    },
    summaries,
    tables::{self, AgentRow, AssuredRow, CurrentRow, KeyRow, ScoreRow, SignalPlace, SlotRow, SourceRow},
    tags, times,
};

/// Applies one entry to the tables.
pub fn apply(tx: &mut dyn Transaction, at: Appended, subject: &EntityId, record: &Record) -> Result<()> {
    let seq = at.seq;
    match record {
        Record::Agent(record) => agent(tx, at, record),
        Record::Source(record) => {
            let former: Option<SourceRow> = tables::get(tx, tables::SOURCES, record.source.as_str())?;
            let described = record.description.clone().or_else(|| former.clone().and_then(|f| f.description));
            let owner = record.owner.clone().or_else(|| former.clone().and_then(|f| f.owner));
            let methodology = record.methodology.clone().or_else(|| former.clone().and_then(|f| f.methodology));
            // An empty one takes the admission back.
            let methodology = methodology.filter(|text| !text.is_empty());
            let aud = record.aud.clone().or_else(|| former.clone().and_then(|f| f.aud));
            let roots = record.roots.clone().or_else(|| former.clone().map(|f| f.roots)).unwrap_or_default();
            let row = SourceRow { seq, weight: record.weight, description: described, owner, roots, methodology, aud };
            tables::put(tx, tables::SOURCES, record.source.as_str(), &row)?;
            let Some(former) = former else { return Ok(()) };
            if former.weight != row.weight || former.owner != row.owner || former.roots != row.roots {
                due::rescore_everyone(tx, seq)?;
            }
            if (former.weight > 0.0) != (row.weight > 0.0)
                || former.owner != row.owner
                || former.methodology.is_some() != row.methodology.is_some()
            {
                summaries::reconsider(tx, &record.source, seq)?;
            }
            Ok(())
        }
        Record::Key(record) => {
            // A key is registered once: a second record must not bring it back, or to another source.
            if tables::get::<KeyRow>(tx, tables::KEYS, &record.key_id.to_string())?.is_some() {
                return Ok(());
            }
            let row = KeyRow {
                seq,
                source: record.source.clone(),
                public_key: record.public_key,
                replaces: record.replaces,
                revoked_from: None,
            };
            Ok(tables::put(tx, tables::KEYS, &record.key_id.to_string(), &row)?)
        }
        Record::KeyRevocation(record) => key_revocation(tx, at, record),
        Record::Withdrawal(record) => withdrawal(tx, at, record),
        Record::Link(record) => links::apply(tx, at, record),
        Record::Dispute(record) => links::disputes::apply(tx, at, record),
        Record::Standing(record) => credentials::standing(tx, at, record),
        Record::Credential(record) => credentials::issued(tx, at, record),
        Record::CredentialRevocation(record) => credentials::revoked(tx, at, record),
        Record::Outcome(record) => outcomes::apply(tx, at, record),
        Record::Probe(record) => probes::apply(tx, at, record),
        Record::Signal(record) => signal(tx, at, record),
        Record::Score(event) => score(tx, at, subject, event),
        Record::Checkpoint(record) => receipts::apply(tx, at, record),
        Record::Report(record) => reports::apply(tx, at, record),
        Record::Attestation(record) => attestations::apply(tx, at, record),
        Record::Clock(_) => times::apply(tx, at),
        Record::Tag(record) => tags::apply(tx, at, record),
        Record::Statement(stated) => statement(tx, at, stated),
        // The hashes of a batch follow from no entry: they are written beside it.
        Record::Responses(_) | Record::Other(_) => Ok(()),
    }
}

/// A score event: each formula has rows of its own.
fn score(tx: &mut dyn Transaction, at: Appended, agent: &EntityId, event: &ScoreEvent) -> Result<()> {
    let Appended { seq, recorded_at } = at;
    match event {
        ScoreEvent::Universal(recorded) => {
            let row = ScoreRow { seq, recorded_at, recorded: recorded.clone() };
            tables::put(tx, tables::SCORES, &tables::score_place(agent, universal::FORMULA), &row)?;
            Ok(tables::put(tx, tables::SCORE_EVENTS, &tables::score_event_place(agent, universal::FORMULA, seq), &row)?)
        }
        ScoreEvent::Assured(recorded) => {
            let former = tables::assured_of(tx, agent)?;
            // A second event of the same inputs: only their age has changed.
            let by_age = former.as_ref().is_some_and(|former| former.recorded.inputs_of == recorded.inputs_of);
            let aged_at = if by_age { Some(recorded_at) } else { former.and_then(|former| former.aged_at) };
            let row = AssuredRow { seq, recorded_at, aged_at, recorded: AssuredRecord::clone(recorded) };
            tables::put(tx, tables::SCORES, &tables::score_place(agent, assured::FORMULA), &row)?;
            if row.recorded.assured.status != ScoreStatus::Published {
                due::review_attestations(tx, agent, seq)?;
            }
            Ok(tables::put(tx, tables::SCORE_EVENTS, &tables::score_event_place(agent, assured::FORMULA, seq), &row)?)
        }
    }
}

fn statement(tx: &mut dyn Transaction, at: Appended, stated: &ParsedStatement) -> Result<()> {
    reputation::settle_days_before(tx, stated, at.recorded_at)?;
    if let Some(place) = stated.id_place() {
        tables::put(tx, tables::RECORDS, &place, &at.seq)?;
    }
    let pass = Pass::first(at, stated.statement.key_id());
    for group in groups::groups_of(tx, stated)? {
        // A report bears on what its agent says of the provider only where it ends praise: that is noted there.
        if !matches!((&stated.body, &group), (StatementBody::Summary(..), Group::Words { .. })) {
            pass.bears_on(tx, &group)?;
        }
    }
    match &stated.body {
        StatementBody::Summary(record, report) => {
            summaries::apply(tx, &pass, stated.statement.author(), record, report)
        }
        _ => reputation::apply(tx, &pass, stated),
    }
}

fn agent(tx: &mut dyn Transaction, at: Appended, record: &AgentRecord) -> Result<()> {
    let former: Option<AgentRow> = tables::get(tx, tables::AGENTS, record.agent.as_str())?;
    let mut row = former.unwrap_or(AgentRow {
        seq: at.seq,
        registered_at: at.recorded_at,
        name: None,
        aliases: Vec::new(),
        owner: None,
        aud: None,
        revoked: None,
    });
    row.aud = record.aud.clone().or(row.aud);
    row.name = record.name.clone().or(row.name);
    if record.owner.is_some() && record.owner != row.owner {
        row.owner = record.owner.clone();
        // Who may speak of it has changed.
        due::rescore(tx, &record.agent, at.seq)?;
        due::derive(tx, record.agent.as_str(), at.seq)?;
    }
    for alias in &record.aliases {
        // The agent that had the alias first keeps it, in every spelling.
        match tables::get::<EntityId>(tx, tables::ALIASES, &alias.key())? {
            Some(owner) if owner != record.agent => continue,
            Some(_) => {}
            None => tables::put(tx, tables::ALIASES, &alias.key(), &record.agent)?,
        }
        if !row.aliases.contains(alias) {
            row.aliases.push(alias.clone());
        }
    }
    Ok(tables::put(tx, tables::AGENTS, record.agent.as_str(), &row)?)
}

/// Folds a signal in.
pub(crate) fn signal(tx: &mut dyn Transaction, at: Appended, signal: &Signal) -> Result<()> {
    let draft = signal.draft();
    let (agent, source, seq) = (&draft.agent, &draft.source, at.seq);
    let place = SignalPlace { seq, agent: agent.clone(), source: source.clone(), tags: draft.tags.clone() };
    tables::put(tx, tables::SIGNAL_IDS, &draft.id.to_string(), &place)?;
    let observed_at = draft.observed_at.at().micros();
    let row = SlotRow { id: draft.id, key: signal.key_id(), value: draft.value, stddev: draft.stddev };
    for tag in &draft.tags {
        let slot = tables::slot(agent, source, tag);
        tables::put(tx, tables::SLOTS, &tables::slot_place(&slot, observed_at, seq), &row)?;
    }
    due::rescore(tx, agent, seq)?;
    registrations::take(tx, at, signal)?;
    if let Some(id) = draft.supersedes {
        tables::put(tx, tables::SUPERSEDED, &format!("{id}/{seq:016}"), &row.key)?;
        let mut slots: BTreeSet<Tag> = draft.tags.iter().cloned().collect();
        slots.extend(tags_of(tx, id)?);
        return slots.iter().try_for_each(|tag| refill(tx, &tables::slot(agent, source, tag)));
    }
    // Nothing else changed, and whoever holds a slot counts: the newer of the two keeps it.
    let new = CurrentRow { seq, observed_at, value: row.value, stddev: row.stddev };
    for tag in &draft.tags {
        let slot = tables::slot(agent, source, tag);
        let holder: Option<CurrentRow> = tables::get(tx, tables::CURRENT, &slot)?;
        if holder.is_none_or(|holder| (holder.observed_at, holder.seq) < (new.observed_at, new.seq)) {
            tables::put(tx, tables::CURRENT, &slot, &new)?;
        }
    }
    Ok(())
}

fn key_revocation(tx: &mut dyn Transaction, at: Appended, record: &KeyRevocationRecord) -> Result<()> {
    let key = record.key_id.to_string();
    if let Some(mut row) = tables::get::<KeyRow>(tx, tables::KEYS, &key)? {
        row.revoked_from = Some(row.revoked_from.map_or(record.from_seq, |from| from.min(record.from_seq)));
        tables::put(tx, tables::KEYS, &key, &row)?;
    }
    let SignedByKey { slots, statements } = signed_by(tx, record.key_id, record.from_seq, at.seq)?;
    for (agent, slot) in slots {
        refill(tx, &slot)?;
        due::rescore(tx, &agent, at.seq)?;
        registrations::forget_signed(tx, at, &agent, record)?;
        if tables::split_slot(&slot).is_some_and(|(_, source, _)| source == AUTHORITY_SOURCE) {
            // The authority says it again under the key that counts.
            due::derive(tx, agent.as_str(), at.seq)?;
        }
    }
    groups::derive_again(tx, at, &statements)
}

fn withdrawal(tx: &mut dyn Transaction, at: Appended, record: &WithdrawalRecord) -> Result<()> {
    let own = EntityId::new(AUTHORITY_SOURCE)?;
    let slot = tables::slot(&record.agent, record.source.as_ref().unwrap_or(&own), &record.tag);
    // Not only the current one: those before it would come back.
    tables::put(tx, tables::WITHDRAWN, &slot, &at.seq)?;
    refill(tx, &slot)?;
    registrations::forget_withdrawn(tx, at, record)?;
    due::rescore(tx, &record.agent, at.seq)
}

/// What a key signed.
struct SignedByKey {
    /// The slots, with their agents, of every signal it signed, and of what those superseded.
    slots: BTreeSet<(EntityId, String)>,
    /// The statements it signed.
    statements: Vec<ParsedStatement>,
}

/// What `key` did from `from` until `until`.
fn signed_by(tx: &dyn Transaction, key: KeyId, from: u64, until: u64) -> Result<SignedByKey> {
    let (mut slots, mut statements) = (BTreeSet::new(), Vec::new());
    let mut failed = None;
    let mut touch = |signal: &Signal| -> Result<()> {
        let draft = signal.draft();
        let mut tags = draft.tags.clone();
        if let Some(superseded) = draft.supersedes {
            tags.extend(tags_of(tx, superseded)?);
        }
        slots.extend(tags.iter().map(|tag| (draft.agent.clone(), tables::slot(&draft.agent, &draft.source, tag))));
        Ok(())
    };
    tx.entries(from, &mut |seq, bytes| {
        if seq >= until {
            return ControlFlow::Break(());
        }
        // Damaged entries are for the audit to report; they hold no slot.
        let parsed = Entry::parse(seq, bytes);
        let signed = parsed.ok().filter(|entry| !matches!(entry.kind, Kind::Score | Kind::Key | Kind::Source));
        match signed.and_then(|entry| Record::of(seq, &entry).ok()) {
            Some(Record::Signal(signal)) if signal.key_id() == key => {
                if let Err(error) = touch(&signal) {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
            Some(Record::Statement(stated)) if stated.statement.key_id() == key => statements.push(*stated),
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    failed.map_or(Ok(SignedByKey { slots, statements }), Err)
}

fn tags_of(tx: &dyn Transaction, id: Uuid) -> Result<Vec<Tag>> {
    let place: Option<SignalPlace> = tables::get(tx, tables::SIGNAL_IDS, &id.to_string())?;
    Ok(place.map_or_else(Vec::new, |place| place.tags))
}

/// Finds the current signal of a slot anew, after something stopped counting: from the newest back to the first that
/// counts.
pub(crate) fn refill(tx: &mut dyn Transaction, slot: &str) -> Result<()> {
    let prefix = format!("{slot}/");
    let mut current = None;
    let dead_before: u64 = tables::get(tx, tables::WITHDRAWN, slot)?.unwrap_or(0);
    let view = &*tx;
    let mut keys = Keys { view, seen: Vec::new() };
    tables::scan(view, tables::SLOTS, Scan { reverse: true, ..Scan::prefix(&prefix) }, |place, row: SlotRow| {
        let Some((observed_at, seq)) = tables::split_place(place) else { return Ok(ControlFlow::Continue(())) };
        if seq < dead_before || !keys.counts_at(row.key, seq)? || is_superseded(&mut keys, row.id)? {
            return Ok(ControlFlow::Continue(()));
        }
        current = Some(CurrentRow { seq, observed_at, value: row.value, stddev: row.stddev });
        Ok(ControlFlow::Break(()))
    })?;
    match current {
        Some(current) => Ok(tables::put(tx, tables::CURRENT, slot, &current)?),
        None => Ok(tx.delete(tables::CURRENT, slot)?),
    }
}

/// Whether a signal that counts supersedes `id`.
fn is_superseded(keys: &mut Keys<'_>, id: Uuid) -> Result<bool> {
    let mut superseded = false;
    let prefix = format!("{id}/");
    tables::scan(keys.view, tables::SUPERSEDED, Scan::prefix(&prefix), |place, key: KeyId| {
        let seq = place.rsplit('/').next().and_then(|seq| seq.parse().ok()).unwrap_or_default();
        superseded = keys.counts_at(key, seq)?;
        Ok(if superseded { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(superseded)
}

/// Keys looked up on the way: few, and the same ones again and again.
struct Keys<'a> {
    view: &'a dyn Transaction,
    seen: Vec<(KeyId, Option<KeyRow>)>,
}

impl Keys<'_> {
    fn counts_at(&mut self, key: KeyId, seq: u64) -> Result<bool> {
        let at = match self.seen.iter().position(|(id, _)| *id == key) {
            Some(at) => at,
            None => {
                self.seen.push((key, tables::get(self.view, tables::KEYS, &key.to_string())?));
                self.seen.len() - 1
            }
        };
        Ok(self.seen[at].1.as_ref().is_some_and(|row| row.counts_at(seq)))
    }
}
