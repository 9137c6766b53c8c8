//! Agents, sources and keys: who is spoken of, who may speak and how much it counts. Every change is an entry.

use std::ops::ControlFlow;

use credence_engine::mixture::is_weight;
use credence_ledger::{Scan, Transaction, View, write};
use credence_protocol::{AUTHORITY_SOURCE, Alias, EntityId, KeyId, PublicKey, Root, SecretKey, is_deceptive};

use crate::{
    Authority, Error, Result, projection,
    record::{AgentRecord, KeyRecord, KeyRevocationRecord, Record, SourceRecord},
    tables::{self, AgentRow, KeyRow, SourceRow},
};

/// An agent to register, or more about one.
#[derive(Debug, Clone)]
pub struct NewAgent {
    /// Its id.
    pub agent: EntityId,
    /// A display name.
    pub name: Option<String>,
    /// Its names elsewhere.
    pub aliases: Vec<Alias>,
    /// Who runs it.
    pub owner: Option<EntityId>,
    /// What it signs need not name this authority. Of a new agent alone: one that is bound stays so.
    pub unbound: bool,
}

/// A source to register.
#[derive(Debug, Clone)]
pub struct NewSource {
    /// Its id.
    pub source: EntityId,
    /// Its weight.
    pub weight: f64,
    /// Who it is.
    pub description: Option<String>,
    /// Who runs it.
    pub owner: Option<EntityId>,
    /// The registries that it re-reads: sources that share one are one voice.
    pub roots: Vec<Root>,
    /// Where it says how it verifies outputs: with it the source is admitted as a provider.
    pub methodology: Option<String>,
    /// What it signs need not name this authority.
    pub unbound: bool,
}

impl NewAgent {
    /// Nothing but an id.
    pub fn new(agent: EntityId) -> Self {
        Self { agent, name: None, aliases: Vec::new(), owner: None, unbound: false }
    }
}

impl NewSource {
    /// Nothing but an id and a weight.
    pub fn new(source: EntityId, weight: f64) -> Self {
        Self { source, weight, description: None, owner: None, roots: Vec::new(), methodology: None, unbound: false }
    }
}

/// What is to change about a source; what is not given stays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceChange {
    /// Its weight.
    pub weight: Option<f64>,
    /// Where it says how it verifies outputs; an empty text takes its admission as a provider back.
    pub methodology: Option<String>,
    /// Who runs it.
    pub owner: Option<EntityId>,
    /// The registries that it re-reads; an empty list for none.
    pub roots: Option<Vec<Root>>,
}

impl SourceChange {
    fn differs(&self, row: &SourceRow) -> bool {
        let methodology = row.methodology.as_deref().unwrap_or_default();
        self.weight.is_some_and(|weight| weight != row.weight)
            || self.methodology.as_deref().is_some_and(|text| text != methodology)
            || self.owner.is_some() && self.owner != row.owner
            || self.roots.as_ref().is_some_and(|roots| *roots != row.roots)
    }
}

impl Authority {
    /// Registers an agent, or adds a name or aliases to it. Gives the entry's seq.
    pub fn add_agent(&self, new: NewAgent) -> Result<u64> {
        check_text("name", new.name.as_deref())?;
        let origin = self.origin()?;
        let seq = write(self.ledger(), move |tx| {
            let former: Option<AgentRow> = tables::get(tx, tables::AGENTS, new.agent.as_str())?;
            if let Some(taken) = agent_id_taken(tx, &new.agent)? {
                return Err(taken);
            }
            for alias in &new.aliases {
                match tables::get::<EntityId>(tx, tables::ALIASES, &alias.key())? {
                    Some(agent) if agent != new.agent => {
                        return Err(Error::AliasTaken { alias: alias.clone(), agent });
                    }
                    _ => {}
                }
            }
            if let Some(former) = &former {
                let renamed =
                    new.name.is_some() && new.name != former.name || new.owner.is_some() && new.owner != former.owner;
                if !renamed && new.aliases.iter().all(|alias| former.aliases.contains(alias)) {
                    return Err(Error::NothingNew(new.agent.clone()));
                }
            }
            let NewAgent { agent, name, aliases, owner, unbound } = new.clone();
            let aud = (former.is_none() && !unbound).then(|| origin.clone());
            let record = AgentRecord { agent, name, aliases, owner, aud };
            append(tx, &new.agent, &Record::Agent(record))
        })?;
        // Who may speak of it may have changed.
        self.wake_scorer();
        Ok(seq)
    }

