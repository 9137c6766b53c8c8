//! Rescoring one agent at once, before something is signed that rests on its score.
//!
//! Scores follow their signals within a second ([`crate::score`]); what is signed rests on an event that is not behind at all.

use credence_ledger::{Transaction, write};
use credence_protocol::EntityId;

use crate::{
    Authority, Result, due,
    filter::{self, Weights},
    integrity,
    score::{self, Scoring},
};

impl Authority {
    /// Records new score events of `agent` if its newest are behind; gives whether they were.
    pub fn rescore(&self, agent: &EntityId) -> Result<bool> {
        let (agent, scoring) = (agent.clone(), self.scoring().clone());
        write(self.ledger(), move |tx| rescore(tx, &agent, &scoring))
    }
}

/// The same within a unit of work.
pub(crate) fn rescore(tx: &mut dyn Transaction, agent: &EntityId, scoring: &Scoring) -> Result<bool> {
    // A row that was changed past the ledger must not pass for a score that is behind.
    integrity::events(tx, agent)?;
    let weights = Weights::read(tx)?;
    let inputs = filter::inputs(tx, agent, &weights, &scoring.tags)?;
    let Some(scored) = score::news(tx, agent, &inputs, &weights, scoring, tx.size()?, tx.stamp()?)? else {
        return Ok(false);
    };
    // Somebody waits to sign what comes of it.
    integrity::inputs(tx, agent, &inputs)?;
    score::record_scores(tx, &[scored])?;
    tx.delete_jobs(due::RESCORE, &[agent.as_str()])?;
    Ok(true)
}
