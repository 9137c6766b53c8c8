//! A chain as small as the tests need: accounts, transactions in slots, and the registry's two calls. It reads transactions with code of
//! its own.
//!
//! A transaction is processed in the newest slot, confirmed under one more and final under 32. Slots run 1,000 ahead of block heights.

use std::collections::BTreeMap;

use alloy_primitives::{B256, hex, keccak256};
use credence_chain::solana::{
    Pubkey, SolanaChain,
    seal::{Content, Encoding},
};
use data_encoding::BASE64;
use ed25519_dalek::{Signature, VerifyingKey};
use serde_json::{Value, json};

pub const FEE: u64 = 5_000;
pub const RESERVE: u64 = 890_880;
const VALID_BLOCKS: u64 = 150;
const SKIPPED_SLOTS: u64 = 1_000;
const FINAL_DEPTH: u64 = 32;

#[derive(Clone)]
pub struct Transaction {
    pub id: String,
    pub bytes: Vec<u8>,
    pub keys: Vec<Pubkey>,
    pub blockhash: String,
    pub slot: u64,
    pub err: Value,
    pub logs: Vec<String>,
}

pub struct Ledger {
    pub genesis: String,
    pub slot: u64,
    pub now: u64,
    pub fee: u64,
    pub accounts: BTreeMap<Pubkey, (Pubkey, Vec<u8>)>,
    pub balances: BTreeMap<Pubkey, u64>,
    pub pool: Vec<Transaction>,
    pub landed: Vec<Transaction>,
    /// Why transactions fail, if they do.
    pub failure: Value,
    /// How many feedbacks, by the agent's account.
    pub feedback: BTreeMap<Pubkey, u64>,
    pub revoked: Vec<(Pubkey, u64, String)>,
    registry: Pubkey,
}

/// The hash of a slot's block.
pub fn blockhash(slot: u64) -> String {
    Pubkey(keccak256(slot.to_le_bytes()).0).to_string()
}

fn short(data: &mut &[u8]) -> usize {
    let mut length = 0;
    for shift in 0.. {
        let byte = take(data, 1)[0];
        length |= usize::from(byte & 127) << (7 * shift);
        if byte < 128 {
            break;
        }
    }
    length
}

fn take<'a>(data: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = data.split_at(length);
    *data = rest;
    taken
}

fn key(bytes: &[u8]) -> Pubkey {
    Pubkey(bytes.try_into().unwrap())
}

impl Ledger {
    pub fn new(chain: &SolanaChain, genesis: &str, now: u64) -> Self {
        Self {
            genesis: genesis.to_owned(),
            slot: 2_000,
            now,
            fee: FEE,
            accounts: BTreeMap::new(),
            balances: BTreeMap::new(),
            pool: Vec::new(),
            landed: Vec::new(),
            failure: Value::Null,
            feedback: BTreeMap::new(),
            revoked: Vec::new(),
            registry: chain.registry,
        }
    }

    pub fn height(&self) -> u64 {
        self.slot - SKIPPED_SLOTS
    }

    fn slot_at(&self, commitment: &str) -> u64 {
        match commitment {
            "finalized" => self.slot - FINAL_DEPTH,
            "confirmed" => self.slot - 1,
            _ => self.slot,
        }
    }

    /// Blocks pass. The first of them takes what was sent and is still valid.
    pub fn advance(&mut self, slots: u64) {
        for _ in 0..slots {
            self.slot += 1;
            for transaction in std::mem::take(&mut self.pool) {
                if self.is_recent(&transaction.blockhash) {
                    self.include(transaction);
                }
            }
        }
    }

    /// Whether a blockhash is of one of the last 150 blocks.
    fn is_recent(&self, hash: &str) -> bool {
        (self.slot.saturating_sub(VALID_BLOCKS)..=self.slot).any(|slot| blockhash(slot) == hash)
    }

    fn include(&mut self, mut transaction: Transaction) {
        transaction.slot = self.slot;
        transaction.err = self.failure.clone();
        *self.balances.entry(transaction.keys[0]).or_default() -= self.fee;
        if transaction.err.is_null() {
            for (program, accounts, data) in calls(&transaction) {
                if program == self.registry {
                    transaction.logs.extend(self.call(&accounts, &data));
                }
            }
        }
        self.landed.push(transaction);
    }

