//! `credence serve` and `credence mcp` as their clients see them: the real process, real sockets and pipes.
#![allow(clippy::unwrap_used, missing_docs, reason = "helpers of tests: a failing unwrap is how a test says no")]

mod answers;
mod bad_input;
mod browser;
mod credentials;
mod cross_site;
mod description;
mod disk;
mod domains;
mod identity;
mod life;
mod limits;
mod mcp;
mod pages;
mod probes;
mod receipts;
mod reports;
mod verification;
