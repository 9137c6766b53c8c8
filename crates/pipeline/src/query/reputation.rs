//! What other agents' words come to, as of a time: reputation and reviews.
//!
//! Both speak of the last [window](credence_engine::reputation::Parameters::window_days). A reputation whose last event is older
//! has lapsed: it stays in the history, and says nothing of now. A review that is older counts for nothing.

use credence_engine::{
    assured::Scale,
    reputation::{Parameters, stddev},
};
use credence_ledger::View;
use credence_protocol::{EntityId, Timestamp};
use serde_json::{Value, json};

use crate::{
    Result, derive,
    reputation::{
        self,
        rows::{ReputationRow, ReviewRow},
    },
    tables,
};

/// An agent's reputation, as of a time.
#[derive(Debug, Clone)]
pub struct Reputation {
    /// The newest event.
    pub row: ReputationRow,
    /// Whether enough events were made by others; before that a low score means unknown, not bad.
    pub established: bool,
    /// Until when it says something, where that time has passed.
    pub lapsed: Option<Timestamp>,
}

impl Reputation {
    /// Whether it says something of the agent now: established, and not lapsed.
    pub fn counts(&self) -> bool {
        self.established && self.lapsed.is_none()
    }

    /// `new`, `established` or `lapsed`.
    pub fn standing(&self) -> &'static str {
        match (self.lapsed, self.established) {
            (Some(_), _) => "lapsed",
            (None, true) => "established",
            (None, false) => "new",
        }
    }

    /// R on the scale of one of its four factors, 0..=100: 100 times the fourth root of R/100.
    pub fn geometric_mean(&self) -> f64 {
        Scale::FourthRoot.read(self.row.score.clamp(0.0, 100.0))
    }

    /// The standard deviation of its score.
    pub fn stddev(&self) -> f64 {
        stddev(self.row.events)
    }

    /// As a `reputation-score` record; a note says so where it has lapsed.
    pub fn published(&self, agent: &EntityId) -> Value {
        let mut record = derive::published(agent, &self.row);
        if let Some(at) = self.lapsed {
            record["notes"] = json!(format!("lapsed at {at}: no event since, so it says nothing of now"));
        }
        record
    }
}

/// The reputation of `agent` at `now`; none before its first event.
pub fn reputation(view: &(impl View + ?Sized), agent: &EntityId, now: Timestamp) -> Result<Option<Reputation>> {
    let row: Option<ReputationRow> = tables::get(view, tables::REPUTATIONS, agent.as_str())?;
    let Parameters { established_events, .. } = reputation::parameters();
    Ok(row.map(|row| Reputation {
        established: row.events >= established_events,
        lapsed: Some(reputation::lapses(row.at)).filter(|end| now > *end),
        row,
    }))
}

/// An agent's reputations, newest first, at most `limit` of them.
pub fn reputation_history(view: &(impl View + ?Sized), agent: &EntityId, limit: usize) -> Result<Vec<ReputationRow>> {
    reputation::history(view, agent, limit)
}

/// The newest review of each reviewer within the window that ends at `now`, of those whose word weighs something; the
/// weightiest first.
pub fn reviews(view: &(impl View + ?Sized), agent: &EntityId, now: Timestamp) -> Result<Vec<(String, ReviewRow)>> {
    reputation::reviews(view, agent, now)
}
