//! Reviews of agents: by rule, a score that moved is written; a score that was withdrawn is taken back.
//!
//! A score is written where the chain's `by_rule` is on, the agent has a proven registration there, nothing was intended within a day, and
//! the assured score moved by [`MOVED_BY`] points since it was attested last, or never was. Whatever the rule, attestations of an agent whose
//! standing is revoked, or that is no longer rated, are taken back.

use std::time::{Duration, Instant};

use credence_chain::{ChainError, attest::Quote};
use credence_ledger::{NewJob, View};
use credence_pipeline::{
    attestations::{AttestationRow, AttestationState, AttestationStep},
    due, query,
    record::AttestationRecord,
};
use credence_protocol::{EntityId, ScoreStatus, SubjectKind, Timestamp, Uuid};

use super::{AttestError, Attester, AttestingChain, call};
use crate::crawl::HasAuthority;

/// Points by which a score must have moved to be written again.
pub const MOVED_BY: i64 = 3;
/// One attestation of an agent and chain in so long.
const DAY_SECONDS: i64 = 86_400;
/// How often an agent is looked at, where scores are written by rule.
const AGAIN_SECONDS: i64 = 3600;
/// How soon it is tried again where something was in the way.
const RETRY_SECONDS: i64 = 30;
/// How often agents that are not looked at yet are searched for.
const PLAN_EVERY: Duration = Duration::from_secs(600);

/// Why an agent's attestations are to be taken back, if they are.
pub(super) fn withdrawn(view: &dyn View, agent: &EntityId) -> credence_pipeline::Result<Option<&'static str>> {
    if query::agent(view, agent)?.revoked.is_some() {
        return Ok(Some("the agent's standing was revoked"));
    }
    let rated = query::assured(view, agent)?.is_some_and(|row| row.recorded.assured.status == ScoreStatus::Published);
    Ok((!rated).then_some("the agent is no longer rated"))
}

/// What was read for a review.
struct Reviewed {
    withdrawn: bool,
    score: Option<i64>,
    rows: Vec<(Uuid, AttestationRow)>,
    linked: bool,
}

impl<A: HasAuthority> Attester<A> {
    fn any_by_rule(&self) -> bool {
        self.chains.values().any(|chain| chain.by_rule)
    }

    /// Where scores are written by rule: sees to it that every agent with a registration on a chain is looked at.
    pub(super) async fn plan_reviews(&self) -> Result<(), AttestError> {
        let due = {
            let mut planned = self.planned.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let due = planned.is_none_or(|at: Instant| at.elapsed() >= PLAN_EVERY);
            if due {
                *planned = Some(Instant::now());
            }
            due
        };
        if !due || !self.any_by_rule() {
            return Ok(());
        }
        self.blocking(|this| {
            let ledger = this.owner.authority().ledger();
            let view = ledger.view()?;
            let mut jobs = Vec::new();
            for link in query::all_links(&*view)? {
                let agent = link.agent.as_str();
                if is_registration(&link) && view.job(due::ATTEST_REVIEW, agent)?.is_none() {
                    jobs.push(NewJob::now(due::ATTEST_REVIEW, agent, ""));
                }
            }
            drop(view);
            Ok(ledger.jobs().put(&jobs)?)
        })
        .await
    }

    /// Reviews the agent of a job. Gives when to look again, and what was in the way.
    pub(super) async fn reviewed(&self, key: &str) -> (Option<Timestamp>, Option<String>) {
        let Ok(agent) = EntityId::new(key) else { return (None, None) };
        match self.review(&agent).await {
            Ok(again) => (again.then(|| self.now().plus_seconds(AGAIN_SECONDS)), None),
            Err(error) => {
                tracing::warn!(agent = agent.as_str(), %error, "attestations could not be reviewed");
                (Some(self.now().plus_seconds(RETRY_SECONDS)), Some(error.to_string()))
            }
        }
    }

