//! What leaves the authority, signed so that it needs no trust in the way it came (seeds 3 and 4; DESIGN, *Assessment*).
//!
//! - [`document`]: a JSON body with `kid` and `signature`: canonical JSON, raw Ed25519, base64url;
//! - [`response`]: the trust-signals response: facts, and the assessment apart from them;
//! - [`credential`]: W3C Verifiable Credentials 2.0 with `eddsa-jcs-2022` proofs;
//! - [`status_list`]: which credentials were revoked, as a BitstringStatusList;
//! - [`report`]: a published report on an agent;
//! - [`attestation`]: the score document whose hash is written to a chain;
//! - [`badge`]: an SVG that carries its own signed claim;
//! - [`did`]: the issuer's DID document.
//!
//! No I/O, no clock.

pub mod attestation;
pub mod badge;
pub mod credential;
pub mod did;
pub mod document;
mod error;
pub mod report;
pub mod response;
pub mod status_list;

pub use error::Error;
