//! The demo: a temporary authority with simulated agents, through the real paths.
//!
//! Who is simulated, and what each is there to show, is data ([`cast`], [`sources`]). What they do is not faked: their signals are
//! signed with Ed25519 and admitted, their tool results ([`tools`], [`lies`]) are judged by the verification engine, verdicts are
//! rolled up into summaries by [`providers`], statements are published, and scores follow in a real ledger that `credence audit`
//! and `credence replay` accept. Only time is arranged ([`clock`]): sixty days pass while the demo starts.
//!
//! - [`Demo`]: the authority and its service, with its history lived through;
//! - [`live`]: traffic from then on, as an HTTP client like any other;
//! - [`outside`]: what the authority's own crawler reads, from a stand-in on loopback.
//!
//! What is said of ASI threats and reliability was measured by the real sandbox against simulated agents ([`probed`]), once, when the
//! demo was written: a test measures it again.
//!
//! Chance comes from one seed: two runs tell the same story, with other keys and ids.

pub mod cast;
pub mod clock;
mod guard;
mod history;
pub mod lies;
pub mod live;
pub mod outside;
pub mod probed;
pub mod providers;
mod reputation;
mod setup;
pub mod sources;
pub mod tools;
mod world;

pub use setup::{Demo, Plan, Tokens};

/// Why the demo could not be put together. None of these is expected: whoever sees one has found a mistake, or a full disk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// From the pipeline.
    #[error(transparent)]
    Pipeline(#[from] credence_pipeline::Error),
    /// From the ledger.
    #[error(transparent)]
    Ledger(#[from] credence_ledger::Error),
    /// From the guard's receipts.
    #[error(transparent)]
    Receipts(#[from] credence_receipts::Error),
    /// A key, an id or a signature.
    #[error(transparent)]
    Protocol(#[from] credence_protocol::Error),
    /// From the verification engine.
    #[error(transparent)]
    Verify(#[from] credence_verify::Error),
    /// The service did not start.
    #[error(transparent)]
    Start(#[from] credence_server::StartError),
    /// A token could not be made.
    #[error(transparent)]
    Tokens(#[from] credence_server::tokens::Error),
    /// Files.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The authority refused something that the simulation said.
    #[error("the authority refused {what}: {why}")]
    Refused {
        /// What was said.
        what: String,
        /// Why it was refused.
        why: String,
    },
    /// The service could not judge a result.
    #[error("a tool result could not be judged: {0}")]
    Judge(String),
}
