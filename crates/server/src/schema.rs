//! How answers look, for the OpenAPI description. What the pipeline serialises itself is described here once more; tests hold
//! every answer against its description, field by field.

use credence_pipeline::query::CurrentAssured;
use credence_protocol::ScoreStatus;
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
    /// The newest recorded universal score; none before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<RecordedScore>,
    /// The newest recorded assured score; none before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assured: Option<AssuredScore>,
}

/// A recorded assured score (`uts/2`): what can be vouched for.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AssuredScore {
    /// Its entry.
    pub seq: u64,
    #[schema(format = DateTime)]
    pub recorded_at: String,
    pub formula: String,
    /// The digest of the formula's parameters.
    pub parameters: String,
    /// The entry of the `uts/1` event that lists the inputs.
    pub inputs_of: u64,
    /// The hour for which ages were taken.
    #[schema(format = DateTime)]
    pub evaluated_at: String,
    /// When an event was last recorded by age alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub aged_at: Option<String>,
    /// `published` or `unrated`.
    #[schema(value_type = String)]
    pub status: ScoreStatus,
    /// The lower end of the range, rounded, or the cap.
    #[schema(minimum = 0, maximum = 100)]
    pub score: u8,
    /// The band of the score.
    pub tier: String,
    /// What is believed.
    pub estimate: f64,
    pub sd: f64,
    pub low: f64,
    pub high: f64,
    /// What the worst hole in security leaves possible; 100 where none was found.
    pub cap: f64,
    /// The share of the estimate that is evidence.
    #[schema(minimum = 0, maximum = 1)]
    pub known: f64,
    /// Independent sources that it is worth.
    pub n_eff: f64,
    /// The largest change of the score when one independent source is left out.
    pub fragility: u8,
    /// Tags that belong to no dimension.
    pub not_counted: Vec<String>,
    /// `security`, `output`, `reliability`, `reputation`, `identity`, `adoption`: those that are measured, each
    /// `{estimate, sd, known, n_eff, weakest?}`.
    #[schema(value_type = Object)]
    pub dimensions: Value,
    /// What adds up to the score, in order, each `{name, value}`.
    #[schema(value_type = Vec<Object>)]
    pub steps: Value,
}

impl From<CurrentAssured> for AssuredScore {
    fn from(current: CurrentAssured) -> Self {
        let CurrentAssured { seq, recorded_at, formula, parameters, inputs_of, evaluated_at, aged_at, numbers } =
            current;
        Self {
            seq,
            recorded_at: recorded_at.to_string(),
            formula,
            parameters,
            inputs_of,
            evaluated_at: evaluated_at.to_string(),
            aged_at: aged_at.map(|at| at.to_string()),
            status: numbers.status,
            score: numbers.score,
            tier: numbers.tier.key().to_owned(),
            estimate: numbers.estimate,
            sd: numbers.sd,
            low: numbers.low,
            high: numbers.high,
            cap: numbers.cap,
            known: numbers.known,
            n_eff: numbers.n_eff,
            fragility: numbers.fragility,
            not_counted: numbers.not_counted,
            dimensions: serde_json::json!(numbers.dimensions),
            steps: serde_json::json!(numbers.steps),
        }
    }
}

/// A page of agents.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentList {
    pub agents: Vec<Agent>,
    /// Ask with `after` (with `rank`: `page`) set to this for the next page; none at the end.
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
    #[schema(value_type = String)]
    pub status: ScoreStatus,
    #[schema(minimum = 0, maximum = 100)]
    pub score: u8,
    pub tier: String,
    #[schema(minimum = 0, maximum = 1)]
    pub coverage: f64,
    /// Independent sources.
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
    /// The authority took the agent's standing back: whatever the numbers say.
    pub revoked: bool,
    /// Universal scores (`uts/1`).
    pub scores: Vec<RecordedScore>,
    /// Assured scores (`uts/2`).
    pub assured: Vec<AssuredScore>,
}

/// A signal of a score that the agent's owner disputes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes what the pipeline serialises")]
pub(crate) struct DisputedInput {
    /// The signal.
    signal: String,
    /// Its entry.
    seq: u64,
    /// `opened` or `kept`.
    step: String,
    /// The entry of that step.
    dispute: u64,
}

/// The newest recorded score.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes what the pipeline serialises")]
pub(crate) struct Score {
    agent: String,
    /// The entry of the newest recorded score event; none where the agent was never rated.
    seq: Option<u64>,
    #[schema(format = DateTime)]
    recorded_at: Option<String>,
    /// The ledger's size that the event saw.
    as_of: u64,
    formula: String,
    /// `published`, `partial` (coverage below the floor: not shown elsewhere) or `unrated`.
    #[schema(value_type = String)]
    status: ScoreStatus,
    #[schema(minimum = 0, maximum = 100)]
    score: u8,
    tier: String,
    coverage: f64,
    sources: usize,
    mean: Option<f64>,
    weighted_mean: Option<f64>,
    stddev: Option<f64>,
    tier_confidence: Option<f64>,
    /// The share of the curve (mean ± stddev) over the band of every tier.
    #[schema(value_type = Option<Object>)]
    tier_distribution: Option<Value>,
    /// The newest recorded assured score; none where nothing that counts was ever measured.
    assured: Option<AssuredScore>,
    certification: Certification,
    /// The authority took the agent's standing back: whatever the number says.
    #[serde(default)]
    revoked: bool,
    /// Signals in it that the agent's owner disputes. Their statements are at `/v1/agents/{agent}/disputes`.
    #[serde(default)]
    disputed: Vec<DisputedInput>,
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
    /// The assured score in force then.
    #[schema(value_type = Option<Object>)]
    assured: Option<Value>,
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
    Now(Box<Score>),
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
    /// The entry of the newest recorded score event.
    seq: Option<u64>,
    #[schema(format = DateTime)]
    recorded_at: Option<String>,
    as_of: u64,
    formula: String,
    #[schema(value_type = String)]
    status: ScoreStatus,
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
    /// The newest recorded assured score.
    assured: Option<AssuredScore>,
    certification: Certification,
    /// The authority took the agent's standing back: whatever the number says.
    #[serde(default)]
    revoked: bool,
    /// Signals in it that the agent's owner disputes. Their statements are at `/v1/agents/{agent}/disputes`.
    #[serde(default)]
    disputed: Vec<DisputedInput>,
    /// What each source did to the universal score.
    contributions: Vec<Contribution>,
    /// What would raise the assured score most.
    advice: Vec<Advice>,
}

