//! `credence` as a user runs it: the real binary, real files.
#![allow(clippy::unwrap_used, missing_docs, reason = "helpers of tests: a failing unwrap is how a test says no")]

mod answers;
mod audience;
mod bad_input;
mod compute;
mod demo;
mod judge;
mod kill;
mod network;
mod offline;
mod tour;
