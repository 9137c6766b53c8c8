//! What is scored, and what is known of it.

use std::collections::BTreeMap;

use credence_protocol::{
    Timestamp,
    strict::{Object, StrictValue},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Error, SignalId, Status};

/// The AI system that is scored.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    /// A stable id.
    pub id: String,
    /// The registry it is listed in; filled by the caller, never parsed out of the id.
    pub registry: Option<String>,
    /// The protocol it speaks.
    pub protocol: Option<String>,
    /// What kind of system it is.
    pub class: Option<String>,
    /// What collectors found.
    pub metadata: Metadata,
}

impl Subject {
    /// From JSON; other members than these five are passed over.
    pub fn from_value(value: Value) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Wire {
            id: String,
            registry: Option<String>,
            protocol: Option<String>,
            class: Option<String>,
            #[serde(default)]
            metadata: Map<String, Value>,
        }
        let Object(wire): Object<Wire> = serde_json::from_value(value).map_err(|e| Error::Subject(e.to_string()))?;
        let empty = |text: &Option<String>| text.as_deref() == Some("");
        let fields = [("registry", &wire.registry), ("protocol", &wire.protocol), ("class", &wire.class)];
        if wire.id.is_empty() {
            return Err(Error::Subject("id is empty".into()));
        }
        if let Some((name, _)) = fields.iter().find(|(_, text)| empty(text)) {
            return Err(Error::Subject(format!("{name} is empty: leave it out when there is none")));
        }
        let Wire { id, registry, protocol, class, metadata } = wire;
        Ok(Self { id, registry, protocol, class, metadata: Metadata(metadata) })
    }
}

/// Free members, read leniently: what is not of the type looked for is absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata(pub Map<String, Value>);

impl Metadata {
    /// The value at a path of member names joined by dots.
    pub fn get(&self, path: &str) -> Option<&Value> {
        let mut names = path.split('.');
        let first = self.0.get(names.next()?)?;
        names.try_fold(first, |value, name| value.as_object()?.get(name)).filter(|value| !value.is_null())
    }

    /// A finite number.
    pub fn number(&self, path: &str) -> Option<f64> {
        self.get(path)?.as_f64().filter(|number| number.is_finite())
    }

    /// A text.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.get(path)?.as_str()
    }

    /// The status that the word at `path` means.
    pub fn status(&self, path: &str) -> Option<Status> {
        self.text(path).map(Status::of_token)
    }
}

/// All signals known at the time of scoring.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Snapshot(BTreeMap<String, SignalRecord>);

/// One raw measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalRecord {
    /// How it came about.
    pub status: Status,
    /// What was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<StrictValue>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetched_at: Option<String>,
    /// From where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
}

/// Where a signal is from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Provenance {
    /// The source's name.
    pub source: Option<String>,
    /// Its address.
    pub source_url: Option<String>,
    /// The subject's id there.
    pub subject_id: Option<String>,
    /// When.
    pub fetched_at: Option<String>,
    /// How it was asked, such as the window.
    pub params: Option<StrictValue>,
}

impl Snapshot {
    /// From JSON: an object of signals by id.
    pub fn from_value(value: Value) -> Result<Self, Error> {
        let Value::Object(members) = value else { return Err(Error::Snapshot("not an object".into())) };
        let mut signals = BTreeMap::new();
        for (id, value) in members {
            if SignalId::parse(&id).is_none() {
                return Err(Error::SignalId(id.chars().take(128).collect()));
            }
            let record = SignalRecord::from_value(value).map_err(|e| Error::Snapshot(format!("{id}: {e}")))?;
            signals.insert(id, record);
        }
        Ok(Self(signals))
    }

    /// The signal with this id.
    pub fn get(&self, id: &str) -> Option<&SignalRecord> {
        self.0.get(id)
    }
}

impl SignalRecord {
    /// From JSON.
    pub fn from_value(value: Value) -> Result<Self, Error> {
        serde_json::from_value(value).map_err(|e| Error::Snapshot(e.to_string()))
    }
}

/// What an adapter sees: it does no I/O and asks no clock.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The subject.
    pub subject: &'a Subject,
    /// The signals.
    pub snapshot: &'a Snapshot,
    /// The time of scoring.
    pub now: Timestamp,
}

impl<'a> Input<'a> {
    /// The subject's metadata.
    pub fn metadata(&self) -> &'a Metadata {
        &self.subject.metadata
    }
}
