use std::path::PathBuf;

/// What can go wrong with a guard.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder.
    #[error("{path}: {1}", path = .0.display())]
    Io(PathBuf, std::io::Error),
    /// A server's name that cannot be part of a path.
    #[error("'{0}' cannot be a server's name: letters, digits, '.', '_' and '-', at most 64 of them, not '.' first")]
    Name(String),
    /// Too many guards of one name.
    #[error("{most} guards of '{name}' are running already: end some, or choose another --name")]
    NoPlace {
        /// Their name.
        name: String,
        /// The limit.
        most: u32,
    },
    /// A key file that cannot be used.
    #[error("key file {path}: {1}", path = .0.display())]
    Key(PathBuf, String),
    /// The receipts.
    #[error("receipts: {0}")]
    Ledger(#[from] credence_ledger::Error),
    /// Something malformed.
    #[error(transparent)]
    Protocol(#[from] credence_protocol::Error),
    /// The verification engine.
    #[error(transparent)]
    Verify(#[from] credence_verify::Error),
    /// The server could not be run.
    #[error("cannot run '{command}': {why}")]
    Spawn {
        /// The command.
        command: String,
        /// Why.
        why: std::io::Error,
    },
    /// Anything about the receipts that people have to look at.
    #[error("{0}")]
    Receipts(String),
    /// An address or URL.
    #[error("{0}")]
    Address(String),
}
