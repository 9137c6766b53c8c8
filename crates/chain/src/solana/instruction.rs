//! Calls of the registry: giving feedback and taking it back, and the events that they leave in the logs.
//!
//! `give_feedback(value i128, decimals u8, score Option<u8>, file Option<[u8; 32]>, tag1, tag2, endpoint, uri)` and
//! `revoke_feedback(index u64, seal [u8; 32])`, each after the first eight bytes of SHA-256 of `global:NAME`. Feedback of ours carries no
//! score: ATOM then leaves it out, and what we say is not read back as what others say.

use alloy_primitives::B256;
use data_encoding::BASE64;

use super::{
    Pubkey, SolanaChain,
    bytes::{Cursor, put_text},
    message::{Instruction, Meta},
    seal::{Content, Encoding},
};
use crate::ChainError;

const GIVE: [u8; 8] = [145, 136, 123, 3, 215, 165, 98, 41];
const REVOKE: [u8; 8] = [211, 37, 230, 82, 118, 216, 137, 206];
/// The first eight bytes of SHA-256 of `event:NewFeedback`.
const NEW_FEEDBACK: [u8; 8] = [14, 162, 58, 194, 131, 42, 11, 149];
/// How a program's event stands in the logs.
const EVENT_LINE: &str = "Program data: ";
const SYSTEM: Pubkey = Pubkey([0; 32]);
const COMPUTE_BUDGET: Pubkey = Pubkey::known("ComputeBudget111111111111111111111111111111");
const SET_UNIT_LIMIT: u8 = 2;
const SET_UNIT_PRICE: u8 = 3;
/// Bytes of a string in a call of ours, at most.
const MAX_TEXT_BYTES: usize = 250;

/// The limit of compute units.
pub(super) fn unit_limit(units: u32) -> Instruction {
    budget(SET_UNIT_LIMIT, &units.to_le_bytes())
}

/// What a compute unit is worth, in millionths of a lamport.
pub(super) fn unit_price(price: u64) -> Instruction {
    budget(SET_UNIT_PRICE, &price.to_le_bytes())
}

fn budget(kind: u8, number: &[u8]) -> Instruction {
    Instruction { program: COMPUTE_BUDGET, accounts: Vec::new(), data: [&[kind], number].concat() }
}

/// Gives feedback to the agent `asset`, which is in `collection`.
pub(super) fn give(
    chain: &SolanaChain,
    client: Pubkey,
    asset: Pubkey,
    collection: Pubkey,
    content: &Content<'_>,
) -> Result<Instruction, ChainError> {
    content.check(Encoding::I128)?;
    let mut data = GIVE.to_vec();
    data.extend(content.value.to_le_bytes());
    data.push(content.decimals);
    data.push(u8::from(content.score.is_some()));
    data.extend(content.score);
    data.push(u8::from(content.file.is_some()));
    data.extend(content.file.iter().flat_map(|hash| hash.0));
    for text in [content.tag1, content.tag2, content.endpoint, content.uri] {
        put_text(&mut data, text);
    }
    call(chain, client, asset, Some(collection), data)
}

/// Takes feedback back.
pub(super) fn revoke(
    chain: &SolanaChain,
    client: Pubkey,
    asset: Pubkey,
    index: u64,
    seal: B256,
) -> Result<Instruction, ChainError> {
    let data = [&REVOKE[..], &index.to_le_bytes(), seal.as_slice()].concat();
    call(chain, client, asset, None, data)
}

/// The accounts of both calls: client, agent, asset, (collection,) system program, and those of ATOM.
fn call(
    chain: &SolanaChain,
    client: Pubkey,
    asset: Pubkey,
    collection: Option<Pubkey>,
    data: Vec<u8>,
) -> Result<Instruction, ChainError> {
    let read = |key| Meta { key, signer: false, writable: false };
    let write = |key| Meta { key, signer: false, writable: true };
    let mut accounts =
        vec![Meta { key: client, signer: true, writable: true }, write(chain.agent_address(asset)?), read(asset)];
    accounts.extend(collection.map(read));
    accounts.extend([
        read(SYSTEM),
        read(chain.atom_config_address()?),
        write(chain.stats_address(asset)?),
        read(chain.atom),
        read(chain.authority_address()?),
    ]);
    Ok(Instruction { program: chain.registry, accounts, data })
}

