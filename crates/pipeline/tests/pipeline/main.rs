//! The pipeline seen from outside, on a real ledger in a temporary folder.

mod admission;
mod audit;
mod common;
mod properties;
mod scale;
