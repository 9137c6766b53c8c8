//! The fold: what each entry does to the tables. The same code runs online, right after the append and in the same
//! transaction, and in replay; it looks at the tables and at entries before it, never at a clock.
//!
//! The current signal of a slot (agent, source, tag) is the newest by (`observed_at`, `seq`) among those whose key still
//! counts and that no counting signal supersedes. A source's weight is applied later, when a score is made.

use std::{collections::BTreeSet, ops::ControlFlow};

use credence_ledger::{Appended, Entry, Kind, Scan, Transaction};
use credence_protocol::{EntityId, KeyId, Signal, Tag, Uuid};

use crate::{
    Result,
    record::{AgentRecord, Record, RecordedScore, RevocationRecord},
    tables::{self, AgentRow, CurrentRow, KeyRow, ScoreRow, SignalPlace, SignalRow, SourceRow},
};

/// Applies one entry to the tables.
pub fn apply(tx: &mut dyn Transaction, at: Appended, subject: &EntityId, record: &Record) -> Result<()> {
    let Appended { seq, recorded_at } = at;
    match record {
        Record::Agent(record) => agent(tx, at, record),
        Record::Source(record) => {
            let former: Option<SourceRow> = tables::get(tx, tables::SOURCES, record.source.as_str())?;
            let described = record.description.clone().or_else(|| former.clone().and_then(|f| f.description));
            let row = SourceRow { seq, weight: record.weight, description: described };
            tables::put(tx, tables::SOURCES, record.source.as_str(), &row)?;
            if former.is_some_and(|former| former.weight != record.weight) {
                tables::put(tx, tables::PENDING, tables::EVERYONE, &seq)?;
            }
            Ok(())
        }
        Record::Key(record) => {
            let row = KeyRow {
                seq,
                source: record.source.clone(),
                public_key: record.public_key,
                replaces: record.replaces,
                revoked_from: None,
            };
            Ok(tables::put(tx, tables::KEYS, &record.key_id.to_string(), &row)?)
        }
        Record::Revocation(record) => revocation(tx, at, record),
        Record::Signal(record) => signal(tx, at, record),
        Record::Score(recorded) => {
            let row = ScoreRow { seq, recorded_at, recorded: RecordedScore::clone(recorded) };
            tables::put(tx, tables::SCORES, subject.as_str(), &row)?;
            Ok(tables::put(tx, tables::SCORE_EVENTS, &tables::agent_seq(subject, seq), &row)?)
        }
        Record::Other(_) => Ok(()),
    }
}

fn agent(tx: &mut dyn Transaction, at: Appended, record: &AgentRecord) -> Result<()> {
    let former: Option<AgentRow> = tables::get(tx, tables::AGENTS, record.agent.as_str())?;
    let mut row =
        former.unwrap_or(AgentRow { seq: at.seq, registered_at: at.recorded_at, name: None, aliases: Vec::new() });
    row.name = record.name.clone().or(row.name);
    for alias in &record.aliases {
        if !row.aliases.contains(alias) {
            row.aliases.push(alias.clone());
        }
        tables::put(tx, tables::ALIASES, alias.as_str(), &record.agent)?;
    }
    Ok(tables::put(tx, tables::AGENTS, record.agent.as_str(), &row)?)
}

fn signal(tx: &mut dyn Transaction, at: Appended, signal: &Signal) -> Result<()> {
    let draft = signal.draft();
    let (agent, source) = (&draft.agent, &draft.source);
    let seq = at.seq;
    let place = SignalPlace { seq, agent: agent.clone(), source: source.clone() };
    tables::put(tx, tables::SIGNAL_IDS, &draft.id.to_string(), &place)?;
    let row = SignalRow {
        id: draft.id,
        key: signal.key_id(),
        tags: draft.tags.clone(),
        observed_at: draft.observed_at.at().micros(),
        value: draft.value,
        stddev: draft.stddev,
        supersedes: draft.supersedes,
    };
    tables::put(tx, tables::SIGNALS, &signal_key(agent, source, seq), &row)?;
    tables::put(tx, tables::PENDING, agent.as_str(), &seq)?;
    if let Some(superseded) = draft.supersedes {
        let mut slots: BTreeSet<Tag> = draft.tags.iter().cloned().collect();
        slots.extend(tags_of(tx, superseded)?);
        return slots.iter().try_for_each(|tag| refill(tx, agent, source, tag));
    }
    // Nothing else changed, and whoever holds a slot counts: the newer of the two keeps it.
    let new = CurrentRow { seq, observed_at: row.observed_at, value: row.value, stddev: row.stddev };
    for tag in &draft.tags {
        let key = tables::agent_source(agent, source, tag);
        let holder: Option<CurrentRow> = tables::get(tx, tables::CURRENT, &key)?;
        if holder.is_none_or(|holder| (holder.observed_at, holder.seq) < (new.observed_at, new.seq)) {
            tables::put(tx, tables::CURRENT, &key, &new)?;
        }
    }
    Ok(())
}

