//! Which domains an agent's owner has proved to control.

use credence_ledger::View;
use credence_protocol::{AUTHORITY_SOURCE, EntityId, Tag, Timestamp};

use crate::{
    Result,
    domains::{AGAIN_SECONDS, Proved, TAG, hosts_in},
    tables::{self, CurrentRow},
};

/// What was proved of `agent`, and the entry that says so.
pub fn proved_domains(view: &(impl View + ?Sized), agent: &EntityId) -> Result<Option<(u64, Vec<Proved>)>> {
    let slot = tables::slot(agent, &EntityId::new(AUTHORITY_SOURCE)?, &Tag::new(TAG)?);
    let Some(row) = tables::get::<CurrentRow>(view, tables::CURRENT, &slot)? else { return Ok(None) };
    let body = super::record(view, row.seq)?;
    Ok(hosts_in(&body["evidence"]).map(|hosts| (row.seq, hosts)))
}

/// The entry that says that control of `host` was proved within a day: it need not be proved again.
pub fn recently_proved(
    view: &(impl View + ?Sized),
    agent: &EntityId,
    host: &str,
    now: Timestamp,
) -> Result<Option<u64>> {
    let is_recent = |one: &Proved| one.host == host && now <= one.at.plus_seconds(AGAIN_SECONDS);
    Ok(proved_domains(view, agent)?.filter(|(_, hosts)| hosts.iter().any(is_recent)).map(|(seq, _)| seq))
}
