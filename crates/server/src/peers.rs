//! The reputations of all established agents, counted once a day: what an agent's percentile is told by. It moves when others do, so
//! it is shown and enters no score.

use std::sync::{Arc, Mutex, PoisonError};

use credence_engine::reputation::readable::Readable;
use credence_ledger::View;
use credence_pipeline::query;
use credence_protocol::Timestamp;

use crate::problem::Problem;

const DAY_MICROS: i64 = 86_400_000_000;

/// Counted on a day, in days since 1970.
type Counted = (i64, Arc<Vec<f64>>);

/// What was counted today.
#[derive(Default)]
pub(crate) struct EstablishedPeers(Mutex<Option<Counted>>);

impl EstablishedPeers {
    /// `readable` with its place among established agents, where there are enough of them.
    pub(crate) fn place(&self, view: &dyn View, readable: Readable, now: Timestamp) -> Result<Readable, Problem> {
        let today = now.micros().div_euclid(DAY_MICROS);
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let scores = match &*counted {
            Some((day, scores)) if *day == today => Arc::clone(scores),
            _ => {
                let scores = Arc::new(query::established_reputations(view)?);
                *counted = Some((today, Arc::clone(&scores)));
                scores
            }
        };
        drop(counted);
        Ok(readable.among(&scores))
    }
}
