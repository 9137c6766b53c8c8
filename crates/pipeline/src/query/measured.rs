//! What providers report of an agent's outputs, and how the scores have done against what happened.

use credence_engine::hcs25::output_verification::Window;
use credence_ledger::View;
use credence_protocol::{EntityId, Timestamp};

use crate::{
    Result,
    outcomes::{self, Reliability},
    summaries::{self, Stats},
};

/// What providers say of `agent` over `window`, as of `now`. Only those that the operator admits now count.
pub fn stats(view: &(impl View + ?Sized), agent: &EntityId, window: Window, now: Timestamp) -> Result<Stats> {
    summaries::stats(view, agent, window, now)
}

/// The reliability of the published scores, over all agents or one.
pub fn reliability(view: &dyn View, agent: Option<&EntityId>) -> Result<Reliability> {
    outcomes::reliability(view, agent)
}