    fn call(&mut self, accounts: &[Pubkey], mut data: &[u8]) -> Option<String> {
        let (client, agent, asset) = (accounts[0], accounts[1], accounts[2]);
        let data = &mut data;
        match take(data, 8) {
            [145, ..] => {
                let value = i128::from_le_bytes(take(data, 16).try_into().unwrap());
                let decimals = take(data, 1)[0];
                assert_eq!(take(data, 1), [0], "feedback of ours has no score");
                assert_eq!(take(data, 1), [1]);
                let file = B256::from_slice(take(data, 32));
                let mut text = || {
                    let length = u32::from_le_bytes(take(data, 4).try_into().unwrap());
                    std::str::from_utf8(take(data, length as usize)).unwrap()
                };
                let (tag1, tag2, endpoint, uri) = (text(), text(), text(), text());
                let content = Content { value, decimals, score: None, file: Some(file), tag1, tag2, endpoint, uri };
                let index = self.feedback.entry(agent).or_default();
                let mut event = vec![14, 162, 58, 194, 131, 42, 11, 149];
                event.extend(asset.0);
                event.extend(client.0);
                event.extend(index.to_le_bytes());
                event.extend(self.slot.to_le_bytes());
                event.extend(value.to_le_bytes());
                event.extend([decimals, 0, 1]);
                event.extend(file.0);
                event.extend(content.seal(Encoding::I128).unwrap().0);
                *index += 1;
                Some(format!("Program data: {}", BASE64.encode(&event)))
            }
            [211, ..] => {
                let index = u64::from_le_bytes(take(data, 8).try_into().unwrap());
                self.revoked.push((asset, index, hex::encode(take(data, 32))));
                None
            }
            other => panic!("{other:?}"),
        }
    }

    /// What a node answers to one request.
    pub fn answer(&mut self, method: &str, params: &Value) -> Result<Value, (i64, Value)> {
        let options = params.as_array().and_then(|params| params.last()).cloned().unwrap_or_default();
        let commitment = options["commitment"].as_str().unwrap_or("finalized").to_owned();
        let slot = self.slot_at(&commitment);
        let at = |value: Value| Ok(json!({"context": {"slot": slot, "apiVersion": "3.0.0"}, "value": value}));
        let address = || params[0].as_str().unwrap().parse::<Pubkey>().unwrap();
        match method {
            "getGenesisHash" => Ok(json!(self.genesis)),
            "getLatestBlockhash" => {
                let last = slot - SKIPPED_SLOTS + VALID_BLOCKS;
                at(json!({"blockhash": blockhash(slot), "lastValidBlockHeight": last}))
            }
            "getBlockTime" => Ok(json!(self.now - 2 * (self.slot - params[0].as_u64().unwrap()) / 5)),
            "getBlock" => Ok(json!({"blockhash": blockhash(params[0].as_u64().unwrap())})),
            "getEpochInfo" => Ok(json!({"absoluteSlot": slot, "blockHeight": slot - SKIPPED_SLOTS, "epoch": 0})),
            "getMultipleAccounts" => {
                let keys: Vec<Pubkey> = serde_json::from_value(params[0].clone()).unwrap();
                at(keys.iter().map(|key| self.account(key)).collect())
            }
            "getProgramAccounts" => Ok(self.program_accounts(address(), &options["filters"])),
            "getAccountInfo" => at(self.account(&address())),
            "getBalance" => at(json!(self.balances.get(&address()).copied().unwrap_or_default())),
            "getMinimumBalanceForRentExemption" => Ok(json!(RESERVE)),
            "getFeeForMessage" => at(json!(self.fee)),
            "simulateTransaction" => at(json!({"err": self.failure, "logs": []})),
            "sendTransaction" => self.send(params[0].as_str().unwrap()),
            "getSignatureStatuses" => {
                let found = self.landed.iter().find(|one| json!(one.id) == params[0][0]);
                let status = found.map(|one| {
                    json!({"slot": one.slot, "confirmations": null, "err": one.err,
                    "confirmationStatus": self.status(one)})
                });
                Ok(json!({"context": {"slot": self.slot}, "value": [status]}))
            }
            "getTransaction" => {
                let found = self.landed.iter().find(|one| json!(one.id) == params[0] && one.slot < self.slot);
                Ok(found.map_or(Value::Null, |one| {
                    let meta = json!({"err": one.err, "fee": self.fee, "logMessages": one.logs});
                    json!({"slot": one.slot, "meta": meta, "transaction": [BASE64.encode(&one.bytes), "base64"]})
                }))
            }
            "getSignaturesForAddress" => {
                let (address, limit) = (address(), options["limit"].as_u64().unwrap() as usize);
                let known = self.landed.iter().rev().filter(|one| one.keys.contains(&address) && one.slot < self.slot);
                let after = known.skip_while(|one| options.get("before").is_some_and(|before| *before != one.id));
                let page = after.skip(usize::from(options.get("before").is_some())).take(limit);
                Ok(page
                    .map(|one| json!({"signature": one.id, "slot": one.slot, "err": one.err, "memo": null}))
                    .collect())
            }
            other => Err((-32_601, json!(other))),
        }
    }

