//! The record: the composite, every component, and how the one came of the other.

use std::collections::BTreeMap;

use credence_protocol::Timestamp;
use serde::{Serialize, Serializer};

use super::{
    Adapter, ComponentKey, Config, Error, Input, Mode, Reading, Snapshot, Status, Subject,
    config::{DEFAULT_WEIGHT, round_half_up},
};

/// Decimals of the confidence.
const CONFIDENCE_DECIMALS: u8 = 4;
/// The key of the composite among the scores.
const TOTAL: &str = "total";

/// A subject's trust score with everything that explains it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The composite, 0..=100.
    pub trust_score: f64,
    /// Every component by its key, and the composite as `total`.
    pub trust_scores: BTreeMap<String, f64>,
    /// The configuration's version: scores are comparable only under the same one.
    pub trust_score_config_version: u64,
    /// The time of scoring.
    #[serde(serialize_with = "with_milliseconds")]
    pub trust_score_updated_at: Timestamp,
    /// How much of it rests on fresh values, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust_confidence: Option<f64>,
    /// What each adapter said.
    pub breakdown: Breakdown,
}

/// What each adapter said.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Breakdown {
    /// In the configuration's order.
    pub adapters: Vec<AdapterRecord>,
}

/// What one adapter said.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdapterRecord {
    /// Which.
    pub adapter_id: String,
    /// When it counts.
    pub contribution_mode: Mode,
    /// Whether it has something to say on this subject.
    pub applicable: bool,
    /// Whether it counts.
    pub in_denominator: bool,
    /// How much.
    pub weight: f64,
    /// Its numbers.
    pub components: Vec<ComponentRecord>,
    /// What was left out, because there is no value.
    pub unavailable: Vec<String>,
    /// The weighted mean of its numbers.
    pub total: f64,
}

/// One number.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComponentRecord {
    /// Its key.
    pub key: String,
    /// 0..=100.
    pub value: f64,
    /// How it came about.
    pub status: Status,
    /// Its weight within the adapter.
    pub weight: f64,
}

impl Config {
    /// Scores a subject at `now`. The same input under the same configuration gives the same record.
    pub fn score(&self, subject: &Subject, snapshot: &Snapshot, now: Timestamp) -> Result<Record, Error> {
        let input = Input { subject, snapshot, now };
        let adapters: Vec<_> =
            self.adapters.iter().map(|adapter| self.adapter(adapter, &input)).collect::<Result<_, _>>()?;
        let counted = || adapters.iter().filter(|adapter| adapter.in_denominator);
        let mean =
            |of: &dyn Fn(&AdapterRecord) -> f64| weighted_mean(counted().map(|adapter| (of(adapter), adapter.weight)));
        let total = self.rounding.total(mean(&|adapter| adapter.total));
        let confidence = self.confidence.then(|| round_half_up(mean(&AdapterRecord::confidence), CONFIDENCE_DECIMALS));
        let components = adapters.iter().flat_map(|adapter| &adapter.components);
        let mut scores: BTreeMap<String, f64> = components.map(|part| (part.key.clone(), part.value)).collect();
        scores.insert(TOTAL.to_owned(), total);
        Ok(Record {
            trust_score: total,
            trust_scores: scores,
            trust_score_config_version: self.version,
            trust_score_updated_at: now,
            trust_confidence: confidence,
            breakdown: Breakdown { adapters },
        })
    }

    fn adapter(&self, adapter: &Adapter, input: &Input<'_>) -> Result<AdapterRecord, Error> {
        let mut record = AdapterRecord {
            adapter_id: adapter.id.to_string(),
            contribution_mode: adapter.mode,
            applicable: adapter.is_applicable(input)?,
            in_denominator: false,
            weight: adapter.weight,
            components: Vec::new(),
            unavailable: Vec::new(),
            total: 0.0,
        };
        if !record.applicable {
            return Ok(record);
        }
        for (key, component) in &adapter.components {
            let reading = finite((component.normalise)(input)?);
            if reading.status.is_available() || component.scorable {
                record.components.push(self.component(key, reading, component.weight));
            } else {
                record.unavailable.push(key.to_string());
            }
        }
        if record.components.is_empty() && adapter.mode != Mode::Conditional {
            let missing = Reading::unavailable(Status::Missing);
            record.components.push(self.component(&adapter.default_key, missing, DEFAULT_WEIGHT));
        }
        record.in_denominator = adapter.weight > 0.0 && !record.components.is_empty();
        let mean = weighted_mean(record.components.iter().map(|part| (part.value, part.weight)));
        record.total = self.rounding.part(mean.clamp(0.0, 100.0));
        Ok(record)
    }

    fn component(&self, key: &ComponentKey, reading: Reading, weight: f64) -> ComponentRecord {
        let worth = match reading.status {
            Status::Ok => reading.value,
            Status::Stale => reading.value * self.stale_multiplier,
            Status::Missing | Status::Timeout | Status::Error => 0.0,
        };
        let value = self.rounding.part(worth.clamp(0.0, 100.0));
        ComponentRecord { key: key.to_string(), value, status: reading.status, weight }
    }
}

impl AdapterRecord {
    /// The share of its components that are fresh.
    fn confidence(&self) -> f64 {
        let fresh = self.components.iter().filter(|part| part.status == Status::Ok).count();
        fresh as f64 / self.components.len().max(1) as f64
    }
}

fn finite(reading: Reading) -> Reading {
    if reading.value.is_finite() { reading } else { Reading::unavailable(Status::Missing) }
}

/// 0 when nothing weighs.
fn weighted_mean(parts: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (sum, weights) =
        parts.fold((0.0, 0.0), |(sum, weights), (value, weight)| (sum + value * weight, weights + weight));
    if weights > 0.0 { sum / weights } else { 0.0 }
}

fn with_milliseconds<S: Serializer>(at: &Timestamp, s: S) -> Result<S::Ok, S::Error> {
    let text = at.to_string();
    s.collect_str(&format_args!("{}Z", text.get(..23).unwrap_or(&text)))
}
