//! ERC-8004 on chains of the Ethereum kind.
//!
//! - [`EvmChain`]: which chain and contracts; [`Rpc`]: the node;
//! - [`EvmReader`]: registrations and feedback at one finalized block; [`LogBook`]: what only logs tell, for all agents;
//! - [`EvmWriter`]: feedback of our own, with [`EvmKey`] and [`FeePolicy`].

#[expect(clippy::too_many_arguments, reason = "an event has as many members as the contract says")]
mod abi;
mod blocks;
mod chain;
mod continuity;
mod feedback;
mod fees;
mod find;
mod key;
mod logs;
mod payments;
mod raters;
mod read;
mod rpc;
mod state;
mod writer;
mod written;

pub use crate::{registration::Hosts, rpc::Rpc};
pub use blocks::Head;
pub use chain::EvmChain;
pub use fees::FeePolicy;
pub use key::EvmKey;
pub use logs::LogBook;
pub use read::EvmReader;
pub(crate) use rpc::revert_reason;
pub use writer::EvmWriter;
pub(crate) use written::by_transaction as written;
