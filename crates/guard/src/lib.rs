//! The guard: sits where a tool is really called, so it can say what no statistic can: *this call happened* (DESIGN,
//! *Receipts*).
//!
//! - [`service`]: runs a guard until its server ends or it is told to stop;
//! - [`stdio`], [`http`]: the proxies. They move messages of the Model Context Protocol as the bytes they are, and change
//!   only what they must; [`proxy`] is what both do with a message;
//! - [`received`]: what comes from the server, made safe to hand on; [`strict`]: what comes from the client;
//! - [`pending`]: which calls are under way, and which message answers them;
//! - [`guard`]: has an answer judged ([`answer`] takes it apart), writes the receipt, decides what the client gets; [`deliver`] makes it;
//! - [`vetting`]: which members of a result pass; [`agreement`]: whether its text says what its structure says;
//! - [`embedded`]: a guard without a proxy, for calls inside this program or reported by another;
//! - [`reports`]: the socket by which other programs report calls;
//! - [`schemas`]: what tools declare of their output, and what of it holds;
//! - [`rollup`], [`courier`]: what the authority is told;
//! - [`quarantine`]: results that were flagged or withheld, kept for a person to answer;
//! - [`injection`]: whether a result's text tries to instruct the model, a signal of its own;
//! - [`server_name`]: the name of a server, from the command that runs it; [`identity`]: which server stands behind a name;
//! - [`config`]: `guard.toml`; [`oversight`]: what an operator sets, sees and switches, with [`switch`], [`enforcement`] (the wait before
//!   enforcing), [`alerts`], [`metrics`], `spans` and [`report`].
//!
//! Receipts themselves, and everything that is done with them later, are the crate `credence-receipts`.

pub mod agreement;
pub mod alerts;
pub mod answer;
mod both;
pub mod config;
pub mod content;
pub mod courier;
pub mod deliver;
pub mod embedded;
pub mod enforcement;
mod error;
mod events;
mod forward;
pub mod guard;
pub mod http;
pub mod identity;
pub mod injection;
pub mod isolation;
mod lines;
pub mod message;
pub mod metrics;
pub mod oversight;
pub mod pending;
pub mod proxy;
pub mod quarantine;
pub mod received;
pub mod report;
pub mod reports;
pub mod rollup;
pub mod schemas;
mod secrets;
pub mod server_name;
pub mod server_words;
pub mod service;
pub mod settings;
#[cfg(feature = "otlp")]
pub mod spans;
pub mod stdio;
pub mod strict;
pub mod switch;
pub mod vetting;

pub use error::Error;
pub use guard::Guard;
pub use settings::{Caller, GuardMode, Settings};

/// Where warnings go instead of standard error.
static LISTENER: std::sync::OnceLock<fn(&str)> = std::sync::OnceLock::new();

/// Has warnings go to `listener`, for a program that has its own log. Only the first call has an effect.
pub fn send_warnings_to(listener: fn(&str)) {
    let _ = LISTENER.set(listener);
}

/// Tells the operator: standard error is the only place that belongs to nobody else. What a terminal would obey or hide is written out:
/// some of the words are a server's.
pub(crate) fn warn(text: &str) {
    use std::io::Write;
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if credence_protocol::is_deceptive(c) && c != '\n' { plain.extend(c.escape_unicode()) } else { plain.push(c) }
    }
    let text = plain.as_str();
    if let Some(listener) = LISTENER.get() {
        return listener(text);
    }
    let _ = writeln!(std::io::stderr().lock(), "credence guard: {text}");
}

/// The innermost reason of an error: what a person can act on.
pub(crate) fn innermost_cause(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
