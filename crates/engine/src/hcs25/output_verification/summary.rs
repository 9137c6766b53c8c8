//! `outputVerificationSummary`: what a provider reports on an agent over a window. In memory it is consistent.

use std::{fmt, str::FromStr};

use credence_protocol::strict::Object;
use credence_protocol::{
    Stake, Timestamp,
    limits::{MAX_CLOCK_SKEW_SECONDS, MAX_SAFE_INTEGER},
};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

use super::Error;

/// By how much rates may add up to more than 1, for providers who round them to three decimals.
pub const RATE_TOLERANCE: f64 = 0.002;
/// The window of a summary that does not name one.
pub const DEFAULT_WINDOW_DAYS: f64 = 7.0;
const DAY_SECONDS: f64 = 86_400.0;

/// A provider's report that holds together.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The share of outputs let through.
    pub allow_rate: f64,
    /// The share blocked.
    pub block_rate: f64,
    /// The share on which the provider was not sure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncertain_rate: Option<f64>,
    /// The mean calibrated probability that a verdict is right.
    pub avg_confidence: f64,
    /// How many outputs were checked.
    pub total_checks: u64,
    /// How much depended on them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stake_distribution: Option<StakeDistribution>,
    /// The window's length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_days: Option<f64>,
    /// Who checked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub providers: Vec<ProviderRef>,
    /// Outputs the provider made up itself to see whether it catches them. Not of the standard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canaries: Option<Canaries>,
    /// Results known to be genuine that the provider judged to see how often it raises a false alarm. Not of the standard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controls: Option<Controls>,
    /// The window's end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
}

/// Checks by what depended on them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct StakeDistribution {
    /// Trivial ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<StakeLevel>,
    /// Ordinary ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub medium: Option<StakeLevel>,
    /// Important ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<StakeLevel>,
    /// Those on which everything depended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub critical: Option<StakeLevel>,
}

impl StakeDistribution {
    /// Each level with its name, from low to critical.
    pub fn levels(&self) -> [(&'static str, Option<StakeLevel>); 4] {
        let of = |stake: Stake, level| (stake.name(), level);
        [
            of(Stake::Low, self.low),
            of(Stake::Medium, self.medium),
            of(Stake::High, self.high),
            of(Stake::Critical, self.critical),
        ]
    }

    /// Checks in all levels, and in the upper two.
    pub fn counts(&self) -> (u64, u64) {
        let [low, medium, high, critical] = self.levels().map(|(_, level)| level.map_or(0, |level| level.checks));
        (low + medium + high + critical, high + critical)
    }
}

/// One level's checks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StakeLevel {
    /// How many.
    pub checks: u64,
    /// The share let through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_rate: Option<f64>,
    /// The mean confidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub avg_confidence: Option<f64>,
}

/// Made-up outputs, verified in shadow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Canaries {
    /// How many.
    pub checks: u64,
    /// How many were not let through.
    pub caught: u64,
}

/// Results known to be genuine, verified in shadow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Controls {
    /// How many.
    pub checks: u64,
    /// How many were not let through.
    pub rejected: u64,
}

/// Who checked, and how many.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderRef {
    /// A stable id.
    pub id: String,
    /// Who signs for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer_address: Option<String>,
    /// How it checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub methodology_url: Option<String>,
    /// Its part of the checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks_contributed: Option<u64>,
}

/// What a document says.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "nearly always the large one, and a box would cost an allocation each")]
pub enum Report {
    /// Enough to be scored.
    Applicable(Summary),
    /// Too little: nothing else in it was looked at.
    TooFew {
        /// How many checks there are.
        checks: u64,
        /// How many are needed.
        needed: u64,
    },
    /// There is no count of checks, so no summary.
    None,
}

impl Summary {
    /// Parses and checks a report of at least `min_checks`.
    pub fn parse(bytes: &[u8], min_checks: u64) -> Result<Report, Error> {
        let Object(wire): Object<Wire> = serde_json::from_slice(bytes).map_err(|e| Error::Summary(e.to_string()))?;
        wire.check(min_checks)
    }

    /// The same of parsed JSON.
    pub fn from_value(value: &Value, min_checks: u64) -> Result<Report, Error> {
        let Object(wire) = Object::<Wire>::deserialize(value).map_err(|e| Error::Summary(e.to_string()))?;
        wire.check(min_checks)
    }

