//! Between what the ledger records and what the chain library takes.

use credence_chain::attest::{Attestation, Prepared};
use credence_pipeline::attestations::{Amount, AttestationRow, SignedTransaction, TAG};

/// Characters of a reason.
const MAX_REASON: usize = 300;

/// What is written to the chain for an attestation.
pub fn call(row: &AttestationRow) -> Attestation {
    Attestation {
        subject: row.subject.clone(),
        value: row.value,
        decimals: row.decimals,
        tag1: TAG.to_owned(),
        tag2: row.formula.clone(),
        endpoint: row.endpoint.clone(),
        uri: row.uri.clone(),
        document: row.hash.clone(),
    }
}

pub(super) fn recorded(prepared: &Prepared) -> SignedTransaction {
    let Prepared { id, nonce, valid_until, max_fee, raw } = prepared.clone();
    SignedTransaction { id, nonce, valid_until, max_fee: Amount(max_fee), raw }
}

pub(super) fn prepared(recorded: &SignedTransaction) -> Prepared {
    let SignedTransaction { id, nonce, valid_until, max_fee, raw } = recorded.clone();
    Prepared { id, nonce, valid_until, max_fee: max_fee.0, raw }
}

/// Words for an entry: printable ASCII, shortened.
pub(super) fn reason(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).take(MAX_REASON).collect()
}
