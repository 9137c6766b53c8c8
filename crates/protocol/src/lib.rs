//! What a trust signal is and who may issue one (seed 4, "Anatomy of a signal"; DESIGN, *Signals*).
//!
//! - [`EntityId`] and [`Alias`]: who is spoken of, in one canonical form;
//! - [`SecretKey`], [`PublicKey`], [`KeyId`]: Ed25519, with JWK, `did:key` and key-id forms;
//! - [`canonical`]: RFC 8785 canonical JSON, the bytes that are signed and hashed;
//! - [`strict`]: JSON parsing that refuses what canonical JSON would merge or drop in silence;
//! - [`Signal`]: the signed measurement; [`Statement`]: any other signed [record](records);
//! - [`receipt`]: what a guard says of a tool call that happened;
//! - [`Decision`] and [`Stake`]: what to do with a tool's result, and how much depends on it; [`ScoreStatus`]: whether a
//!   score may be shown;
//! - [`TagRegistry`]: the closed registry of an open vocabulary.
//!
//! No I/O, no clock: key files, the environment and the time of day belong to the callers.
//!
//! ```
//! use credence_protocol::{SecretKey, Signal, SignalDraft};
//!
//! let key = SecretKey::generate()?;
//! let draft = SignalDraft::parse(br#"{
//!   "id": "01932c07-8f4b-7cc3-8a5e-0242ac120002", "agent": "weather-bot", "source": "uptime-lab",
//!   "tags": ["rel_uptime"], "value": 99.2, "stddev": 0.5, "observed_at": "2026-11-15T12:00:00Z"
//! }"#)?;
//! let signal: Signal = draft.sign(&key)?;
//! let received = Signal::parse(signal.canonical().as_bytes())?;
//! received.verify(&key.public())?;
//! # Ok::<(), credence_protocol::Error>(())
//! ```

mod alias;
mod audience;
pub mod canonical;
mod decision;
mod error;
mod external;
mod id;
pub mod jwk;
mod key;
pub mod limits;
mod link;
pub mod receipt;
pub mod records;
mod risk_band;
mod root;
pub mod schemas;
mod score_status;
mod signal;
mod stake;
mod statement;
pub mod strict;
mod tag;
mod text;
mod time;
pub mod waiting_review;

pub use alias::{Alias, plain_path};
pub use audience::Audience;
pub use canonical::Canonical;
pub use decision::Decision;
pub use error::Error;
pub use external::{ExternalSubject, SubjectKind};
pub use id::EntityId;
pub use key::{KeyId, PublicKey, SecretKey, Signature};
pub use link::{LinkProof, LinkStatement};
pub use risk_band::RiskBand;
pub use root::Root;
pub use score_status::ScoreStatus;
pub use signal::{Signal, SignalDraft, SignedTime, verify_batch};
pub use stake::Stake;
pub use statement::{Statement, StatementKind};
pub use tag::{Emitter, Tag, TagDefinition, TagRegistry, nearest};
pub use text::is_deceptive;
pub use time::Timestamp;
pub use uuid::Uuid;

/// The source under which everything the authority measures itself is counted.
pub const AUTHORITY_SOURCE: &str = "credence";