    /// Whether at `now` the window it speaks of is wholly past. One that says nothing of its time is taken at its word.
    pub fn is_stale(&self, now: Timestamp) -> bool {
        let seconds = self.window_days.unwrap_or(DEFAULT_WINDOW_DAYS) * DAY_SECONDS;
        self.updated_at.is_some_and(|updated| now > updated.plus_seconds(seconds as i64))
    }

    /// Refuses one that was written later than `now`.
    pub fn not_from_the_future(&self, now: Timestamp) -> Result<(), Error> {
        match self.updated_at {
            Some(updated_at) if updated_at > now.plus_seconds(MAX_CLOCK_SKEW_SECONDS) => {
                Err(Error::Future { updated_at, now })
            }
            _ => Ok(()),
        }
    }
}

/// As received. `null` is absent.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    allow_rate: Option<f64>,
    block_rate: Option<f64>,
    uncertain_rate: Option<f64>,
    avg_confidence: Option<f64>,
    total_checks: Option<Number>,
    stake_distribution: Option<Object<WireStakes>>,
    window_days: Option<f64>,
    providers: Option<Vec<Object<WireProvider>>>,
    canaries: Option<Object<WireCanaries>>,
    controls: Option<Object<WireControls>>,
    updated_at: Option<Time>,
}

#[derive(Deserialize)]
struct WireStakes {
    low: Option<Object<WireLevel>>,
    medium: Option<Object<WireLevel>>,
    high: Option<Object<WireLevel>>,
    critical: Option<Object<WireLevel>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireLevel {
    checks: Number,
    allow_rate: Option<f64>,
    avg_confidence: Option<f64>,
}

#[derive(Deserialize)]
struct WireCanaries {
    checks: Number,
    caught: Number,
}

#[derive(Deserialize)]
struct WireControls {
    checks: Number,
    rejected: Number,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireProvider {
    id: String,
    signer_address: Option<String>,
    methodology_url: Option<String>,
    checks_contributed: Option<Number>,
}

/// Any JSON number, so that what is no count can be named.
#[derive(Clone, Copy)]
struct Number(f64);

impl Number {
    fn count(self, field: impl FnOnce() -> String) -> Result<u64, Error> {
        let Number(value) = self;
        if value >= 0.0 && value <= MAX_SAFE_INTEGER as f64 && libm::trunc(value) == value {
            return Ok(value as u64);
        }
        Err(Error::Count { field: field(), value: value.to_string() })
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }
            fn visit_u64<E>(self, v: u64) -> Result<Number, E> {
                Ok(Number(v as f64))
            }
            fn visit_i64<E>(self, v: i64) -> Result<Number, E> {
                Ok(Number(v as f64))
            }
            fn visit_f64<E>(self, v: f64) -> Result<Number, E> {
                Ok(Number(v))
            }
        }
        d.deserialize_any(Visitor)
    }
}

struct Time(Timestamp);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        Timestamp::from_str(&text).map(Time).map_err(de::Error::custom)
    }
}

impl Wire {
    fn check(self, min_checks: u64) -> Result<Report, Error> {
        let Some(total) = self.total_checks else { return Ok(Report::None) };
        let total_checks = total.count(|| "totalChecks".into())?;
        if total_checks < min_checks {
            return Ok(Report::TooFew { checks: total_checks, needed: min_checks });
        }
        let required = |field: &'static str, value: Option<f64>| {
            rate(field, value.ok_or_else(|| Error::Summary(format!("missing field `{field}`")))?)
        };
        let allow_rate = required("allowRate", self.allow_rate)?;
        let block_rate = required("blockRate", self.block_rate)?;
        let avg_confidence = required("avgConfidence", self.avg_confidence)?;
        let uncertain_rate = self.uncertain_rate.map(|value| rate("uncertainRate", value)).transpose()?;
        let sum = allow_rate + block_rate + uncertain_rate.unwrap_or(0.0);
        if sum > 1.0 + RATE_TOLERANCE {
            return Err(Error::RatesExceedOne { sum, tolerance: RATE_TOLERANCE });
        }
        let stake_distribution =
            self.stake_distribution.map(|Object(stakes)| stakes.check(total_checks)).transpose()?;
        let window_days = self.window_days.map(window).transpose()?;
        let providers = self.providers.map_or_else(|| Ok(Vec::new()), |list| check_providers(list, total_checks))?;
        let canaries = self.canaries.map(|Object(canaries)| canaries.check()).transpose()?;
        let controls = self.controls.map(|Object(controls)| controls.check()).transpose()?;
        Ok(Report::Applicable(Summary {
            allow_rate,
            block_rate,
            uncertain_rate,
            avg_confidence,
            total_checks,
            stake_distribution,
            window_days,
            providers,
            canaries,
            controls,
            updated_at: self.updated_at.map(|Time(at)| at),
        }))
    }
}

