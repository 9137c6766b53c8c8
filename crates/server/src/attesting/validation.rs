//! Validation requests: whoever holds a registration may ask the authority, by its attesting address, to validate the agent. The answer is
//! the attested score with the same document, given by the newest attestation of that registration that is final.
//!
//! Answers go through the same outbox. A request costs us a fee, so an attestation answers a few of them at most, within the chain's budget.

use std::{
    collections::BTreeSet,
    sync::PoisonError,
    time::{Duration, Instant},
};

use credence_chain::ChainError;
use credence_pipeline::{
    attestations::{AttestationState, AttestationStep as Step, Inclusion, MAX_ANSWERS, MAX_NONCES},
    query,
};
use credence_protocol::Uuid;

use super::{
    AttestError, Attester, AttestingChain,
    convert::call,
    fate::{self, Fate},
    look::{Look, Next, Seen, affordable, nonces, waiting},
};
use crate::crawl::HasAuthority;

/// How often requests are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(60);

impl<A: HasAuthority> Attester<A> {
    pub(super) async fn answer_when_due(&self) {
        {
            let mut requested = self.requested.lock().unwrap_or_else(PoisonError::into_inner);
            if requested.is_some_and(|at: Instant| at.elapsed() < LOOK_EVERY) {
                return;
            }
            *requested = Some(Instant::now());
        }
        for chain in self.chains.keys() {
            if let Err(error) = self.answer_requests(chain).await {
                tracing::warn!(chain, %error, "validation requests were not answered");
            }
        }
    }

    /// Begins to answer the requests of a chain's validation registry, where one is configured.
    pub async fn answer_requests(&self, chain: &str) -> Result<(), AttestError> {
        let asked = self.chain(chain)?.writer.requested_validations().await?;
        if asked.is_empty() {
            return Ok(());
        }
        let chain = chain.to_owned();
        let newest: Vec<Uuid> = self
            .blocking(move |this| {
                let view = this.owner.authority().ledger().view()?;
                let mut known = BTreeSet::new();
                let rows = query::attestations_of(&*view, None, usize::MAX)?.into_iter();
                // Newest first within an agent, and a registration is one agent's.
                let mut here: Vec<_> = rows
                    .filter(|(_, row)| row.chain == chain && row.state == AttestationState::Final)
                    .filter(|(_, row)| asked.contains(&row.subject))
                    .collect();
                here.sort_by_key(|(_, row)| std::cmp::Reverse(row.intent_seq()));
                here.retain(|(_, row)| known.insert(row.subject.clone()));
                Ok(here.into_iter().map(|(id, _)| id).collect())
            })
            .await?;
        for id in newest {
            self.step(id).await?;
        }
        Ok(())
    }

    /// The next request that a final attestation answers.
    pub(super) async fn request(&self, chain: &AttestingChain, seen: &Seen) -> Result<Next, AttestError> {
        if seen.row.answers.len() >= MAX_ANSWERS {
            return Ok(Next::Over);
        }
        let attestation = call(&seen.row);
        let open = chain.writer.validation_requests(&attestation).await?;
        let is_new = |request: &&String| !seen.row.answers.iter().any(|answer| answer.request == **request);
        let Some(request) = open.iter().find(is_new) else { return Ok(Next::Over) };
        match chain.writer.prepare_validation(request, &attestation, None).await {
            Ok(transaction) => {
                let mut next = seen.signed(Step::ValidationSent, transaction);
                if let Next::Record(record, _) = &mut next {
                    record.request = Some(request.clone());
                }
                Ok(next)
            }
            Err(ChainError::Reverted { .. }) => Ok(Next::Over),
            Err(error) => Err(error.into()),
        }
    }

    /// A request is being answered.
    pub(super) async fn answering(&self, chain: &AttestingChain, seen: &Seen, look: Look) -> Result<Look, AttestError> {
        let Some(request) = seen.row.request.as_deref() else { return Ok(look) };
        let (writer, attestation, sent) = (&chain.writer, call(&seen.row), &seen.row.validations);
        let fate = fate::of(writer, sent).await?;
        let is_lost = self.is_lost(seen.id, fate == Fate::Dead);
        let next = match fate {
            Fate::Included { confirmations, .. } if confirmations < chain.confirmations => Next::Wait,
            Fate::Included { inclusion, succeeded: true, .. } => {
                seen.included(Step::Validated, Inclusion { index: None, ..inclusion })
            }
            Fate::Included { inclusion, .. } => {
                let mut next = seen.because(Step::ValidationGivenUp, "the answer failed on the chain");
                if let Next::Record(record, _) = &mut next {
                    record.inclusion = Some(Inclusion { index: None, ..inclusion });
                }
                next
            }
            Fate::Live { newest, pending } => {
                let dearer = match self.is_stuck(chain, sent) {
                    true => affordable(writer.prepare_validation(request, &attestation, Some(&newest)).await)?,
                    false => None,
                };
                return Ok(waiting(seen, Step::ValidationSent, look, newest, pending, dearer));
            }
            Fate::Dead if !is_lost => Next::Wait,
            Fate::Dead => {
                let is_open = writer.validation_requests(&attestation).await?.iter().any(|open| open == request);
                match seen.withdrawn {
                    _ if !is_open => seen.included(Step::Validated, Inclusion::default()),
                    Some(why) => seen.because(Step::ValidationGivenUp, why),
                    None if nonces(sent) >= MAX_NONCES => {
                        seen.because(Step::ValidationGivenUp, "nothing that was sent for it can be included any more")
                    }
                    None => match writer.prepare_validation(request, &attestation, None).await {
                        Ok(transaction) => seen.signed(Step::ValidationSent, transaction),
                        Err(ChainError::Reverted { .. }) => {
                            seen.because(Step::ValidationGivenUp, "the registry refuses the answer")
                        }
                        Err(error) => return Err(error.into()),
                    },
                }
            }
        };
        Ok(Look { next, ..look })
    }
}
