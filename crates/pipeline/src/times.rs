//! Entries that a wrong clock recorded in the future, and the way back (docs/adr/0022).
//!
//! Times never go back from entry to entry. A clock that was ahead when the service started leaves an entry in the future, and
//! everything after it is recorded at that time until the clock gets there. An operator who sees that puts it right with a `clock`
//! entry: it is recorded at the clock's time, though the entry before it is later, and those after it go on from there. An entry
//! before it counts as recorded at the `clock` entry's time at the latest ([`Times`]), so that questions about a time have one answer.

use std::ops::ControlFlow;

use credence_ledger::{Appended, Entry, Scan, Transaction, View, write};
use credence_protocol::{AUTHORITY_SOURCE, EntityId, Timestamp};

use crate::{
    Authority, Result, due, projection,
    record::{ClockRecord, Record},
    registry::append,
    tables::{self, CurrentRow},
};

/// Seconds that the newest entry may be ahead of the clock before anybody is told. A clock that is set back by less is waited for.
pub const MAX_AHEAD_SECONDS: i64 = 3600;

/// What accepting the clock meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptedClock {
    /// No entry is ahead of the clock: nothing was changed.
    NothingToAccept,
    /// Times are right again.
    Returned {
        /// The entry that says so.
        seq: u64,
        /// The time of the entry before it.
        ahead: Timestamp,
        /// The time from which entries go on.
        now: Timestamp,
    },
}

/// What to say where the newest entry, recorded at `last`, is ahead of the clock.
pub fn ahead(last: Timestamp, now: Timestamp) -> Option<String> {
    (last > now.plus_seconds(MAX_AHEAD_SECONDS)).then(|| {
        format!(
            "the newest entry was recorded at {last}, and it is {now}: the clock was ahead. What is recorded until then gets that \
             time. Stop the service and run `credence log accept-clock`"
        )
    })
}

/// The time of the newest entry.
pub fn last_recorded(view: &(impl View + ?Sized)) -> Result<Option<Timestamp>> {
    let Some(seq) = view.size()?.checked_sub(1) else { return Ok(None) };
    Ok(Some(Entry::parse(seq, &view.entry(seq)?.unwrap_or_default())?.recorded_at))
}

impl Authority {
    /// Goes on from the clock's time, where the newest entry is ahead of it.
    pub fn accept_clock(&self) -> Result<AcceptedClock> {
        let authority = EntityId::new(AUTHORITY_SOURCE)?;
        let accepted = write(self.ledger(), move |tx| {
            let last = last_recorded(tx)?;
            let now = tx.return_to_clock()?;
            let Some(ahead) = last.filter(|last| *last > now) else { return Ok(AcceptedClock::NothingToAccept) };
            let seq = append(tx, &authority, &Record::Clock(ClockRecord { ahead }))?;
            Ok::<_, crate::Error>(AcceptedClock::Returned { seq, ahead, now })
        })?;
        self.wake_scorer();
        Ok(accepted)
    }
}

/// Folds a `clock` entry in. The authority's own signals that were observed after it would stay the newest of their slots until their
/// time comes: they are dead, and derived again.
pub(crate) fn apply(tx: &mut dyn Transaction, at: Appended) -> Result<()> {
    tables::put(tx, tables::CLOCK, &format!("{:016}", at.seq), &at.recorded_at)?;
    let mut slots = Vec::new();
    tables::scan(&*tx, tables::CURRENT, Scan::all(), |slot, row: CurrentRow| {
        let own = tables::split_slot(slot).is_some_and(|(_, source, _)| source == AUTHORITY_SOURCE);
        slots.extend((own && row.observed_at > at.recorded_at.micros()).then(|| slot.to_owned()));
        Ok(ControlFlow::Continue(()))
    })?;
    for slot in slots {
        tables::put(tx, tables::WITHDRAWN, &slot, &at.seq)?;
        projection::refill(tx, &slot)?;
    }
    // What was due in the meantime waits for a time that may be years away: everyone is looked at now.
    let mut agents = Vec::new();
    tx.scan(tables::AGENTS, Scan::all(), &mut |agent, _| {
        agents.push(agent.to_owned());
        ControlFlow::Continue(())
    })?;
    for agent in agents {
        due::rescore(tx, &EntityId::new(&agent)?, at.seq)?;
        due::derive(tx, &agent, at.seq)?;
    }
    due::rescore_everyone(tx, at.seq)
}

/// When times were put right, so that the time of any entry can be told.
pub(crate) struct Times(Vec<(u64, Timestamp)>);

impl Times {
    pub(crate) fn read(view: &(impl View + ?Sized)) -> Result<Self> {
        let rows = tables::all::<Timestamp>(view, tables::CLOCK)?;
        Ok(Self(rows.into_iter().filter_map(|(seq, at)| Some((seq.parse().ok()?, at))).collect()))
    }

    /// The time of the entry at `seq`: never later than that of an entry after it.
    pub(crate) fn of(&self, seq: u64, recorded_at: Timestamp) -> Timestamp {
        let later = self.0.iter().filter(|(corrected, _)| *corrected > seq).map(|(_, at)| *at);
        later.fold(recorded_at, Timestamp::min)
    }
}
