//! Outcomes: what really happened after someone relied on an agent, and what that says of the scores (the score's own
//! reliability curve).
//!
//! An outcome is put against the published score that was in force when the agent was relied on, found in the ledger: nobody
//! can choose the score that an outcome is held against.

use std::ops::ControlFlow;

use credence_engine::{
    reliability::{self, Curve, Rated},
    universal,
};
use credence_ledger::{Appended, Entry, Scan, Transaction, View, write};
use credence_protocol::{EntityId, ScoreStatus, Timestamp, Uuid, limits::MAX_CLOCK_SKEW_SECONDS};
use serde::{Deserialize, Serialize};

use crate::{
    Authority, Error, Result,
    admit::Admitted,
    record::{CitedResponse, OutcomeRecord, Record},
    registry::append,
    responses,
    tables::{self, AgentRow, ScoreRow},
    times::Times,
};

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

/// An outcome to be recorded.
#[derive(Debug, Clone)]
pub struct NewOutcome {
    /// Its id, chosen by the reporter.
    pub id: Uuid,
    /// The agent.
    pub agent: EntityId,
    /// Whether it went well.
    pub good: bool,
    /// When someone relied on it; now where nobody says.
    pub relied_at: Option<Timestamp>,
    /// Who reports it.
    pub reporter: EntityId,
    /// The signed response it was relied on for, by its hash.
    pub response: Option<String>,
}

impl Authority {
    /// Records an outcome. The same again is the same entry.
    pub fn record_outcome(&self, new: NewOutcome) -> Result<Admitted> {
        write(self.ledger(), move |tx| record(tx, new.clone()))
    }

    /// Records outcomes that are all at hand, in order: all of them, or none.
    pub fn record_outcomes(&self, all: Vec<NewOutcome>) -> Result<Vec<Admitted>> {
        write(self.ledger(), move |tx| all.iter().map(|new| record(tx, new.clone())).collect())
    }
}

fn record(tx: &mut dyn Transaction, new: NewOutcome) -> Result<Admitted> {
    let NewOutcome { id, agent, good, relied_at: given, reporter, response } = new;
    let relied_at = given.map_or_else(|| tx.stamp(), Ok)?;
    let mut record = OutcomeRecord { id, agent, good, relied_at, reporter, response: None };
    if let Some(seq) = tables::get::<u64>(tx, tables::OUTCOME_IDS, &record.id.to_string())? {
        let bytes = tx.entry(seq)?.unwrap_or_default();
        let known: OutcomeRecord = Entry::parse(seq, &bytes)?.record(seq)?;
        // A time that was not given is not what makes another outcome of it.
        let relied_at = given.unwrap_or(known.relied_at);
        let hash = |cited: &CitedResponse| cited.hash.clone();
        let same = known.response.as_ref().map(hash) == response
            && OutcomeRecord { response: None, ..known } == OutcomeRecord { relied_at, ..record.clone() };
        return if same { Ok(Admitted { seq, known: true }) } else { Err(Error::OutcomeExists { id: record.id, seq }) };
    }
    if tables::get::<AgentRow>(tx, tables::AGENTS, record.agent.as_str())?.is_none() {
        return Err(Error::UnknownAgent(record.agent.to_string()));
    }
    if let Some(hash) = &response {
        if let Err(error) = responses::hash_of(hash) {
            return Err(Error::Outcome(format!("response: {error}")));
        }
        let unknown = "response: no such answer is recorded, or its hash is no longer kept; one that just left is recorded \
                       within a second";
        record.response = Some(responses::cite(tx, hash)?.ok_or_else(|| Error::Outcome(unknown.to_owned()))?);
    }
    if let Some(why) = wrong_with(tx, &record, Appended { seq: tx.size()?, recorded_at: tx.stamp()? })? {
        return Err(Error::Outcome(why));
    }
    let agent = record.agent.clone();
    let seq = append(tx, &agent, &Record::Outcome(record))?;
    Ok(Admitted { seq, known: false })
}

/// At the door and in audits: what cannot be.
pub(crate) fn wrong_with(view: &(impl View + ?Sized), record: &OutcomeRecord, at: Appended) -> Result<Option<String>> {
    let now = at.recorded_at;
    if let Some(seq) = tables::get::<u64>(view, tables::OUTCOME_IDS, &record.id.to_string())? {
        return Ok(Some(format!("id {} was used for another outcome (entry {seq})", record.id)));
    }
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
    record.response.as_ref().map_or(Ok(None), |cited| responses::wrong_with(view, cited, at.seq))
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
pub(crate) fn reliability(view: &dyn View, agent: Option<&EntityId>) -> Result<Reliability> {
    let mut rated: Vec<Rated> = Vec::new();
    let mut unrated = 0;
    let prefix = agent.map(|agent| format!("{agent}/")).unwrap_or_default();
    // Agents come one after the other: the scores of each are read once.
    let mut scores = Scores { agent: String::new(), published: Vec::new() };
    tables::scan(view, tables::OUTCOMES, Scan::prefix(&prefix), |key, row: OutcomeRow| {
        let agent = key.split_once('/').map_or(key, |(agent, _)| agent);
        if scores.agent != agent {
            scores = Scores::read(view, agent)?;
        }
        match scores.at(row.relied_at) {
            Some(score) => rated.push(Rated { score, good: row.good }),
            None => unrated += 1,
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(Reliability { as_of: view.size()?, unrated, curve: reliability::curve(&rated) })
}

/// An agent's recorded scores by time; none where one was not published.
struct Scores {
    agent: String,
    published: Vec<(Timestamp, Option<u8>)>,
}

impl Scores {
    fn read(view: &dyn View, agent: &str) -> Result<Self> {
        let (mut published, times) = (Vec::new(), Times::read(view)?);
        tables::scan(
            view,
            tables::SCORE_EVENTS,
            Scan::prefix(&format!("{agent}/{}/", universal::FORMULA)),
            |_, row: ScoreRow| {
                let shown = row.recorded.status == ScoreStatus::Published;
                published.push((times.of(row.seq, row.recorded_at), shown.then_some(row.recorded.score)));
                Ok(ControlFlow::Continue(()))
            },
        )?;
        Ok(Self { agent: agent.to_owned(), published })
    }

    fn at(&self, at: Timestamp) -> Option<u8> {
        let before = self.published.partition_point(|(recorded_at, _)| *recorded_at <= at);
        self.published.get(before.checked_sub(1)?)?.1
    }
}
