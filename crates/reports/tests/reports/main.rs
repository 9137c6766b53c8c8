//! Reports as their drafters, reviewers and readers see them.
#![allow(clippy::unwrap_used, missing_docs, reason = "helpers of tests: a failing unwrap is how a test says no")]

mod common;
mod contents;
mod decisions;
mod tampering;
