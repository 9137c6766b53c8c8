//! Orchestration: signals are admitted into the ledger, scores follow, and anyone can replay and audit both
//! (seed 4, "pipeline"; DESIGN, *Signals*, *The ledger*).
//!
//! - [`Authority`]: the ledger with everything that writes to it;
//! - [`admit`]: from bytes to an entry, or a [`Rejection`] with nothing written;
//! - [`statements`]: the same for what agents, providers and the authority say in [records](credence_protocol::records);
//! - [`projection`]: the fold from entries to the tables that answer questions, the same online and in replay;
//! - [`filter`], [`score`], [`age`], [`recompute`]: which signals count, and the score events that record what they add up to;
//! - [`reputation`], [`summaries`]: what those records come to; [`derive`]: the authority's own signals made of it;
//! - [`probes`]: runs of the sandbox, and what their counts come to; [`probe_schedule`]: when the next is due;
//! - [`domains`]: which domains were proved to be an agent's;
//! - [`links`]: what else outside is an agent's, what crawlers read of it, and disputes of that;
//! - [`registrations`]: what an agent's registrations on chains say; [`tags`]: which tags count in scores;
//! - [`credentials`], [`outcomes`]: what the authority vouches for and takes back, and what came of relying on it;
//! - [`answer`]: signed answers to "should I go ahead?", and badges;
//! - [`responses`]: what is recorded and proved of the answers that left;
//! - [`reports`]: what people decided about reports on agents;
//! - [`attestations`]: scores that are written to chains;
//! - [`times`]: entries that a wrong clock recorded in the future, and the way back;
//! - [`query`]: everything that is read for a person or an answer;
//! - [`integrity`]: nothing is signed on tables that differ from the entries;
//! - [`replay`], [`audit`]: everything rebuilt from seq 0 and compared.

pub mod admit;
pub mod age;
pub mod answer;
pub mod attestations;
pub mod audit;
mod authority;
pub mod credentials;
pub mod derive;
pub mod domains;
pub mod due;
mod error;
pub mod filter;
pub mod integrity;
pub mod links;
pub mod outcomes;
pub mod probe_schedule;
pub mod probes;
pub mod projection;
pub mod query;
pub mod receipts;
pub mod recompute;
pub mod record;
pub mod registrations;
mod registry;
mod rejection;
pub mod replay;
pub mod reports;
pub mod reputation;
mod rescore;
pub mod responses;
pub mod schema;
pub mod score;
pub mod statements;
pub mod summaries;
pub(crate) mod tables;
pub mod tags;
pub mod times;

pub use authority::{Authority, Feed, SIGNALS_PER_BATCH, Settings};
pub use error::{Error, Result};
pub use registry::{NewAgent, NewSource, SourceChange};
pub use rejection::Rejection;
pub use tables::TABLES;
