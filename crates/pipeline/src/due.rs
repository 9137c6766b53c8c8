//! Work that is due, as jobs of the ledger: they commit with the entries that ask for them, so a crash in between loses none.
//!
//! | queue | key | done by |
//! |---|---|---|
//! | `rescore` | agent | [`crate::score`]: its signals changed |
//! | `recompute` | `*` | [`crate::recompute`]: a weight or an owner changed, so everyone's score may have |
//! | `age` | agent, at the hour when age alone may change its assured score | [`crate::age`] |
//! | `probe` | agent | `server`: a run of the sandbox that an operator asked for ([`crate::probe_schedule`]); its payload is the schedule |
//! | `derive` | agent, or agent/why at a later time | [`crate::derive`]: what the authority's own signals follow from changed, or lapses |
//! | `link` | agent/KIND:ID, when its proof is to be checked again | the crawler of the service |
//! | `crawl` | agent/source/KIND:ID, when its answer is out of date | the crawler of the service |
//! | `attest` | chain, as a CAIP-2 id | `server`: attestations of that chain have something left to do ([`crate::attestations`]) |
//! | `attest_review` | agent | `server`: its score or standing changed, and it has a registration on a chain |
//!
//! Where nothing else is said, the payload is the seq of the entry that asked; of `link` and `crawl`, what the crawler remembers
//! ([`crate::links`]).

use credence_ledger::{NewJob, Queue, Transaction, View};
use credence_protocol::{EntityId, Timestamp};

use crate::Result;

/// Agents to be scored again.
pub const RESCORE: Queue = Queue("rescore");
/// Everyone is to be scored again.
pub const RECOMPUTE: Queue = Queue("recompute");
/// Agents whose assured score may change by age.
pub const AGE: Queue = Queue("age");
/// Agents of whom the authority's own signals are to be derived again.
pub const DERIVE: Queue = Queue("derive");
/// Links whose proofs are to be checked again.
pub const LINK: Queue = Queue("link");
/// Sources to be asked.
pub const CRAWL: Queue = Queue("crawl");
/// Chains with attestations that have something left to do.
pub const ATTEST: Queue = Queue("attest");
/// Agents whose attestations are to be looked at: a newer score to be written, or all of them to be taken back.
pub const ATTEST_REVIEW: Queue = Queue("attest_review");
/// The one job in [`RECOMPUTE`].
pub const EVERYONE: &str = "*";

/// Why an agent's own signals are looked at after a midnight: its reputation may have moved.
pub(crate) const MIDNIGHT: &str = "midnight";

/// The agent's signals changed.
pub(crate) fn rescore(tx: &mut dyn Transaction, agent: &EntityId, seq: u64) -> Result<()> {
    Ok(tx.put_jobs(&[NewJob::now(RESCORE, agent.as_str(), seq.to_string())])?)
}

/// Something changed that every score may depend on.
pub(crate) fn rescore_everyone(tx: &mut dyn Transaction, seq: u64) -> Result<()> {
    Ok(tx.put_jobs(&[NewJob::now(RECOMPUTE, EVERYONE, seq.to_string())])?)
}

/// What the authority's own signals about `agent` follow from has changed.
pub(crate) fn derive(tx: &mut dyn Transaction, agent: &str, seq: u64) -> Result<()> {
    Ok(tx.put_jobs(&[NewJob::now(DERIVE, agent, seq.to_string())])?)
}

/// What the authority's own signals about `agent` follow from lapses at `at`. A later call for the same reason moves the time.
pub(crate) fn derive_at(tx: &mut dyn Transaction, agent: &EntityId, why: &str, at: Timestamp, seq: u64) -> Result<()> {
    Ok(tx.put_jobs(&[NewJob::at(DERIVE, format!("{agent}/{why}"), at, seq.to_string())])?)
}

/// The agent that a job of [`DERIVE`] is about.
pub(crate) fn agent_of(key: &str) -> Result<EntityId> {
    Ok(EntityId::new(key.split('/').next().unwrap_or_default())?)
}

/// The agent's standing changed, or it is no longer rated: what was written of it to chains may have to be taken back.
pub(crate) fn review_attestations(tx: &mut dyn Transaction, agent: &EntityId, seq: u64) -> Result<()> {
    if crate::attestations::of_agent(tx, Some(agent), 1)?.is_empty() {
        return Ok(());
    }
    Ok(tx.put_jobs(&[NewJob::now(ATTEST_REVIEW, agent.as_str(), seq.to_string())])?)
}

/// Age alone may change the assured score of `agent` at `at`. A later call moves the time.
pub(crate) fn age_at(tx: &mut dyn Transaction, agent: &EntityId, at: Timestamp, seq: u64) -> Result<()> {
    Ok(tx.put_jobs(&[NewJob::at(AGE, agent.as_str(), at, seq.to_string())])?)
}

/// Whether a newer score of `agent` is on its way.
pub fn awaits_score(view: &(impl View + ?Sized), agent: &EntityId) -> Result<bool> {
    Ok(view.job(RESCORE, agent.as_str())?.is_some() || view.job(RECOMPUTE, EVERYONE)?.is_some())
}
