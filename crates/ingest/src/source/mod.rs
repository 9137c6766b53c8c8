//! A source as data: a TOML file, validated when it is loaded. `docs/crawlers.md` describes every key.

mod check;
mod file;
mod rules;

use std::{collections::BTreeMap, time::Duration};

use credence_egress::{HeaderName, HeaderValue, Method, Rate, Redirects};
use credence_protocol::{EntityId, ExternalSubject, Root, SubjectKind, Tag};
use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{
    SourceError,
    normalise::{AgeRule, StddevRule, ValueRule},
    pointer::Pointer,
    template::{Address, Parts, Template},
};

/// A source file that can be used.
#[derive(Debug)]
pub struct Source {
    /// The source's id: who signs its signals.
    pub id: EntityId,
    /// Raised with every change of meaning.
    pub version: u32,
    /// Its name for people.
    pub title: String,
    /// What it measures, how it is gamed.
    pub about: String,
    /// The party that it reads.
    pub owner: EntityId,
    /// Under which terms its data may be used.
    pub licence: String,
    /// Where its answers are described.
    pub documentation: String,
    /// The registries that it re-reads.
    pub roots: Vec<Root>,
    /// The weight it is registered with where the operator names none.
    pub weight: f64,
    /// What it is asked about.
    pub subject: SubjectKind,
    /// How long an answer holds.
    pub ttl: Duration,
    /// What its requests may cost.
    pub limits: Limits,
    /// `sha256:` and the digest of the file.
    pub digest: String,
    pub(crate) request: RequestRule,
    pub(crate) names: BTreeMap<String, (String, BTreeMap<String, String>)>,
    pub(crate) page: Option<PageRule>,
    pub(crate) require: jsonschema::Validator,
    pub(crate) identity: Vec<IdentityRule>,
    pub(crate) verify: Option<VerifyRule>,
    pub(crate) card: Option<CardRule>,
    pub(crate) select: Option<(Pointer, Vec<IdentityRule>)>,
    pub(crate) extract: BTreeMap<String, ExtractRule>,
    pub(crate) absent: Vec<AbsentRule>,
    pub(crate) age: Option<AgeRule>,
    pub(crate) signals: Vec<SignalRule>,
}

/// What requests of a source may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How often a host is asked.
    pub rate: Rate,
    /// Bytes of an answer.
    pub max_bytes: usize,
    /// How long an answer may take.
    pub timeout: Duration,
}

#[derive(Debug)]
pub(crate) struct RequestRule {
    pub method: Method,
    pub address: Address,
    pub services: Option<String>,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Option<Value>,
    pub secret: Option<SecretRule>,
    pub redirects: Redirects,
    pub format: Format,
}

#[derive(Debug)]
pub(crate) struct SecretRule {
    pub header: HeaderName,
    pub env: String,
    pub prefix: String,
    pub required: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    /// Lines of `Name: value`, as in security.txt.
    Fields,
}

#[derive(Debug)]
pub(crate) struct PageRule {
    pub parameter: String,
    /// The parameter is a member of the body, not of the address.
    pub in_body: bool,
    pub next: NextPage,
    /// The member whose lists are one list: then every page is the subject's, and all are read.
    pub join: Option<String>,
    pub most: u32,
}

#[derive(Debug)]
pub(crate) enum NextPage {
    Cursor(Pointer),
    Offset { total: Pointer, size: u64 },
}

/// What an answer, or an element of it, must say of whom it is about.
#[derive(Debug)]
pub(crate) struct IdentityRule {
    pub pointers: Vec<Pointer>,
    pub host: bool,
    pub equals: Template,
    pub ignore_case: bool,
}

#[derive(Debug)]
pub(crate) enum VerifyRule {
    /// The JWS signatures of an A2A card, by keys of its own host.
    A2aCard,
    /// `{signed, sig, kid}` with ES256 over the text of `signed`.
    Envelope { pointer: Pointer, at: Vec<String>, jwks: String },
}

