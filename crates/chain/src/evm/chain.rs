//! Which chain, and which contracts on it.

use alloy_primitives::{Address, U256, address};
use credence_protocol::{ExternalSubject, SubjectKind};
use url::Url;

use crate::ChainError;

/// The registries have the same addresses on every main chain (erc-8004-contracts, README).
const MAIN_IDENTITY: Address = address!("8004A169FB4a3325136EB29fA0ceB6D2e539a432");
const MAIN_REPUTATION: Address = address!("8004BAa17C55a88189AE136b182e5fdA19dE9b63");
const TEST_IDENTITY: Address = address!("8004A818BFB912233c491871b3d84c89A494BD9e");
const TEST_REPUTATION: Address = address!("8004B663056A597Dffe9eCcC1965A193B7388713");
/// Chains for trying things out.
const TEST_CHAINS: [u64; 4] = [11_155_111, 84_532, 11_155_420, 97];
/// Rollups on the OP stack, where a transaction also pays for its data on the chain below, and the contract that says how much.
const OP_CHAINS: [u64; 4] = [10, 8_453, 84_532, 11_155_420];
const OP_ORACLE: Address = address!("420000000000000000000000000000000000000F");

/// Which chain, which contracts, and how they are read.
#[derive(Debug, Clone)]
pub struct EvmChain {
    /// The chain's id, such as 8453.
    pub id: u64,
    /// The identity registry.
    pub identity: Address,
    /// The reputation registry.
    pub reputation: Address,
    /// The validation registry. None is deployed anywhere yet, so there is no default.
    pub validation: Option<Address>,
    /// What tells the fee for data, on rollups that take one.
    pub data_fee_oracle: Option<Address>,
    /// Blocks under the newest at which a block counts as final, for nodes that do not know `finalized`, and after which another
    /// transaction with our nonce is taken as a fact.
    pub confirmations: u64,
    /// The block in which the registries were created: logs start there.
    pub first_block: u64,
    /// Blocks in one request for logs, at most. Halved where the node refuses.
    pub log_range: u64,
    /// The newest block may be so old, in seconds.
    pub max_head_age: u64,
    /// Our own attesting addresses: their feedback is never read.
    pub own: Vec<Address>,
    /// Tokens in which a payment counts as proof, such as USDC. Empty: only the chain's own coin.
    pub payment_tokens: Vec<Address>,
    /// Where `ipfs://` files are read, such as `https://ipfs.example/`. Without it they are not.
    pub ipfs_gateway: Option<Url>,
}

impl EvmChain {
    /// A chain with the registries at their well-known addresses.
    pub fn new(id: u64) -> Self {
        let test = TEST_CHAINS.contains(&id);
        Self {
            id,
            identity: if test { TEST_IDENTITY } else { MAIN_IDENTITY },
            reputation: if test { TEST_REPUTATION } else { MAIN_REPUTATION },
            validation: None,
            data_fee_oracle: OP_CHAINS.contains(&id).then_some(OP_ORACLE),
            confirmations: 12,
            first_block: 0,
            log_range: 10_000,
            max_head_age: 3600,
            own: Vec::new(),
            payment_tokens: Vec::new(),
            ipfs_gateway: None,
        }
    }

    /// `eip155:ID`.
    pub fn caip2(&self) -> String {
        format!("eip155:{}", self.id)
    }

    /// The root of what is measured here, `erc8004:eip155:ID`.
    pub fn root(&self) -> String {
        format!("erc8004:{}", self.caip2())
    }

    /// The registration with an id.
    pub(super) fn subject(&self, agent: U256) -> Option<ExternalSubject> {
        ExternalSubject::parse(&format!("erc8004:{}:{}/{agent}", self.caip2(), lower(self.identity))).ok()
    }

    /// The agent's id, if the subject is a registration of this chain's registry.
    pub fn agent_id(&self, subject: &ExternalSubject) -> Result<U256, ChainError> {
        let other = |why: String| Err(ChainError::OtherRegistry(why));
        if subject.kind() != SubjectKind::Erc8004 {
            return other(format!("{} is no ERC-8004 registration", subject.as_str()));
        }
        let registry = format!("{}:{}/", self.caip2(), lower(self.identity));
        let Some(id) = subject.id().strip_prefix(&registry) else {
            return other(format!("{} is in another registry than {registry}", subject.as_str()));
        };
        U256::from_str_radix(id, 10).or_else(|_| other(format!("{} has no id of 256 bits", subject.as_str())))
    }
}

/// An address in lower case, as subjects spell it.
pub(super) fn lower(address: Address) -> String {
    format!("{address:#x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_of_one_chain_and_registry() {
        let chain = EvmChain::new(8453);
        let id = |text: &str| chain.agent_id(&ExternalSubject::parse(text).unwrap());
        let registry = "0x8004A169FB4a3325136EB29fA0ceB6D2e539a432";
        assert_eq!(id(&format!("erc8004:eip155:8453:{registry}/22")), Ok(U256::from(22)));
        assert_eq!(chain.root(), "erc8004:eip155:8453");
        for other in [
            format!("erc8004:eip155:1:{registry}/22"),
            "erc8004:eip155:8453:0x8004A818BFB912233c491871b3d84c89A494BD9e/22".into(),
            format!("wallet:eip155:8453:{registry}"),
        ] {
            assert_eq!(id(&other).unwrap_err().reason(), "other_registry", "{other}");
        }
        assert!(chain.data_fee_oracle.is_some());
        assert!(EvmChain::new(1).data_fee_oracle.is_none());
    }
}
