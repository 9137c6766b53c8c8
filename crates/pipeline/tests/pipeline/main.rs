//! The pipeline seen from outside, on a real ledger in a temporary folder.
#![allow(clippy::unwrap_used, missing_docs, reason = "helpers of tests: a failing unwrap is how a test says no")]

mod admission;
mod assured;
mod attacks;
mod attestations;
mod audit;
mod common;
mod entries;
mod integrity;
mod links;
mod names;
mod probes;
mod properties;
mod reads;
mod receipts;
mod registrations;
mod reports;
mod responses;
mod revocations;
mod scale;
mod statements;
mod store_calls;
mod summaries;
mod tables;
mod times;
