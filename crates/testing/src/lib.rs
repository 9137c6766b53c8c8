//! What tests share.
//!
//! Without features: [`eventually`] and [`until`] wait for a condition, [`shared`] reads data that is not ours to ship, [`installed`]
//! finds other people's programs. With feature `binary`: [`Shell`] runs the built `credence`, [`Service`] is a running authority, `peers` are other people's MCP
//! clients and servers, [`independent`] is a verifier that shares no code with us. With feature `fleet`: simulated agents whose
//! behaviour is known (`fleet`). With feature `evm`: [`Anvil`] is a real EVM node with the test contracts.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests: a failing unwrap is how a test says no")]

mod installed;
mod shared_data;
mod vectors;
mod wait;
pub mod watched;

#[cfg(feature = "evm")]
mod anvil;
#[cfg(feature = "binary")]
mod binary;
#[cfg(feature = "fleet")]
pub mod fleet;
#[cfg(feature = "binary")]
mod independent;
#[cfg(feature = "binary")]
pub mod peers;
#[cfg(feature = "binary")]
mod service;
#[cfg(feature = "binary")]
mod shell;

use std::path::Path;

pub use installed::installed;
pub use shared_data::shared;
pub use vectors::assert_vector;
pub use wait::{PATIENCE, eventually, until, within};

#[cfg(feature = "evm")]
pub use anvil::Anvil;
#[cfg(feature = "binary")]
pub use binary::binary;
#[cfg(feature = "binary")]
pub use independent::independent;
#[cfg(feature = "binary")]
pub use service::{Reply, Service, read_request, signal};
#[cfg(feature = "binary")]
pub use shell::{ORIGIN, Ran, Shell, authority, draft, key, now, signed};

/// The project's folder, seen from where cargo runs a crate's tests. Relative: a path compiled in would outlive a move of the
/// checkout.
pub fn project_root() -> &'static Path {
    Path::new("../..")
}
