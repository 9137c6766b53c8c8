//! Work that is due, as jobs of the ledger: they commit with the entries that ask for them, so a crash in between loses none.
//!
//! | queue | key | done by |
//! |---|---|---|
//! | `rescore` | agent | [`crate::score`]: its signals changed |
//! | `recompute` | `*` | [`crate::recompute`]: a weight or an owner changed, so everyone's score may have |
//! | `age` | agent, at the hour when age alone may change its assured score | [`crate::age`] |
//! | `derive` | agent, or agent/why at a later time | [`crate::derive`]: what the authority's own signals follow from changed, or lapses |
//!
//! The payload is the seq of the entry that asked.

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

/// Age alone may change the assured score of `agent` at `at`. A later call moves the time.
pub(crate) fn age_at(tx: &mut dyn Transaction, agent: &EntityId, at: Timestamp, seq: u64) -> Result<()> {
    Ok(tx.put_jobs(&[NewJob::at(AGE, agent.as_str(), at, seq.to_string())])?)
}

/// Whether a newer score of `agent` is on its way.
pub fn awaits_score(view: &(impl View + ?Sized), agent: &EntityId) -> Result<bool> {
    Ok(view.job(RESCORE, agent.as_str())?.is_some() || view.job(RECOMPUTE, EVERYONE)?.is_some())
}
