//! Sensors: what we see for ourselves of what a target does.
//!
//! - [`honey`]: tools that we serve, whose calls we count and time;
//! - [`listener`]: URLs that only one trial knows, and who fetches them;
//! - [`mount`]: honey tools as an MCP server that the operator mounts into the agent;
//! - [`canary`]: values that the target computes and that we never send;
//! - [`wording`]: what the target says it did or did not do, which is shown and never makes an attack take effect.

pub mod canary;
pub mod honey;
pub mod listener;
pub mod mount;
pub(crate) mod patterns;
pub mod wording;
