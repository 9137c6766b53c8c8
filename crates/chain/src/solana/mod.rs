//! The 8004 registry and ATOM on Solana, over JSON-RPC alone.
//!
//! - [`SolanaChain`]: which cluster and programs;
//! - [`SolanaReader`]: registration and reputation at one final slot, from [`AgentAccount`] and [`AtomStats`];
//! - [`SolanaWriter`]: feedback of our own, with [`SolanaKey`] and [`SolanaFees`];
//! - [`seal`]: SEAL v1, the hashes by which feedback is recognised.

mod accounts;
mod bytes;
mod chain;
mod find;
mod instruction;
mod key;
mod landed;
mod message;
mod node;
mod pubkey;
mod read;
pub mod seal;
mod state;
mod writer;
mod written;

pub use accounts::{AgentAccount, AtomStats};
pub use chain::{MAIN_CLUSTER, SolanaChain};
pub use key::SolanaKey;
pub(crate) use node::{is_behind, preflight_reason};
pub use pubkey::Pubkey;
pub use read::{SolanaHead, SolanaReader};
pub use state::FINAL_CONFIRMATIONS;
pub use writer::{SolanaFees, SolanaWriter};
pub(crate) use written::by_transaction as written;
