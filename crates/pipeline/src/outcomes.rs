//! Outcomes: what really happened after someone relied on an agent, and what that says of the scores (the score's own
//! reliability curve).
//!
//! An outcome is put against the published score that was in force when the agent was relied on, found in the ledger: nobody
//! can choose the score that an outcome is held against.

use std::ops::ControlFlow;

use credence_engine::reliability::{self, Curve, Rated};
use credence_ledger::{Appended, Entry, Kind, Scan, Transaction, View, write};
use credence_protocol::{EntityId, Timestamp, Uuid, limits::MAX_CLOCK_SKEW_SECONDS};
use serde::{Deserialize, Serialize};

use crate::{
    Authority, Error, Result,
    admit::Admitted,
    query,
    record::{OutcomeRecord, Record},
    registry::append,
    tables::{self, AgentRow},
};

/// Hex digits of a response's hash.
const HASH_DIGITS: usize = 64;

/// An outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutcomeRow {
    /// The entry.
    pub seq: u64,
    /// Its id.
    pub id: Uuid,
    /// Whether it went well.
    pub good: bool,
    /// When the agent was relied on.
    pub relied_at: Timestamp,
    /// Who reported it.
    pub reporter: EntityId,
}

impl Authority {
    /// Records an outcome. The same again is the same entry.
    pub fn record_outcome(&self, record: OutcomeRecord) -> Result<Admitted> {
        write(self.ledger(), move |tx| {
            if let Some(seq) = tables::get::<u64>(tx, tables::OUTCOME_IDS, &record.id.to_string())? {
                let bytes = tx.entry(seq)?.unwrap_or_default();
                let known: OutcomeRecord = Entry::parse(seq, &bytes)?.record(seq)?;
                let same = known == record;
                return if same {
                    Ok(Admitted { seq, known: true })
                } else {
                    Err(Error::OutcomeExists { id: record.id, seq })
                };
            }
            if tables::get::<AgentRow>(tx, tables::AGENTS, record.agent.as_str())?.is_none() {
                return Err(Error::UnknownAgent(record.agent.to_string()));
            }
            if let Some(why) = wrong_with(tx, &record, tx.stamp()?)? {
                return Err(Error::Outcome(why));
            }
            let agent = record.agent.clone();
            let seq = append(tx, Kind::Outcome, &agent, Record::Outcome(record))?;
            Ok(Admitted { seq, known: false })
        })
    }
}

/// At the door and in audits: what cannot be.
pub(crate) fn wrong_with(
    view: &(impl View + ?Sized),
    record: &OutcomeRecord,
    now: Timestamp,
) -> Result<Option<String>> {
    let agent: Option<AgentRow> = tables::get(view, tables::AGENTS, record.agent.as_str())?;
    if record.relied_at > now.plus_seconds(MAX_CLOCK_SKEW_SECONDS) {
        return Ok(Some(format!("relied_at {} is in the future (it is {now} here)", record.relied_at)));
    }
    if let Some(agent) = agent.filter(|agent| record.relied_at < agent.registered_at) {
        return Ok(Some(format!(
            "relied_at {} is before the agent was registered, {}",
            record.relied_at, agent.registered_at
        )));
    }
    let hash =
        |text: &String| text.len() == HASH_DIGITS && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if record.response.as_ref().is_some_and(|text| !hash(text)) {
        return Ok(Some("response: the SHA-256 of a signed response, 64 hexadecimal digits".to_owned()));
    }
    Ok(None)
}

pub(crate) fn apply(tx: &mut dyn Transaction, at: Appended, record: &OutcomeRecord) -> Result<()> {
    let OutcomeRecord { id, agent, good, relied_at, reporter, .. } = record.clone();
    tables::put(tx, tables::OUTCOME_IDS, &id.to_string(), &at.seq)?;
    let row = OutcomeRow { seq: at.seq, id, good, relied_at, reporter };
    Ok(tables::put(tx, tables::OUTCOMES, &tables::agent_seq(&agent, at.seq), &row)?)
}

/// How the score has done: of agents rated so, how many outcomes were good.
#[derive(Debug, Serialize)]
pub struct Reliability {
    /// The ledger's size that was seen.
    pub as_of: u64,
    /// Outcomes of agents that had no published score then: they say nothing of the score.
    pub unrated: u64,
    /// The curve.
    #[serde(flatten)]
    pub curve: Curve,
}

/// The reliability of the published scores, over all agents or one.
pub fn reliability(view: &dyn View, agent: Option<&EntityId>) -> Result<Reliability> {
    let mut rated: Vec<Rated> = Vec::new();
    let mut unrated = 0;
    let prefix = agent.map(|agent| format!("{agent}/")).unwrap_or_default();
    tables::scan(view, tables::OUTCOMES, Scan::prefix(&prefix), |key, row: OutcomeRow| {
        let agent = key.split_once('/').map_or(key, |(agent, _)| agent);
        match score_then(view, &EntityId::new(agent)?, row.relied_at)? {
            Some(score) => rated.push(Rated { score, good: row.good }),
            None => unrated += 1,
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(Reliability { as_of: view.size()?, unrated, curve: reliability::curve(&rated) })
}

fn score_then(view: &dyn View, agent: &EntityId, at: Timestamp) -> Result<Option<u8>> {
    let row = query::recorded_at(view, agent, at)?;
    Ok(row.filter(|row| row.recorded.status == "published").map(|row| row.recorded.score))
}
