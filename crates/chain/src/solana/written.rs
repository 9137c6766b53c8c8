//! The feedback that a transaction wrote to the 8004 registry.
//!
//! The node gives the signed bytes. Signature and content are checked here, so that a node cannot make up a feedback of somebody else's.
//! That the call succeeded, the feedback's index and the logged seal are the node's word.

use alloy_primitives::hex;
use credence_protocol::ExternalSubject;
use ed25519_dalek::{Signature, VerifyingKey};
use serde_json::json;

use super::{
    Pubkey, SolanaChain, find, instruction, landed, message,
    node::{self, Commitment},
    seal::Encoding,
};
use crate::{ChainError, Rpc, Seal, Written};

const SIGNATURE_BYTES: usize = 64;

fn wrong(why: impl Into<String>) -> ChainError {
    ChainError::Malformed(why.into())
}

/// The feedback that a transaction wrote. `registry`: the registry's program, where it is not the well-known one.
pub(crate) async fn by_transaction(
    rpc: &Rpc,
    registry: Option<&str>,
    transaction: &str,
) -> Result<Written, ChainError> {
    let signature: [u8; SIGNATURE_BYTES] =
        bs58::decode(transaction).into_vec().ok().and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| {
            wrong("a transaction is named by 0x and 64 hexadecimal digits, or on Solana by a signature in base58")
        })?;
    let genesis: Pubkey = rpc.ask("getGenesisHash", json!([])).await?;
    let mut chain = SolanaChain::new(&SolanaChain::of_genesis(&genesis.to_string()))?;
    if let Some(registry) = registry {
        chain.registry = registry.parse()?;
    }
    let landed = landed::transaction(rpc, transaction).await?;
    let landed = landed.ok_or_else(|| wrong(format!("{} has no such transaction in a block", chain.caip2())))?;
    if !landed.succeeded {
        return Err(wrong("the transaction failed: it wrote nothing"));
    }
    let decoded = message::decode(&landed.bytes).ok_or_else(|| wrong("the transaction is in no form that is known"))?;
    is_signed(&landed.bytes, &signature, decoded.payer)?;
    let calls = decoded.calls.iter().filter(|(program, ..)| *program == chain.registry);
    let mut given = calls.filter_map(|(_, accounts, data)| {
        let (asset, content) = instruction::given(accounts, data)?;
        Some((*accounts.first()?, asset, content))
    });
    let nothing = || wrong(format!("the transaction wrote no feedback to the registry {}", chain.registry));
    let (client, asset, content) = given.next().ok_or_else(nothing)?;
    if client != decoded.payer {
        return Err(wrong("the feedback is given by somebody else than the transaction's signer"));
    }
    let seal = content.seal(Encoding::I128)?;
    let mut events = landed.feedback.iter();
    let event = events
        .find(|event| (event.asset, event.client) == (asset, client))
        .ok_or_else(|| wrong("the node shows the transaction without the registry's log of it"))?;
    // What is sealed otherwise cannot be taken back under this seal: it is not searched for.
    let revoked = event.seal == seal
        && find::find(rpc, &chain, client, asset, |one| (one.index, one.seal) == (event.index, seal))
            .await?
            .is_some_and(|found| found.revoked);
    let (newest, _) = node::blockhash(rpc, Commitment::Confirmed).await?;
    Ok(Written {
        chain: chain.caip2().to_owned(),
        registry: chain.registry.to_string(),
        subject: ExternalSubject::parse(&format!("solana8004:{asset}"))
            .map_err(|_| wrong("the registration has no id that can be written"))?,
        by: client.to_string(),
        index: event.index,
        value: content.value,
        decimals: content.decimals,
        tags: [content.tag1.to_owned(), content.tag2.to_owned()],
        uri: content.uri.to_owned(),
        document: content.file.map(hex::encode).unwrap_or_default(),
        block: landed.slot,
        confirmations: (newest + 1).saturating_sub(landed.slot),
        revoked,
        seal: Some(Seal { logged: hex::encode(event.seal), computed: hex::encode(seal) }),
    })
}

/// The transaction is the one that was asked for: its payer signed these bytes, and that is the signature.
fn is_signed(bytes: &[u8], signature: &[u8; SIGNATURE_BYTES], payer: Pubkey) -> Result<(), ChainError> {
    let other = || wrong("the node shows another transaction than the one that was asked for");
    let (count, rest) = bytes.split_first().ok_or_else(other)?;
    let (first, message) = rest.split_at_checked(SIGNATURE_BYTES).ok_or_else(other)?;
    if *count != 1 || first != signature {
        return Err(other());
    }
    let key = VerifyingKey::from_bytes(&payer.0).map_err(|_| other())?;
    key.verify_strict(message, &Signature::from_bytes(signature)).map_err(|_| other())
}
