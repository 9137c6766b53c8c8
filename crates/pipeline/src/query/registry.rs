//! Sources, keys, and where things are in the log.

use std::ops::ControlFlow;

use credence_ledger::{Scan, View};
use credence_protocol::{AUTHORITY_SOURCE, KeyId, PublicKey};
use serde::de::IgnoredAny;

use crate::{
    Result,
    tables::{self, KeyRow, SourceRow},
};

/// All sources, by id.
pub fn sources(view: &(impl View + ?Sized)) -> Result<Vec<(String, SourceRow)>> {
    tables::all(view, tables::SOURCES)
}

/// A key, if it is registered.
pub fn key(view: &(impl View + ?Sized), id: KeyId) -> Result<Option<KeyRow>> {
    tables::get(view, tables::KEYS, &id.to_string())
}

/// All keys, by id.
pub fn keys(view: &(impl View + ?Sized)) -> Result<Vec<(String, KeyRow)>> {
    tables::all(view, tables::KEYS)
}

/// At most `limit` keys after `after`, by id, and whether there are more.
pub fn keys_after(view: &dyn View, after: Option<&str>, limit: usize) -> Result<(Vec<(String, KeyRow)>, bool)> {
    let (mut keys, mut more) = (Vec::new(), false);
    tables::scan(view, tables::KEYS, Scan { after, ..Scan::all() }, |id, row| {
        if keys.len() == limit {
            more = true;
            return Ok(ControlFlow::Break(()));
        }
        keys.push((id.to_owned(), row));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((keys, more))
}

/// The keys that verify what the authority signs: `present`, and those it was handed over from, as far back as each handed over
/// by itself. A key that was revoked for another reason is left out, and so are its predecessors.
pub fn authority_keys(view: &dyn View, present: KeyId) -> Result<Vec<PublicKey>> {
    let mut keys = Vec::new();
    let mut next = key(view, present)?.filter(|row| row.revoked_from.is_none());
    while let Some(row) = next.filter(|row| row.source.as_str() == AUTHORITY_SOURCE) {
        keys.push(row.public_key);
        let former = row.replaces.map(|id| key(view, id)).transpose()?.flatten();
        // A hand-over revokes the former key right after the entry of the new one.
        next = former.filter(|former| former.revoked_from.is_none_or(|from| from > row.seq));
    }
    Ok(keys)
}

/// How many guards' logs are known.
pub fn guard_logs(view: &(impl View + ?Sized)) -> Result<usize> {
    Ok(tables::all::<IgnoredAny>(view, tables::GUARD_LOGS)?.len())
}
