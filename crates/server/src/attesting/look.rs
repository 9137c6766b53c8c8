//! What to do next with an attestation, by what its node says. Asks; records and sends nothing.
//!
//! A new nonce is taken only where every transaction is dead, the registry does not have the feedback, and both held for several looks in a
//! row. A step that could be undone by a short reorganisation is not recorded as done before its block is deep enough.

use std::collections::BTreeSet;

use credence_chain::{
    ChainError,
    attest::{Attestation, Prepared},
};
use credence_pipeline::{
    attestations::{AttestationRow, AttestationState, AttestationStep as Step, Inclusion, MAX_NONCES, SentTransaction},
    query,
    record::AttestationRecord,
};
use credence_protocol::Uuid;

use super::{
    AttestError, Attester, AttestingChain,
    convert::{self, call, prepared},
    fate::{self, Fate},
    review,
};
use crate::crawl::HasAuthority;

/// How long an intent may wait to be sent: after that its score is an old one.
const INTENT_SECONDS: i64 = 86_400;

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Nothing, for now.
    Wait,
    /// Send these bytes, which are recorded, once more.
    Send(Prepared),
    /// Record this step, then send what was signed for it.
    Record(Box<AttestationRecord>, Option<Prepared>),
    /// Nothing, ever.
    Over,
}

/// What a look at an attestation came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// Its chain.
    pub chain: String,
    /// The newest entry of it that was seen: a step builds on it.
    pub after: u64,
    /// What to do.
    pub next: Next,
    /// The newest transaction that was sent before and can still be included.
    pub(super) sent_before: Option<Prepared>,
}

/// What was read of one attestation.
pub(super) struct Seen {
    pub(super) id: Uuid,
    pub(super) row: AttestationRow,
    /// Why it is to be taken back, if it is.
    pub(super) withdrawn: Option<&'static str>,
    /// Places on the chain that other attestations of the same registration have.
    taken: BTreeSet<u64>,
}

impl Seen {
    pub(super) fn record(&self, step: Step) -> Box<AttestationRecord> {
        Box::new(self.row.next(self.id, step))
    }

    pub(super) fn included(&self, step: Step, inclusion: Inclusion) -> Next {
        let mut record = self.record(step);
        record.inclusion = Some(inclusion);
        Next::Record(record, None)
    }

    pub(super) fn because(&self, step: Step, why: &str) -> Next {
        let mut record = self.record(step);
        record.reason = Some(convert::reason(why));
        Next::Record(record, None)
    }

    pub(super) fn signed(&self, step: Step, transaction: Prepared) -> Next {
        let mut record = self.record(step);
        record.transaction = Some(convert::recorded(&transaction));
        if step == Step::ValidationSent {
            record.request.clone_from(&self.row.request);
        }
        if step == Step::RevocationSent {
            let why = self.row.reason.as_deref().or(self.withdrawn).unwrap_or("it is no longer stood by");
            record.reason = Some(convert::reason(why));
        }
        Next::Record(record, Some(transaction))
    }
}

impl<A: HasAuthority> Attester<A> {
    /// What to do next with an attestation.
    pub async fn look(&self, id: Uuid) -> Result<Look, AttestError> {
        let seen = self.seen(id).await?;
        let chain = self.chain(&seen.row.chain)?;
        let look = |next| Look { chain: seen.row.chain.clone(), after: seen.row.newest_seq(), next, sent_before: None };
        if !seen.row.state.is_open() && seen.row.state != AttestationState::Final {
            return Ok(look(Next::Over));
        }
        // A node of another chain knows none of our transactions, which must not look as if they were lost.
        chain.writer.check_chain().await?;
        match seen.row.state {
            AttestationState::Intent => Ok(look(self.intended(chain, &seen).await?)),
            AttestationState::Sent => self.sent(chain, &seen, look(Next::Wait)).await,
            AttestationState::Confirmed => Ok(look(self.confirmed(chain, &seen).await?)),
            AttestationState::Final if seen.withdrawn.is_some() => Ok(look(self.take_back(chain, &seen).await?)),
            AttestationState::Final => Ok(look(self.request(chain, &seen).await?)),
            AttestationState::ValidationSent => self.answering(chain, &seen, look(Next::Wait)).await,
            _ => self.revoking(chain, &seen, look(Next::Wait)).await,
        }
    }

    async fn seen(&self, id: Uuid) -> Result<Seen, AttestError> {
        self.blocking(move |this| {
            let view = this.owner.authority().ledger().view()?;
            let row = query::attestation(&*view, id)?.ok_or(AttestError::Unknown(id))?;
            let withdrawn = review::withdrawn(&*view, &row.agent)?;
            let others = query::attestations_of(&*view, Some(&row.agent), usize::MAX)?.into_iter();
            let taken = others
                .filter(|(other, theirs)| *other != id && theirs.subject == row.subject)
                .filter_map(|(_, theirs)| theirs.inclusion?.index)
                .collect();
            Ok(Seen { id, row, withdrawn, taken })
        })
        .await
    }

