//! Proofs of links, checked again: what is gone breaks the link, what cannot be reached breaks it after a week.

use std::collections::BTreeSet;

use credence_ingest::links::{self as proofs, CheckFailure};
use credence_ledger::{Claim, NewJob};
use credence_pipeline::{
    due,
    links::{self, PATIENCE_SECONDS, RECHECK_SECONDS},
    query,
    record::LinkState,
};
use credence_protocol::{EntityId, ExternalSubject, LinkProof, LinkStatement, Timestamp};
use tokio::task::JoinSet;

use super::{CrawlError, HasAuthority, LEASE, Runner, Selection, Totals};

/// Proofs checked at once.
const AT_ONCE: usize = 16;
/// When a proof that cannot be reached is looked for again.
const RETRY_SECONDS: i64 = 3_600;
/// Characters of a reason that is recorded.
const MAX_REASON: usize = 200;

impl<A: HasAuthority> Runner<A> {
    /// Checks every link that is due.
    pub(super) async fn recheck_links(&self, totals: &mut Totals) -> Result<(), CrawlError> {
        loop {
            let claims = self
                .blocking(|this| Ok(this.owner.authority().ledger().jobs().claim(due::LINK, AT_ONCE, LEASE)?))
                .await?;
            if claims.is_empty() {
                return Ok(());
            }
            let mut checks: JoinSet<Result<bool, CrawlError>> = JoinSet::new();
            for claim in claims {
                let this = self.clone();
                let (key, payload) = (claim.job.key.clone(), claim.job.payload.clone());
                checks.spawn(async move { this.recheck(key, payload, Some(claim)).await });
            }
            while let Some(done) = checks.join_next().await {
                totals.links_checked += 1;
                totals.links_broken += usize::from(done.map_err(|e| CrawlError::Thread(e.to_string()))??);
            }
        }
    }

    /// Checks the proofs that the questions of a selection rest on: those that are due, or all of them where everything is asked now.
    pub(super) async fn recheck_selected(&self, selection: &Selection, totals: &mut Totals) -> Result<(), CrawlError> {
        let targets = self.targets(selection.clone()).await?;
        let links: BTreeSet<String> = targets.into_iter().map(|one| format!("{}/{}", one.agent, one.link)).collect();
        let mut due = Vec::new();
        {
            let (view, now) = (self.owner.authority().ledger().view()?, self.now());
            for key in links {
                let job = view.job(due::LINK, &key)?;
                if selection.now || job.as_ref().is_none_or(|job| job.due <= now) {
                    due.push((key, job.map(|job| job.payload).unwrap_or_default()));
                }
            }
        }
        for some in due.chunks(AT_ONCE) {
            let mut checks: JoinSet<Result<bool, CrawlError>> = JoinSet::new();
            for (key, payload) in some.iter().cloned() {
                let this = self.clone();
                checks.spawn(async move { this.recheck(key, payload, None).await });
            }
            while let Some(done) = checks.join_next().await {
                totals.links_checked += 1;
                totals.links_broken += usize::from(done.map_err(|e| CrawlError::Thread(e.to_string()))??);
            }
        }
        Ok(())
    }

    /// Checks the proof of a link that was just claimed, and records it where it holds.
    pub async fn prove(
        &self,
        statement: &LinkStatement,
        signature: Option<&str>,
    ) -> Result<Result<LinkProof, CheckFailure>, CrawlError> {
        let found = proofs::check(&self.crawler, statement, signature, self.now()).await;
        if let Ok(proof) = &found {
            let (statement, proof) = (statement.clone(), proof.clone());
            self.blocking(move |this| Ok(this.owner.authority().prove_link(&statement, proof)?)).await?;
        }
        Ok(found)
    }

    /// The link holds for now.
    async fn check_again(&self, job: NewJob, claim: Option<Claim>) -> Result<bool, CrawlError> {
        self.blocking(move |this| {
            let jobs = this.owner.authority().ledger().jobs();
            jobs.put(&[job])?;
            if let Some(claim) = claim {
                jobs.complete(&claim)?;
            }
            Ok(false)
        })
        .await
    }

    /// The link was claimed anew, and its new line was not proved in time.
    async fn lapse(&self, agent: EntityId, link: ExternalSubject) -> Result<bool, CrawlError> {
        self.blocking(move |this| {
            let withdrawn = this.owner.authority().lapse_link(&agent, &link)?;
            tracing::warn!(%agent, %link, withdrawn, "a link was claimed anew and not proved: what came over it is withdrawn");
            Ok(false)
        })
        .await
    }

    /// Checks one link again. Whether it is broken now.
    async fn recheck(&self, key: String, payload: String, claim: Option<Claim>) -> Result<bool, CrawlError> {
        let (agent, link) = links::split(&key)?;
        let statement = self.owner.authority().link_statement(&agent, &link)?;
        let row = query::link(&*self.owner.authority().ledger().view()?, &agent, &link)?;
        if row.as_ref().is_some_and(|row| row.state != LinkState::Proven) {
            return self.lapse(agent, link).await;
        }
        let signature = row.and_then(|row| row.proof).and_then(|proof| proof.signature);
        let now = self.now();
        let found = proofs::check(&self.crawler, &statement, signature.as_deref(), now).await;
        let since: Option<Timestamp> = payload.parse().ok();
        let reason = match found {
            Ok(_) => {
                let again = now.plus_seconds(RECHECK_SECONDS).min(statement.expires.plus_seconds(1));
                return self.check_again(NewJob::at(due::LINK, key, again, ""), claim).await;
            }
            Err(CheckFailure::NotProved(why)) => why,
            Err(CheckFailure::Unreachable(why)) => {
                let first = since.unwrap_or(now);
                if now < first.plus_seconds(PATIENCE_SECONDS) {
                    let again = now.plus_seconds(RETRY_SECONDS);
                    return self.check_again(NewJob::at(due::LINK, key, again, first.to_string()), claim).await;
                }
                format!("its proof could not be reached for a week: {why}")
            }
        };
        let reason: String = reason.chars().filter(|c| !credence_protocol::is_deceptive(*c)).take(MAX_REASON).collect();
        tracing::warn!(%agent, %link, reason, "a link is broken");
        self.blocking(move |this| {
            this.owner.authority().break_link(&agent, &link, &reason)?;
            Ok(true)
        })
        .await
    }
}
