//! The quarantine: results that were flagged or withheld, kept for a person to look at.
//!
//! ```text
//! guard ─▶ queue ─▶ keeper (a thread) ─▶ STATE/NAME/1/quarantine/CALL.item ◀─ credence guard review, release, forget
//!                                                                 CALL.answer ◀─ credence guard accept, reject
//! ```
//!
//! - [`item`]: what is kept of a call; [`cipher`]: how it is encrypted; [`store`]: the files;
//! - [`keeper`]: writes them after the client has its answer, and keeps them within their bounds;
//! - [`reviewer`]: what a person does with them;
//! - [`reporting`]: what an authority is told of them; [`reviewer_key`]: to whom content is encrypted on that way.
//!
//! Each item is a file of its own: it is there as a whole or not at all, one that is damaged hurts no other, and forgetting one
//! removes its bytes. Items are encrypted under a key that lies in the same state folder, so this protects copies of single
//! folders and backups without that key, and nothing else (`docs/security.md`).

pub mod cipher;
mod error;
pub mod item;
pub mod keeper;
pub(crate) mod operator;
pub mod reporting;
pub mod reviewer;
pub mod reviewer_key;
pub mod store;

use std::time::Duration;

pub use error::QuarantineError;
pub use item::{Finding, KeptChange, KeptItem};
pub use keeper::Quarantine;
pub use reviewer::Reviewer;

/// Bytes of kept results, of one guard.
pub const DEFAULT_BYTES: u64 = 64 * 1024 * 1024;
/// Days that a kept result stays.
pub const DEFAULT_DAYS: u64 = 7;
/// The share of the bytes that one item may take: a larger result is kept without its content.
const LARGEST_SHARE: u64 = 4;

/// How much a quarantine keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuarantineSettings {
    /// Bytes on disk; beyond them the oldest are let go. 0 keeps nothing.
    pub max_bytes: u64,
    /// How long.
    pub keep: Duration,
}

impl Default for QuarantineSettings {
    fn default() -> Self {
        Self { max_bytes: DEFAULT_BYTES, keep: Duration::from_secs(DEFAULT_DAYS * 24 * 60 * 60) }
    }
}

impl QuarantineSettings {
    /// Keeps nothing.
    pub fn off() -> Self {
        Self { max_bytes: 0, ..Self::default() }
    }

    /// Whether anything is kept.
    pub fn is_on(&self) -> bool {
        self.max_bytes > 0
    }

    /// Bytes of the arguments and the result of one item.
    pub fn largest_item(&self) -> usize {
        usize::try_from(self.max_bytes / LARGEST_SHARE).unwrap_or(usize::MAX)
    }
}
