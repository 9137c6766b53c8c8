//! Whether the tables say what the ledger says. Nothing is signed on rows that differ from it.
//!
//! - A cheap check before every signature ([`basis`]): the score's row against its event, the event's inputs against their signals,
//!   the weights against what set them, and each of those entries against the log's leaves. It finds a number that was changed, and
//!   not a row that was replaced by an older genuine one.
//! - A full check ([`check`]), in the background of a service that starts: every leaf, tile and root, and every projection and score
//!   event made again from the first entry. It finds any difference.

use std::{collections::BTreeSet, ops::ControlFlow};

use credence_engine::{assured, universal};
use credence_ledger::{
    Checkpoint, Entry, Hash, LogVerifier, Scan, View,
    merkle::{self, TILE_WIDTH},
};
use credence_protocol::{EntityId, TagRegistry};
use serde::de::DeserializeOwned;

use crate::{
    Error, Result,
    audit::LogAudit,
    query::CurrentScore,
    record::{Input, MAX_LISTED_INPUTS, Record, ScoreEvent},
    replay::{Findings, Fold, for_each_chunk},
    tables::{self, AgentRow, SourceRow},
};

/// Bytes of a leaf's hash.
const HASH_BYTES: usize = 32;

/// What a check of everything found.
#[derive(Debug, Clone)]
pub enum Checked {
    /// The tables say what the ledger says.
    Same {
        /// Entries looked at.
        entries: u64,
    },
    /// They do not.
    Differ(Findings),
    /// It was told to stop.
    Stopped,
}

/// Checks everything in `view`: leaves, tiles and checkpoint, then every projection and score event, made again. `go_on` is asked now
/// and then.
pub fn check(view: &dyn View, log: &LogVerifier, tags: &TagRegistry, go_on: &dyn Fn() -> bool) -> Result<Checked> {
    let mut findings = Findings::default();
    let note = view.checkpoint()?.unwrap_or_default();
    let (mut followed, mut stopped) = (LogAudit::begin(view, &Checkpoint::open(&note, log), &mut findings)?, false);
    if view.size()? == 0 {
        return Ok(Checked::Same { entries: 0 });
    }
    let mut fold = Fold::new(view, tags)?;
    for_each_chunk(view, &mut |chunk| {
        stopped |= !go_on();
        if stopped {
            return Ok(());
        }
        let leaves: Vec<(u64, Hash)> = chunk.iter().map(|(seq, bytes)| (*seq, merkle::leaf(bytes))).collect();
        for (seq, bytes) in chunk {
            followed.reached(*seq, &mut findings);
            match Entry::parse(*seq, bytes).and_then(|entry| Record::of(*seq, &entry).map(|record| (entry, record))) {
                Ok((entry, record)) => fold.step(*seq, &entry, &record)?,
                Err(damaged) => findings.add(*seq, damaged.to_string()),
            }
        }
        fold.report.entries += chunk.len() as u64;
        followed.grow(&leaves, &mut findings)
    })?;
    if stopped {
        return Ok(Checked::Stopped);
    }
    followed.finish(log, &mut findings)?;
    let replayed = fold.finish()?;
    findings.append(replayed.differences);
    Ok(if findings.count == 0 { Checked::Same { entries: replayed.entries } } else { Checked::Differ(findings) })
}

/// The entry at `seq`, if it is the one that the log was built over. One that waits for its seal has no leaf yet.
fn genuine(view: &(impl View + ?Sized), seq: u64) -> Result<(Entry, Record)> {
    let bytes = view.entry(seq)?.unwrap_or_default();
    let (index, at) = (seq / TILE_WIDTH as u64, (seq % TILE_WIDTH as u64) as usize * HASH_BYTES);
    let tile = view.tile(0, index)?.unwrap_or_default();
    if tile.get(at..at + HASH_BYTES).is_some_and(|leaf| leaf != merkle::leaf(&bytes).0) {
        return Err(Error::Differs(format!("entry {seq} is not the one that the log was built over")));
    }
    let entry = Entry::parse(seq, &bytes)?;
    let record = Record::of(seq, &entry)?;
    Ok((entry, record))
}

