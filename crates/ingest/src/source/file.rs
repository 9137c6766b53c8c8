//! A source file as it is written. Flat tables with closed sets of keys, so that an error knows its line.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Table;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub id: String,
    pub version: u32,
    pub title: String,
    /// How it is gamed, what it cannot see: for the operator who sets its weight.
    pub about: String,
    pub owner: String,
    pub licence: String,
    pub documentation: String,
    /// Required: a source that re-reads nothing says so with an empty list.
    pub roots: Vec<String>,
    pub weight: f64,
    pub subject: String,
    pub ttl_hours: f64,
    /// Parts of the subject that make no difference to what is asked.
    #[serde(default)]
    pub ignores: Vec<String>,
    pub request: Request,
    #[serde(default)]
    pub limits: LimitsFile,
    /// Other names of parts: `{chain_name}` from `chain`.
    #[serde(default)]
    pub names: BTreeMap<String, Names>,
    pub page: Option<Page>,
    pub require: Table,
    #[serde(default)]
    pub identity: Vec<Identity>,
    pub verify: Option<Verify>,
    pub card: Option<CardPlaces>,
    pub select: Option<Select>,
    pub extract: BTreeMap<String, Extract>,
    #[serde(default)]
    pub absent: Vec<Absent>,
    pub age: Option<Age>,
    #[serde(default)]
    pub signal: Vec<Signal>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    #[serde(default = "get")]
    pub method: String,
    pub url: String,
    /// Says where `{base}` is (RFC 9224).
    pub services: Option<String>,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    pub body: Option<Table>,
    pub secret: Option<Secret>,
    #[serde(default = "refuse")]
    pub redirects: String,
    #[serde(default = "json")]
    pub format: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Secret {
    pub header: String,
    /// The environment variable that holds it.
    pub env: String,
    #[serde(default)]
    pub prefix: String,
    #[serde(default)]
    pub required: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitsFile {
    pub per_second: Option<u32>,
    pub burst: Option<u32>,
    pub max_bytes: Option<usize>,
    pub timeout_seconds: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Names {
    pub of: String,
    pub values: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    pub rule: String,
    /// The query parameter that holds the cursor or offset; or the member of the body.
    pub parameter: String,
    /// Which of the two.
    #[serde(default = "query", rename = "in")]
    pub place: String,
    /// The member of an answer whose lists are one list, where all of it is the subject's.
    pub join: Option<String>,
    /// Where an answer says the next cursor, or how many there are in all.
    pub pointer: String,
    pub size: Option<u64>,
    pub most: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Identity {
    pub pointers: Vec<String>,
    #[serde(default = "text")]
    pub take: String,
    pub equals: String,
    #[serde(default)]
    pub ignore_case: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Verify {
    pub rule: String,
    pub jwks: Option<String>,
    pub pointer: Option<String>,
}

/// Where a card says what is compared with the agent's registrations.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CardPlaces {
    pub name: String,
    pub endpoints: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Select {
    pub items: String,
    #[serde(default, rename = "where")]
    pub conditions: Vec<Identity>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Extract {
    pub pointer: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub reduce: Option<String>,
    /// Values that mean "not measured".
    #[serde(default)]
    pub missing: Vec<f64>,
    /// Where nothing is there.
    pub default: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// Of an enum.
    #[serde(default)]
    pub values: BTreeMap<String, f64>,
    /// Of an enum: every other word, and none.
    pub otherwise: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Absent {
    pub of: String,
    pub below: Option<f64>,
    pub above: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Age {
    pub of: String,
    pub half_life_days: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Signal {
    pub tags: Vec<String>,
    /// Only where this is at least one half.
    pub when: Option<String>,
    pub value: Value,
    pub stddev: Stddev,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Value {
    pub rule: String,
    pub of: Option<String>,
    pub from: Option<[f64; 2]>,
    pub to: Option<[f64; 2]>,
    pub reference: Option<f64>,
    pub points: Option<Vec<[f64; 2]>>,
    pub scale_days: Option<f64>,
    pub good: Option<String>,
    pub bad: Option<String>,
    pub items: Option<BTreeMap<String, f64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stddev {
    pub rule: String,
    pub value: Option<f64>,
    pub of: Option<String>,
    pub scale: Option<f64>,
    pub least: Option<f64>,
    pub good: Option<String>,
    pub bad: Option<String>,
}

fn get() -> String {
    "GET".into()
}

fn refuse() -> String {
    "refuse".into()
}

fn json() -> String {
    "json".into()
}

fn query() -> String {
    "query".to_owned()
}

fn text() -> String {
    "text".into()
}
