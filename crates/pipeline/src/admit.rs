//! Admission: from bytes to an entry (seed 4, "Validate + persist"; DESIGN, *Signals*).
//!
//! Two steps. [`Gate::check`] needs only what never changes (form, tags, the key's owner, the signature, the time) and
//! runs on as many threads as there are. [`settle`] runs in the single writer, where it sees every signal before this
//! one: duplicates, revocations, the agent, what is superseded; it stamps the source's weight, appends and projects.

use std::{
    collections::{HashMap, HashSet},
    sync::{PoisonError, RwLock},
};

use credence_ledger::{Appended, Entry, Kind, Ledger, NewEntry, Transaction};
use credence_protocol::{EntityId, KeyId, PublicKey, Signal, TagRegistry, Timestamp, limits::MAX_CLOCK_SKEW_SECONDS};
use serde::Serialize;

use crate::{
    Error, Rejection, Result, projection,
    record::Record,
    tables::{self, AgentRow, KeyRow, SignalPlace, SourceRow},
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
#[derive(Debug)]
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
    /// Keys and their owners, read once: they never change. Revocation does, and is looked up in the second step.
    keys: RwLock<HashMap<KeyId, (EntityId, PublicKey)>>,
}

impl Gate {
    /// With these tags.
    pub fn new(tags: TagRegistry) -> Self {
        Self { tags, keys: RwLock::default() }
    }

    /// The registered tags.
    pub fn tags(&self) -> &TagRegistry {
        &self.tags
    }

    /// Checks `bytes` at `now`.
    pub fn check(
        &self,
        ledger: &dyn Ledger,
        bytes: &[u8],
        now: Timestamp,
    ) -> Result<std::result::Result<Checked, Rejection>> {
        let signal = match Signal::parse(bytes) {
            Ok(signal) => signal,
            Err(malformed) => return Ok(Err(malformed.into())),
        };
        let Some((owner, key)) = self.key(ledger, signal.key_id())? else {
            return Ok(Err(Rejection::UnknownKey(signal.key_id())));
        };
        Ok(self.examine(&signal, &owner, &key, now).map(|()| Checked(signal)))
    }

    fn examine(
        &self,
        signal: &Signal,
        owner: &EntityId,
        key: &PublicKey,
        now: Timestamp,
    ) -> std::result::Result<(), Rejection> {
        let draft = signal.draft();
        for tag in &draft.tags {
            let Some(definition) = self.tags.find(tag.as_str()) else {
                let nearest = self.tags.nearest(tag.as_str()).cloned();
                return Err(Rejection::UnknownTag { tag: tag.clone(), nearest });
            };
            if !definition.may_be_emitted_by(&draft.source) {
                return Err(Rejection::TagNotPermitted { tag: tag.clone(), source_id: draft.source.clone() });
            }
        }
        if *owner != draft.source {
            let (owner, claimed) = (owner.clone(), draft.source.clone());
            return Err(Rejection::KeyNotOfSource { key: signal.key_id(), owner, claimed });
        }
        let observed_at = draft.observed_at.at();
        if observed_at > now.plus_seconds(MAX_CLOCK_SKEW_SECONDS) {
            return Err(Rejection::Future { observed_at, now });
        }
        Ok(signal.verify(key)?)
    }

    pub(crate) fn key(&self, ledger: &dyn Ledger, id: KeyId) -> Result<Option<(EntityId, PublicKey)>> {
        if let Some(known) = self.keys.read().unwrap_or_else(PoisonError::into_inner).get(&id) {
            return Ok(Some(known.clone()));
        }
        let Some(row) = tables::get::<KeyRow>(&*ledger.view()?, tables::KEYS, &id.to_string())? else {
            return Ok(None);
        };
        let known = (row.source, row.public_key);
        self.keys.write().unwrap_or_else(PoisonError::into_inner).insert(id, known.clone());
        Ok(Some(known))
    }
}

