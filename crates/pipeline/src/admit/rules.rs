//! Which signals may be recorded, given what was recorded before. The same rules decide at the door and in an audit.
//!
//! Two parts: [`form`] needs nothing but the tags and the key's owner, and runs on many threads; [`state`] needs the tables as
//! they were just before the signal.

use credence_ledger::View;
use credence_protocol::{Audience, EntityId, Signal, TagRegistry, Timestamp, limits::MAX_CLOCK_SKEW_SECONDS};

use crate::{
    Rejection, Result,
    tables::{self, AgentRow, KeyRow, SignalPlace, SourceRow},
};

/// What names an authority is for that one alone.
pub(crate) fn audience(named: Option<&Audience>, origin: &Audience) -> std::result::Result<(), Rejection> {
    match named {
        Some(given) if given != origin => {
            Err(Rejection::OtherAudience { given: given.clone(), expected: origin.clone() })
        }
        _ => Ok(()),
    }
}

/// What somebody signs who is bound to an authority has to name it.
pub(crate) fn bound(
    author: &EntityId,
    named: Option<&Audience>,
    aud: Option<Audience>,
) -> std::result::Result<(), Rejection> {
    match aud {
        Some(expected) if named.is_none() => Err(Rejection::NoAudience { author: author.clone(), expected }),
        _ => Ok(()),
    }
}

/// Tags, owner of the key, time of the observation, the authority it is for. `now` is the time at the door, or of recording.
pub(crate) fn form(
    tags: &TagRegistry,
    origin: &Audience,
    signal: &Signal,
    owner: &EntityId,
    now: Timestamp,
) -> std::result::Result<(), Rejection> {
    let draft = signal.draft();
    for tag in &draft.tags {
        let Some(definition) = tags.find(tag.as_str()) else {
            let nearest = tags.nearest(tag.as_str()).cloned();
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
    audience(draft.aud.as_ref(), origin)
}

/// Id, agent, key, what it supersedes, source. Gives the weight that the signal is stamped with.
pub(crate) fn state(view: &(impl View + ?Sized), signal: &Signal) -> Result<std::result::Result<f64, Rejection>> {
    let draft = signal.draft();
    if let Some(place) = tables::get::<SignalPlace>(view, tables::SIGNAL_IDS, &draft.id.to_string())? {
        return Ok(Err(Rejection::DuplicateId { id: draft.id, seq: place.seq }));
    }
    if tables::get::<AgentRow>(view, tables::AGENTS, draft.agent.as_str())?.is_none() {
        return Ok(Err(Rejection::UnknownAgent(draft.agent.clone())));
    }
    match tables::get::<KeyRow>(view, tables::KEYS, &signal.key_id().to_string())? {
        None => return Ok(Err(Rejection::UnknownKey(signal.key_id()))),
        Some(KeyRow { revoked_from: Some(from), .. }) => {
            return Ok(Err(Rejection::RevokedKey { key: signal.key_id(), from }));
        }
        Some(_) => {}
    }
    if let Some(id) = draft.supersedes {
        match tables::get::<SignalPlace>(view, tables::SIGNAL_IDS, &id.to_string())? {
            None => return Ok(Err(Rejection::UnknownSuperseded(id))),
            Some(place) if place.agent != draft.agent || place.source != draft.source => {
                return Ok(Err(Rejection::ForeignSuperseded { id, source_id: place.source, agent: place.agent }));
            }
            Some(_) => {}
        }
    }
    let source: Option<SourceRow> = tables::get(view, tables::SOURCES, draft.source.as_str())?;
    let Some(SourceRow { weight, aud, .. }) = source else {
        return Ok(Err(Rejection::UnknownSource(draft.source.clone())));
    };
    Ok(bound(&draft.source, draft.aud.as_ref(), aud).map(|()| weight))
}
