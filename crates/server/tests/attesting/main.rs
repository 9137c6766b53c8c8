//! Scores written to a real EVM node, and to a Solana node of the tests' own: exactly one attestation on the chain, whatever happens.
#![cfg(feature = "chain")]
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "a failing unwrap is how a test says no")]

mod crashes;
mod hostile;
mod house;
mod load;
mod node;
mod rule;
mod solana;
mod validation;
mod writing;

#[allow(dead_code, reason = "shared with the tests of the chain library")]
#[path = "../../../chain/tests/evm/world.rs"]
mod world;

#[allow(dead_code, reason = "shared with the tests of the chain library")]
#[path = "../../../chain/tests/solana/cluster.rs"]
mod cluster;
#[allow(dead_code, reason = "shared with the tests of the chain library")]
#[path = "../../../chain/tests/solana/ledger.rs"]
mod ledger;
#[allow(dead_code, reason = "shared with the tests of the chain library")]
#[path = "../../../chain/tests/solana/world.rs"]
mod solana_world;
