//! One cluster with one agent and one attesting key.

use std::{fs, num::NonZeroU32, os::unix::fs::PermissionsExt};

use credence_chain::{
    Rpc,
    attest::{Attestation, Writer},
    solana::{Pubkey, SolanaChain, SolanaFees, SolanaKey, SolanaReader, SolanaWriter},
};
use credence_egress::{Egress, Rate, Settings};
use credence_protocol::ExternalSubject;
use serde_json::Value;

use crate::{cluster::Cluster, ledger::Ledger};

pub const NOW: u64 = 1_790_000_000;
/// A genesis hash of the tests' own; its first 32 characters name the chain.
pub const GENESIS: &str = "6L9HMNf97Xbq2MXWyjk1akUtqkAs9z7aKvd3UgjFwS6J";
pub const ASSET: Pubkey = Pubkey([17; 32]);
pub const OWNER: Pubkey = Pubkey([11; 32]);
pub const WALLET: Pubkey = Pubkey([12; 32]);
pub const COLLECTION: Pubkey = Pubkey([13; 32]);
const SEED: &str = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";

/// From whichever crate's tests these are part of.
const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../chain/testdata/solana.json");

pub struct World {
    pub cluster: Cluster,
    pub chain: SolanaChain,
    pub fees: SolanaFees,
}

/// What an agent's account holds.
pub fn agent_account(uri: &str) -> Vec<u8> {
    account_of(ASSET, uri)
}

/// The same for any asset.
pub fn account_of(asset: Pubkey, uri: &str) -> Vec<u8> {
    let mut data = vec![0xf1, 0x77, 0x45, 0x8c, 0xe9, 0x09, 0x70, 0x32];
    for key in [COLLECTION, Pubkey([14; 32]), OWNER, asset] {
        data.extend(key.0);
    }
    data.extend([254, 1, 1]);
    data.extend(WALLET.0);
    for count in [3_u64, 2, 1] {
        data.extend([0x55; 32]);
        data.extend(count.to_le_bytes());
    }
    data.extend([0, 0, 0]);
    for text in [uri, "Agent #7", ""] {
        data.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
        data.extend(text.as_bytes());
    }
    data.resize(748, 0);
    data
}

/// What ATOM holds of the agent: every byte is set, those that are read within their range.
pub fn atom_stats(quality: u16, confidence: u16, feedbacks: u64) -> Vec<u8> {
    let mut data: Vec<u8> = (0..561_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    data[..8].copy_from_slice(&[0xbe, 0xbb, 0x32, 0x3b, 0xcb, 0x27, 0x88, 0xf4]);
    data[40..72].copy_from_slice(&ASSET.0);
    data[88..96].copy_from_slice(&feedbacks.to_le_bytes());
    data[547..549].copy_from_slice(&quality.to_le_bytes());
    data[549..551].copy_from_slice(&[17, 201]);
    data[555] = 3;
    data[557..559].copy_from_slice(&confidence.to_le_bytes());
    data[560] = 1;
    data
}

/// Assets and the addresses that belong to them, from the vectors of the registry's client.
pub fn addresses() -> Vec<Value> {
    let vectors: Value = serde_json::from_slice(&fs::read(VECTORS).unwrap()).unwrap();
    let known = vectors["addresses"].as_array().unwrap().iter().cloned();
    known.filter(|one| one["registry"] == "8oo4J9tBB3Hna1jRQ3rWvJjojqM5DYTDJo5cejUuJy3C").collect()
}

/// Where a program keeps an account of the agent's.
pub fn address(name: &str) -> Pubkey {
    let known = addresses().into_iter().find(|one| one["asset"] == ASSET.to_string()).unwrap();
    known[name][0].as_str().unwrap().parse().unwrap()
}

impl World {
    pub async fn start() -> Self {
        let chain = SolanaChain::new(&format!("solana:{}", &GENESIS[..32])).unwrap();
        let mut ledger = Ledger::new(&chain, GENESIS, NOW);
        ledger.accounts.insert(address("agent"), (chain.registry, agent_account("")));
        ledger.accounts.insert(address("stats"), (chain.atom, atom_stats(7_250, 6_500, 41)));
        ledger.balances.insert(key().address(), 1_000_000_000);
        Self { cluster: Cluster::start(ledger).await, chain, fees: SolanaFees::default() }
    }

    pub fn rpc(&self) -> Rpc {
        rpc(&self.cluster.url)
    }

    pub fn reader(&self) -> SolanaReader {
        SolanaReader::new(self.rpc(), self.chain.clone())
    }

    pub fn writer(&self) -> Writer {
        Writer::Solana(SolanaWriter::new(self.rpc(), self.chain.clone(), key(), self.fees))
    }

    pub fn attestation(&self, value: i64) -> Attestation {
        Attestation {
            subject: subject(),
            value,
            decimals: 2,
            tag1: "credence".into(),
            tag2: "uts/2".into(),
            endpoint: "https://agent.example/mcp".into(),
            uri: format!("https://authority.example/scores/{value}"),
            document: format!("{value:064x}"),
        }
    }
}

pub fn rpc(url: &str) -> Rpc {
    let many = NonZeroU32::new(100_000).unwrap();
    let rate = Rate { per_second: many, burst: many };
    let egress = Egress::new(Settings { loopback: true, rate, ..Settings::for_purpose("test") }).unwrap();
    Rpc::new(egress, url.parse().unwrap(), None)
}

pub fn subject() -> ExternalSubject {
    ExternalSubject::parse(&format!("solana8004:{ASSET}")).unwrap()
}

pub fn key() -> SolanaKey {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("attest.key");
    fs::write(&path, SEED).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    SolanaKey::from_file(&path).unwrap()
}

/// Everyone on this machine is proven, nobody else.
pub fn local(host: &str) -> bool {
    host.starts_with("127.0.0.1:")
}
