//! Execution receipts (DESIGN, *Receipts*): what a guard, sitting where a tool is called, writes about each call, and what can be
//! told from it later.
//!
//! [`ReceiptBook`] is the front: it opens a guard's place, records each call, seals what it recorded under signed checkpoints,
//! reads it back, proves it, and hands it to an authority. A reader opens an [`Archive`]: all books of a state folder.
//!
//! ```text
//! record ─▶ journal ─▶ segment (a ledger and log of its own) ─▶ checkpoint
//!                          │                                      │
//!                          ▼                                      ▼
//!                 archive, claims against transcripts       proofs, export, hand-over to an authority
//! ```
//!
//! - [`folder`]: where guards keep their state, and the place of one guard;
//! - [`records`]: what is written about a call; [`journal`]: the file it is first written to;
//! - [`book`]: writes receipts into [`segments`]; [`archive`]: reads them; [`mod@audit`]: looks for damage;
//! - [`operation`]: what was done to a guard, beside the receipts; [`operation_journal`]: the file it waits in;
//! - [`export`]: one receipt with its proof, for others to check; [`handover`]: batches of receipts for an authority;
//! - [`transcript`], [`claims`]: what an agent says its tools returned, compared with the receipts; [`parts`] tells which part differs.
//!
//! Arguments and results are not kept: receipts hold salted commitments to them. There is no proxy, no HTTP and no async runtime in
//! here, so that a guard inside another program can use it.

pub mod archive;
pub mod audit;
pub mod book;
pub mod claims;
mod digest_rows;
mod error;
pub mod export;
pub mod folder;
pub mod handover;
pub mod journal;
pub mod operation;
pub mod operation_journal;
pub mod parts;
pub mod records;
pub mod segments;
pub mod transcript;

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

pub use archive::{Archive, Filter, FoundReceipt};
pub use book::{BookSettings, ReceiptBook};
pub use credence_ledger::release_in_child as release_locks_in_child;
pub use error::Error;
pub use folder::Place;
pub use operation::{OperationAction, OperationRecord, Operator};
pub use records::{CanaryRecord, ControlRecord, CountedCall, Intent, NewReceipt, PartDigests, Private};

use credence_protocol::Timestamp;

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;
/// Tells the operator what nobody else is told: a damaged file that was put aside, a segment that cannot be dropped.
pub type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// The time of day.
#[allow(clippy::expect_used, reason = "a system clock before the year 10000")]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX)).expect("before the year 10000")
}