/// Checks what something signed about `score`'s agent rests on.
pub fn basis(view: &(impl View + ?Sized), score: &CurrentScore) -> Result<()> {
    let agent = &score.agent;
    let differs = |what: &str| Error::Differs(format!("{what} of '{agent}'"));
    let row: Option<AgentRow> = tables::get(view, tables::AGENTS, agent.as_str())?;
    if let Some(row) = row {
        let (entry, record) = genuine(view, row.seq)?;
        let same =
            matches!(record, Record::Agent(_)) && entry.subject == *agent && entry.recorded_at == row.registered_at;
        let revoked = row.revoked.map(|seq| genuine(view, seq)).transpose()?;
        let stands = revoked.is_none_or(|(entry, record)| {
            entry.subject == *agent && matches!(record, Record::Standing(standing) if standing.revoked)
        });
        if !same || !stands {
            return Err(differs("the row"));
        }
    }
    events(view, agent)?;
    let (universal, assured) = (tables::universal_of(view, agent)?, tables::assured_of(view, agent)?);
    let shown = score.assured.as_ref().map(|shown| (shown.seq, &shown.numbers));
    if score.seq != universal.map(|row| row.seq)
        || shown != assured.as_ref().map(|row| (row.seq, &row.recorded.assured))
    {
        return Err(differs("the score"));
    }
    inputs(view, agent, &score.inputs)
}

/// Checks that the rows of an agent's newest scores are what their events say, and the newest.
pub(crate) fn events(view: &(impl View + ?Sized), agent: &EntityId) -> Result<()> {
    let differs = |what: &str| Error::Differs(format!("{what} of '{agent}'"));
    let (universal, assured) = (tables::universal_of(view, agent)?, tables::assured_of(view, agent)?);
    if newest_event(view, agent, universal::FORMULA)? != universal {
        return Err(differs("the newest score"));
    }
    if newest_event(view, agent, assured::FORMULA)? != assured {
        return Err(differs("the newest assured score"));
    }
    let universal = universal.map(|row| (row.seq, row.recorded_at, ScoreEvent::Universal(row.recorded)));
    let assured = assured.map(|row| (row.seq, row.recorded_at, ScoreEvent::Assured(Box::new(row.recorded))));
    for (seq, recorded_at, event) in universal.into_iter().chain(assured) {
        let (entry, record) = genuine(view, seq)?;
        let told = matches!(record, Record::Score(told) if told == event);
        if !told || entry.subject != *agent || entry.recorded_at != recorded_at {
            return Err(differs("the score"));
        }
    }
    Ok(())
}

fn newest_event<T: DeserializeOwned>(
    view: &(impl View + ?Sized),
    agent: &EntityId,
    formula: &str,
) -> Result<Option<T>> {
    let prefix = format!("{}/", tables::score_place(agent, formula));
    let mut newest = None;
    tables::scan(view, tables::SCORE_EVENTS, Scan { reverse: true, ..Scan::prefix(&prefix) }, |_, row| {
        newest = Some(row);
        Ok(ControlFlow::Break(()))
    })?;
    Ok(newest)
}

/// Checks that inputs of a score are what their signals say, under the weights that were set; the first few hundred of them.
pub(crate) fn inputs(view: &(impl View + ?Sized), agent: &EntityId, inputs: &[Input]) -> Result<()> {
    let mut weighed: BTreeSet<&EntityId> = BTreeSet::new();
    for input in inputs.iter().take(MAX_LISTED_INPUTS) {
        let differs = |what: &str| Error::Differs(format!("{what} of '{agent}' by '{}'", input.source));
        let said = match genuine(view, input.seq)?.1 {
            Record::Signal(signal) => {
                let draft = signal.draft();
                draft.agent == *agent
                    && draft.source == input.source
                    && draft.tags.contains(&input.tag)
                    && draft.value == input.value
                    && draft.stddev == input.stddev
                    && draft.observed_at.at().micros() == input.observed_at
            }
            _ => false,
        };
        if !said {
            return Err(differs("a signal"));
        }
        if weighed.insert(&input.source) {
            let row: Option<SourceRow> = tables::get(view, tables::SOURCES, input.source.as_str())?;
            let row = row.ok_or_else(|| differs("the source"))?;
            let set = matches!(genuine(view, row.seq)?.1, Record::Source(source)
                if source.source == input.source && source.weight == row.weight);
            if !set {
                return Err(differs("the weight"));
            }
        }
    }
    Ok(())
}
