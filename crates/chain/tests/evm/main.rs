//! ERC-8004 on a real node: what is read, what is written, and what a node can do wrong.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests: a failing unwrap is how a test says no")]

mod hostile;
mod load;
mod reading;
mod recovery;
mod web;
mod world;
mod writing;