/// The second step for a batch: one verdict each, in order.
pub fn settle(tx: &mut dyn Transaction, batch: Vec<Checked>) -> Result<Vec<Verdict>> {
    let mut seen = Seen::default();
    batch.into_iter().map(|checked| settle_one(tx, checked.0, &mut seen)).collect()
}

/// What a batch looked up already. Valid within one unit of work only: nobody else writes meanwhile.
#[derive(Default)]
struct Seen {
    agents: HashSet<EntityId>,
    keys: HashMap<KeyId, KeyRow>,
    weights: HashMap<EntityId, f64>,
}

impl Seen {
    fn agent(&mut self, tx: &dyn Transaction, agent: &EntityId) -> Result<bool> {
        if self.agents.contains(agent) {
            return Ok(true);
        }
        let known = tables::get::<AgentRow>(tx, tables::AGENTS, agent.as_str())?.is_some();
        if known {
            self.agents.insert(agent.clone());
        }
        Ok(known)
    }

    fn revoked_from(&mut self, tx: &dyn Transaction, key: KeyId) -> Result<Option<u64>> {
        if let Some(row) = self.keys.get(&key) {
            return Ok(row.revoked_from);
        }
        let row: KeyRow = tables::get(tx, tables::KEYS, &key.to_string())?.ok_or(Error::UnknownKey(key))?;
        let revoked_from = row.revoked_from;
        self.keys.insert(key, row);
        Ok(revoked_from)
    }

    fn weight(&mut self, tx: &dyn Transaction, source: &EntityId) -> Result<Option<f64>> {
        if let Some(weight) = self.weights.get(source) {
            return Ok(Some(*weight));
        }
        let row: Option<SourceRow> = tables::get(tx, tables::SOURCES, source.as_str())?;
        Ok(row.map(|row| *self.weights.entry(source.clone()).or_insert(row.weight)))
    }
}

fn settle_one(tx: &mut dyn Transaction, signal: Signal, seen: &mut Seen) -> Result<Verdict> {
    let draft = signal.draft();
    if let Some(place) = tables::get::<SignalPlace>(tx, tables::SIGNAL_IDS, &draft.id.to_string())? {
        return known(tx, &signal, place.seq);
    }
    if !seen.agent(tx, &draft.agent)? {
        return Ok(Err(Rejection::UnknownAgent(draft.agent.clone())));
    }
    if let Some(from) = seen.revoked_from(tx, signal.key_id())? {
        return Ok(Err(Rejection::RevokedKey { key: signal.key_id(), from }));
    }
    if let Some(id) = draft.supersedes {
        match tables::get::<SignalPlace>(tx, tables::SIGNAL_IDS, &id.to_string())? {
            None => return Ok(Err(Rejection::UnknownSuperseded(id))),
            Some(place) if place.agent != draft.agent || place.source != draft.source => {
                return Ok(Err(Rejection::ForeignSuperseded { id, source_id: place.source, agent: place.agent }));
            }
            Some(_) => {}
        }
    }
    let Some(weight) = seen.weight(tx, &draft.source)? else {
        return Ok(Err(Rejection::UnknownSource(draft.source.clone())));
    };
    let subject = draft.agent.clone();
    let entry = NewEntry {
        kind: Kind::Signal,
        subject: subject.clone(),
        body: signal.canonical().clone(),
        weight: Some(weight),
    };
    let at: Appended = tx.append(&entry)?;
    projection::apply(tx, at, &subject, &Record::Signal(Box::new(signal)))?;
    Ok(Ok(Admitted { seq: at.seq, known: false }))
}

/// The id was used: the same signal again, or another under its id.
fn known(tx: &dyn Transaction, signal: &Signal, seq: u64) -> Result<Verdict> {
    let bytes = tx.entry(seq)?.unwrap_or_default();
    let same = Entry::parse(seq, &bytes)?.body() == signal.canonical().as_str();
    Ok(if same {
        Ok(Admitted { seq, known: true })
    } else {
        Err(Rejection::DuplicateId { id: signal.draft().id, seq })
    })
}
