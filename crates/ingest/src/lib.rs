//! What others know about an agent (seed 4, third layer; DESIGN, *Ingest*): crawlers described as data, and proofs that a thing
//! outside belongs to an agent.
//!
//! ```text
//! source file (TOML) ──► Source ──request──► egress ──answer──► require ► identity ► verify ► select ► extract ► value ± stddev
//! ```
//!
//! - [`Source`]: a source file, validated; [`builtin`]: those that ship with Credence;
//! - [`Crawler`]: asks a source about a subject over `egress`;
//! - [`reading`]: from an answer to numbers, without any request;
//! - [`links`]: what a proof says, where it stands, and how it is checked.
//!
//! A failed or absent answer measures nothing; missing is not zero. Only numbers leave this crate: text of a source is the text of
//! someone who may want to be read by a model, so no error and no result repeats any.
#![forbid(unsafe_code)]

pub mod builtin;
mod crawler;
mod error;
pub mod jws;
pub mod links;
mod listing;
mod normalise;
mod pointer;
pub mod reading;
mod secrets;
mod source;
mod template;
mod verification;

pub use crawler::{Answered, Asked, Crawler, Failure, Reason, Secrets};
pub use error::SourceError;
pub use reading::{Card, Measured, NoReading, Reading};
pub use source::{Limits, Source};
