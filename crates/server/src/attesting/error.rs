//! Why an attestation did not move on.

use credence_chain::ChainError;
use credence_protocol::{EntityId, Uuid};

/// Why an attestation did not move on. What was recorded stays, and is tried again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttestError {
    /// From the authority: a step that cannot be taken, a budget that is used up, the disk.
    #[error(transparent)]
    Pipeline(#[from] credence_pipeline::Error),
    /// From the ledger.
    #[error(transparent)]
    Ledger(#[from] credence_ledger::Error),
    /// From the chain.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// Configure the chain with a key.
    #[error("{0} is not configured for writing: it needs [[chain]] with [chain.attest] in credence.toml")]
    NotConfigured(String),
    /// No such attestation.
    #[error("there is no attestation {0}: `credence attest list` shows those that are")]
    Unknown(Uuid),
    /// Set `public_url`.
    #[error(
        "the document would be served at {0}, which others cannot reach: set public_url in [serve] to an https address"
    )]
    NotPublic(String),
    /// Wait: what is under way is taken back once it is in a block that stays.
    #[error("an attestation of '{0}' is still under way: it is taken back when it is in a block that stays")]
    StillOpen(EntityId),
    /// A thread ended.
    #[error("a thread ended: {0}")]
    Thread(String),
}

impl AttestError {
    /// Whether the same attempt may succeed by itself later: the node answers again, or limits lift.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Chain(error) => matches!(
                error,
                ChainError::Transport(_)
                    | ChainError::RateLimited { .. }
                    | ChainError::Reorganised
                    | ChainError::StaleHead { .. }
                    | ChainError::Underpriced
            ),
            // Another transaction of the chain waits for inclusion.
            Self::Pipeline(error) => matches!(error, credence_pipeline::Error::Attestation(_)),
            _ => false,
        }
    }
}
