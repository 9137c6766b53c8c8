//! `credence` as a user runs it: the real binary, real files.
#![allow(clippy::unwrap_used, missing_docs, reason = "helpers of tests: a failing unwrap is how a test says no")]

mod answers;
#[cfg(feature = "chain")]
mod attest;
mod audience;
mod bad_input;
#[cfg(feature = "chain")]
mod chain;
mod compute;
mod crawl;
mod demo;
mod judge;
mod kill;
mod network;
mod offline;
mod outside;
mod probe;
mod reports;
#[cfg(feature = "chain")]
mod solana;
mod tour;

#[cfg(feature = "chain")]
#[allow(dead_code, reason = "shared with the tests of the chain library")]
#[path = "../../../chain/tests/solana/cluster.rs"]
mod cluster;
#[cfg(feature = "chain")]
#[allow(dead_code, reason = "shared with the tests of the chain library")]
#[path = "../../../chain/tests/solana/ledger.rs"]
mod ledger;
