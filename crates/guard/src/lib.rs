//! The guard: sits where a tool is really called, so it can say what no statistic can: *this call happened* (DESIGN,
//! *Receipts*).
//!
//! - [`stdio`], [`http`]: the proxies. They move messages of the Model Context Protocol as the bytes they are, and change
//!   only what they must;
//! - [`watch`]: which calls are under way, and what answers them;
//! - [`guard`]: judges an answer ([`look`] takes it apart), writes the receipt, decides what the client gets; [`deliver`] makes it;
//! - [`receipts`]: the guard's own ledger, in segments; [`reading`]: what is in those of all guards;
//! - [`transcript`], [`claims`]: what an agent says it was given, held against the receipts;
//! - [`rollup`], [`courier`]: what the authority is told;
//! - [`install`]: puts the servers of an MCP client under guards;
//! - [`injection`]: whether a result's text tries to instruct the model, a signal of its own.

pub mod claims;
pub mod content;
pub mod courier;
pub mod deliver;
mod error;
mod events;
pub mod folder;
pub mod guard;
pub mod http;
pub mod injection;
pub mod install;
pub mod journal;
mod lines;
pub mod look;
pub mod message;
pub mod proxy;
pub mod reading;
pub mod receipts;
pub mod rollup;
pub mod segments;
pub mod settings;
pub mod stdio;
pub mod transcript;
pub mod watch;

pub use error::Error;
pub use guard::Guard;
pub use settings::{Caller, GuardMode, Settings};

/// Tells the operator: standard error is the only place that belongs to nobody else.
pub(crate) fn warn(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr().lock(), "credence guard: {text}");
}
