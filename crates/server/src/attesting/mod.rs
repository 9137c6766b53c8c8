//! Scores written to chains: drives attestations from their intent to a block that stays, and takes them back.
//!
//! ```text
//! open attestations of a chain ──► look (ask the node) ──► record the step (one unit of work) ──► send the signed bytes
//! ```
//!
//! The three parts of a step are separate functions, so that a process may die between any two of them: what was recorded and not sent is
//! found by the next look, what was signed and not recorded was never sent. Several nodes on one database may do this at once: a job by chain
//! keeps them from doing the same work, and the ledger takes a step from one of them only.
//!
//! - [`look`](Attester::look): what to do next, by what the node says;
//! - [`answer_requests`](Attester::answer_requests): requests of a validation registry are answered with the newest attestation;
//! - [`review`](Attester::review): by rule, which scores are to be written, and which attestations are to be taken back.

mod convert;
mod error;
mod fate;
mod look;
mod on_request;
mod review;
mod validation;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use credence_chain::{
    attest::{Prepared, Writer},
    config::{ChainConfig, ConfigError, Environment},
    solana::FINAL_CONFIRMATIONS,
};
use credence_ledger::{Claim, Clock, LogVerifier, Queue};
use credence_pipeline::{
    Error,
    attestations::{AttestationState, AttestationStep, Draft, Recorded},
    credentials::Office,
    due, query,
    record::AttestationRecord,
};
use credence_protocol::{EntityId, ExternalSubject, Timestamp, Uuid};
use tokio::sync::watch;

use crate::crawl::HasAuthority;
pub use convert::call;
pub use error::AttestError;
pub use look::{Look, Next};
pub use review::MOVED_BY;

/// How long a chain's job is held: longer than a round, whose requests end after 30 s each at most.
const LEASE: Duration = Duration::from_secs(600);
/// Chains, and agents, that are taken at once.
const AT_ONCE: usize = 16;
/// A job of a chain that is not configured here is looked at again after so long.
const ELSEWHERE_SECONDS: i64 = 3600;

/// A chain that scores are written to.
#[derive(Debug)]
pub struct AttestingChain {
    /// Writes to it.
    pub writer: Writer,
    /// Blocks after which a block stays.
    pub confirmations: u64,
    /// After so long a transaction that is not included is replaced.
    pub replace_after_seconds: u64,
    /// The most that all attestations of 24 hours may cost.
    pub daily_budget: Option<u128>,
    /// Whether scores are written without being asked for.
    pub by_rule: bool,
    /// Whether documents may be served from an address that only this machine reaches.
    pub local: bool,
}

impl AttestingChain {
    /// As configured; `None` where nothing is written. Reads the key, asks nobody.
    pub fn new(config: &ChainConfig, environment: &Environment<'_>) -> Result<Option<Self>, ConfigError> {
        let (Some(attest), Some(writer)) = (&config.attest, config.writer(environment)?) else { return Ok(None) };
        Ok(Some(Self {
            writer,
            confirmations: match config.is_solana() {
                true => FINAL_CONFIRMATIONS,
                false => config.evm(environment)?.confirmations,
            },
            replace_after_seconds: attest.replace_after_seconds,
            daily_budget: config.daily_budget()?,
            by_rule: attest.by_rule,
            local: config.allow_loopback,
        }))
    }
}

/// Chains that scores are written to, by their ids.
pub type AttestingChains = Arc<BTreeMap<String, AttestingChain>>;

/// How often, and how patiently, nodes are asked.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Between two looks at what is due.
    pub look: Duration,
    /// Until a chain with open attestations is looked at again, in seconds.
    pub again_seconds: i64,
    /// Looks in a row that must agree before something is believed lost. Nodes behind one address are not always in step.
    pub looks_until_lost: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { look: Duration::from_secs(1), again_seconds: 5, looks_until_lost: 3 }
    }
}

/// Writes scores to chains.
pub struct Attester<A: HasAuthority> {
    owner: Arc<A>,
    office: Office,
    log: LogVerifier,
    clock: Clock,
    chains: AttestingChains,
    pace: Pace,
    /// How often in a row something looked lost.
    lost: Arc<Mutex<HashMap<Uuid, u32>>>,
    /// When agents without a review were searched for last.
    planned: Arc<Mutex<Option<Instant>>>,
    /// When validation requests were looked for last.
    requested: Arc<Mutex<Option<Instant>>>,
}