/// One more fully trusted source under a tag, and what it would do to the assured score.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes what the engine serialises")]
pub(crate) struct Advice {
    tag: String,
    dimension: String,
    /// Whether anybody measures it now.
    measured: bool,
    /// Points gained if the source says what is believed now.
    gain_confirmed: f64,
    /// Points gained if the source finds a good value.
    gain_improved: f64,
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

/// A trust-signals answer: `{meta, signals[], assessment, kid, signature}`
#[derive(Debug, ToSchema)]
#[allow(dead_code, reason = "describes what is signed elsewhere")]
pub(crate) struct TrustSignals {
    meta: Meta,
    /// Facts.
    signals: Vec<Fact>,
    assessment: Option<Assessment>,
    /// The key, as in `/.well-known/jwks.json`.
    kid: String,
    /// base64url(Ed25519(JCS(all but `signature`)))
    #[schema(min_length = 86, max_length = 86)]
    signature: String,
}

/// What the answer is about
#[derive(Debug, ToSchema)]
#[schema(as = TrustSignalsMeta, rename_all = "camelCase")]
#[allow(dead_code, reason = "describes what is signed elsewhere")]
pub(crate) struct Meta {
    #[schema(format = "uuid")]
    response_id: String,
    entity_id: String,
    status: Standing,
    url: String,
    context: Option<String>,
    #[schema(format = DateTime)]
    timestamp: String,
    #[schema(format = DateTime)]
    expires: String,
}

#[derive(Debug, ToSchema)]
#[schema(as = TrustStatus, rename_all = "snake_case")]
#[allow(dead_code, reason = "describes what is signed elsewhere")]
pub(crate) enum Standing {
    Verified,
    Lapsed,
    Revoked,
    Pending,
}

/// A verified fact: `identity`, `reputation`, `compliance`, `recourse`, or one of ours (`credence.…`)
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code, reason = "describes what is signed elsewhere")]
pub(crate) struct Fact {
    r#type: String,
    #[schema(format = DateTime)]
    verified_at: String,
    #[schema(value_type = Object)]
    data: Value,
}

/// An opinion, by fixed rules from verified numbers
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code, reason = "describes what is signed elsewhere")]
pub(crate) struct Assessment {
    action: Action,
    #[schema(max_length = 500)]
    reasoning: String,
    #[schema(max_items = 10)]
    highlights: Option<Vec<String>>,
    /// With context `purchase`.
    safe_to_purchase: Option<String>,
    /// With context `inquiry`.
    information_reliable: Option<String>,
    /// With context `high-value`.
    safe_for_high_value: Option<String>,
    /// Each `{value, description}`.
    #[schema(value_type = Object)]
    extensions: Value,
}

#[derive(Debug, ToSchema)]
#[schema(as = RecommendedAction, rename_all = "snake_case")]
#[allow(dead_code, reason = "describes what is signed elsewhere")]
pub(crate) enum Action {
    Proceed,
    Caution,
    Decline,
}

/// A signed measurement
#[derive(Debug, ToSchema)]
#[schema(as = Signal)]
#[allow(dead_code, reason = "describes what is signed elsewhere")]
pub(crate) struct SignalDocument {
    /// A UUIDv7; the same id with the same bytes is the same signal.
    #[schema(format = "uuid")]
    id: String,
    agent: String,
    source: String,
    /// The authority it is for, as in `aud` of `/v1/keys`. Sources that are not registered as unbound have to name it.
    aud: Option<String>,
    /// Registered ones: `/v1/tags`.
    #[schema(min_items = 1)]
    tags: Vec<String>,
    /// 100 is always best.
    #[schema(minimum = 0, maximum = 100)]
    value: f64,
    #[schema(minimum = 0, maximum = 50)]
    stddev: f64,
    #[schema(format = DateTime)]
    observed_at: String,
    /// The earlier signal of the same source and agent that this one corrects.
    #[schema(format = "uuid")]
    supersedes: Option<String>,
    /// Public facts or digests.
    #[schema(value_type = Option<Object>)]
    evidence: Option<Value>,
    key_id: String,
    /// base64url(Ed25519(JCS(all but `signature`)))
    signature: String,
}

/// One signal, or a list of them
#[derive(Debug, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "describes what is signed elsewhere")]
pub(crate) enum OneOrManySignals {
    One(Box<SignalDocument>),
    /// Each has its own result, whatever it is.
    Many(Vec<Value>),
}
