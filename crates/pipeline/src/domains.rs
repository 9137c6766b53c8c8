//! Which domains an agent's owner has proved to control, as source `credence` recorded it.
//!
//! One signal of tag `identity_domain` names all of them, each with its time, because only the newest of a source counts:
//! `{"method": "well-known", "hosts": [{"host": "shop.example", "at": "…"}]}`.

use credence_ledger::{Entry, View};
use credence_protocol::{AUTHORITY_SOURCE, EntityId, SecretKey, SignalDraft, Tag, Timestamp, strict::StrictValue};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    Authority, Result,
    admit::{Admitted, Verdict},
    tables::{self, CurrentRow},
};

/// The tag.
pub const TAG: &str = "identity_domain";
/// How long a proof of identity holds.
pub const HOLDS_SECONDS: i64 = 90 * 86_400;
/// A proof younger than this is not made again.
const AGAIN_SECONDS: i64 = 86_400;
/// Domains of one agent.
const MAX_HOSTS: usize = 16;

/// A host, and when control of it was proved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proved {
    /// The host, with its port where that is not 443.
    pub host: String,
    /// When.
    pub at: Timestamp,
}

impl Proved {
    /// Whether it still holds.
    pub fn holds(&self, now: Timestamp) -> bool {
        now <= self.at.plus_seconds(HOLDS_SECONDS)
    }
}

/// The hosts that a signal's evidence names; none where it names none. What cannot be read names no host that anyone asks about.
pub fn hosts_in(evidence: &Value) -> Option<Vec<Proved>> {
    Some(serde_json::from_value(evidence.get("hosts")?.clone()).unwrap_or_default())
}

/// What was proved of `agent`, and the entry that says so.
pub fn proved(view: &(impl View + ?Sized), agent: &EntityId) -> Result<Option<(u64, Vec<Proved>)>> {
    let slot = tables::slot(agent, &EntityId::new(AUTHORITY_SOURCE)?, &Tag::new(TAG)?);
    let Some(row) = tables::get::<CurrentRow>(view, tables::CURRENT, &slot)? else { return Ok(None) };
    let bytes = view.entry(row.seq)?.unwrap_or_default();
    let body: Value = Entry::parse(row.seq, &bytes)?.record(row.seq)?;
    Ok(hosts_in(&body["evidence"]).map(|hosts| (row.seq, hosts)))
}

/// The entry that says that control of `host` was proved lately: it need not be proved again.
pub fn lately(view: &(impl View + ?Sized), agent: &EntityId, host: &str, now: Timestamp) -> Result<Option<u64>> {
    let is_lately = |one: &Proved| one.host == host && now <= one.at.plus_seconds(AGAIN_SECONDS);
    Ok(proved(view, agent)?.filter(|(_, hosts)| hosts.iter().any(is_lately)).map(|(seq, _)| seq))
}

impl Authority {
    /// Records that control of `host` was proved, beside those that hold. One at a time: each names what the one before named.
    pub fn record_domain(&self, agent: &EntityId, host: &str, key: &SecretKey) -> Result<Verdict> {
        let now = self.now();
        let view = self.ledger().view()?;
        if let Some(seq) = lately(&*view, agent, host, now)? {
            return Ok(Ok(Admitted { seq, known: true }));
        }
        let mut hosts = proved(&*view, agent)?.map(|(_, hosts)| hosts).unwrap_or_default();
        hosts.retain(|one| one.host != host && one.holds(now));
        hosts.push(Proved { host: host.to_owned(), at: now });
        let surplus = hosts.len().saturating_sub(MAX_HOSTS);
        hosts.drain(..surplus);
        let tags = vec![Tag::new(TAG)?];
        let mut draft = SignalDraft::new(agent.clone(), EntityId::new(AUTHORITY_SOURCE)?, tags, 100.0, 0.0, now);
        draft.evidence = Some(StrictValue(json!({ "method": "well-known", "hosts": hosts })));
        draft.aud = Some(self.origin()?);
        let signal = draft.sign(key)?;
        drop(view);
        self.submit(signal.canonical().as_bytes())
    }
}
