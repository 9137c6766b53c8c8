//! Where a transaction of ours is.
//!
//! Its status decides. Without one, the final block height does: past the last height at which its blockhash is valid, it can never be
//! included. The node that says so must have searched at least up to that block, so that a node that lags behind declares nothing dead.

use data_encoding::BASE64;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Pubkey, landed, node::At};
use crate::{
    ChainError,
    attest::{Prepared, TransactionState},
    rpc::Rpc,
};

/// Confirmations from which a transaction is final. One that is not final has fewer, however old it is.
pub const FINAL_CONFIRMATIONS: u64 = 32;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    slot: u64,
    confirmation_status: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Epoch {
    absolute_slot: u64,
    block_height: u64,
}

#[derive(Deserialize)]
struct Block {
    blockhash: Pubkey,
}

pub(super) async fn of(rpc: &Rpc, address: Pubkey, prepared: &Prepared) -> Result<TransactionState, ChainError> {
    if let (_, Some(status)) = status(rpc, prepared).await? {
        return found(rpc, address, prepared, status).await;
    }
    let until = prepared.valid_until;
    let until =
        until.ok_or_else(|| ChainError::Malformed("the prepared transaction has no last block height".into()))?;
    let epoch: Epoch = rpc.ask("getEpochInfo", json!([{"commitment": "finalized"}])).await?;
    if epoch.block_height <= until {
        return Ok(TransactionState::Unknown);
    }
    // It may have been included between the two questions.
    match status(rpc, prepared).await? {
        (_, Some(status)) => found(rpc, address, prepared, status).await,
        (searched, None) if searched < epoch.absolute_slot => Ok(TransactionState::Unknown),
        (_, None) => {
            let why = format!("the chain has passed block height {until}, the last at which it could be included");
            Ok(TransactionState::Dead { why })
        }
    }
}

/// The slot up to which the node searched, and what it found, with the slots since then.
async fn status(rpc: &Rpc, prepared: &Prepared) -> Result<(u64, Option<(Status, u64)>), ChainError> {
    let params = json!([[prepared.id], {"searchTransactionHistory": true}]);
    let answer: At<Vec<Option<Status>>> = rpc.ask("getSignatureStatuses", params).await?;
    let searched = answer.context.slot;
    let [status] = <[_; 1]>::try_from(answer.value)
        .map_err(|_| ChainError::Malformed("the node answered with another number of states".into()))?;
    Ok((
        searched,
        status.map(|status: Status| {
            let since = (searched + 1).saturating_sub(status.slot);
            (status, since)
        }),
    ))
}

async fn found(
    rpc: &Rpc,
    address: Pubkey,
    prepared: &Prepared,
    (status, since): (Status, u64),
) -> Result<TransactionState, ChainError> {
    let confirmations = match status.confirmation_status.as_deref() {
        Some("finalized") => since.max(FINAL_CONFIRMATIONS),
        Some("confirmed") => since.clamp(1, FINAL_CONFIRMATIONS - 1),
        // In a block that may be dropped.
        _ => return Ok(TransactionState::Pending),
    };
    let Some(landed) = landed::transaction(rpc, &prepared.id).await? else { return Ok(TransactionState::Pending) };
    if BASE64.encode(&landed.bytes) != prepared.raw {
        return Err(ChainError::Malformed("the node shows another transaction under this signature".into()));
    }
    if landed.slot != status.slot {
        return Err(ChainError::Reorganised);
    }
    let options = json!({"transactionDetails": "none", "rewards": false, "commitment": "confirmed",
        "maxSupportedTransactionVersion": 0});
    let block: Option<Block> = rpc.ask("getBlock", json!([landed.slot, options])).await?;
    let block = block.ok_or_else(|| ChainError::Malformed("the node does not have the transaction's block".into()))?;
    let index = landed.feedback.iter().find(|new| new.client == address).map(|new| new.index);
    Ok(TransactionState::Included {
        block: landed.slot,
        block_hash: block.blockhash.to_string(),
        confirmations,
        succeeded: landed.succeeded,
        fee: u128::from(landed.fee),
        index,
    })
}

/// The bytes of a prepared transaction, as they are sent.
pub(super) fn sent(prepared: &Prepared) -> Value {
    json!([prepared.raw, {"encoding": "base64", "preflightCommitment": "confirmed"}])
}
