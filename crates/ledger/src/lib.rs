//! The append-only record, which is also a transparency log (DESIGN, *The ledger*).
//!
//! - [`Entry`]: one canonical JSON object with a dense sequence number;
//! - [`store`]: the contract behind which a database stands ([`Ledger`], [`View`], [`Transaction`]): entries are appended,
//!   projections are ordered key-value tables updated in the same transaction, and nothing else exists;
//! - [`jobs`]: work that is due now or later, kept beside the entries;
//! - [`sqlite`]: the embedded default, one writer with group commit and many readers;
//! - [`overlay`]: reads and writes of a unit of work gathered into few calls of the database;
//! - `memory` and `conformance` (feature `testing`): a second implementation with several writers, and the suite that every
//!   implementation passes;
//! - [`merkle`], [`checkpoint`], [`proof`], [`tiles`]: RFC 6962 tree, C2SP checkpoints, proofs and tile paths, over the
//!   `tlog_tiles` and `signed_note` crates; [`batch`]: the same tree over a list that stands beside the log.
//!
//! Leaf = SHA-256(0x00 ‖ entry bytes), leaf index = seq.

pub mod batch;
pub mod checkpoint;
#[cfg(feature = "testing")]
pub mod conformance;
mod entry;
mod error;
mod held_lock;
pub mod jobs;
#[cfg(feature = "testing")]
pub mod memory;
pub mod merkle;
mod outside;
pub mod overlay;
pub mod proof;
pub mod sqlite;
pub mod store;
pub mod tiles;

pub use checkpoint::{Checkpoint, LogKey, LogVerifier};
pub use entry::{Entry, Kind, MAX_ENTRY_BYTES, NewEntry};
pub use error::Error;
pub use held_lock::{HeldLock, release_in_child};
pub use jobs::{Claim, Job, Jobs, NewJob, Queue};
pub use outside::OutsideCheckpoint;
pub use overlay::Overlay;
pub use sqlite::{Restored, SqliteLedger};
pub use store::{
    Appended, Clock, Completion, EntryVisitor, Ledger, PendingWrite, RowChange, RowVisitor, Scan, Table, Ticket,
    Transaction, View, Work, write,
};
pub use tlog_tiles::Hash;

/// This crate's result.
pub type Result<T> = std::result::Result<T, Error>;
