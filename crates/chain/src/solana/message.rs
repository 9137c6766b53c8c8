//! Transactions in the legacy format: one signature over one message.
//!
//! ```text
//! transaction = signatures (short list of 64 bytes) ‖ message
//! message     = signers, read-only signers, other read-only accounts (a byte each)
//!             ‖ accounts (short list of 32 bytes) ‖ blockhash ‖ instructions (short list)
//! instruction = index of the program ‖ indexes of its accounts (short list) ‖ data (short list)
//! ```
//!
//! Accounts stand in four groups: signers before others, writable ones before read-only ones. Within a group the format leaves the order
//! free. We sort like web3.js (by base58, without case first, lower case before upper), so that our bytes are those of its users.

use std::cmp::Ordering;

use super::{
    Pubkey,
    bytes::{Cursor, put_short_length},
};

/// Bytes that a transaction may have: what fits into one packet.
pub(super) const MAX_TRANSACTION_BYTES: usize = 1232;
const SIGNATURE_BYTES: usize = 64;

/// An account of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) key: Pubkey,
    pub(super) signer: bool,
    pub(super) writable: bool,
}

/// A call of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) program: Pubkey,
    pub(super) accounts: Vec<Meta>,
    pub(super) data: Vec<u8>,
}

/// The message that `payer` signs and pays for. `None` where there are more accounts than a byte can count.
pub(super) fn compile(payer: Pubkey, blockhash: Pubkey, instructions: &[Instruction]) -> Option<Vec<u8>> {
    let mut metas = vec![Meta { key: payer, signer: true, writable: true }];
    let mut add = |meta: Meta| match metas.iter_mut().find(|known| known.key == meta.key) {
        Some(known) => {
            known.signer |= meta.signer;
            known.writable |= meta.writable;
        }
        None => metas.push(meta),
    };
    for instruction in instructions {
        instruction.accounts.iter().for_each(|meta| add(*meta));
        add(Meta { key: instruction.program, signer: false, writable: false });
    }
    let (_payer, others) = metas.split_first_mut()?;
    others.sort_by(in_order);
    let count = |wanted: fn(&Meta) -> bool| u8::try_from(metas.iter().filter(|meta| wanted(meta)).count()).ok();
    let mut out = vec![
        count(|meta| meta.signer)?,
        count(|meta| meta.signer && !meta.writable)?,
        count(|meta| !meta.signer && !meta.writable)?,
    ];
    put_short_length(&mut out, u16::try_from(metas.len()).ok()?);
    for meta in &metas {
        out.extend(meta.key.0);
    }
    out.extend(blockhash.0);
    put_short_length(&mut out, u16::try_from(instructions.len()).ok()?);
    let index = |key: Pubkey| metas.iter().position(|meta| meta.key == key).and_then(|index| u8::try_from(index).ok());
    for instruction in instructions {
        out.push(index(instruction.program)?);
        put_short_length(&mut out, u16::try_from(instruction.accounts.len()).ok()?);
        for meta in &instruction.accounts {
            out.push(index(meta.key)?);
        }
        put_short_length(&mut out, u16::try_from(instruction.data.len()).ok()?);
        out.extend(&instruction.data);
    }
    Some(out)
}

fn in_order(a: &Meta, b: &Meta) -> Ordering {
    let groups = b.signer.cmp(&a.signer).then(b.writable.cmp(&a.writable));
    groups.then_with(|| {
        let (a, b) = (a.key.to_string(), b.key.to_string());
        let cased = |text: &str| text.bytes().map(|byte| byte.is_ascii_uppercase()).collect::<Vec<_>>();
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase()).then_with(|| cased(&a).cmp(&cased(&b)))
    })
}

/// A transaction with its one signature.
pub(super) fn transaction(signature: &[u8; SIGNATURE_BYTES], message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + SIGNATURE_BYTES + message.len());
    put_short_length(&mut out, 1);
    out.extend(signature);
    out.extend(message);
    out
}

/// What is read of a transaction: who signed it, and its calls.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decoded {
    /// The first signer, who pays.
    pub(super) payer: Pubkey,
    /// Program, accounts and data of each call.
    pub(super) calls: Vec<(Pubkey, Vec<Pubkey>, Vec<u8>)>,
}

/// Reads a transaction in the legacy format. `None` for any other.
pub(super) fn decode(bytes: &[u8]) -> Option<Decoded> {
    let mut data = Cursor(bytes);
    let signatures = data.short_length()?;
    data.take(signatures.checked_mul(SIGNATURE_BYTES)?)?;
    let [signers, ..] = data.array::<3>()?;
    // The highest bit marks other formats.
    if signers == 0 || signers & 0x80 != 0 {
        return None;
    }
    let keys = list(&mut data, Cursor::key)?;
    let _blockhash = data.key()?;
    let key = |index: u8| keys.get(usize::from(index)).copied();
    let calls = list(&mut data, |data| {
        let program = key(data.u8()?)?;
        let length = data.short_length()?;
        let accounts = data.take(length)?.iter().map(|index| key(*index)).collect::<Option<_>>()?;
        let length = data.short_length()?;
        Some((program, accounts, data.take(length)?.to_vec()))
    })?;
    data.0.is_empty().then_some(Decoded { payer: *keys.first()?, calls })
}

fn list<'a, T>(data: &mut Cursor<'a>, mut read: impl FnMut(&mut Cursor<'a>) -> Option<T>) -> Option<Vec<T>> {
    let length = data.short_length()?;
    (0..length).map(|_| read(data)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn meta(key: u8, signer: bool, writable: bool) -> Meta {
        Meta { key: Pubkey([key; 32]), signer, writable }
    }

    #[test]
    fn accounts_are_grouped_and_stand_once() {
        let payer = Pubkey([9; 32]);
        let accounts = vec![meta(1, false, false), meta(2, false, true), meta(9, true, false), meta(2, false, false)];
        let call = Instruction { program: Pubkey([3; 32]), accounts, data: vec![7; 200] };
        let message = compile(payer, Pubkey([8; 32]), std::slice::from_ref(&call)).unwrap();
        assert_eq!(message[..4], [1, 0, 2, 4]);
        let signed = transaction(&[5; 64], &message);
        let decoded = decode(&signed).unwrap();
        assert_eq!(decoded.payer, payer);
        let keys: Vec<Pubkey> = call.accounts.iter().map(|meta| meta.key).collect();
        assert_eq!(decoded.calls, [(call.program, keys, call.data)]);
        assert_eq!(decode(&signed[..signed.len() - 1]), None);
    }

    #[test]
    fn order_is_that_of_text_without_case() {
        let texts = ["Abc", "aBd", "abc", "1zz", "9aa", "ABc"];
        let mut keys: Vec<Meta> =
            texts.iter().map(|text| Meta { key: Pubkey(padded(text)), signer: false, writable: false }).collect();
        keys.sort_by(in_order);
        let sorted: Vec<String> = keys.iter().map(|meta| meta.key.to_string()[..3].to_owned()).collect();
        assert_eq!(sorted, ["1zz", "9aa", "abc", "Abc", "ABc", "aBd"]);
    }

    /// An address whose base58 starts with `text`.
    fn padded(text: &str) -> [u8; 32] {
        let mut bytes = [0; 32];
        bs58::decode(format!("{text}{}", "2".repeat(40))).onto(&mut bytes).unwrap();
        bytes
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_reading(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = decode(&bytes);
        }
    }
}
