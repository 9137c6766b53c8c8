//! The authority as a service: signed answers over HTTP (seeds 3 and 4; DESIGN, *Faces*, *Security model*).
//!
//! - [`App`]: what every request sees; [`serve()`]: its life, from the first connection to an end that loses nothing;
//! - `routes`: one file for each part of the API, described where it is written; [`openapi`] is made of the same list;
//! - `edge`: what happens to every request before and after its handler: ids, tokens, load, time; `limiter`: how often one
//!   caller may ask; `shares`, `pool`, `turns`: how much of the service it may have; `origin`: what pages of other sites may not do;
//!   `bodies`, `pace`: what comes in and goes out slowly;
//! - [`mcp`]: the same authority as an MCP server, over HTTP and over standard input and output;
//! - `dashboard`: pages for people; [`score_charts`]: charts that are the same on a page and in a file;
//! - `reporting`: reports on agents, which people release;
//! - `tail`: follows the ledger; `answers`: signed answers, reused until what they were made of changes;
//! - `engines`, `namespace`: verification, one namespace for each token; `domain`: who owns a domain; `identity`: callers with a DID;
//! - [`crawl`]: asks sources about what is proved to be an agent's;
//! - `attesting` (feature `chain`): writes scores to chains;
//! - [`tokens`], [`settings`], [`telemetry`]: what an operator has in hand; [`steady`]: a clock that does not jump ahead.

mod answers;
mod app;
mod attestation_metrics;
#[cfg(feature = "chain")]
pub mod attesting;
mod bodies;
pub mod crawl;
mod dashboard;
mod edge;
mod engines;
mod events;
mod extract;
mod identity;
mod limiter;
pub mod mcp;
mod metrics;
mod namespace;
mod origin;
mod pace;
mod peers;
mod pool;
pub mod probing;
mod problem;
mod recent;
mod reporting;
mod routes;
mod schema;
pub mod score_charts;
mod serve;
pub mod settings;
mod shares;
pub mod steady;
mod tail;
pub mod telemetry;
pub mod tokens;
mod turns;
mod waiting_reviews;

pub use app::{App, BLOCKING_THREADS, Setup, StartError};
pub use routes::openapi;
pub use serve::{serve, serve_with};
