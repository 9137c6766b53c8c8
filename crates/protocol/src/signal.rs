//! The signal: one signed measurement of one agent by one source (seed 4, "Anatomy of a signal"; DESIGN, *Signals*).
//!
//! `signature = Ed25519(key, JCS(all fields but signature))`, raw, unpadded base64url.
//!
//! ```text
//! { "id", "agent", "source", "aud"?, "tags": [≥1], "value": 0..=100, "stddev": 0..=50, "observed_at",
//!   "supersedes"?, "evidence"?: {…}, "key_id", "signature" }
//! ```
//!
//! `aud` names the authority that the signal is for: another one refuses it, so that nobody can replay it there.
//!
//! A [`Signal`] in memory has passed every check that needs no state: form, ranges, sizes. Whether its tags are
//! registered, its key known and its signature good is the business of admission.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};
use uuid::{Uuid, Version};

use crate::{
    Audience, Canonical, EntityId, Error, KeyId, PublicKey, SecretKey, Signature, Tag, Timestamp,
    limits::{MAX_SIGNAL_BYTES, MAX_SIGNAL_INPUT_BYTES, MAX_STDDEV, MAX_TAGS_PER_SIGNAL, MAX_VALUE},
    strict::{self, StrictValue, present},
};

/// A measurement before it is signed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SignalDraft {
    /// Made by the emitter; the same id with the same content is the same signal.
    pub id: Uuid,
    /// Whom it is about.
    pub agent: EntityId,
    /// Who measured.
    pub source: EntityId,
    /// The authority it is for: the origin of its log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aud: Option<Audience>,
    /// What was measured; at least one, none twice.
    pub tags: Vec<Tag>,
    /// 0..=100, 100 is always best.
    pub value: f64,
    /// Its uncertainty, 0..=50; 0 for a point estimate.
    pub stddev: f64,
    /// When it was measured.
    pub observed_at: SignedTime,
    /// The earlier signal of the same source and agent that this one corrects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supersedes: Option<Uuid>,
    /// Public facts or digests. Entries are public: nothing secret belongs here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<StrictValue>,
}

/// A time as its author wrote it, which is what the signature covers, and as we understand it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedTime {
    text: Box<str>,
    at: Timestamp,
}

impl SignedTime {
    /// The point in time.
    pub fn at(&self) -> Timestamp {
        self.at
    }
}

impl From<Timestamp> for SignedTime {
    fn from(at: Timestamp) -> Self {
        Self { text: at.to_string().into(), at }
    }
}

impl Serialize for SignedTime {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for SignedTime {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        let at = text.parse().map_err(de::Error::custom)?;
        Ok(Self { text: text.into(), at })
    }
}

/// A signed measurement, well-formed.
#[derive(Clone, PartialEq)]
pub struct Signal {
    draft: SignalDraft,
    key_id: KeyId,
    signature: Signature,
    canonical: Canonical,
}

/// What the signature covers.
#[derive(Serialize)]
struct Signed<'a> {
    #[serde(flatten)]
    draft: &'a SignalDraft,
    key_id: KeyId,
}

/// The whole signal.
#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    signed: Signed<'a>,
    signature: Signature,
}

/// As received, before ranges are checked. One shape for drafts and signals: the signature fields are optional here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a signal, as an object")]
struct Wire {
    id: String,
    agent: EntityId,
    source: EntityId,
    #[serde(default, deserialize_with = "present")]
    aud: Option<Audience>,
    tags: Vec<Tag>,
    value: f64,
    stddev: f64,
    observed_at: SignedTime,
    #[serde(default, deserialize_with = "present")]
    supersedes: Option<String>,
    #[serde(default, deserialize_with = "present")]
    evidence: Option<StrictValue>,
    #[serde(default, deserialize_with = "present")]
    key_id: Option<KeyId>,
    #[serde(default, deserialize_with = "present")]
    signature: Option<Signature>,
}

impl Wire {
    fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > MAX_SIGNAL_INPUT_BYTES {
            return Err(Error::TooLarge { bytes: bytes.len(), limit: MAX_SIGNAL_BYTES });
        }
        strict::typed(bytes)
    }

    fn draft(self) -> Result<SignalDraft, Error> {
        let draft = SignalDraft {
            id: uuid_v7("id", &self.id)?,
            agent: self.agent,
            source: self.source,
            aud: self.aud,
            tags: self.tags,
            value: self.value,
            stddev: self.stddev,
            observed_at: self.observed_at,
            supersedes: self.supersedes.map(|text| uuid_v7("supersedes", &text)).transpose()?,
            evidence: self.evidence,
        };
        draft.check()?;
        Ok(draft)
    }
}

fn uuid_v7(field: &'static str, text: &str) -> Result<Uuid, Error> {
    let parsed = Uuid::try_parse(text).ok();
    // The text is signed as it stands: only the form that we write back is taken.
    let canonical = |id: &Uuid| {
        id.get_version() == Some(Version::SortRand) && id.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == text
    };
    parsed.filter(canonical).ok_or_else(|| Error::SignalId { field, input: text.chars().take(64).collect() })
}

