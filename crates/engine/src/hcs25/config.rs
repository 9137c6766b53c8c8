//! How a subject is scored: adapters, weights, modes, rounding. A configuration in memory makes sense.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{AdapterId, ComponentKey, Error, Input, Status};

/// An adapter's weight when none is given.
pub const DEFAULT_WEIGHT: f64 = 1.0;
/// Beyond this, sums of weighted values could leave the finite numbers.
const MAX_WEIGHT: f64 = 1e12;
/// What a stale value is worth when nothing else is said: all of it.
pub const DEFAULT_STALE_MULTIPLIER: f64 = 1.0;
/// Decimals of the reference implementation.
pub const DEFAULT_ROUNDING_DECIMALS: u8 = 2;
/// The most there is use for.
const MAX_ROUNDING_DECIMALS: u8 = 6;

/// Whose reading of the output-verification text is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// The text: quality is rounded half up to an integer, and nothing else is.
    #[default]
    Spec,
    /// The reference implementation: every component, adapter total and the composite are rounded to two decimals.
    Reference,
}

/// Where numbers are rounded: to nearest, ties upwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rounding {
    parts: Option<u8>,
    total: Option<u8>,
}

impl Rounding {
    /// Components, adapter totals and the composite, each from the rounded ones before it.
    pub fn staged(decimals: u8) -> Result<Self, Error> {
        check_decimals(decimals)?;
        Ok(Self { parts: Some(decimals), total: Some(decimals) })
    }

    /// The composite alone.
    pub fn total_only(decimals: u8) -> Result<Self, Error> {
        check_decimals(decimals)?;
        Ok(Self { parts: None, total: Some(decimals) })
    }

    /// Nothing.
    pub fn none() -> Self {
        Self { parts: None, total: None }
    }

    /// What `profile` does, with `decimals` when they are given.
    pub fn of(profile: Profile, decimals: Option<u8>) -> Result<Self, Error> {
        match (profile, decimals) {
            (Profile::Reference, decimals) => Self::staged(decimals.unwrap_or(DEFAULT_ROUNDING_DECIMALS)),
            (Profile::Spec, Some(decimals)) => Self::total_only(decimals),
            (Profile::Spec, None) => Ok(Self::none()),
        }
    }

    pub(crate) fn part(self, value: f64) -> f64 {
        self.parts.map_or(value, |decimals| round_half_up(value, decimals))
    }

    pub(crate) fn total(self, value: f64) -> f64 {
        self.total.map_or(value, |decimals| round_half_up(value, decimals))
    }
}

fn check_decimals(decimals: u8) -> Result<(), Error> {
    if decimals <= MAX_ROUNDING_DECIMALS { Ok(()) } else { Err(Error::RoundingDecimals(decimals.into())) }
}

/// ECMAScript's `Math.round(x · 10^d) / 10^d`: ties go up, and the last double below one half goes down.
pub fn round_half_up(value: f64, decimals: u8) -> f64 {
    const SCALES: [f64; MAX_ROUNDING_DECIMALS as usize + 1] = [1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6];
    let scale = SCALES[decimals.min(MAX_ROUNDING_DECIMALS) as usize];
    let scaled = value * scale;
    let below = libm::floor(scaled);
    (if scaled - below >= 0.5 { below + 1.0 } else { below }) / scale
}

/// When an adapter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Whenever applicable, everywhere.
    Universal,
    /// Whenever applicable, within its scope. Computed like [`Universal`](Mode::Universal): the intent differs.
    Scoped,
    /// Only when it made a component.
    #[default]
    Conditional,
}

/// What a normaliser read: a value and how it came about. A value that is not finite is missing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// The value, before clamping.
    pub value: f64,
    /// How it came about.
    pub status: Status,
}

impl Reading {
    /// A fresh value.
    pub fn ok(value: f64) -> Self {
        Self { value, status: Status::Ok }
    }

    /// No value.
    pub fn unavailable(status: Status) -> Self {
        Self { value: 0.0, status }
    }

    /// A value, if there is one and the status does not forbid it.
    pub fn of(value: Option<f64>, status: Option<Status>) -> Self {
        match (value, status.unwrap_or(Status::Ok)) {
            (Some(value), status) if status.is_available() => Self { value, status },
            (_, status) if !status.is_available() => Self::unavailable(status),
            _ => Self::unavailable(Status::Missing),
        }
    }
}

