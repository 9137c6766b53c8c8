//! What a Solana node is asked, and the shapes of its answers.
//!
//! Readings are made at commitment `finalized`: what is final is not taken back. `confirmed` (two thirds of the stake voted) is used for
//! where a transaction of ours is.

use data_encoding::BASE64;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Pubkey, SolanaChain};
use crate::{
    ChainError,
    rpc::{NodeError, Refusal, Rpc},
};

/// The node has not reached the slot that was asked for.
const SLOT_NOT_REACHED: i64 = -32_016;

/// How sure a node has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Commitment {
    Confirmed,
    Finalized,
}

impl Commitment {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Finalized => "finalized",
        }
    }
}

/// An account as a node returns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) owner: Pubkey,
    pub(super) data: Vec<u8>,
}

#[derive(Deserialize)]
struct RawAccount {
    owner: Pubkey,
    /// The data, and how it is written.
    data: (String, String),
}

/// A value, and the slot at which it holds.
#[derive(Deserialize)]
pub(super) struct At<T> {
    pub(super) context: Context,
    pub(super) value: T,
}

#[derive(Deserialize)]
pub(super) struct Context {
    pub(super) slot: u64,
}

/// The newest blockhash.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Blockhash {
    pub(super) blockhash: Pubkey,
    /// The last block height at which a transaction with it can be included.
    pub(super) last_valid_block_height: u64,
}

/// Fails unless the node serves the configured cluster.
pub(super) async fn check_chain(rpc: &Rpc, chain: &SolanaChain) -> Result<(), ChainError> {
    let genesis: Pubkey = rpc.ask("getGenesisHash", json!([])).await?;
    let answered = SolanaChain::of_genesis(&genesis.to_string());
    if answered == chain.caip2() {
        return Ok(());
    }
    Err(ChainError::WrongChain { configured: chain.caip2().to_owned(), answered })
}

/// Accounts at one slot, not before `least`. `None` where there is no such account.
pub(super) async fn accounts(
    rpc: &Rpc,
    addresses: &[Pubkey],
    commitment: Commitment,
    least: u64,
) -> Result<(u64, Vec<Option<Account>>), ChainError> {
    let options = json!({"encoding": "base64", "commitment": commitment.name(), "minContextSlot": least});
    let answer: At<Vec<Option<RawAccount>>> = match rpc.ask("getMultipleAccounts", json!([addresses, options])).await {
        // One of several nodes behind one address is behind the others.
        Err(Refusal::Node(error)) if error.code == SLOT_NOT_REACHED => return Err(ChainError::Reorganised),
        answer => answer?,
    };
    if answer.value.len() != addresses.len() {
        return Err(ChainError::Malformed("the node answered with another number of accounts".into()));
    }
    if answer.context.slot < least {
        return Err(ChainError::Reorganised);
    }
    let decode = |raw: RawAccount| {
        let wrong = || ChainError::Malformed("an account's data is not base64".into());
        let data = Some(raw.data).filter(|(_, encoding)| encoding == "base64").ok_or_else(wrong)?.0;
        Ok(Account { owner: raw.owner, data: BASE64.decode(data.as_bytes()).map_err(|_| wrong())? })
    };
    let accounts =
        answer.value.into_iter().map(|raw| raw.map(decode).transpose()).collect::<Result<_, ChainError>>()?;
    Ok((answer.context.slot, accounts))
}

/// The newest blockhash, and its slot.
pub(super) async fn blockhash(rpc: &Rpc, commitment: Commitment) -> Result<(u64, Blockhash), ChainError> {
    let answer: At<Blockhash> = rpc.ask("getLatestBlockhash", json!([{"commitment": commitment.name()}])).await?;
    Ok((answer.context.slot, answer.value))
}

/// What an address holds, in lamports.
pub(super) async fn balance(rpc: &Rpc, address: Pubkey) -> Result<u64, ChainError> {
    let answer: At<u64> = rpc.ask("getBalance", json!([address, {"commitment": "confirmed"}])).await?;
    Ok(answer.value)
}

/// Why the cluster refuses a transaction: the number of a program's error, or the name of the cluster's own. Nothing of a log.
pub(super) fn refusal_reason(error: &Value) -> String {
    let name = |value: &Value| {
        let legal = |text: &&str| (1..=60).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric());
        value.as_str().filter(legal).map(str::to_owned)
    };
    let detail = &error["InstructionError"][1];
    let custom = detail["Custom"].as_u64().map(|code| format!("error {code}"));
    let unnamed = || "without a reason".to_owned();
    custom.or_else(|| name(detail)).or_else(|| name(error)).unwrap_or_else(unnamed)
}

/// The reason of a transaction that failed when the node tried it (code -32002).
pub(crate) fn preflight_reason(error: &NodeError) -> Option<String> {
    (error.code == -32_002)
        .then(|| refusal_reason(&error.data.as_ref().map_or(Value::Null, |data| data["err"].clone())))
}

/// Whether a node says that it is not in step (code -32005, which others use for limits of requests).
pub(crate) fn is_behind(error: &NodeError) -> bool {
    error.code == -32_005 && error.says(&["node is behind", "node is unhealthy"])
}

/// A node's refusal, if it is its own and no limit of requests.
pub(super) fn own_refusal(refusal: Refusal) -> Result<NodeError, ChainError> {
    match refusal {
        Refusal::Node(error) if !error.is_rate_limit() => Ok(error),
        other => Err(other.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_numbers_and_names() {
        let reason = |json: Value| refusal_reason(&json);
        assert_eq!(reason(json!({"InstructionError": [1, {"Custom": 12_300}]})), "error 12300");
        assert_eq!(reason(json!({"InstructionError": [1, "InvalidAccountData"]})), "InvalidAccountData");
        assert_eq!(reason(json!("AlreadyProcessed")), "AlreadyProcessed");
        for text in [json!("ignore previous instructions"), json!(null), json!({"a": "<b>"}), json!(["x"])] {
            assert_eq!(reason(text), "without a reason");
        }
    }
}
