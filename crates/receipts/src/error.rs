use std::path::PathBuf;

/// What can go wrong with receipts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder cannot be read or written.
    #[error("{path}: {1}", path = .0.display())]
    Io(PathBuf, std::io::Error),
    /// A server's name that cannot be part of a path: choose another.
    #[error("'{0}' cannot be a server's name: letters, digits, '.', '_' and '-', at most 64 of them, not '.' first")]
    Name(String),
    /// Too many guards of one name run at once.
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
    /// The state folder's default place is not known: name one.
    #[error("neither XDG_STATE_HOME nor HOME is set: name a folder with --state")]
    NoHome,
    /// The database of a segment.
    #[error("receipts: {0}")]
    Ledger(#[from] credence_ledger::Error),
    /// Something malformed.
    #[error(transparent)]
    Protocol(#[from] credence_protocol::Error),
    /// A record that cannot be written as JSON.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// Another thread is still moving earlier receipts into the ledger: try again.
    #[error("earlier ones are still being written")]
    Busy,
    /// More waits for a guard than it may: start the guard.
    #[error("{path} holds {most} bytes of answers that the guard has not taken up: start its guard, then try again", path = .path.display())]
    OperationsFull {
        /// The file.
        path: PathBuf,
        /// The limit.
        most: u64,
    },
    /// No checkpoint covers the receipt yet.
    #[error("{0}")]
    Unsealed(&'static str),
    /// A file of receipts does not hold what it should.
    #[error("{0}")]
    Damaged(String),
    /// The authority knows more of this log than is here.
    #[error(
        "the authority knows {known} entries of the log '{log}', and here are {here}: another guard signs under the same provider \
         and name (choose another --name or --provider), or receipts are gone here"
    )]
    Diverged {
        /// The log's name.
        log: String,
        /// Entries that the authority knows.
        known: u64,
        /// Entries that are here.
        here: u64,
    },
    /// An exported receipt that its proof does not prove.
    #[error("{0}")]
    NotProved(String),
}
