//! Rescoring one agent at once, before something is signed that rests on its score.
//!
//! Scores follow their signals within a second ([`crate::score`]); what is signed rests on an event that is not behind at all.

use credence_ledger::{Transaction, write};
use credence_protocol::EntityId;

use crate::{
    Authority, Result, due,
    filter::{self, Weights},
    integrity, query,
    score::{self, Scoring},
};

impl Authority {
    /// Records a new score event of `agent` if its newest is behind; gives whether it was.
    pub fn rescore(&self, agent: &EntityId) -> Result<bool> {
        let (agent, scoring) = (agent.clone(), self.scoring().clone());
        write(self.ledger(), move |tx| rescore(tx, &agent, &scoring))
    }
}

/// The same within a unit of work.
pub(crate) fn rescore(tx: &mut dyn Transaction, agent: &EntityId, scoring: &Scoring) -> Result<bool> {
    if !query::is_behind(tx, agent, &scoring.tags)? {
        return Ok(false);
    }
    let weights = Weights::read(tx)?;
    // Somebody waits to sign what comes of it.
    integrity::inputs(tx, agent, &filter::inputs(tx, agent, &weights, &scoring.tags)?)?;
    if let Some(body) = score::score_of(tx, agent, &weights, scoring)? {
        score::record_scores(tx, &[(agent.clone(), body)])?;
    }
    tx.delete_jobs(due::RESCORE, &[agent.as_str()])?;
    Ok(true)
}
