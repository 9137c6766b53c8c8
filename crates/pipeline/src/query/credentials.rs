//! Credentials that were issued, and what of them was taken back.

use std::ops::ControlFlow;

use credence_ledger::{Scan, View};
use credence_protocol::{EntityId, Uuid};

use crate::{
    Error, Result,
    credentials::{CredentialRow, place},
    tables,
};

/// A credential by its id.
pub fn credential(view: &(impl View + ?Sized), id: Uuid) -> Result<CredentialRow> {
    tables::get(view, tables::CREDENTIALS, &id.to_string())?.ok_or(Error::UnknownCredential(id))
}

/// An agent's credentials, newest first.
pub fn credentials_of(
    view: &(impl View + ?Sized),
    agent: &EntityId,
    limit: usize,
) -> Result<Vec<(Uuid, CredentialRow)>> {
    let mut ids: Vec<Uuid> = Vec::new();
    let prefix = format!("{agent}/");
    if limit > 0 {
        tables::scan(view, tables::AGENT_CREDENTIALS, Scan { reverse: true, ..Scan::prefix(&prefix) }, |_, id| {
            ids.push(id);
            Ok(if ids.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
    }
    ids.into_iter().map(|id| Ok((id, credential(view, id)?))).collect()
}

/// Whether a credential does not hold at present, because its agent's standing is revoked.
pub fn is_suspended(view: &(impl View + ?Sized), row: &CredentialRow) -> Result<bool> {
    Ok(tables::get::<u64>(view, tables::SUSPENDED_CREDENTIALS, &place(row.index))?.is_some())
}

/// Something that the authority can take back.
pub enum Revocable {
    /// An agent's standing.
    Agent(EntityId),
    /// A credential.
    Credential(Uuid),
}

/// What `name` names: an agent by its id or alias, or a credential by its id.
pub fn revocable(view: &dyn View, name: &str) -> Result<Revocable> {
    let id = name.strip_prefix("urn:uuid:").unwrap_or(name);
    if let Ok(id) = id.parse::<Uuid>()
        && tables::get::<CredentialRow>(view, tables::CREDENTIALS, &id.to_string())?.is_some()
    {
        return Ok(Revocable::Credential(id));
    }
    super::resolve(view, name).map(Revocable::Agent)
}