    fn account(&self, key: &Pubkey) -> Value {
        self.accounts.get(key).map_or(Value::Null, |(owner, data)| {
            json!({"owner": owner, "data": [BASE64.encode(data), "base64"], "lamports": 1, "executable": false,
                "rentEpoch": 0, "space": data.len()})
        })
    }

    /// The accounts of a program that hold certain bytes.
    fn program_accounts(&self, program: Pubkey, filters: &Value) -> Value {
        let holds = |data: &[u8], filter: &Value| {
            let (at, wanted) = (filter["memcmp"]["offset"].as_u64().unwrap() as usize, &filter["memcmp"]["bytes"]);
            let wanted = bs58::decode(wanted.as_str().unwrap()).into_vec().unwrap();
            data.get(at..at + wanted.len()) == Some(&wanted[..])
        };
        let own = self.accounts.iter().filter(|(_, (owner, data))| {
            *owner == program && filters.as_array().unwrap().iter().all(|filter| holds(data, filter))
        });
        own.map(|(key, _)| json!({"pubkey": key, "account": self.account(key)})).collect()
    }

    fn status(&self, one: &Transaction) -> &'static str {
        match self.slot - one.slot {
            0 => "processed",
            depth if depth < FINAL_DEPTH => "confirmed",
            _ => "finalized",
        }
    }

    fn send(&mut self, text: &str) -> Result<Value, (i64, Value)> {
        let transaction = parse(BASE64.decode(text.as_bytes()).unwrap());
        if self.landed.iter().any(|one| one.id == transaction.id) {
            return Err((-32_002, json!({"err": "AlreadyProcessed"})));
        }
        if !self.is_recent(&transaction.blockhash) {
            return Err((-32_002, json!({"err": "BlockhashNotFound"})));
        }
        if !self.failure.is_null() {
            return Err((-32_002, json!({"err": self.failure})));
        }
        let id = transaction.id.clone();
        if !self.pool.iter().any(|one| one.id == id) {
            self.pool.push(transaction);
        }
        Ok(json!(id))
    }
}

/// Reads a transaction and checks its signature.
fn parse(bytes: Vec<u8>) -> Transaction {
    let mut data = bytes.as_slice();
    assert_eq!(short(&mut data), 1, "one signature");
    let signature: [u8; 64] = take(&mut data, 64).try_into().unwrap();
    let message = data;
    take(&mut data, 3);
    let keys: Vec<Pubkey> = (0..short(&mut data)).map(|_| key(take(&mut data, 32))).collect();
    let blockhash = key(take(&mut data, 32)).to_string();
    let signer = VerifyingKey::from_bytes(&keys[0].0).unwrap();
    signer.verify_strict(message, &Signature::from_bytes(&signature)).unwrap();
    let id = bs58::encode(signature).into_string();
    Transaction { id, bytes: bytes.clone(), keys, blockhash, slot: 0, err: Value::Null, logs: Vec::new() }
}

fn calls(transaction: &Transaction) -> Vec<(Pubkey, Vec<Pubkey>, Vec<u8>)> {
    let mut data = &transaction.bytes[1 + 64 + 3..];
    let keys = short(&mut data);
    take(&mut data, 32 * keys + 32);
    let key = |index: &u8| transaction.keys[usize::from(*index)];
    let one = |data: &mut &[u8]| {
        let program = key(&take(data, 1)[0]);
        let length = short(data);
        let accounts = take(data, length).iter().map(key).collect();
        let length = short(data);
        (program, accounts, take(data, length).to_vec())
    };
    (0..short(&mut data)).map(|_| one(&mut data)).collect()
}