    /// Nothing was sent yet.
    async fn intended(&self, chain: &AttestingChain, seen: &Seen) -> Result<Next, AttestError> {
        if let Some(why) = seen.withdrawn {
            return Ok(seen.because(Step::GivenUp, why));
        }
        let late = seen.row.intended_at().is_some_and(|at| at.plus_seconds(INTENT_SECONDS) < self.now());
        match chain.writer.prepare(&call(&seen.row), None, None).await {
            _ if late => Ok(seen.because(Step::GivenUp, "it could not be sent within a day")),
            Ok(transaction) => Ok(seen.signed(Step::Sent, transaction)),
            Err(error @ (ChainError::Reverted { .. } | ChainError::OtherRegistry(_) | ChainError::NoSuchAgent(_))) => {
                Ok(seen.because(Step::GivenUp, &error.to_string()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Sent, and in no block that is known.
    async fn sent(&self, chain: &AttestingChain, seen: &Seen, look: Look) -> Result<Look, AttestError> {
        let attestation = call(&seen.row);
        let fate = fate::of(&chain.writer, &seen.row.transactions).await?;
        let is_lost = self.is_lost(seen.id, fate == Fate::Dead);
        let next = match fate {
            Fate::Included { mut inclusion, succeeded: true, .. } => {
                if inclusion.index.is_none() {
                    // Its receipt has no event of ours: the registry tells, or nobody does.
                    inclusion.index = self.found(chain, seen, &attestation).await?;
                }
                match inclusion.index {
                    Some(_) => seen.included(Step::Confirmed, inclusion),
                    None => Next::Wait,
                }
            }
            Fate::Included { inclusion, confirmations, .. } if confirmations >= chain.confirmations => {
                seen.included(Step::Reverted, Inclusion { index: None, ..inclusion })
            }
            Fate::Included { .. } => Next::Wait,
            Fate::Live { newest, pending } => {
                let dearer = self.is_stuck(chain, &seen.row.transactions);
                let dearer = match dearer {
                    true => affordable(chain.writer.prepare(&attestation, None, Some(&newest)).await)?,
                    false => None,
                };
                return Ok(waiting(seen, Step::Replaced, look, newest, pending, dearer));
            }
            Fate::Dead if !is_lost => Next::Wait,
            Fate::Dead => match self.found(chain, seen, &attestation).await? {
                Some(index) => seen.included(Step::Confirmed, found_at(index)),
                None if nonces(&seen.row.transactions) >= MAX_NONCES => {
                    seen.because(Step::GivenUp, "nothing that was sent for it can be included any more")
                }
                None => match seen.withdrawn {
                    Some(why) => seen.because(Step::GivenUp, why),
                    None => seen.signed(Step::Sent, chain.writer.prepare(&attestation, None, None).await?),
                },
            },
        };
        Ok(Look { next, ..look })
    }

    /// In a block, which may still go.
    async fn confirmed(&self, chain: &AttestingChain, seen: &Seen) -> Result<Next, AttestError> {
        let Some(inclusion) = seen.row.inclusion.clone() else { return Ok(Next::Wait) };
        let gone = |why: &str| seen.because(Step::Reorganised, why);
        let Some(id) = &inclusion.transaction else {
            let found = self.found(chain, seen, &call(&seen.row)).await?;
            return Ok(match found == inclusion.index {
                true => seen.included(Step::Final, inclusion),
                false if self.is_lost(seen.id, true) => gone("the registry no longer has it"),
                false => Next::Wait,
            });
        };
        let of_block: Vec<SentTransaction> =
            seen.row.transactions.iter().filter(|sent| sent.transaction.id == *id).cloned().collect();
        match fate::of(&chain.writer, &of_block).await? {
            Fate::Included { inclusion: now, succeeded: true, confirmations }
                if now.block_hash == inclusion.block_hash =>
            {
                self.is_lost(seen.id, false);
                let deep = confirmations >= chain.confirmations;
                Ok(if deep { seen.included(Step::Final, inclusion) } else { Next::Wait })
            }
            _ if self.is_lost(seen.id, true) => {
                let (block, hash) = (inclusion.block.unwrap_or_default(), inclusion.block_hash.unwrap_or_default());
                Ok(gone(&format!("block {block} ({hash}) is no longer part of the chain")))
            }
            _ => Ok(Next::Wait),
        }
    }

    /// In a block that stays, and to be taken back.
    async fn take_back(&self, chain: &AttestingChain, seen: &Seen) -> Result<Next, AttestError> {
        let Some(index) = seen.row.inclusion.as_ref().and_then(|inclusion| inclusion.index) else {
            return Ok(Next::Wait);
        };
        match chain.writer.prepare_revocation(&seen.row.subject, index, None).await {
            Ok(transaction) => Ok(seen.signed(Step::RevocationSent, transaction)),
            // Another program took it back.
            Err(ChainError::Reverted { .. }) if chain.writer.find(&call(&seen.row)).await?.is_none() => {
                Ok(seen.included(Step::Revoked, Inclusion::default()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Being taken back.
    async fn revoking(&self, chain: &AttestingChain, seen: &Seen, look: Look) -> Result<Look, AttestError> {
        let Some(index) = seen.row.inclusion.as_ref().and_then(|inclusion| inclusion.index) else {
            return Ok(look);
        };
        let fate = fate::of(&chain.writer, &seen.row.revocations).await?;
        let is_lost = self.is_lost(seen.id, fate == Fate::Dead);
        let (writer, subject) = (&chain.writer, &seen.row.subject);
        let next = match fate {
            Fate::Included { confirmations, .. } if confirmations < chain.confirmations => Next::Wait,
            Fate::Included { inclusion, succeeded: true, .. } => {
                seen.included(Step::Revoked, Inclusion { index: None, ..inclusion })
            }
            Fate::Live { newest, pending } => {
                let dearer = match self.is_stuck(chain, &seen.row.revocations) {
                    true => affordable(writer.prepare_revocation(subject, index, Some(&newest)).await)?,
                    false => None,
                };
                return Ok(waiting(seen, Step::RevocationSent, look, newest, pending, dearer));
            }
            Fate::Dead if !is_lost => Next::Wait,
            // It failed, or can never be included. Where the registry has no such feedback any more, it is taken back all the same.
            Fate::Included { .. } | Fate::Dead => match writer.find(&call(&seen.row)).await? {
                None => seen.included(Step::Revoked, Inclusion::default()),
                Some(_) if nonces(&seen.row.revocations) >= MAX_NONCES => Next::Wait,
                Some(_) => seen.signed(Step::RevocationSent, writer.prepare_revocation(subject, index, None).await?),
            },
        };
        Ok(Look { next, ..look })
    }

    /// The place of the attestation in the registry, if it is there and no other attestation has that place.
    async fn found(
        &self,
        chain: &AttestingChain,
        seen: &Seen,
        attestation: &Attestation,
    ) -> Result<Option<u64>, AttestError> {
        Ok(chain.writer.find(attestation).await?.filter(|index| !seen.taken.contains(index)))
    }

    pub(super) fn is_stuck(&self, chain: &AttestingChain, sent: &[SentTransaction]) -> bool {
        let patience = i64::try_from(chain.replace_after_seconds).unwrap_or(i64::MAX / 4);
        // Without nonces there is nothing to replace: what is not included in time is dead.
        let newest = sent.last().filter(|newest| newest.transaction.nonce.is_some());
        newest.is_some_and(|newest| newest.at.plus_seconds(patience) <= self.now())
    }
}

/// A transaction waits for inclusion: a dearer one takes its place, or a node that does not hold it gets it again.
pub(super) fn waiting(
    seen: &Seen,
    step: Step,
    look: Look,
    newest: Prepared,
    pending: bool,
    dearer: Option<Prepared>,
) -> Look {
    let next = match dearer {
        Some(dearer) => seen.signed(step, dearer),
        None if pending => Next::Wait,
        None => Next::Send(newest.clone()),
    };
    Look { next, sent_before: Some(newest), ..look }
}

/// A replacement that would cost too much, or that the contract refuses at the moment, is none: the old transaction stays.
pub(super) fn affordable(replacement: Result<Prepared, ChainError>) -> Result<Option<Prepared>, AttestError> {
    match replacement {
        Ok(replacement) => Ok(Some(replacement)),
        Err(ChainError::FeeAboveCap { .. } | ChainError::InsufficientFunds { .. } | ChainError::Reverted { .. }) => {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Found in the registry, by a transaction that the node no longer knows.
fn found_at(index: u64) -> Inclusion {
    Inclusion { index: Some(index), ..Inclusion::default() }
}

/// Different nonces that were used up.
pub(super) fn nonces(sent: &[SentTransaction]) -> usize {
    let slots = sent.iter().map(|sent| prepared(&sent.transaction)).map(|one| (one.nonce, one.valid_until));
    slots.collect::<BTreeSet<_>>().len()
}
