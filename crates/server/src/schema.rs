//! How answers look, for the OpenAPI description. What the pipeline serialises itself is described here once more; tests hold
//! every answer against its description, field by field.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoResponses, ToSchema, openapi};

use crate::problem;

/// Every error has this form.
pub(crate) struct Errors;

impl IntoResponses for Errors {
    fn responses() -> std::collections::BTreeMap<String, openapi::RefOr<openapi::Response>> {
        let body = <problem::Body<'_> as utoipa::PartialSchema>::schema();
        let response = |description: &str| {
            openapi::ResponseBuilder::new()
                .description(description)
                .content("application/problem+json", openapi::ContentBuilder::new().schema(Some(body.clone())).build())
                .build()
        };
        [
            ("4XX".to_owned(), response("What was asked cannot be done: `code` says why, `detail` what to do").into()),
            ("5XX".to_owned(), response("The service cannot do it now; with Retry-After where a time is known").into()),
        ]
        .into()
    }
}

/// An agent.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Agent {
    pub agent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub aliases: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    #[schema(format = DateTime)]
    pub registered_at: String,
    /// The entry that registered it.
    pub seq: u64,
    /// The authority took its standing back.
    pub revoked: bool,
    /// The newest recorded score; none before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<RecordedScore>,
}

/// A page of agents.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentList {
    pub agents: Vec<Agent>,
    /// Ask with `after` set to this for the next page; none at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A recorded score.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordedScore {
    /// Its entry.
    pub seq: u64,
    #[schema(format = DateTime)]
    pub recorded_at: String,
    /// The ledger's size that the score saw.
    pub as_of: u64,
    pub formula: String,
    pub coverage_floor: f64,
    /// `published`, `partial` (coverage below the floor) or `unrated`.
    pub status: String,
    #[schema(minimum = 0, maximum = 100)]
    pub score: u8,
    pub tier: String,
    #[schema(minimum = 0, maximum = 1)]
    pub coverage: f64,
    /// Distinct sources.
    pub sources: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weighted_mean: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stddev: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier_confidence: Option<f64>,
}

/// An agent's scores, newest first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct History {
    pub agent: String,
    pub scores: Vec<RecordedScore>,
}

/// A score now, under the sources' current weights.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes what the pipeline serialises")]
pub(crate) struct Score {
    agent: String,
    /// The ledger's size that was seen.
    as_of: u64,
    formula: String,
    /// `published`, `partial` (coverage below the floor: not shown elsewhere) or `unrated`.
    status: String,
    #[schema(minimum = 0, maximum = 100)]
    score: u8,
    tier: String,
    coverage: f64,
    sources: usize,
    mean: Option<f64>,
    weighted_mean: Option<f64>,
    stddev: Option<f64>,
    tier_confidence: Option<f64>,
    /// The probability of every tier.
    #[schema(value_type = Option<Object>)]
    tier_distribution: Option<Value>,
    certification: Certification,
}

/// The highest tier whose requirements are met.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes what the engine serialises")]
pub(crate) struct Certification {
    tier: String,
    next: Option<String>,
    /// What is missing for the next.
    missing: Vec<Unmet>,
}

/// A requirement that is not met.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes what the engine serialises")]
pub(crate) struct Unmet {
    requirement: String,
    needed: String,
    have: String,
}

/// A score event as recorded.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes what the pipeline serialises")]
pub(crate) struct ScoreEvent {
    seq: u64,
    #[schema(format = DateTime)]
    recorded_at: String,
    /// Inputs, weights, formula and every number.
    #[schema(value_type = Object)]
    event: Value,
}

/// A caller's own view, under its own weights.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes what the pipeline serialises")]
pub(crate) struct OwnView {
    agent: String,
    /// None when the weights leave nothing.
    #[schema(value_type = Option<Object>)]
    custom: Option<Value>,
    #[schema(value_type = Object)]
    weights: Value,
}

/// One of the three, by what was asked.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "describes what the pipeline serialises")]
pub(crate) enum AnyScore {
    /// Without `at` and `weights`.
    Now(Score),
    /// With `at`.
    Then(ScoreEvent),
    /// With `weights`.
    Own(OwnView),
}

/// Why a score is what it is.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes what the pipeline serialises")]
pub(crate) struct Explanation {
    agent: String,
    as_of: u64,
    formula: String,
    status: String,
    score: u8,
    tier: String,
    coverage: f64,
    sources: usize,
    mean: Option<f64>,
    weighted_mean: Option<f64>,
    stddev: Option<f64>,
    tier_confidence: Option<f64>,
    #[schema(value_type = Option<Object>)]
    tier_distribution: Option<Value>,
    certification: Certification,
    /// What each source did to it.
    contributions: Vec<Contribution>,
}

/// One source's part in a score.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes what the pipeline serialises")]
pub(crate) struct Contribution {
    source: String,
    weight: f64,
    share: f64,
    mean: f64,
    /// Points by which it moves the score.
    pull: f64,
    /// The numbers if it had said nothing.
    #[schema(value_type = Object)]
    without: Value,
    signals: Vec<Input>,
}

/// A signal that counted.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes what the pipeline serialises")]
pub(crate) struct Input {
    seq: u64,
    tag: String,
    value: f64,
    stddev: f64,
    weight: f64,
}

/// What became of something submitted.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Accepted {
    /// Its entry.
    pub seq: u64,
    /// It was there before, with the same bytes: nothing was appended.
    pub known: bool,
    /// What its author should know of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

/// What is recorded.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recorded {
    /// The entry.
    pub seq: u64,
}

/// Why one of many was refused.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ItemError {
    pub code: String,
    pub detail: String,
}

/// What became of one of many: `error`, or the rest.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Item {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ItemError>,
    /// In a bulk submission, the line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

/// What became of each, in order.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Batch {
    pub admitted: u64,
    pub rejected: u64,
    pub results: Vec<Item>,
}

/// One, or each of many.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "describes two answers of one operation")]
pub(crate) enum Submitted {
    One(Accepted),
    Many(Batch),
}

/// A signed document, by its form.
#[derive(Debug, ToSchema)]
#[allow(dead_code, reason = "describes what is signed elsewhere")]
pub(crate) struct TrustSignals {
    #[schema(value_type = Object)]
    meta: Value,
    #[schema(value_type = Vec<Object>)]
    signals: Value,
    #[schema(value_type = Option<Object>)]
    assessment: Option<Value>,
    kid: String,
    /// base64url(Ed25519(JCS(all but `signature`)))
    #[schema(min_length = 86, max_length = 86)]
    signature: String,
}
