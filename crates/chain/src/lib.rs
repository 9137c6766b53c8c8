//! On-chain agent registries: what they say comes in as readings, the assured score goes out as feedback (DESIGN, *Chains*).
//!
//! - [`attest`]: what is written, and the one interface for writing it;
//! - [`config`]: which chains, nodes and keys, as the operator configured them;
//! - [`reading`]: what a registry says about one agent at one block;
//! - [`evm`]: ERC-8004 on chains of the Ethereum kind;
//! - [`solana`]: the 8004 registry and ATOM on Solana;
//! - [`Written`]: what a transaction wrote, for checking.
//!
//! Requests to nodes go through `credence-egress`, so private addresses are refused unless the operator allows loopback. The caller
//! keeps what has to survive a crash: this crate stores nothing and has no clock.
#![forbid(unsafe_code)]

pub mod attest;
pub mod config;
mod error;
pub mod evm;
mod key_file;
pub mod reading;
mod registration;
mod rpc;
pub mod solana;
mod written;

pub use config::{ChainConfig, ConfigError};
pub use error::ChainError;
pub use registration::Hosts;
pub use rpc::Rpc;
pub use written::{Seal, Written};