fn revocation(tx: &mut dyn Transaction, at: Appended, record: &RevocationRecord) -> Result<()> {
    let key = record.key_id.to_string();
    if let Some(mut row) = tables::get::<KeyRow>(tx, tables::KEYS, &key)? {
        row.revoked_from = Some(row.revoked_from.map_or(record.from_seq, |from| from.min(record.from_seq)));
        tables::put(tx, tables::KEYS, &key, &row)?;
    }
    for (agent, source, tag) in slots_touched_by(tx, record.key_id, record.from_seq)? {
        refill(tx, &agent, &source, &tag)?;
        tables::put(tx, tables::PENDING, agent.as_str(), &at.seq)?;
    }
    Ok(())
}

/// The slots of every signal that `key` signed from `from` on, and of what those superseded.
fn slots_touched_by(tx: &dyn Transaction, key: KeyId, from: u64) -> Result<BTreeSet<(EntityId, EntityId, Tag)>> {
    let mut signed: Vec<Signal> = Vec::new();
    tx.entries(from, &mut |seq, bytes| {
        // Damaged entries are for the audit to report; they hold no slot.
        if let Ok(entry) = Entry::parse(seq, bytes)
            && entry.kind == Kind::Signal
            && let Ok(Record::Signal(signal)) = Record::of(seq, &entry)
            && signal.key_id() == key
        {
            signed.push(*signal);
        }
        ControlFlow::Continue(())
    })?;
    let mut slots = BTreeSet::new();
    for signal in &signed {
        let draft = signal.draft();
        let mut tags = draft.tags.clone();
        if let Some(superseded) = draft.supersedes {
            tags.extend(tags_of(tx, superseded)?);
        }
        slots.extend(tags.into_iter().map(|tag| (draft.agent.clone(), draft.source.clone(), tag)));
    }
    Ok(slots)
}

fn signal_key(agent: &EntityId, source: &EntityId, seq: u64) -> String {
    tables::agent_source(agent, source, format_args!("{seq:016}"))
}

fn tags_of(tx: &dyn Transaction, id: Uuid) -> Result<Vec<Tag>> {
    let Some(place) = tables::get::<SignalPlace>(tx, tables::SIGNAL_IDS, &id.to_string())? else {
        return Ok(Vec::new());
    };
    let key = signal_key(&place.agent, &place.source, place.seq);
    Ok(tables::get::<SignalRow>(tx, tables::SIGNALS, &key)?.map_or_else(Vec::new, |row| row.tags))
}

/// Finds the current signal of a slot anew, after something stopped counting.
fn refill(tx: &mut dyn Transaction, agent: &EntityId, source: &EntityId, tag: &Tag) -> Result<()> {
    let prefix = tables::agent_source(agent, source, "");
    let mut counting: Vec<(u64, SignalRow)> = Vec::new();
    let mut keys: Vec<(KeyId, Option<KeyRow>)> = Vec::new();
    let view = &*tx;
    tables::scan(view, tables::SIGNALS, Scan::prefix(&prefix), |key, row: SignalRow| {
        let seq = key.rsplit('/').next().and_then(|seq| seq.parse().ok()).unwrap_or_default();
        if !keys.iter().any(|(id, _)| *id == row.key) {
            keys.push((row.key, tables::get(view, tables::KEYS, &row.key.to_string())?));
        }
        let key_row = keys.iter().find(|(id, _)| *id == row.key).and_then(|(_, row)| row.as_ref());
        if key_row.is_some_and(|key| key.counts_at(seq)) {
            counting.push((seq, row));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let superseded: BTreeSet<Uuid> = counting.iter().filter_map(|(_, row)| row.supersedes).collect();
    let newest = counting
        .iter()
        .filter(|(_, row)| row.tags.contains(tag) && !superseded.contains(&row.id))
        .max_by_key(|(seq, row)| (row.observed_at, *seq));
    let slot = tables::agent_source(agent, source, tag);
    match newest {
        Some((seq, row)) => {
            let current = CurrentRow { seq: *seq, observed_at: row.observed_at, value: row.value, stddev: row.stddev };
            Ok(tables::put(tx, tables::CURRENT, &slot, &current)?)
        }
        None => Ok(tx.delete(tables::CURRENT, &slot)?),
    }
}
