//! What became of the transactions of an attestation, taken together: at most one of those with the same nonce is ever included.

use credence_chain::attest::{Prepared, TransactionState, Writer};
use credence_pipeline::attestations::{Amount, Inclusion, SentTransaction};

use super::{AttestError, convert::prepared};

/// What became of them.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fate {
    /// One is in a block.
    Included {
        /// Where.
        inclusion: Inclusion,
        /// Whether it did what it was for.
        succeeded: bool,
        /// Blocks from that one to the newest.
        confirmations: u64,
    },
    /// None is in a block, and one can still be.
    Live {
        /// The newest that can.
        newest: Prepared,
        /// Whether a node holds one of them.
        pending: bool,
    },
    /// None can ever be included.
    Dead,
}

/// Asks for every one of them, newest first.
pub(super) async fn of(writer: &Writer, sent: &[SentTransaction]) -> Result<Fate, AttestError> {
    let (mut newest, mut pending) = (None, false);
    for sent in sent.iter().rev() {
        let transaction = prepared(&sent.transaction);
        match writer.state(&transaction).await? {
            TransactionState::Included { block, block_hash, confirmations, succeeded, fee, index } => {
                let inclusion = Inclusion {
                    transaction: Some(transaction.id),
                    block: Some(block),
                    block_hash: Some(block_hash),
                    fee: Some(Amount(fee)),
                    index,
                };
                return Ok(Fate::Included { inclusion, succeeded, confirmations });
            }
            TransactionState::Pending => {
                pending = true;
                newest = newest.or(Some(transaction));
            }
            TransactionState::Unknown => newest = newest.or(Some(transaction)),
            TransactionState::Dead { .. } => {}
        }
    }
    Ok(newest.map_or(Fate::Dead, |newest| Fate::Live { newest, pending }))
}
