//! Scores written to a real EVM node: exactly one attestation on the chain, whatever happens.
#![cfg(feature = "chain")]
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "a failing unwrap is how a test says no")]

mod crashes;
mod hostile;
mod house;
mod rule;
mod writing;

#[allow(dead_code, reason = "shared with the tests of the chain library")]
#[path = "../../../chain/tests/evm/world.rs"]
mod world;
