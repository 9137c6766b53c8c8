use std::path::PathBuf;

/// What can go wrong with a guard.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The receipts, or the folder they are in.
    #[error(transparent)]
    Receipts(#[from] credence_receipts::Error),
    /// The receipts could not be opened when the guard started.
    #[error("the receipts could not be opened")]
    NoReceipts,
    /// Something malformed.
    #[error(transparent)]
    Protocol(#[from] credence_protocol::Error),
    /// The verification engine.
    #[error(transparent)]
    Verify(#[from] credence_verify::Error),
    /// Kept results.
    #[error(transparent)]
    Quarantine(#[from] crate::quarantine::QuarantineError),
    /// Reading, writing or serving failed.
    #[error("{path}: {1}", path = .0.display())]
    Io(PathBuf, std::io::Error),
    /// The server could not be run.
    #[error("cannot run '{command}': {why}")]
    Spawn {
        /// The command.
        command: String,
        /// Why.
        why: std::io::Error,
    },
    /// A result or a schema that cannot be used.
    #[error("{0}")]
    Content(String),
    /// An address or URL.
    #[error("{0}")]
    Address(String),
}
