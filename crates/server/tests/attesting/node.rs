//! What the tests need of a node, whatever chain it is of.

use credence_chain::{
    attest::Writer,
    solana::{FINAL_CONFIRMATIONS, Pubkey},
};
use credence_protocol::ExternalSubject;
use data_encoding::BASE64;

use crate::{
    solana_world::{self, World as SolanaWorld},
    world::{CONFIRMATIONS, World},
};

pub trait Node {
    fn chain_id(&self) -> String;
    fn any_writer(&self) -> Writer;
    /// Blocks after which a block stays.
    fn confirmations(&self) -> u64;
    fn register_agent(&self, n: u64);
    fn subject_of(&self, n: u64) -> ExternalSubject;
    /// Time passes on the chain: at least a block, less than what makes one final.
    fn pass(&self);
    /// Our feedback about an agent: value, and whether it is revoked.
    fn written(&self, n: u64) -> Vec<(i128, bool)>;
    /// The first 16 characters of the attesting key.
    fn secret(&self) -> &'static [u8];
}

impl Node for World {
    fn chain_id(&self) -> String {
        self.chain.caip2()
    }

    fn any_writer(&self) -> Writer {
        Writer::Evm(self.writer())
    }

    fn confirmations(&self) -> u64 {
        CONFIRMATIONS
    }

    fn register_agent(&self, _n: u64) {
        self.register(0, "");
    }

    fn subject_of(&self, n: u64) -> ExternalSubject {
        self.subject(n)
    }

    fn pass(&self) {
        self.anvil.mine(1);
    }

    fn written(&self, n: u64) -> Vec<(i128, bool)> {
        self.attested(n)
    }

    fn secret(&self) -> &'static [u8] {
        b"365820b3376c77da"
    }
}

/// The asset of an agent, and where the registry keeps it. The first vector is no key of anyone.
fn known(n: u64) -> (Pubkey, Pubkey) {
    let one = &solana_world::addresses()[usize::try_from(n).unwrap() + 1];
    (one["asset"].as_str().unwrap().parse().unwrap(), one["agent"][0].as_str().unwrap().parse().unwrap())
}

impl Node for SolanaWorld {
    fn chain_id(&self) -> String {
        self.chain.caip2().to_owned()
    }

    fn any_writer(&self) -> Writer {
        self.writer()
    }

    fn confirmations(&self) -> u64 {
        FINAL_CONFIRMATIONS
    }

    fn register_agent(&self, n: u64) {
        let (asset, account) = known(n);
        let data = solana_world::account_of(asset, "");
        self.cluster.ledger().accounts.insert(account, (self.chain.registry, data));
    }

    fn subject_of(&self, n: u64) -> ExternalSubject {
        ExternalSubject::parse(&format!("solana8004:{}", known(n).0)).unwrap()
    }

    fn pass(&self) {
        self.cluster.ledger().advance(8);
    }

    /// By what the registry logged: asset, client, index, slot, value.
    fn written(&self, n: u64) -> Vec<(i128, bool)> {
        let (ledger, (asset, _)) = (self.cluster.ledger(), known(n));
        let lines =
            ledger.landed.iter().flat_map(|one| &one.logs).filter_map(|line| line.strip_prefix("Program data: "));
        let events = lines.map(|line| BASE64.decode(line.as_bytes()).unwrap()).filter(|event| event[8..40] == asset.0);
        let read = |event: Vec<u8>| {
            let index = u64::from_le_bytes(event[72..80].try_into().unwrap());
            let revoked = ledger.revoked.iter().any(|(of, taken_back, _)| (*of, *taken_back) == (asset, index));
            (i128::from_le_bytes(event[88..104].try_into().unwrap()), revoked)
        };
        events.map(read).collect()
    }

    fn secret(&self) -> &'static [u8] {
        b"9d61b19deffd5a60"
    }
}
