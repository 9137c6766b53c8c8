//! HCS-25, the AI Trust Score (seed 0; DESIGN, *HCS-25*): adapters turn what is known of a subject into components on
//! 0..=100, and a weighted mean makes one number of them.
//!
//! ```text
//! component = round(clamp(value · (stale ? m : 1), 0, 100))       missing, timeout, error: 0
//! adapter   = round(clamp(Σ component·cw / Σ cw, 0, 100))         over its components
//! total     = round(Σ adapter·w / Σ w)                            over the denominator; empty: 0
//! ```
//!
//! An adapter is in the denominator when it is applicable, its weight is above 0, and its [mode](Mode) is `universal` or
//! `scoped`, or it made a component. `round` is [`Rounding`]: two [profiles](Profile) differ in it.
//!
//! - [`Subject`], [`Snapshot`]: what is scored, and what is known of it;
//! - [`Config`], [`Adapter`], [`Component`]: how; refused when it makes no sense, and versioned;
//! - [`Record`]: the number with everything that explains it;
//! - [`catalogue`]: the eighteen adapters of the standard;
//! - [`output_verification`]: the one of them that rests on verdicts, and [`providers`], which joins several reports;
//! - [`evals`]: how answers to simple questions are graded.
//!
//! Where the reference implementation goes wrong, this one does not: a subject without model id is scored instead of
//! crashing the record; a summary older than its window is `stale`; counts that cannot be are errors instead of numbers
//! (negative ones, fractions, parts above their whole, rates outside 0..=1).

pub mod catalogue;
mod config;
mod error;
pub mod evals;
mod identifier;
pub mod output_verification;
pub mod providers;
mod record;
mod status;
mod subject;

pub use config::{Adapter, AdapterBuilder, Component, Config, Mode, Profile, Reading, Rounding};
pub use error::Error;
pub use identifier::{AdapterId, ComponentKey, SignalId};
pub use record::{AdapterRecord, Breakdown, ComponentRecord, Record};
pub use status::Status;
pub use subject::{Input, Metadata, Provenance, SignalRecord, Snapshot, Subject};
