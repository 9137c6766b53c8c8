//! Which tags count in scores. A deferred tag is admitted and left out (seed 4, ADR-016).
//!
//! The registry says it for a ledger that says nothing; from a `tag` entry on, the ledger does. So a score that was made while a tag
//! was deferred comes out again in replay, whatever the registry of the day says.

use std::collections::BTreeMap;

use credence_ledger::{Appended, Transaction, View, write};
use credence_protocol::{AUTHORITY_SOURCE, EntityId, Tag, TagRegistry, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{
    Authority, Error, Result, due,
    record::{Record, TagRecord},
    registry::append,
    tables,
};

/// What the ledger says of a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagRow {
    /// The entry that said it last.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// Whether it is left out of scores.
    pub deferred: bool,
}

/// What the ledger says of every tag that it speaks of.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Deferral(BTreeMap<String, TagRow>);

impl Deferral {
    /// Reads it.
    pub fn read(view: &(impl View + ?Sized)) -> Result<Self> {
        Ok(Self(tables::all(view, tables::TAGS)?.into_iter().collect()))
    }

    /// What the ledger says of `tag`; nothing where the registry decides.
    pub fn row(&self, tag: &str) -> Option<TagRow> {
        self.0.get(tag).copied()
    }

    /// Whether `tag` is left out of scores. A tag that is not registered is.
    pub fn is_deferred(&self, tag: &str, registry: &TagRegistry) -> bool {
        let Some(definition) = registry.find(tag) else { return true };
        self.row(tag).map_or(definition.deferred, |row| row.deferred)
    }
}

impl Authority {
    /// Records whether a tag counts, from now on; everyone is scored again. Gives the entry, or none where it was so already.
    pub fn set_tag(&self, tag: &Tag, deferred: bool) -> Result<Option<u64>> {
        let registry = &self.scoring().tags;
        if registry.find(tag.as_str()).is_none() {
            return Err(Error::UnknownTag { tag: tag.clone(), nearest: registry.nearest(tag.as_str()).cloned() });
        }
        let (record, registry) = (TagRecord { tag: tag.clone(), deferred }, registry.clone());
        let seq = write(self.ledger(), move |tx| {
            if wrong_with(tx, &record, &registry)?.is_some() {
                return Ok(None);
            }
            append(tx, &EntityId::new(AUTHORITY_SOURCE)?, &Record::Tag(record.clone())).map(Some)
        })?;
        self.wake_scorer();
        Ok(seq)
    }
}

/// What is wrong with an entry, given what was recorded before it.
pub(crate) fn wrong_with(
    view: &(impl View + ?Sized),
    record: &TagRecord,
    registry: &TagRegistry,
) -> Result<Option<String>> {
    let TagRecord { tag, deferred } = record;
    if registry.find(tag.as_str()).is_none() {
        return Ok(Some(format!("'{tag}' is no registered tag")));
    }
    // The registry's own word may have been another when the entry was made: only a second entry of the same is wrong.
    let before: Option<TagRow> = tables::get(view, tables::TAGS, tag.as_str())?;
    Ok(before.filter(|row| row.deferred == *deferred).map(|_| format!("'{tag}' was so already")))
}

/// Folds an entry in.
pub(crate) fn apply(tx: &mut dyn Transaction, at: Appended, record: &TagRecord) -> Result<()> {
    let row = TagRow { seq: at.seq, at: at.recorded_at, deferred: record.deferred };
    tables::put(tx, tables::TAGS, record.tag.as_str(), &row)?;
    due::rescore_everyone(tx, at.seq)
}
