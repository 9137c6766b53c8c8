//! What a transaction wrote, read back to check an attestation: from any node, without the key that wrote it.

use credence_protocol::ExternalSubject;

use crate::{ChainError, Rpc, evm, solana};

/// A feedback as it stands on a chain. Texts in it are the writer's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The chain, as a CAIP-2 id.
    pub chain: String,
    /// The reputation registry, in lower case; on Solana the registry's program.
    pub registry: String,
    /// The registration that it is about.
    pub subject: ExternalSubject,
    /// Who wrote it: an address as the chain writes it, of EVM chains in lower case.
    pub by: String,
    /// Its index among those of the same writer about the same registration.
    pub index: u64,
    /// The value times 10^decimals.
    pub value: i128,
    /// Decimals of the value.
    pub decimals: u8,
    /// The tags.
    pub tags: [String; 2],
    /// Where its document is said to be.
    pub uri: String,
    /// The hash of its document, lower-case hex without 0x.
    pub document: String,
    /// The block that it is in; on Solana its slot.
    pub block: u64,
    /// Blocks from that one to the newest, both counted.
    pub confirmations: u64,
    /// Whether it was taken back.
    pub revoked: bool,
    /// On Solana, the two SEAL v1 hashes that have to be one.
    pub seal: Option<Seal>,
}

/// A SEAL v1 hash, in lower-case hex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal {
    /// What the registry logged.
    pub logged: String,
    /// What the content of the transaction comes to.
    pub computed: String,
}

impl Written {
    /// The feedback that a transaction wrote: `0x` and 64 hexadecimal digits on an EVM chain, 64 bytes in base58 on Solana. `registry`: the
    /// registry, where it is not at its well-known address; others count for nothing, because anyone can write such a program.
    pub async fn by_transaction(rpc: &Rpc, registry: Option<&str>, transaction: &str) -> Result<Self, ChainError> {
        if transaction.starts_with("0x") {
            return evm::written(rpc, registry, transaction).await;
        }
        solana::written(rpc, registry, transaction).await
    }
}
