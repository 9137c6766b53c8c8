//! Orchestration: signals are admitted into the ledger, scores follow, and anyone can replay and audit both
//! (seed 4, "pipeline"; DESIGN, *Signals*, *The ledger*).
//!
//! - [`Authority`]: the ledger with everything that writes to it;
//! - [`admit`]: from bytes to an entry, or a [`Rejection`] with nothing written;
//! - [`statements`]: the same for what agents, providers and the authority say in [records](credence_protocol::records);
//! - [`projection`]: the fold from entries to the tables that answer questions, the same online and in replay;
//! - [`filter`], [`score`], [`age`], [`recompute`]: which signals count, and the score events that record what they add up to;
//! - [`reputation`], [`summaries`]: what those records come to; [`derive`]: the authority's own signals made of it;
//! - [`domains`]: which domains were proved to be an agent's;
//! - [`credentials`], [`outcomes`]: what the authority vouches for and takes back, and what came of relying on it;
//! - [`answer`]: signed answers to "should I go ahead?", and badges;
//! - [`responses`]: what is recorded and proved of the answers that left;
//! - [`times`]: entries that a wrong clock recorded in the future, and the way back;
//! - [`query`]: everything that is read for a person or an answer;
//! - [`integrity`]: nothing is signed on tables that differ from the entries;
//! - [`replay`], [`audit`]: everything rebuilt from seq 0 and compared.

pub mod admit;
pub mod age;
pub mod answer;
pub mod audit;
mod authority;
pub mod credentials;
pub mod derive;
pub mod domains;
pub mod due;
mod error;
pub mod filter;
pub mod integrity;
pub mod outcomes;
pub mod projection;
pub mod query;
pub mod receipts;
pub mod recompute;
pub mod record;
mod registry;
mod rejection;
pub mod replay;
pub mod reputation;
mod rescore;
pub mod responses;
pub mod schema;
pub mod score;
pub mod statements;
pub mod summaries;
pub(crate) mod tables;
pub mod times;

pub use authority::{Authority, Feed, SIGNALS_PER_BATCH, Settings};
pub use error::{Error, Result};
pub use registry::{NewAgent, NewSource, SourceChange};
pub use rejection::Rejection;
pub use tables::TABLES;