type Normalise = Arc<dyn Fn(&Input<'_>) -> Result<Reading, Error> + Send + Sync>;
type Predicate = Arc<dyn Fn(&Input<'_>) -> Result<bool, Error> + Send + Sync>;

/// One number of an adapter.
#[derive(Clone)]
pub struct Component {
    pub(crate) name: String,
    pub(crate) weight: f64,
    pub(crate) scorable: bool,
    pub(crate) normalise: Normalise,
}

impl Component {
    /// Reads itself from the input.
    pub fn new(
        name: impl Into<String>,
        normalise: impl Fn(&Input<'_>) -> Result<Reading, Error> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), weight: DEFAULT_WEIGHT, scorable: true, normalise: Arc::new(normalise) }
    }

    /// Its weight within the adapter.
    pub fn weight(mut self, weight: f64) -> Self {
        self.weight = weight;
        self
    }

    /// Left out and listed as unavailable, instead of counting 0, when there is no value.
    pub fn not_scorable_when_unavailable(mut self) -> Self {
        self.scorable = false;
        self
    }
}

/// A deterministic map from what is known of a subject to components.
#[derive(Clone)]
pub struct Adapter {
    pub(crate) id: AdapterId,
    pub(crate) mode: Mode,
    pub(crate) weight: f64,
    pub(crate) include: Option<Vec<String>>,
    pub(crate) exclude: Vec<String>,
    pub(crate) applies: Predicate,
    pub(crate) components: Vec<(ComponentKey, Component)>,
    pub(crate) default_key: ComponentKey,
    pub(crate) revision: String,
}

impl Adapter {
    /// Starts an adapter.
    pub fn builder(id: impl Into<String>) -> AdapterBuilder {
        AdapterBuilder {
            id: id.into(),
            mode: Mode::default(),
            weight: DEFAULT_WEIGHT,
            include: None,
            exclude: Vec::new(),
            applies: Arc::new(|_| Ok(true)),
            components: Vec::new(),
            default_key: None,
            revision: String::new(),
        }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        self.id.as_str()
    }

    /// Whether it has something to say on the subject (an include-list needs a registry; an exclude-list does not).
    pub fn is_applicable(&self, input: &Input<'_>) -> Result<bool, Error> {
        let registry = input.subject.registry.as_deref();
        let listed = |list: &[String]| registry.is_some_and(|registry| list.iter().any(|name| name == registry));
        if self.include.as_ref().is_some_and(|list| !listed(list)) || listed(&self.exclude) {
            return Ok(false);
        }
        (self.applies)(input)
    }

    /// The same under another weight.
    pub fn with_weight(mut self, weight: f64) -> Result<Self, Error> {
        check_weight(|| format!("adapter '{}'", self.id), weight)?;
        self.weight = weight;
        Ok(self)
    }
}

/// An adapter in the making.
pub struct AdapterBuilder {
    id: String,
    mode: Mode,
    weight: f64,
    include: Option<Vec<String>>,
    exclude: Vec<String>,
    applies: Predicate,
    components: Vec<Component>,
    default_key: Option<String>,
    revision: String,
}

impl AdapterBuilder {
    /// When it counts.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }
    /// How much; 0 reports without counting.
    pub fn weight(mut self, weight: f64) -> Self {
        self.weight = weight;
        self
    }
    /// Only subjects of these registries.
    pub fn include_registries(mut self, registries: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.include = Some(registries.into_iter().map(Into::into).collect());
        self
    }
    /// No subject of these registries.
    pub fn exclude_registries(mut self, registries: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.exclude = registries.into_iter().map(Into::into).collect();
        self
    }
    /// Only where `applies` says so.
    pub fn applies_to(mut self, applies: impl Fn(&Input<'_>) -> Result<bool, Error> + Send + Sync + 'static) -> Self {
        self.applies = Arc::new(applies);
        self
    }
    /// One more component.
    pub fn component(mut self, component: Component) -> Self {
        self.components.push(component);
        self
    }
    /// The key of the component that stands in when none was made; `{adapterId}.score` when not said.
    pub fn default_component_key(mut self, key: impl Into<String>) -> Self {
        self.default_key = Some(key.into());
        self
    }
    /// Names the normalisers' revision: functions cannot be compared, so a change of theirs is said here.
    pub fn revision(mut self, revision: impl Into<String>) -> Self {
        self.revision = revision.into();
        self
    }

    /// Checks and builds.
    pub fn build(self) -> Result<Adapter, Error> {
        let id = AdapterId::try_from(self.id.as_str())?;
        check_weight(|| format!("adapter '{id}'"), self.weight)?;
        if self.components.is_empty() {
            return Err(Error::NoComponents(id.to_string()));
        }
        let default_key = self.default_key.unwrap_or_else(|| format!("{id}.score"));
        let default_key = ComponentKey::parse(&default_key)
            .ok_or_else(|| Error::DefaultComponentKey { adapter: id.to_string(), key: default_key.clone() })?;
        let mut components: Vec<(ComponentKey, Component)> = Vec::with_capacity(self.components.len());
        for component in self.components {
            check_weight(|| format!("adapter '{id}', component '{}'", component.name), component.weight)?;
            let key = ComponentKey::of(&id, &component.name)?;
            if components.iter().any(|(known, _)| *known == key) {
                return Err(Error::DuplicateComponent(key.to_string()));
            }
            components.push((key, component));
        }
        let Self { mode, weight, include, exclude, applies, revision, .. } = self;
        Ok(Adapter { id, mode, weight, include, exclude, applies, components, default_key, revision })
    }
}

fn check_weight(of: impl FnOnce() -> String, weight: f64) -> Result<(), Error> {
    if (0.0..=MAX_WEIGHT).contains(&weight) { Ok(()) } else { Err(Error::Weight { of: of(), weight }) }
}

/// A scoring configuration.
#[derive(Clone)]
pub struct Config {
    pub(crate) version: u64,
    pub(crate) adapters: Vec<Adapter>,
    pub(crate) stale_multiplier: f64,
    pub(crate) rounding: Rounding,
    pub(crate) confidence: bool,
}

impl Config {
    /// With these adapters, and the reference implementation's settings.
    pub fn new(version: u64, adapters: Vec<Adapter>) -> Result<Self, Error> {
        if adapters.is_empty() {
            return Err(Error::NoAdapters);
        }
        let twice = |(n, adapter): &(usize, &Adapter)| adapters[..*n].iter().any(|before| before.id == adapter.id);
        if let Some((_, adapter)) = adapters.iter().enumerate().find(twice) {
            return Err(Error::DuplicateAdapter(adapter.id.to_string()));
        }
        let rounding = Rounding::staged(DEFAULT_ROUNDING_DECIMALS)?;
        Ok(Self { version, adapters, stale_multiplier: DEFAULT_STALE_MULTIPLIER, rounding, confidence: false })
    }

    /// What a stale value is worth, 0..=1.
    pub fn stale_multiplier(mut self, multiplier: f64) -> Result<Self, Error> {
        if !(0.0..=1.0).contains(&multiplier) {
            return Err(Error::StaleMultiplier(multiplier));
        }
        self.stale_multiplier = multiplier;
        Ok(self)
    }

    /// Where numbers are rounded.
    pub fn rounding(mut self, rounding: Rounding) -> Self {
        self.rounding = rounding;
        self
    }

    /// Whether the record says how much of it rests on fresh values. Never changes the score.
    pub fn compute_confidence(mut self, confidence: bool) -> Self {
        self.confidence = confidence;
        self
    }

    /// Its version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether this configuration may take over from `former`: any change needs a higher version.
    pub fn follows(&self, former: &Config) -> Result<(), Error> {
        let changed = self.definition() != former.definition();
        if self.version < former.version || (changed && self.version == former.version) {
            return Err(Error::NotMonotonic { version: self.version, former: former.version });
        }
        Ok(())
    }

    /// Everything that decides a score, as text, but the version.
    pub fn definition(&self) -> String {
        let Self { adapters, stale_multiplier, rounding, .. } = self;
        format!("stale {stale_multiplier}, {rounding:?}, {adapters:?}")
    }
}

impl fmt::Debug for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, mode, weight, include, exclude, components, default_key, revision, applies: _ } = self;
        let components: Vec<_> =
            components.iter().map(|(key, part)| (key.as_str(), part.weight, part.scorable)).collect();
        write!(
            f,
            "{id} {revision:?} {mode:?} weight {weight} include {include:?} exclude {exclude:?} {components:?} default {default_key}"
        )
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {}: {}", self.version, self.definition())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_ecmascripts() {
        for (value, decimals, rounded) in
            [(69.065, 2, 69.07), (88.125, 2, 88.13), (42.5, 0, 43.0), (0.49999999999999994, 0, 0.0), (2.5, 0, 3.0)]
        {
            assert_eq!(round_half_up(value, decimals), rounded, "{value}");
        }
        assert_eq!(Rounding::staged(7), Err(Error::RoundingDecimals(7.0)));
    }

    #[test]
    fn a_change_needs_a_higher_version() {
        let adapter = |weight: f64| {
            let part = Component::new("score", |_| Ok(Reading::ok(1.0)));
            Adapter::builder("a").weight(weight).component(part).build().unwrap()
        };
        let one = Config::new(1, vec![adapter(1.0)]).unwrap();
        assert_eq!(one.follows(&one), Ok(()));
        assert_eq!(Config::new(2, vec![adapter(2.0)]).unwrap().follows(&one), Ok(()));
        let not = Err(Error::NotMonotonic { version: 1, former: 1 });
        assert_eq!(Config::new(1, vec![adapter(2.0)]).unwrap().follows(&one), not);
        assert!(one.clone().follows(&Config::new(2, vec![adapter(1.0)]).unwrap()).is_err());
        assert!(one.clone().stale_multiplier(0.5).unwrap().follows(&one).is_err());
    }
}
