//! Solana's 8004 registry on a cluster of the tests' own: what is read, what is written, and what a node can do wrong.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests: a failing unwrap is how a test says no")]

mod checking;
mod cluster;
mod hostile;
mod ledger;
mod peers;
mod reading;
mod world;
mod writing;