/// A call of ours, read back from a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// Feedback, by its seal.
    Give { asset: Pubkey, seal: B256 },
    /// A revocation.
    Revoke { asset: Pubkey, index: u64 },
}

/// Reads a call of the registry. `None` for other calls.
pub(super) fn decode(accounts: &[Pubkey], data: &[u8]) -> Option<Call> {
    let asset = *accounts.get(2)?;
    let mut data = Cursor(data);
    match data.array()? {
        GIVE => Some(Call::Give { asset, seal: content(&mut data)?.seal(Encoding::I128).ok()? }),
        REVOKE => Some(Call::Revoke { asset, index: data.u64()? }),
        _ => None,
    }
}

/// The asset and the content of a call that gives feedback. `None` for other calls.
pub(super) fn given<'a>(accounts: &[Pubkey], data: &'a [u8]) -> Option<(Pubkey, Content<'a>)> {
    let asset = *accounts.get(2)?;
    let mut data = Cursor(data);
    (data.array()? == GIVE).then_some(())?;
    Some((asset, content(&mut data)?))
}

fn content<'a>(data: &mut Cursor<'a>) -> Option<Content<'a>> {
    Some(Content {
        value: data.i128()?,
        decimals: data.u8()?,
        score: data.option(Cursor::u8)?,
        file: data.option(Cursor::hash)?,
        tag1: data.text(MAX_TEXT_BYTES)?,
        tag2: data.text(MAX_TEXT_BYTES)?,
        endpoint: data.text(MAX_TEXT_BYTES)?,
        uri: data.text(MAX_TEXT_BYTES)?,
    })
}

/// What the registry logs of a feedback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NewFeedback {
    pub(super) asset: Pubkey,
    pub(super) client: Pubkey,
    pub(super) index: u64,
    pub(super) seal: B256,
}

/// Reads one line of a transaction's log.
pub(super) fn new_feedback(line: &str) -> Option<NewFeedback> {
    let bytes = BASE64.decode(line.strip_prefix(EVENT_LINE)?.as_bytes()).ok()?;
    let mut data = Cursor(&bytes);
    if data.array()? != NEW_FEEDBACK {
        return None;
    }
    let (asset, client, index) = (data.key()?, data.key()?, data.u64()?);
    let _slot = data.u64()?;
    let (_value, _decimals, _score) = (data.i128()?, data.u8()?, data.option(Cursor::u8)?);
    let _file = data.option(Cursor::hash)?;
    Some(NewFeedback { asset, client, index, seal: data.hash()? })
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn names_hash_to_their_discriminators() {
        let names =
            [("global:give_feedback", GIVE), ("global:revoke_feedback", REVOKE), ("event:NewFeedback", NEW_FEEDBACK)];
        for (name, wanted) in names {
            assert_eq!(Sha256::digest(name)[..8], wanted, "{name}");
        }
    }

    #[test]
    fn calls_are_read_back() {
        let chain = SolanaChain::new("solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1").unwrap();
        let (client, asset, collection) = (Pubkey([1; 32]), Pubkey([2; 32]), Pubkey([3; 32]));
        let file = Some(B256::repeat_byte(9));
        let content =
            Content { value: -5, decimals: 1, score: None, file, tag1: "a", tag2: "b", endpoint: "", uri: "u" };
        let keys = |call: &Instruction| call.accounts.iter().map(|meta| meta.key).collect::<Vec<_>>();
        let given = give(&chain, client, asset, collection, &content).unwrap();
        let seal = content.seal(Encoding::I128).unwrap();
        assert_eq!(decode(&keys(&given), &given.data), Some(Call::Give { asset, seal }));
        let revoked = revoke(&chain, client, asset, 7, seal).unwrap();
        assert_eq!(decode(&keys(&revoked), &revoked.data), Some(Call::Revoke { asset, index: 7 }));
        assert_eq!(decode(&keys(&given), &given.data[..40]), None);
        assert_eq!(decode(&[], &given.data), None);
        assert_eq!(new_feedback("Program data: AAAA"), None);
        assert_eq!(new_feedback("Program log: x"), None);
    }
}
