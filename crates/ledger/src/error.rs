//! What can go wrong with a ledger, and what to do about it.

use std::{path::Path, sync::Arc};

/// A ledger error. Each message says what was wrong, where, and what to do. `place` names the database: a path, or an address.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no ledger at the place.
    #[error("no ledger at {0}: create one with `credence init`, or name another with --data")]
    Missing(String),
    /// There is something else.
    #[error("{0} is not a Credence ledger ({1}): name another file, nothing was changed")]
    NotOurs(String, String),
    /// Creating over an existing ledger.
    #[error("{0} exists already: nothing was changed")]
    Exists(String),
    /// Written by a newer version.
    #[error("{place} has schema version {found}, this program knows versions up to {known}: use a newer `credence`")]
    Newer {
        /// The database.
        place: String,
        /// Its version.
        found: i64,
        /// The newest version known here.
        known: i64,
    },
    /// Written by a version before formats settled.
    #[error(
        "{place} was made by an earlier `credence` (format {found}, this program reads {known}) and was not touched: keep it \
         for that program, and start a new ledger in another folder, with `credence init --data FOLDER` for an authority"
    )]
    Older {
        /// The database.
        place: String,
        /// Its version.
        found: i64,
        /// The version known here.
        known: i64,
    },
    /// Another process holds the write lock.
    #[error(
        "another process (pid {pid}) is writing to {place}: wait for it or stop it, then try again; nothing was written"
    )]
    Locked {
        /// The database.
        place: String,
        /// The other process, as far as it said.
        pid: String,
    },
    /// The disk or the size limit is full.
    #[error("no space left for {0}: what was not acknowledged was not written; free some space and try again")]
    Full(String),
    /// A projection's table is gone.
    #[error("table {0} is missing: rebuild the projections with `credence replay --rebuild`")]
    MissingTable(String),
    /// The database or its folder cannot be written.
    #[error("{0} cannot be written: check the permissions of the file and its folder")]
    ReadOnly(String),
    /// An entry over the log format's limit.
    #[error("an entry of {bytes} bytes, the limit is {limit}: nothing was written")]
    EntryTooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A stored entry is not what it should be.
    #[error("entry {seq} is damaged: {why}; run `credence audit`")]
    Entry {
        /// Its sequence number.
        seq: u64,
        /// What is wrong.
        why: String,
    },
    /// The tree, its tiles and its checkpoint do not agree.
    #[error("the log is damaged: {0}; run `credence audit`")]
    Log(String),
    /// The ledger does not extend the checkpoint kept outside the database.
    #[error(
        "this ledger does not extend the checkpoint kept outside it: {why}. If an old copy was restored on purpose, \
         `credence log accept-restore` says what is lost and takes it; otherwise restore the right database"
    )]
    DoesNotExtend {
        /// In which way.
        why: String,
    },
    /// The receipts that are held do not extend the checkpoint kept outside their database.
    #[error(
        "the receipts that guards handed in do not extend the checkpoint kept outside receipts.db: {why}. If an old copy was \
         restored on purpose, `credence log accept-restore --receipts` says what is lost and takes it; otherwise restore the \
         right database"
    )]
    ReceiptsDoNotExtend {
        /// In which way.
        why: String,
    },
    /// A checkpoint or proof that does not parse or verify.
    #[error("{0}")]
    Proof(String),
    /// A log key or its origin that cannot be used.
    #[error("log key: {0}")]
    LogKey(String),
    /// The ledger was opened for reading only, or its writer has stopped after an error.
    #[error("the ledger's writer is not running: {0}")]
    NoWriter(String),
    /// From the operating system.
    #[error("{0}: {1}")]
    Io(String, Arc<std::io::Error>),
    /// From the database, in its own words.
    #[error("the database: {0}")]
    Database(String),
    /// From the protocol.
    #[error(transparent)]
    Protocol(#[from] credence_protocol::Error),
}

impl Error {
    /// An error of the operating system at `path`.
    pub(crate) fn io(path: &Path, error: std::io::Error) -> Self {
        Self::Io(path.display().to_string(), Arc::new(error))
    }
}
