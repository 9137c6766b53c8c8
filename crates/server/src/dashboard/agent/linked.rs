//! What outside is the agent's, and what its owner disputes of what was read there.

use credence_ledger::View;
use credence_pipeline::{
    query,
    record::{DisputeStep, LinkState},
};
use credence_protocol::{EntityId, Timestamp};

use super::super::format::When;
use crate::problem::Problem;

/// A link as it is shown.
pub(super) struct LinkView {
    pub link: String,
    pub state: &'static str,
    pub good: bool,
    pub reason: String,
    pub since: When,
    pub seq: u64,
}

/// A disputed signal.
pub(super) struct DisputeView {
    pub signal: String,
    pub state: &'static str,
    pub statement: String,
    pub by_owner: bool,
    pub decision: String,
    pub since: When,
    pub seq: u64,
}

pub(super) fn links(view: &dyn View, agent: &EntityId, now: Timestamp) -> Result<Vec<LinkView>, Problem> {
    let shown = query::links_of(view, agent)?.into_iter().map(|one| {
        let (state, good) = match one.row.state {
            LinkState::Claimed => ("claimed: feeds nothing", false),
            LinkState::Proven if one.row.feeds(now) => ("proven", true),
            LinkState::Proven => ("over: its proof has expired", false),
            LinkState::Broken => ("broken: feeds nothing", false),
            LinkState::Removed => ("removed", false),
        };
        let (reason, since) = (one.row.reason.unwrap_or_default(), When::new(one.row.at, now));
        LinkView { link: one.link.to_string(), state, good, reason, since, seq: one.row.seq }
    });
    Ok(shown.collect())
}

pub(super) fn disputes(view: &dyn View, agent: &EntityId, now: Timestamp) -> Result<Vec<DisputeView>, Problem> {
    let shown = query::disputes_of(view, agent)?.into_iter().map(|(signal, row)| DisputeView {
        signal: signal.to_string(),
        state: match row.step {
            DisputeStep::Opened => "open: it counts until the operator decides",
            DisputeStep::Kept => "kept by the operator",
            DisputeStep::Withdrawn => "withdrawn by the operator, until it is lifted",
            DisputeStep::Lifted => "withdrawn by the operator, and lifted: what the source says now counts",
        },
        statement: row.statement,
        by_owner: row.signed,
        decision: row.decision.unwrap_or_default(),
        since: When::new(row.opened_at, now),
        seq: row.seq,
    });
    Ok(shown.collect())
}
