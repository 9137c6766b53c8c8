//! What other agents' words come to, as of a time: reputation and reviews.
//!
//! Both speak of the last [window](credence_engine::reputation::Parameters::window_days). R is that of the last midnight or event. A reputation whose last event is older
//! has lapsed: it stays in the history, and says nothing of now. A review that is older counts for nothing.

use std::ops::ControlFlow;

use credence_engine::reputation::{readable::Readable, stddev};
use credence_ledger::{Scan, View};
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
    /// The newest event, and R as of the last midnight.
    pub row: ReputationRow,
    /// What makes R readable: state, letter, claims that held, R on the scale of one factor.
    pub readable: Readable,
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
    let Some(row) = reputation::reputation_at(view, agent, now)? else { return Ok(None) };
    let parameters = reputation::parameters();
    // Claims that are settled within the window; one that came to more than nothing held.
    let settled = reputation::evidence(view, agent, now)?.settled;
    let held = settled.iter().filter(|claim| claim.outcome > 0.0).count() as u64;
    Ok(Some(Reputation {
        readable: Readable::new(row.score, row.events, (held, settled.len() as u64), &parameters),
        established: row.events >= parameters.established_events,
        lapsed: Some(reputation::lapses(row.at)).filter(|end| now > *end),
        row,
    }))
}

/// The reputations of all established agents, as of their last events: what a percentile is counted among
/// ([`Readable::among`]). Reads a row of every agent that has a reputation, so keep it for a day.
pub fn established_reputations(view: &(impl View + ?Sized)) -> Result<Vec<f64>> {
    let (mut scores, least) = (Vec::new(), reputation::parameters().established_events);
    tables::scan(view, tables::REPUTATIONS, Scan::all(), |_, row: ReputationRow| {
        if row.events >= least {
            scores.push(row.score);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(scores)
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
