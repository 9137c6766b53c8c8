//! Admission: from bytes to an entry (seed 4, "Validate + persist"; DESIGN, *Signals*).
//!
//! Two steps. [`Gate::check`] needs only what never changes (form, tags, the key's owner, the signature, the time) and
//! runs on as many threads as there are. [`record_batch`] runs in the writer, where it sees every signal before this one:
//! duplicates, revocations, the agent, what is superseded; it stamps the source's weight, appends and projects. Both ask
//! [`rules`], as an audit does.

pub(crate) mod rules;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{PoisonError, RwLock},
};

use credence_ledger::{Appended, Entry, Kind, Ledger, NewEntry, Overlay, Transaction};
use credence_protocol::{Audience, EntityId, KeyId, PublicKey, Signal, TagRegistry, Timestamp, Uuid};
use serde::Serialize;

use crate::{
    Rejection, Result, projection,
    tables::{self, KeyRow},
};

/// A signal in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Admitted {
    /// Its entry.
    pub seq: u64,
    /// It was there before, with the same bytes: nothing was appended.
    pub known: bool,
}

/// What became of one signal. The outer error is the ledger's: nothing of the batch is in it then.
pub type Verdict = std::result::Result<Admitted, Rejection>;

/// A signal that passed every check that needs no state but keys.
#[derive(Debug, Clone)]
pub struct Checked(Signal);

impl Checked {
    /// One that the authority just signed itself.
    pub(crate) fn own(signal: Signal) -> Self {
        Self(signal)
    }
}

/// The first step of admission.
pub struct Gate {
    tags: TagRegistry,
    origin: Audience,
    /// Keys and their owners, read once: they never change. Revocation does, and is looked up in the second step.
    keys: RwLock<HashMap<KeyId, (EntityId, PublicKey)>>,
}

impl Gate {
    /// With these tags, of the authority with this origin.
    pub fn new(tags: TagRegistry, origin: Audience) -> Self {
        Self { tags, origin, keys: RwLock::default() }
    }

    pub(crate) fn origin(&self) -> &Audience {
        &self.origin
    }

    /// The registered tags.
    pub fn tags(&self) -> &TagRegistry {
        &self.tags
    }

    /// Reads the keys among `ids` that were not read before, all of them with one call of the ledger.
    pub(crate) fn read_keys(&self, ledger: &dyn Ledger, ids: impl Iterator<Item = KeyId>) -> Result<()> {
        let unread: BTreeMap<String, KeyId> = {
            let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
            ids.filter(|id| !keys.contains_key(id)).map(|id| (id.to_string(), id)).collect()
        };
        if unread.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = unread.keys().map(String::as_str).collect();
        let rows = ledger.view()?.get_many(tables::KEYS, &names)?;
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        for ((name, id), bytes) in unread.iter().zip(rows) {
            if let Some(bytes) = bytes {
                let KeyRow { source, public_key, .. } = tables::parse(tables::KEYS, name, &bytes)?;
                keys.insert(*id, (source, public_key));
            }
        }
        Ok(())
    }

    /// Checks a signal at `now`, after its key was read.
    pub(crate) fn check(&self, signal: Signal, now: Timestamp) -> std::result::Result<Checked, Rejection> {
        let (owner, key) = self.known_key(signal.key_id()).ok_or(Rejection::UnknownKey(signal.key_id()))?;
        rules::form(&self.tags, &self.origin, &signal, &owner, now)?;
        signal.verify(&key)?;
        Ok(Checked(signal))
    }

    fn known_key(&self, id: KeyId) -> Option<(EntityId, PublicKey)> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    pub(crate) fn key(&self, ledger: &dyn Ledger, id: KeyId) -> Result<Option<(EntityId, PublicKey)>> {
        self.read_keys(ledger, std::iter::once(id))?;
        Ok(self.known_key(id))
    }
}

/// The second step for a batch: one verdict each, in order. Reads and writes go to the database together.
pub(crate) fn record_batch(tx: &mut dyn Transaction, batch: &[Checked]) -> Result<Vec<Verdict>> {
    Overlay::run(tx, |tx| {
        prefetch(tx, batch)?;
        batch.iter().map(|checked| record_signal(tx, &checked.0)).collect()
    })
}

/// Fetches every row that the batch will need.
fn prefetch(tx: &Overlay<'_>, batch: &[Checked]) -> Result<()> {
    let drafts = || batch.iter().map(|checked| checked.0.draft());
    let ids: Vec<String> =
        drafts().flat_map(|draft| [Some(draft.id), draft.supersedes]).flatten().map(|id| id.to_string()).collect();
    tx.prefetch(tables::SIGNAL_IDS, ids.iter().map(String::as_str))?;
    tx.prefetch(tables::AGENTS, drafts().map(|draft| draft.agent.as_str()))?;
    tx.prefetch(tables::SOURCES, drafts().map(|draft| draft.source.as_str()))?;
    let keys: Vec<String> = batch.iter().map(|checked| checked.0.key_id().to_string()).collect();
    tx.prefetch(tables::KEYS, keys.iter().map(String::as_str))?;
    let slots: Vec<String> = drafts()
        .flat_map(|draft| draft.tags.iter().map(|tag| tables::slot(&draft.agent, &draft.source, tag)))
        .collect();
    Ok(tx.prefetch(tables::CURRENT, slots.iter().map(String::as_str))?)
}

fn record_signal(tx: &mut dyn Transaction, signal: &Signal) -> Result<Verdict> {
    let weight = match rules::state(tx, signal)? {
        Ok(weight) => weight,
        Err(Rejection::DuplicateId { id, seq }) => return same_or_duplicate(tx, signal, id, seq),
        Err(rejection) => return Ok(Err(rejection)),
    };
    let subject = signal.draft().agent.clone();
    let body = signal.canonical().clone();
    let entry = NewEntry { kind: Kind::Signal, subject: subject.clone(), body, weight: Some(weight) };
    let at: Appended = tx.append(&entry)?;
    projection::signal(tx, at, signal)?;
    Ok(Ok(Admitted { seq: at.seq, known: false }))
}

/// The id was used: the same signal again, or another under its id.
fn same_or_duplicate(tx: &dyn Transaction, signal: &Signal, id: Uuid, seq: u64) -> Result<Verdict> {
    let bytes = tx.entry(seq)?.unwrap_or_default();
    let same = Entry::parse(seq, &bytes)?.body() == signal.canonical().as_str();
    Ok(if same { Ok(Admitted { seq, known: true }) } else { Err(Rejection::DuplicateId { id, seq }) })
}
