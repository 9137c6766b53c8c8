//! The append-only record, which is also a transparency log (DESIGN, *The ledger*).
//!
//! - [`Entry`]: one canonical JSON object with a dense sequence number;
//! - [`Ledger`], [`View`], [`Transaction`]: the narrow interface behind which a database stands: entries are appended,
//!   projections are ordered key-value tables updated in the same transaction, and nothing else exists;
//! - [`sqlite`]: the embedded default, one writer with group commit and many readers;
//! - [`merkle`], [`checkpoint`], [`proof`], [`tiles`]: RFC 6962 tree, C2SP checkpoints, proofs and tile paths, over the
//!   `tlog_tiles` and `signed_note` crates.
//!
//! Leaf = SHA-256(0x00 ‖ entry bytes), leaf index = seq.

pub mod checkpoint;
mod entry;
mod error;
pub mod merkle;
mod outside;
pub mod proof;
pub mod sqlite;
mod store;
pub mod tiles;

pub use checkpoint::{Checkpoint, LogKey, LogVerifier};
pub use entry::{Entry, Kind, MAX_ENTRY_BYTES, NewEntry};
pub use error::Error;
pub use outside::OutsideCheckpoint;
pub use sqlite::{Restored, SqliteLedger};
pub use store::{Appended, EntryVisitor, Ledger, RowVisitor, Scan, Table, Ticket, Transaction, View, Work, write};
pub use tlog_tiles::Hash;

/// This crate's result.
pub type Result<T> = std::result::Result<T, Error>;
