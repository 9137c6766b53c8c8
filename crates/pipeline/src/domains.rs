//! Which domains an agent's owner has proved to control, as source `credence` recorded it.
//!
//! One signal of tag `identity_domain` names all of them, each with its time, because only the newest of a source counts:
//! `{"method": "well-known", "hosts": [{"host": "shop.example", "at": "…"}]}`.

use credence_protocol::{AUTHORITY_SOURCE, EntityId, SecretKey, SignalDraft, Tag, Timestamp, strict::StrictValue};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    Authority, Result,
    admit::{Admitted, Verdict},
    query,
};

/// The tag.
pub const TAG: &str = "identity_domain";
/// How long a proof of identity holds.
pub const HOLDS_SECONDS: i64 = 90 * 86_400;
/// A proof younger than this is not made again.
pub(crate) const AGAIN_SECONDS: i64 = 86_400;
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
pub(crate) fn hosts_in(evidence: &Value) -> Option<Vec<Proved>> {
    Some(serde_json::from_value(evidence.get("hosts")?.clone()).unwrap_or_default())
}

impl Authority {
    /// Records that control of `host` was proved, beside those that hold. One at a time: each names what the one before named.
    pub fn record_domain(&self, agent: &EntityId, host: &str, key: &SecretKey) -> Result<Verdict> {
        let now = self.now();
        let view = self.ledger().view()?;
        if let Some(seq) = query::recently_proved(&*view, agent, host, now)? {
            return Ok(Ok(Admitted { seq, known: true }));
        }
        let mut hosts = query::proved_domains(&*view, agent)?.map(|(_, hosts)| hosts).unwrap_or_default();
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
