//! The authority as a service: signed answers over HTTP (seeds 3 and 4; DESIGN, *Faces*, *Security model*).
//!
//! - [`App`]: what every request sees; [`serve()`]: its life, from the first connection to an end that loses nothing;
//! - `routes`: one file for each part of the API, described where it is written; [`openapi`] is made of the same list;
//! - `edge`: what happens to every request before and after its handler: ids, tokens, rates, load, time;
//! - [`mcp`]: the same authority as an MCP server, over HTTP and over standard input and output;
//! - `dashboard`: pages for people; [`drawn`]: what is drawn the same way on a page and into a file;
//! - `tail`: follows the ledger; `answers`: signed answers, reused until what they were made of changes;
//! - `engines`: verification, one namespace for each token; `domain`: who owns a domain;
//! - [`tokens`], [`settings`], [`telemetry`]: what an operator has in hand.

mod answers;
mod app;
mod dashboard;
mod domain;
pub mod drawn;
mod edge;
mod engines;
mod events;
mod extract;
pub mod mcp;
mod metrics;
mod problem;
mod recent;
mod routes;
mod schema;
mod serve;
pub mod settings;
mod tail;
pub mod telemetry;
pub mod tokens;

pub use app::{App, BLOCKING_THREADS, Setup, StartError};
pub use routes::openapi;
pub use serve::{serve, serve_with};