    /// Takes back what is to be taken back, and intends what is to be written by rule. True where the agent is to be looked at again.
    pub async fn review(&self, agent: &EntityId) -> Result<bool, AttestError> {
        let name = agent.clone();
        let reviewed = self
            .blocking(move |this| {
                let view = this.owner.authority().ledger().view()?;
                let assured = query::assured(&*view, &name)?;
                Ok(Reviewed {
                    withdrawn: withdrawn(&*view, &name)?.is_some(),
                    score: assured.map(|row| i64::from(row.recorded.assured.score)),
                    rows: query::attestations_of(&*view, Some(&name), usize::MAX)?,
                    linked: query::links_of(&*view, &name)?.iter().any(is_registration),
                })
            })
            .await?;
        if reviewed.withdrawn {
            let mut open = false;
            for (id, row) in &reviewed.rows {
                match row.state {
                    AttestationState::Final if self.chains.contains_key(&row.chain) => drop(self.step(*id).await?),
                    // What is under way is taken back once it stays.
                    state => open |= state.is_open() && state != AttestationState::RevocationSent,
                }
            }
            if open {
                return Err(AttestError::StillOpen(agent.clone()));
            }
        } else if let Some(score) = reviewed.score {
            for chain in self.chains.values().filter(|chain| chain.by_rule) {
                self.write_by_rule(agent, chain, score, &reviewed).await?;
            }
        }
        Ok(reviewed.linked && self.any_by_rule())
    }

    async fn write_by_rule(
        &self,
        agent: &EntityId,
        chain: &AttestingChain,
        score: i64,
        reviewed: &Reviewed,
    ) -> Result<(), AttestError> {
        let since = self.now().plus_seconds(-DAY_SECONDS);
        let here: Vec<&AttestationRow> =
            reviewed.rows.iter().map(|(_, row)| row).filter(|row| row.chain == chain.writer.chain()).collect();
        let recent = here.iter().any(|row| row.state.is_open() || row.intended_at().is_some_and(|at| at > since));
        // Newest first.
        let attested = here.iter().find(|row| row.state == AttestationState::Final);
        if recent || attested.is_some_and(|row| (row.value - score).abs() < MOVED_BY) {
            return Ok(());
        }
        let draft = match self.draft(agent, chain.writer.chain(), None, true).await {
            Ok(draft) => draft,
            // No registration there, or several: nothing for a rule.
            Err(AttestError::Pipeline(credence_pipeline::Error::Attestation(_))) => return Ok(()),
            Err(error) => return Err(error),
        };
        self.check_fee(chain, &draft).await?;
        self.intend(draft).await?;
        tracing::info!(agent = agent.as_str(), chain = chain.writer.chain(), score, "the score is to be attested");
        Ok(())
    }

    /// What an attestation can cost now. Fails where the wallet or the budget of the day does not allow it.
    pub async fn check_fee(&self, chain: &AttestingChain, draft: &AttestationRecord) -> Result<Quote, AttestError> {
        let missing = || AttestError::Unknown(draft.attestation);
        debug_assert_eq!(draft.step, AttestationStep::Intent);
        let quote = chain.writer.quote(&call(&draft.first_row().ok_or_else(missing)?)).await?;
        if quote.balance < quote.needed {
            let Quote { needed, balance, .. } = quote;
            return Err(ChainError::InsufficientFunds { needed, balance }.into());
        }
        let (name, budget, needed) = (draft.chain.clone(), chain.daily_budget, quote.max_fee);
        self.blocking(move |this| {
            let view = this.owner.authority().ledger().view()?;
            Ok(query::fits_attestation_budget(&*view, &name, this.now(), None, needed, budget)?)
        })
        .await?;
        Ok(quote)
    }
}

fn is_registration(link: &query::Link) -> bool {
    matches!(link.link.kind(), SubjectKind::Erc8004 | SubjectKind::Solana8004)
}