/// Where an A2A card says what is compared with the agent's registrations.
#[derive(Debug)]
pub(crate) struct CardRule {
    pub name: Pointer,
    pub endpoints: Vec<Pointer>,
}

#[derive(Debug)]
pub(crate) struct ExtractRule {
    pub pointer: Pointer,
    pub kind: ExtractKind,
    pub reduce: Reduce,
    pub missing: Vec<f64>,
    pub default: Option<f64>,
    pub min: f64,
    pub max: f64,
}

#[derive(Debug)]
pub(crate) enum ExtractKind {
    Number,
    Count,
    Percent,
    AgeDays,
    IsFuture,
    Boolean,
    Present,
    Length,
    Enum { values: BTreeMap<String, f64>, otherwise: Option<f64> },
}

impl ExtractKind {
    /// Whether the number changes while the answer stays the same.
    pub fn is_time(&self) -> bool {
        matches!(self, Self::AgeDays | Self::IsFuture)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reduce {
    Only,
    Sum,
    Mean,
    Min,
    Max,
    Count,
}

/// There is no measurement where a number is outside of these bounds, or missing.
#[derive(Debug)]
pub(crate) struct AbsentRule {
    pub of: String,
    pub below: f64,
    pub above: f64,
}

#[derive(Debug)]
pub(crate) struct SignalRule {
    pub tags: Vec<Tag>,
    pub when: Option<String>,
    pub value: ValueRule,
    pub stddev: StddevRule,
}

impl Source {
    /// Reads and validates a source file; `file` is its name in errors.
    pub fn parse(file: &str, text: &str) -> Result<Self, SourceError> {
        check::source(file, text)
    }

    /// The numbers that it reads.
    pub fn numbers(&self) -> impl Iterator<Item = &str> {
        self.extract.keys().map(String::as_str)
    }

    /// The tags that it speaks of.
    pub fn tags(&self) -> Vec<&Tag> {
        let mut tags: Vec<&Tag> = self.signals.iter().flat_map(|signal| &signal.tags).collect();
        tags.sort();
        tags.dedup();
        tags
    }

    /// The tags whose condition (`when`) does not hold by these numbers. A number that is not there denies nothing.
    pub fn denied(&self, numbers: &BTreeMap<String, f64>) -> Vec<&Tag> {
        let is_denied = |rule: &&SignalRule| {
            let number = rule.when.as_ref().and_then(|when| numbers.get(when));
            number.is_some_and(|number| *number < 0.5)
        };
        self.signals.iter().filter(is_denied).flat_map(|rule| &rule.tags).collect()
    }

    /// The one host that it asks, where the file names it.
    pub fn host(&self) -> Option<&str> {
        self.request.address.fixed_host()
    }

    /// The environment variable that holds its secret, and whether it is asked without one.
    pub fn secret(&self) -> Option<(&str, bool)> {
        self.request.secret.as_ref().map(|secret| (secret.env.as_str(), secret.required))
    }

    /// The values of its places for a subject; none where it has nothing to say of it: another kind, a part without a name there, or a
    /// host with a port where a third party is asked about the host. Control of one port of a host is not control of the host.
    pub(crate) fn parts(&self, subject: &ExternalSubject) -> Option<Parts> {
        if subject.kind() != self.subject {
            return None;
        }
        let mut parts: Parts = subject.parts().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        for (name, (of, values)) in &self.names {
            let value = values.get(parts.get(of)?)?.clone();
            parts.insert(name.clone(), value);
        }
        let has_port = parts.get("host").is_some_and(|host| host.contains(':'));
        (!has_port || self.request.address.asks_the_subject()).then_some(parts)
    }

    /// Whether it can be asked about `subject`.
    pub fn speaks_of(&self, subject: &ExternalSubject) -> bool {
        self.parts(subject).is_some()
    }
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(bytes)))
}