    /// Registers a source with its weight.
    pub fn add_source(&self, new: NewSource) -> Result<u64> {
        check_text("description", new.description.as_deref())?;
        check_methodology(new.methodology.as_deref())?;
        check_weight(new.weight)?;
        check_roots(&new.roots)?;
        let origin = self.origin()?;
        write(self.ledger(), move |tx| {
            if tables::get::<SourceRow>(tx, tables::SOURCES, new.source.as_str())?.is_some() {
                return Err(Error::SourceExists(new.source.clone()));
            }
            if let Some(taken) = source_id_taken(tx, &new.source)? {
                return Err(taken);
            }
            let NewSource { source, weight, description, owner, roots, methodology, unbound } = new.clone();
            refuse_owner_it_rates(tx, &source, owner.as_ref())?;
            let (aud, roots) = ((!unbound).then(|| origin.clone()), (!roots.is_empty()).then_some(roots));
            let record = SourceRecord { source: source.clone(), weight, description, owner, roots, methodology, aud };
            append(tx, &source, &Record::Source(record))
        })
    }

    /// Gives a source another weight, from now on. Every agent is scored again.
    pub fn set_weight(&self, source: EntityId, weight: f64) -> Result<u64> {
        check_weight(weight)?;
        let seq = write(self.ledger(), move |tx| {
            let row = require_source(tx, &source)?;
            if row.weight == weight {
                return Err(Error::SameWeight { source_id: source.clone(), weight });
            }
            let record = SourceRecord::weighing(source.clone(), weight);
            append(tx, &source, &Record::Source(record))
        })?;
        self.wake_scorer();
        Ok(seq)
    }

    /// Changes a source from now on, all at once. Where its weight, owner or roots change, every agent is scored again.
    pub fn change_source(&self, source: EntityId, change: SourceChange) -> Result<u64> {
        change.weight.map_or(Ok(()), check_weight)?;
        check_methodology(change.methodology.as_deref().filter(|text| !text.is_empty()))?;
        check_roots(change.roots.as_deref().unwrap_or_default())?;
        let seq = write(self.ledger(), move |tx| {
            let row = require_source(tx, &source)?;
            if !change.differs(&row) {
                return Err(Error::NothingNew(source.clone()));
            }
            refuse_owner_it_rates(tx, &source, change.owner.as_ref())?;
            let SourceChange { weight, methodology, owner, roots } = change.clone();
            let record = SourceRecord {
                owner,
                roots,
                methodology,
                ..SourceRecord::weighing(source.clone(), weight.unwrap_or(row.weight))
            };
            append(tx, &source, &Record::Source(record))
        })?;
        self.wake_scorer();
        Ok(seq)
    }

    /// Registers a key for a source or an agent.
    pub fn add_key(&self, key: &PublicKey, source: EntityId) -> Result<u64> {
        let record = KeyRecord::new(key, source);
        write(self.ledger(), move |tx| add_key(tx, record.clone()))
    }

    /// Hands `source` over from `former` to `key`: the new key is endorsed by the former, which is revoked from then on.
    pub fn rotate_key(&self, source: EntityId, former: &SecretKey, key: &PublicKey) -> Result<u64> {
        let former_id = former.public().id();
        let former = former.clone();
        let key = *key;
        write(self.ledger(), move |tx| {
            let row = require_key(tx, former_id)?;
            if row.source != source {
                return Err(Error::KeyOfAnother { key: former_id, owner: row.source, claimed: source.clone() });
            }
            if row.revoked_from.is_some() {
                return Err(Error::RevokedKey(former_id));
            }
            let seq = add_key(tx, KeyRecord::new(&key, row.source).endorsed_by(&former)?)?;
            revoke(tx, former_id, None, Some("rotated".into()))?;
            Ok(seq)
        })
    }

    /// Revokes a key from entry `from` on (from now on when not given). What it signed from there on stops counting.
    pub fn revoke_key(&self, key: KeyId, from: Option<u64>, reason: Option<String>) -> Result<u64> {
        check_text("reason", reason.as_deref())?;
        let seq = write(self.ledger(), move |tx| revoke(tx, key, from, reason.clone()))?;
        self.wake_scorer();
        Ok(seq)
    }
}

/// Roots of one source at most.
pub(crate) const MAX_ROOTS: usize = 16;
/// Characters of a name, description or reason.
const MAX_TEXT: usize = 256;

pub(crate) fn check_text(field: &'static str, text: Option<&str>) -> Result<()> {
    let fits = |text: &str| text.chars().count() <= MAX_TEXT && !text.chars().any(is_deceptive);
    if text.is_none_or(fits) { Ok(()) } else { Err(Error::Text { field, limit: MAX_TEXT }) }
}

