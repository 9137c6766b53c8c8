//! A cluster with its registry: which one, and where its programs are.

use credence_protocol::{ExternalSubject, SubjectKind};
use url::Url;

use super::Pubkey;
use crate::ChainError;

/// The first 32 characters of the genesis hash, as CAIP-2 has it.
const MAINNET: &str = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp";
const REFERENCE_CHARS: usize = 32;
/// The main cluster, as a CAIP-2 id. Links to registrations are proved there alone.
pub const MAIN_CLUSTER: &str = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp";
const MAINNET_REGISTRY: Pubkey = Pubkey::known("8oo4dC4JvBLwy5tGgiH3WwK4B9PWxL9Z4XjA2jzkQMbQ");
const MAINNET_ATOM: Pubkey = Pubkey::known("AToMw53aiPQ8j7iHVb4fGt6nzUNxUhcPc3tbPBZuzVVb");
/// Also the default of the registry's client for clusters of one's own.
const DEVNET_REGISTRY: Pubkey = Pubkey::known("8oo4J9tBB3Hna1jRQ3rWvJjojqM5DYTDJo5cejUuJy3C");
const DEVNET_ATOM: Pubkey = Pubkey::known("AToMufS4QD6hEXvcvBDg9m1AHeCLpmZQsyfYa5h9MwAF");

/// Which cluster, which programs, and how they are read.
#[derive(Debug, Clone)]
pub struct SolanaChain {
    /// The chain, as a CAIP-2 id.
    caip2: String,
    /// The agent registry.
    pub registry: Pubkey,
    /// The ATOM engine.
    pub atom: Pubkey,
    /// The newest final block may be so old, in seconds.
    pub max_head_age: u64,
    /// Where `ipfs://` files are read, such as `https://ipfs.example/`. Without it they are not.
    pub ipfs_gateway: Option<Url>,
}

impl SolanaChain {
    /// The cluster with a CAIP-2 id, `solana:` and the first 32 characters of its genesis hash, and the well-known programs.
    pub fn new(caip2: &str) -> Result<Self, ChainError> {
        let reference = caip2.strip_prefix("solana:").unwrap_or_default();
        let base58 = bs58::decode(reference).into_vec().is_ok();
        if reference.len() != REFERENCE_CHARS || !base58 {
            let why = "a Solana chain is written solana: and the first 32 characters of its genesis hash";
            return Err(ChainError::OtherRegistry(why.into()));
        }
        let (registry, atom) =
            if reference == MAINNET { (MAINNET_REGISTRY, MAINNET_ATOM) } else { (DEVNET_REGISTRY, DEVNET_ATOM) };
        Ok(Self { caip2: caip2.to_owned(), registry, atom, max_head_age: 600, ipfs_gateway: None })
    }

    /// `solana:REFERENCE`.
    pub fn caip2(&self) -> &str {
        &self.caip2
    }

    /// The root of what is measured here, `solana8004:solana:REFERENCE`.
    pub fn root(&self) -> String {
        format!("solana8004:{}", self.caip2)
    }

    /// The agent's asset, if the subject is a registration on Solana.
    pub fn asset(&self, subject: &ExternalSubject) -> Result<Pubkey, ChainError> {
        if subject.kind() != SubjectKind::Solana8004 {
            return Err(ChainError::OtherRegistry(format!("{} is no Solana 8004 registration", subject.as_str())));
        }
        subject.id().parse()
    }

    /// The registration's CAIP id, as registration files spell it: `solana:REFERENCE:REGISTRY/ASSET`.
    pub fn registration(&self, asset: Pubkey) -> String {
        format!("{}:{}/{asset}", self.caip2, self.registry)
    }

    /// The CAIP-2 id that belongs to a genesis hash.
    pub(super) fn of_genesis(hash: &str) -> String {
        format!("solana:{}", hash.chars().take(REFERENCE_CHARS).collect::<String>())
    }

    /// Where the registry keeps an agent.
    pub(super) fn agent_address(&self, asset: Pubkey) -> Result<Pubkey, ChainError> {
        Pubkey::derived(&[b"agent", &asset.0], self.registry).map(|(address, _)| address)
    }

    /// Where ATOM keeps an agent's statistics.
    pub(super) fn stats_address(&self, asset: Pubkey) -> Result<Pubkey, ChainError> {
        Pubkey::derived(&[b"atom_stats", &asset.0], self.atom).map(|(address, _)| address)
    }

    /// Where ATOM keeps its settings.
    pub(super) fn atom_config_address(&self) -> Result<Pubkey, ChainError> {
        Pubkey::derived(&[b"atom_config"], self.atom).map(|(address, _)| address)
    }

    /// As whom the registry calls ATOM.
    pub(super) fn authority_address(&self) -> Result<Pubkey, ChainError> {
        Pubkey::derived(&[b"atom_cpi_authority"], self.registry).map(|(address, _)| address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_named_by_their_genesis() {
        let mainnet = SolanaChain::new(MAIN_CLUSTER).unwrap();
        assert_eq!(mainnet.caip2(), format!("solana:{MAINNET}"));
        assert_eq!(mainnet.registry.to_string(), "8oo4dC4JvBLwy5tGgiH3WwK4B9PWxL9Z4XjA2jzkQMbQ");
        assert_eq!(mainnet.root(), "solana8004:solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp");
        let genesis = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d";
        assert_eq!(SolanaChain::of_genesis(genesis), mainnet.caip2());
        let devnet = SolanaChain::new("solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1").unwrap();
        assert_eq!(devnet.atom, DEVNET_ATOM);
        for bad in ["", "solana:", "solana:mainnet", "eip155:8453", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvd0", genesis]
        {
            assert_eq!(SolanaChain::new(bad).unwrap_err().reason(), "other_registry", "{bad}");
        }
    }

    #[test]
    fn subjects_are_assets() {
        let chain = SolanaChain::new("solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1").unwrap();
        let asset = Pubkey([7; 32]);
        let subject = ExternalSubject::parse(&format!("solana8004:{asset}")).unwrap();
        assert_eq!(chain.asset(&subject), Ok(asset));
        let own = format!("solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1:{DEVNET_REGISTRY}/{asset}");
        assert_eq!(chain.registration(asset), own);
        let other = ExternalSubject::parse("host:shop.example").unwrap();
        assert_eq!(chain.asset(&other).unwrap_err().reason(), "other_registry");
    }
}
