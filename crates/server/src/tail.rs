//! Follows the ledger: what each new entry changes for answers that were given, and what listeners want to hear of.

use std::{
    collections::HashMap,
    ops::ControlFlow,
    sync::{
        Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use credence_ledger::{Entry, Kind, Ledger};
use credence_protocol::EntityId;

/// Agents whose last change is remembered one by one; beyond that, everything counts as changed.
const MAX_AGENTS: usize = 100_000;

/// What is known of the entries so far.
pub(crate) struct Tail {
    /// Entries looked at.
    seen: AtomicU64,
    changes: RwLock<Changes>,
    /// One follows at a time.
    turn: Mutex<()>,
}

#[derive(Default)]
struct Changes {
    /// The ledger's size after the last entry that may concern any agent.
    anyone: u64,
    /// The same for single agents.
    agents: HashMap<EntityId, u64>,
}

/// Whom an entry concerns.
enum Concerns {
    Nobody,
    Subject,
    Anyone,
}

fn concerns(kind: Kind) -> Concerns {
    match kind {
        // Of no consequence to an answer.
        Kind::Responses
        | Kind::Link
        | Kind::Dispute
        | Kind::Credential
        | Kind::Report
        | Kind::Attestation
        | Kind::Outcome
        | Kind::Key
        // Its signals follow.
        | Kind::Probe
        | Kind::Receipt
        | Kind::HeldReceipt
        | Kind::Canary
        | Kind::Control
        | Kind::Operation
        | Kind::Segment
        | Kind::Checkpoint => Concerns::Nobody,
        // An answer names the score event that it rests on: the newest.
        Kind::Score
        | Kind::Signal
        | Kind::Agent
        | Kind::Identity
        | Kind::Withdrawal
        | Kind::Standing
        | Kind::CredentialRevocation => Concerns::Subject,
        // Weights, keys, and words that reach further than whom they are about.
        Kind::Source
        | Kind::Clock
        | Kind::Tag
        | Kind::KeyRevocation
        | Kind::Summary
        | Kind::Contract
        | Kind::Verification
        | Kind::Challenge
        | Kind::Resolution
        | Kind::Review => Concerns::Anyone,
    }
}

impl Tail {
    /// From the ledger's present end on.
    pub(crate) fn from(seen: u64) -> Self {
        Self { seen: AtomicU64::new(seen), changes: RwLock::default(), turn: Mutex::default() }
    }

    /// Entries looked at.
    pub(crate) fn seen(&self) -> u64 {
        self.seen.load(Ordering::Acquire)
    }

    /// Looks at every entry that is durable by now; `each` hears of them in order, once.
    pub(crate) fn follow(&self, ledger: &dyn Ledger, each: &mut dyn FnMut(u64, &Entry)) -> credence_ledger::Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let from = self.seen();
        let view = ledger.view()?;
        let size = view.size()?;
        if size == from {
            return Ok(());
        }
        let mut changed: HashMap<EntityId, u64> = HashMap::new();
        let (mut anyone, mut failed) = (None, None);
        view.entries(from, &mut |seq, bytes| {
            match Entry::parse(seq, bytes) {
                Ok(entry) => {
                    match concerns(entry.kind) {
                        Concerns::Nobody => {}
                        Concerns::Subject => drop(changed.insert(entry.subject.clone(), seq + 1)),
                        Concerns::Anyone => anyone = Some(seq + 1),
                    }
                    each(seq, &entry);
                }
                Err(error) => {
                    failed = Some(error);
                    anyone = Some(seq + 1);
                }
            }
            ControlFlow::Continue(())
        })?;
        {
            let mut changes = self.changes.write().unwrap_or_else(PoisonError::into_inner);
            if changes.agents.len() + changed.len() > MAX_AGENTS {
                changes.agents.clear();
                anyone = Some(size);
            }
            changes.anyone = anyone.unwrap_or(changes.anyone);
            changes.agents.extend(changed);
        }
        self.seen.store(size, Ordering::Release);
        failed.map_or(Ok(()), Err)
    }

    /// Whether nothing that concerns `agent` was recorded since the ledger had `as_of` entries, as far as was looked.
    pub(crate) fn holds(&self, agent: &EntityId, as_of: u64) -> bool {
        let changes = self.changes.read().unwrap_or_else(PoisonError::into_inner);
        changes.anyone <= as_of && changes.agents.get(agent).is_none_or(|changed| *changed <= as_of)
    }
}
