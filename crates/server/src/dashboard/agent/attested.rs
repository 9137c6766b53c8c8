//! What was written of the agent to chains.

use credence_ledger::View;
use credence_pipeline::query::{self, AttestationState};
use credence_protocol::{EntityId, Timestamp};

use super::super::format::When;
use crate::problem::Problem;

/// Attestations on the page.
const SHOWN: usize = 10;

/// An attestation as it is shown.
pub(super) struct AttestationView {
    pub id: String,
    pub chain: String,
    pub value: i64,
    pub state: &'static str,
    pub good: bool,
    /// The transaction that wrote it, or the newest that was sent.
    pub transaction: String,
    pub reason: String,
    pub since: When,
    pub seq: u64,
}

pub(super) fn attestations(view: &dyn View, agent: &EntityId, now: Timestamp) -> Result<Vec<AttestationView>, Problem> {
    let shown = query::attestations_of(view, Some(agent), SHOWN)?.into_iter().filter_map(|(id, row)| {
        let newest = *row.steps.last()?;
        let (state, good) = match row.state {
            AttestationState::Intent => ("to be written", false),
            AttestationState::Sent => ("sent", false),
            AttestationState::Confirmed => ("in a block", true),
            AttestationState::Final | AttestationState::ValidationSent => ("final", true),
            AttestationState::Reverted => ("failed on the chain", false),
            AttestationState::GivenUp => ("given up", false),
            AttestationState::RevocationSent => ("being taken back", false),
            AttestationState::Revoked => ("taken back", false),
        };
        let included = row.inclusion.and_then(|inclusion| inclusion.transaction);
        let sent = row.transactions.last().map(|sent| sent.transaction.id.clone());
        Some(AttestationView {
            id: id.to_string(),
            chain: row.chain,
            value: row.value,
            state,
            good,
            transaction: included.or(sent).unwrap_or_default(),
            reason: row.reason.unwrap_or_default(),
            since: When::new(newest.at, now),
            seq: newest.seq,
        })
    });
    Ok(shown.collect())
}