/// Why an agent cannot have this id: agents, sources and the authority share one namespace, because keys are found by the name alone.
pub(crate) fn agent_id_taken(view: &(impl View + ?Sized), agent: &EntityId) -> Result<Option<Error>> {
    if agent.as_str().eq_ignore_ascii_case(AUTHORITY_SOURCE) {
        return Ok(Some(Error::IdTaken { id: agent.clone(), by: "the authority itself" }));
    }
    let source: Option<SourceRow> = tables::get(view, tables::SOURCES, agent.as_str())?;
    Ok(source.map(|_| Error::IdTaken { id: agent.clone(), by: "a source" }))
}

/// Why a source cannot have this id.
pub(crate) fn source_id_taken(view: &(impl View + ?Sized), source: &EntityId) -> Result<Option<Error>> {
    if source.as_str() != AUTHORITY_SOURCE && source.as_str().eq_ignore_ascii_case(AUTHORITY_SOURCE) {
        return Ok(Some(Error::IdTaken { id: source.clone(), by: "the authority itself" }));
    }
    let agent: Option<AgentRow> = tables::get(view, tables::AGENTS, source.as_str())?;
    Ok(agent.map(|_| Error::IdTaken { id: source.clone(), by: "an agent" }))
}

/// Where a method is published: an address.
fn check_methodology(url: Option<&str>) -> Result<()> {
    check_text("methodology", url)?;
    let address =
        |url: &str| ["https://", "http://"].iter().any(|start| url.len() > start.len() && url.starts_with(start));
    if url.is_none_or(address) { Ok(()) } else { Err(Error::Methodology) }
}

fn check_roots(roots: &[Root]) -> Result<()> {
    let twice = roots.iter().enumerate().find(|(n, root)| roots[..*n].contains(root)).map(|(_, root)| root);
    if let Some(root) = twice {
        return Err(Error::RootTwice(root.clone()));
    }
    if roots.len() > MAX_ROOTS { Err(Error::TooManyRoots(roots.len())) } else { Ok(()) }
}

/// A source must not be run by an agent that it rates: its word on its owner would never count.
fn refuse_owner_it_rates(tx: &dyn Transaction, source: &EntityId, owner: Option<&EntityId>) -> Result<()> {
    let Some(owner) = owner else { return Ok(()) };
    let mut rated = false;
    tx.scan(tables::CURRENT, Scan::prefix(&format!("{owner}/{source}/")), &mut |_, _| {
        rated = true;
        ControlFlow::Break(())
    })?;
    if rated {
        return Err(Error::OwnerIsRated { source_id: source.clone(), agent: owner.clone() });
    }
    Ok(())
}

fn check_weight(weight: f64) -> Result<()> {
    if is_weight(weight) { Ok(()) } else { Err(Error::Weight(weight)) }
}

fn require_source(tx: &dyn Transaction, source: &EntityId) -> Result<SourceRow> {
    tables::get(tx, tables::SOURCES, source.as_str())?.ok_or_else(|| Error::UnknownSource(source.to_string()))
}

fn require_key(tx: &dyn Transaction, key: KeyId) -> Result<KeyRow> {
    tables::get(tx, tables::KEYS, &key.to_string())?.ok_or(Error::UnknownKey(key))
}

fn add_key(tx: &mut dyn Transaction, record: KeyRecord) -> Result<u64> {
    let agent: Option<AgentRow> = tables::get(tx, tables::AGENTS, record.source.as_str())?;
    if agent.is_none() {
        require_source(tx, &record.source)?;
    }
    if let Some(row) = tables::get::<KeyRow>(tx, tables::KEYS, &record.key_id.to_string())? {
        return Err(Error::KeyExists { key: record.key_id, source_id: row.source });
    }
    let source = record.source.clone();
    append(tx, &source, &Record::Key(record))
}

fn revoke(tx: &mut dyn Transaction, key: KeyId, from: Option<u64>, reason: Option<String>) -> Result<u64> {
    let row = require_key(tx, key)?;
    let size = tx.size()?;
    let from_seq = from.unwrap_or(size);
    if from_seq > size {
        return Err(Error::FutureSeq { from: from_seq, size });
    }
    match row.revoked_from {
        Some(from) if from <= from_seq => return Err(Error::AlreadyRevoked { key, from }),
        _ => {}
    }
    let record = KeyRevocationRecord { key_id: key, from_seq, reason };
    append(tx, &row.source, &Record::KeyRevocation(record))
}

/// Appends a record and folds it in.
pub(crate) fn append(tx: &mut dyn Transaction, subject: &EntityId, record: &Record) -> Result<u64> {
    let at = tx.append(&record.entry(subject)?)?;
    projection::apply(tx, at, subject, record)?;
    Ok(at.seq)
}