impl<A: HasAuthority> Clone for Attester<A> {
    fn clone(&self) -> Self {
        Self {
            owner: Arc::clone(&self.owner),
            office: self.office.clone(),
            log: self.log.clone(),
            clock: Arc::clone(&self.clock),
            chains: Arc::clone(&self.chains),
            pace: self.pace,
            lost: Arc::clone(&self.lost),
            planned: Arc::clone(&self.planned),
            requested: Arc::clone(&self.requested),
        }
    }
}

impl<A: HasAuthority> Attester<A> {
    /// Writes what `owner` says to `chains`; `office` signs the documents and says where they are served.
    pub fn new(
        owner: Arc<A>,
        office: Office,
        log: LogVerifier,
        clock: Clock,
        chains: Vec<AttestingChain>,
        pace: Pace,
    ) -> Self {
        let chains = chains.into_iter().map(|chain| (chain.writer.chain().to_owned(), chain)).collect();
        Self::sharing(owner, office, log, clock, Arc::new(chains), pace)
    }

    fn sharing(
        owner: Arc<A>,
        office: Office,
        log: LogVerifier,
        clock: Clock,
        chains: AttestingChains,
        pace: Pace,
    ) -> Self {
        Self {
            owner,
            office,
            log,
            clock,
            chains,
            pace,
            lost: Arc::default(),
            planned: Arc::default(),
            requested: Arc::default(),
        }
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// The configured chain.
    pub fn chain(&self, id: &str) -> Result<&AttestingChain, AttestError> {
        self.chains.get(id).ok_or_else(|| AttestError::NotConfigured(id.to_owned()))
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, AttestError> + Send + 'static,
    ) -> Result<T, AttestError> {
        let this = self.clone();
        tokio::task::spawn_blocking(move || work(&this)).await.map_err(|e| AttestError::Thread(e.to_string()))?
    }

    /// The intent of an attestation, with its signed document. Recorded by [`Self::intend`]. `rescore`: newer score events are recorded
    /// first where they are due.
    pub async fn draft(
        &self,
        agent: &EntityId,
        chain: &str,
        subject: Option<&ExternalSubject>,
        rescore: bool,
    ) -> Result<AttestationRecord, AttestError> {
        let attesting = self.chain(chain)?;
        // Readers of the chain have to reach the document.
        if !self.office.base_url.starts_with("https://") && !attesting.local {
            return Err(AttestError::NotPublic(self.office.base_url.clone()));
        }
        let (agent, chain, subject, by) =
            (agent.clone(), chain.to_owned(), subject.cloned(), attesting.writer.address());
        self.blocking(move |this| {
            let draft = Draft { agent: &agent, chain: &chain, subject: subject.as_ref(), by: &by, rescore };
            Ok(this.owner.authority().draft_attestation(&this.office, &this.log, draft)?)
        })
        .await
    }

    /// Records an intent; from then on it is driven.
    pub async fn intend(&self, record: AttestationRecord) -> Result<u64, AttestError> {
        self.blocking(move |this| Ok(this.owner.authority().intend_attestation(record)?)).await
    }

    /// Records the step of a look. False where somebody else was first: what was signed must not be sent.
    pub async fn record(&self, look: &Look) -> Result<bool, AttestError> {
        let Next::Record(record, _) = &look.next else { return Ok(true) };
        let budget = self.chain(&record.chain)?.daily_budget;
        let (record, after) = (record.clone(), look.after);
        let recorded = self
            .blocking(move |this| Ok(this.owner.authority().record_attestation_step(*record, after, budget)?))
            .await?;
        Ok(matches!(recorded, Recorded::Entry(_)))
    }

    /// Sends the bytes of a look whose step is recorded.
    pub async fn send(&self, look: &Look) -> Result<(), AttestError> {
        let prepared: &Prepared = match &look.next {
            Next::Record(_, Some(prepared)) | Next::Send(prepared) => prepared,
            _ => return Ok(()),
        };
        Ok(self.chain(&look.chain)?.writer.send(prepared).await?)
    }

    /// One step of an attestation: look, record, send. True where something was recorded.
    pub async fn step(&self, id: Uuid) -> Result<bool, AttestError> {
        let look = self.look(id).await?;
        match self.record(&look).await {
            Ok(true) => {
                self.send(&look).await?;
                Ok(matches!(look.next, Next::Record(..)))
            }
            Ok(false) => Ok(false),
            // The replacement is too dear for today: what was sent before stays, and a node that forgot it gets it again.
            Err(AttestError::Pipeline(Error::AttestationBudget { .. })) if look.sent_before.is_some() => {
                if let Some(before) = &look.sent_before {
                    self.chain(&look.chain)?.writer.send(before).await?;
                }
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// One step of each open attestation of a chain, oldest first. The first error is given after all of them had their turn.
    pub async fn drive(&self, chain: &str) -> Result<bool, AttestError> {
        self.chain(chain)?;
        let name = chain.to_owned();
        let open =
            self.blocking(move |this| Ok(query::open_attestations(&*this.owner.authority().ledger().view()?, &name)?));
        let (mut moved, mut failed) = (false, None);
        for (id, _) in open.await? {
            match self.step(id).await {
                Ok(step) => moved |= step,
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(moved), Err)
    }

    /// Gives up an attestation that was never sent.
    pub async fn give_up(&self, id: Uuid, why: &str) -> Result<bool, AttestError> {
        let reason = convert::reason(why);
        let recorded = self.blocking(move |this| {
            let authority = this.owner.authority();
            let row = query::attestation(&*authority.ledger().view()?, id)?.ok_or(AttestError::Unknown(id))?;
            if row.state != AttestationState::Intent {
                return Ok(Recorded::MovedOn);
            }
            let mut record = row.next(id, AttestationStep::GivenUp);
            record.reason = Some(reason);
            Ok(authority.record_attestation_step(record, row.newest_seq(), None)?)
        });
        Ok(matches!(recorded.await?, Recorded::Entry(_)))
    }

    /// Does what is due until `stop`.
    pub async fn run_until(&self, mut stop: watch::Receiver<bool>) {
        let mut failing = false;
        loop {
            let done = self.round().await;
            match (&done, failing) {
                (Err(error), false) => tracing::error!(%error, "attesting failed: it will be tried again"),
                (Ok(()), true) => tracing::info!("attesting works again"),
                _ => {}
            }
            failing = done.is_err();
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(self.pace.look) => {}
            }
        }
    }

    /// Does what is due now: reviews of agents, then a step of each open attestation.
    pub async fn round(&self) -> Result<(), AttestError> {
        self.plan_reviews().await?;
        for claim in self.claim(due::ATTEST_REVIEW).await? {
            let (again, why) = self.reviewed(&claim.job.key).await;
            self.settle(claim, again, why).await?;
        }
        for claim in self.claim(due::ATTEST).await? {
            let chain = claim.job.key.clone();
            if !self.chains.contains_key(&chain) {
                let again = self.now().plus_seconds(ELSEWHERE_SECONDS);
                self.settle(claim, Some(again), Some("the chain is not configured here".into())).await?;
                continue;
            }
            let driven = self.drive(&chain).await;
            let why = driven.err().map(|error| error.to_string());
            if let Some(why) = &why
                && claim.job.last_error.as_ref() != Some(why)
            {
                tracing::warn!(chain, why, "an attestation waits");
            }
            let left = self.blocking(move |this| {
                Ok(!query::open_attestations(&*this.owner.authority().ledger().view()?, &chain)?.is_empty())
            });
            let again = left.await?.then(|| self.now().plus_seconds(self.pace.again_seconds));
            self.settle(claim, again, why).await?;
        }
        self.answer_when_due().await;
        Ok(())
    }

    async fn claim(&self, queue: Queue) -> Result<Vec<Claim>, AttestError> {
        self.blocking(move |this| {
            let jobs = this.owner.authority().ledger().jobs();
            // What is looked at every second should cost nothing where there is nothing.
            if jobs.next_due(queue)?.is_none_or(|due| due > this.now()) {
                return Ok(Vec::new());
            }
            Ok(jobs.claim(queue, AT_ONCE, LEASE)?)
        })
        .await
    }

    /// Ends a claim: the job is due `again`, or done.
    async fn settle(&self, claim: Claim, again: Option<Timestamp>, why: Option<String>) -> Result<(), AttestError> {
        self.blocking(move |this| {
            let jobs = this.owner.authority().ledger().jobs();
            match again {
                Some(again) => jobs.fail(&claim, again, why.as_deref().unwrap_or_default())?,
                None => jobs.complete(&claim)?,
            };
            Ok(())
        })
        .await
    }

    /// Whether something looked lost often enough in a row. `false` starts the count anew.
    fn is_lost(&self, id: Uuid, looks_so: bool) -> bool {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        if !looks_so {
            lost.remove(&id);
            return false;
        }
        let looks = lost.entry(id).or_default();
        *looks += 1;
        if *looks < self.pace.looks_until_lost {
            return false;
        }
        lost.remove(&id);
        true
    }
}