fn rate(field: &str, value: f64) -> Result<f64, Error> {
    // Minus zero is zero.
    if (0.0..=1.0).contains(&value) { Ok(value + 0.0) } else { Err(Error::Rate { field: field.to_owned(), value }) }
}

fn window(days: f64) -> Result<f64, Error> {
    const CENTURY_DAYS: f64 = 36_525.0;
    if (0.0..=CENTURY_DAYS).contains(&days) {
        return Ok(days);
    }
    Err(Error::Summary(format!("windowDays {days} is not a number of days from 0 to {CENTURY_DAYS}")))
}

impl WireStakes {
    fn check(self, total: u64) -> Result<StakeDistribution, Error> {
        let level = |stake: Stake, level: Option<Object<WireLevel>>| -> Result<Option<StakeLevel>, Error> {
            let Some(Object(level)) = level else { return Ok(None) };
            let path = |field: &str| format!("stakeDistribution.{stake}.{field}");
            let checked = |field: &str, value: Option<f64>| value.map(|value| rate(&path(field), value)).transpose();
            Ok(Some(StakeLevel {
                checks: level.checks.count(|| path("checks"))?,
                allow_rate: checked("allowRate", level.allow_rate)?,
                avg_confidence: checked("avgConfidence", level.avg_confidence)?,
            }))
        };
        let stakes = StakeDistribution {
            low: level(Stake::Low, self.low)?,
            medium: level(Stake::Medium, self.medium)?,
            high: level(Stake::High, self.high)?,
            critical: level(Stake::Critical, self.critical)?,
        };
        let (sum, _) = stakes.counts();
        if sum > total {
            return Err(Error::PartsExceedTotal { parts: "stakeDistribution", sum, total });
        }
        Ok(stakes)
    }
}

impl WireCanaries {
    fn check(self) -> Result<Canaries, Error> {
        let checks = self.checks.count(|| "canaries.checks".into())?;
        let caught = self.caught.count(|| "canaries.caught".into())?;
        if caught > checks {
            return Err(Error::Summary(format!("canaries: {caught} of {checks} were caught")));
        }
        Ok(Canaries { checks, caught })
    }
}

impl WireControls {
    fn check(self) -> Result<Controls, Error> {
        let checks = self.checks.count(|| "controls.checks".into())?;
        let rejected = self.rejected.count(|| "controls.rejected".into())?;
        if rejected > checks {
            return Err(Error::Summary(format!("controls: {rejected} of {checks} were rejected")));
        }
        Ok(Controls { checks, rejected })
    }
}

fn check_providers(list: Vec<Object<WireProvider>>, total: u64) -> Result<Vec<ProviderRef>, Error> {
    let mut providers: Vec<ProviderRef> = Vec::with_capacity(list.len());
    for (n, Object(wire)) in list.into_iter().enumerate() {
        if wire.id.is_empty() {
            return Err(Error::Summary(format!("providers[{n}].id is empty")));
        }
        if providers.iter().any(|before| before.id == wire.id) {
            return Err(Error::DuplicateProvider(wire.id));
        }
        let contributed =
            wire.checks_contributed.map(|n| n.count(|| format!("providers['{}'].checksContributed", wire.id)));
        providers.push(ProviderRef {
            id: wire.id,
            signer_address: wire.signer_address,
            methodology_url: wire.methodology_url,
            checks_contributed: contributed.transpose()?,
        });
    }
    let sum = providers.iter().filter_map(|provider| provider.checks_contributed).fold(0, u64::saturating_add);
    if sum > total {
        return Err(Error::PartsExceedTotal { parts: "providers[].checksContributed", sum, total });
    }
    Ok(providers)
}