impl SignalDraft {
    /// A draft with a fresh id for the moment `at`.
    pub fn new(agent: EntityId, source: EntityId, tags: Vec<Tag>, value: f64, stddev: f64, at: Timestamp) -> Self {
        let seconds = at.micros().div_euclid(1_000_000).max(0).unsigned_abs();
        let nanos = at.micros().rem_euclid(1_000_000).unsigned_abs() as u32 * 1_000;
        let id = Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, seconds, nanos));
        let observed_at = at.into();
        Self { id, agent, source, aud: None, tags, value, stddev, observed_at, supersedes: None, evidence: None }
    }

    /// The same, for one authority alone.
    pub fn to(self, aud: Audience) -> Self {
        Self { aud: Some(aud), ..self }
    }

    /// Parses an unsigned measurement: a signal without `key_id` and `signature`.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let wire = Wire::parse(bytes)?;
        if wire.signature.is_some() || wire.key_id.is_some() {
            return Err(Error::Malformed(
                "this measurement is signed already: remove 'key_id' and 'signature' to sign it anew".into(),
            ));
        }
        wire.draft()
    }

    fn check(&self) -> Result<(), Error> {
        if self.tags.is_empty() {
            return Err(Error::Tags("at least one is needed".into()));
        }
        if self.tags.len() > MAX_TAGS_PER_SIGNAL {
            return Err(Error::Tags(format!("{} of them, the limit is {MAX_TAGS_PER_SIGNAL}", self.tags.len())));
        }
        if let Some((_, tag)) = self.tags.iter().enumerate().find(|(i, tag)| self.tags[..*i].contains(tag)) {
            return Err(Error::Tags(format!("'{tag}' is listed twice")));
        }
        if !(0.0..=MAX_VALUE).contains(&self.value) {
            return Err(Error::Value(self.value));
        }
        if !(0.0..=MAX_STDDEV).contains(&self.stddev) {
            return Err(Error::Stddev(self.stddev));
        }
        match &self.evidence {
            Some(StrictValue(evidence)) if !evidence.is_object() => {
                Err(Error::Malformed("evidence must be an object".into()))
            }
            _ => Ok(()),
        }
    }

    /// Signs with `key`.
    pub fn sign(self, key: &SecretKey) -> Result<Signal, Error> {
        self.check()?;
        let key_id = key.public().id();
        let signed = Canonical::of(&Signed { draft: &self, key_id })?;
        Signal::assemble(self, key_id, key.sign(signed.as_bytes()))
    }
}

impl Signal {
    /// Parses strictly and checks form, ranges and size; verifies nothing yet.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let wire = Wire::parse(bytes)?;
        let missing = |field: &str| Error::Malformed(format!("missing field `{field}`: sign the measurement first"));
        let key_id = wire.key_id.ok_or_else(|| missing("key_id"))?;
        let signature = wire.signature.ok_or_else(|| missing("signature"))?;
        Self::assemble(wire.draft()?, key_id, signature)
    }

    fn assemble(draft: SignalDraft, key_id: KeyId, signature: Signature) -> Result<Self, Error> {
        let canonical = Canonical::of(&Whole { signed: Signed { draft: &draft, key_id }, signature })?;
        let bytes = canonical.as_bytes().len();
        if bytes > MAX_SIGNAL_BYTES {
            return Err(Error::TooLarge { bytes, limit: MAX_SIGNAL_BYTES });
        }
        Ok(Self { draft, key_id, signature, canonical })
    }

    /// The measurement.
    pub fn draft(&self) -> &SignalDraft {
        &self.draft
    }

    /// The key that signed.
    pub fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// The whole signal, canonical: what the ledger stores.
    pub fn canonical(&self) -> &Canonical {
        &self.canonical
    }

    /// The bytes the signature covers: the canonical form without its `signature` member.
    ///
    /// Cut out instead of serialised again, which would cost as much as the signature's hash. The last occurrence is the
    /// member itself: what follows it (`source`, `stddev`, `supersedes`, `tags`, `value`) has no room for such text.
    pub fn signed_bytes(&self) -> Vec<u8> {
        let text = self.canonical.as_str();
        let member = format!("\"signature\":\"{}\",", self.signature);
        let (before, after) = text.rsplit_once(&member).unwrap_or((text, ""));
        [before, after].concat().into_bytes()
    }

    /// Checks the signature under `key`, strictly. This is the rule that decides admission.
    pub fn verify(&self, key: &PublicKey) -> Result<(), Error> {
        if key.id() != self.key_id {
            return Err(Error::KeyMismatch { named: self.key_id, given: key.id() });
        }
        key.verify(&self.signed_bytes(), &self.signature)
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.canonical.as_str())
    }
}

/// Verifies many signals at once, about twice as fast as one by one. Batch verification may accept what the strict rule
/// refuses, so it serves quick re-audits of what was admitted strictly, never admission.
pub fn verify_batch(signals: &[(&Signal, &PublicKey)]) -> Result<(), Error> {
    let mut messages = Vec::with_capacity(signals.len());
    let mut signatures = Vec::with_capacity(signals.len());
    let mut keys = Vec::with_capacity(signals.len());
    for (signal, key) in signals {
        if key.id() != signal.key_id {
            return Err(Error::KeyMismatch { named: signal.key_id, given: key.id() });
        }
        messages.push(signal.signed_bytes());
        signatures.push(ed25519_dalek::Signature::from_bytes(signal.signature.as_bytes()));
        keys.push(key.dalek());
    }
    let messages: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
    // The batch cannot say which signature failed: look for it one by one.
    if ed25519_dalek::verify_batch(&messages, &signatures, &keys).is_err() {
        signals.iter().try_for_each(|(signal, key)| signal.verify(key))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
