//! `compute output-verification` and `compute hcs25`.

use anyhow::{Context, bail, ensure};
use credence_engine::hcs25::{
    Config, Error, Profile, Record, Rounding, Snapshot, Subject, catalogue,
    output_verification::{DEFAULT_MIN_CHECKS, Parameters, Report, Summary},
    providers::{self, Measure, Party, ProviderReport},
};
use credence_protocol::{
    Timestamp, strict,
    strict::{Object, StrictValue},
};
use serde::Deserialize;
use serde_json::{Number, Value, json};

use crate::home::now;

/// A summary, or several providers' summaries.
pub fn output_verification(input: &[u8], profile: Profile) -> anyhow::Result<Value> {
    let value = strict::value(input).context("on standard input")?;
    let parameters = Parameters::default();
    if value.get("totalChecks").is_some() {
        return Ok(match Summary::from_value(&value, DEFAULT_MIN_CHECKS)? {
            Report::Applicable(summary) if stale(&summary, &value)? => {
                json!({ "applicable": false, "reason": "stale: its window has passed" })
            }
            Report::Applicable(summary) => {
                let mut shown = json!(parameters.evaluate(&summary, profile));
                shown["applicable"] = json!(true);
                shown
            }
            Report::TooFew { checks, needed } => {
                json!({ "applicable": false, "reason": format!("too few checks: {checks}, at least {needed} are needed") })
            }
            Report::None => json!({ "applicable": false, "reason": "there is no totalChecks" }),
        });
    }
    let Some(list) = value.get("providers") else {
        bail!(
            "on standard input: neither an outputVerificationSummary (with totalChecks) nor an object with providers"
        );
    };
    let request: Several = serde_json::from_value(value.clone()).context("on standard input")?;
    let entries = list.as_array().context("providers is not a list")?;
    let mut reports = Vec::with_capacity(entries.len());
    for (n, entry) in entries.iter().enumerate() {
        let Object(who): Object<PartyWire> =
            serde_json::from_value(entry.clone()).with_context(|| format!("providers[{n}]"))?;
        ensure!(!who.id.is_empty(), "providers[{n}]: id is empty");
        let report = Summary::from_value(entry, DEFAULT_MIN_CHECKS);
        let report = report.with_context(|| format!("provider '{}'", who.id))?;
        reports.push(ProviderReport { provider: who.into(), report });
    }
    let agent = request.agent.map(Party::from);
    let combined = providers::combine(&reports, agent.as_ref(), request.now, &parameters, Measure::Standard(profile))?;
    Ok(json!(combined))
}

/// Whether the summary is past its window at the `now` beside it; without one nothing is stale.
fn stale(summary: &Summary, value: &Value) -> anyhow::Result<bool> {
    let Some(now) = value.get("now") else { return Ok(false) };
    let now: Timestamp = serde_json::from_value(now.clone()).context("now")?;
    summary.not_from_the_future(now)?;
    Ok(summary.is_stale(now))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Several {
    #[serde(rename = "providers")]
    _providers: Value,
    agent: Option<AgentWire>,
    now: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum AgentWire {
    Id(String),
    Party(PartyWire),
}

#[derive(Deserialize)]
struct PartyWire {
    id: String,
    owner: Option<String>,
    key: Option<String>,
}

impl From<PartyWire> for Party {
    fn from(PartyWire { id, owner, key }: PartyWire) -> Self {
        Self { id, owner, key }
    }
}

impl From<AgentWire> for Party {
    fn from(agent: AgentWire) -> Self {
        match agent {
            AgentWire::Id(id) => Self { id, ..Self::default() },
            AgentWire::Party(party) => party.into(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    subject: StrictValue,
    adapters: Vec<Object<Chosen>>,
    #[serde(default = "reference")]
    profile: Profile,
    stale_multiplier: Option<f64>,
    rounding_decimals: Option<Number>,
    now: Option<Timestamp>,
    version: Option<Number>,
    #[serde(default)]
    compute_confidence: bool,
    snapshot: Option<StrictValue>,
}

fn reference() -> Profile {
    Profile::Reference
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Chosen {
    adapter: String,
    options: Option<StrictValue>,
    weight: Option<f64>,
}

/// The record of a subject.
pub fn score(input: &[u8]) -> anyhow::Result<Record> {
    let request: Request = strict::object(input).context("on standard input")?;
    let mut adapters = Vec::new();
    for Object(Chosen { adapter, options, weight }) in request.adapters {
        let chosen = match adapter.as_str() {
            "*" if options.is_some() => bail!("adapter '*' has no options: name the adapter they are for"),
            "*" => catalogue::all(request.profile)?,
            id => vec![catalogue::adapter(id, options.as_ref().map(|options| &options.0), request.profile)?],
        };
        for adapter in chosen {
            adapters.push(match weight {
                Some(weight) => adapter.with_weight(weight)?,
                None => adapter,
            });
        }
    }
    let version = match request.version {
        None => 1,
        Some(version) => version.as_u64().ok_or_else(|| Error::Version(version.as_f64().unwrap_or(f64::NAN)))?,
    };
    let decimals = match request.rounding_decimals {
        None => None,
        Some(given) => {
            let whole = given.as_u64().and_then(|n| u8::try_from(n).ok());
            Some(whole.ok_or_else(|| Error::RoundingDecimals(given.as_f64().unwrap_or(f64::NAN)))?)
        }
    };
    let mut config = Config::new(version, adapters)?
        .rounding(Rounding::of(request.profile, decimals)?)
        .compute_confidence(request.compute_confidence);
    if let Some(multiplier) = request.stale_multiplier {
        config = config.stale_multiplier(multiplier)?;
    }
    let subject = Subject::from_value(request.subject.0)?;
    let snapshot =
        request.snapshot.map_or_else(|| Ok(Snapshot::default()), |snapshot| Snapshot::from_value(snapshot.0))?;
    Ok(config.score(&subject, &snapshot, request.now.unwrap_or_else(now))?)
}
