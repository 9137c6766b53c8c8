//! What makes a reputation readable. R is a product of four factors over a penalty: 20 of 100 is good, and a newborn has 11.25. So
//! beside R stand its state, how many claims held, and R on the scale of one factor.
//!
//! ```text
//! state            new while fewer than 10 events were made by others: then there is no letter
//! claims held      k of n, with a 95 % Jeffreys interval
//! on one scale     100 · √√(R/100), the geometric mean of the four factors
//! percentile       among established agents, where there are at least 30
//! anchors          11.25: nothing known; 21.5: the best without peers
//! ```
//!
//! A percentile moves when others do, so it is shown and never enters a score.

use serde::Serialize;

use super::{Parameters, Tier};
use crate::beta;

/// R of an agent of whom nothing is known but a spotless contract.
pub const NOTHING_KNOWN: f64 = 11.25;
/// The best R without a peer whose word weighs.
pub const BEST_WITHOUT_PEERS: f64 = 21.5;
/// Established agents from which on a percentile is shown.
pub const MIN_AGENTS_FOR_PERCENTILE: usize = 30;

/// Whether enough was made of an agent by others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Too few events by others: a low score means unknown, not bad.
    New,
    /// Enough of them.
    Established,
}

/// How many settled claims held.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ClaimsHeld {
    /// k
    pub held: u64,
    /// n
    pub of: u64,
    /// The lower end of the 95 % Jeffreys interval of the share, 0..=1.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// A place among established agents.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Percentile {
    /// The share of them below, ties counted half, 0..=100.
    pub percentile: f64,
    /// How many they are.
    pub among: usize,
}

/// A reputation with what makes it readable.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Readable {
    /// R.
    pub score: f64,
    /// Whether enough was made of the agent by others.
    pub state: State,
    /// The letter; none while new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// R on the scale of one factor, 0..=100.
    pub geometric_mean: f64,
    /// How many settled claims held; none where none is settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claims: Option<ClaimsHeld>,
    /// Its place among established agents; none while new, or where they are few.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentile: Option<Percentile>,
}

impl Readable {
    /// Of R, the events by others behind it, and its settled claims: those that held, and all.
    pub fn new(score: f64, events: u64, claims: (u64, u64), parameters: &Parameters) -> Self {
        let state = if events < parameters.established_events { State::New } else { State::Established };
        let (held, of) = claims;
        let claims = (of > 0).then(|| {
            let (low, high) = beta::jeffreys_95(held, of);
            ClaimsHeld { held, of, low, high }
        });
        let tier = (state == State::Established).then(|| Tier::of(score));
        Self { score, state, tier, geometric_mean: geometric_mean(score), claims, percentile: None }
    }

    /// With its place among the scores of established agents, its own among them.
    #[must_use]
    pub fn among(mut self, established: &[f64]) -> Self {
        self.percentile = percentile(self.score, established).filter(|_| self.state == State::Established);
        self
    }
}

/// R on the scale of one factor.
pub fn geometric_mean(score: f64) -> f64 {
    100.0 * libm::sqrt(libm::sqrt(score.clamp(0.0, 100.0) / 100.0))
}

/// The place of `score` among the scores of established agents; none where they are fewer than [`MIN_AGENTS_FOR_PERCENTILE`].
pub fn percentile(score: f64, established: &[f64]) -> Option<Percentile> {
    let among = established.len();
    let below = established.iter().filter(|other| **other < score).count() as f64;
    let equal = established.iter().filter(|other| **other == score).count() as f64;
    (among >= MIN_AGENTS_FOR_PERCENTILE)
        .then(|| Percentile { percentile: 100.0 * (below + 0.5 * equal) / among as f64, among })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_agent_has_no_letter() {
        let parameters = Parameters::default();
        let new = Readable::new(11.25, 9, (0, 0), &parameters);
        assert_eq!((new.state, new.tier, new.claims), (State::New, None, None));
        let established = Readable::new(19.3, 10, (27, 30), &parameters);
        assert_eq!((established.state, established.tier), (State::Established, Some(Tier::D)));
        let claims = established.claims.unwrap();
        assert!((claims.low - 0.756598).abs() < 1e-6 && (claims.high - 0.971019).abs() < 1e-6);
        let many = vec![10.0; 40];
        assert_eq!(new.among(&many).percentile, None);
        let text = serde_json::to_value(Readable::new(5.0, 0, (0, 0), &parameters)).unwrap();
        assert_eq!((text["state"].as_str(), text.get("tier")), (Some("new"), None));
    }

    #[test]
    fn the_geometric_mean_is_on_the_scale_of_one_factor() {
        for (score, expected) in
            [(19.299756, 66.3), (8.40, 53.8), (3.75, 44.0), (11.25, 57.9), (0.0, 0.0), (100.0, 100.0)]
        {
            assert!((geometric_mean(score) - expected).abs() < 0.06, "{score}: {}", geometric_mean(score));
        }
    }

    #[test]
    fn percentiles_need_thirty_agents() {
        let all: Vec<f64> = (0..30).map(f64::from).collect();
        assert_eq!(percentile(29.0, &all), Some(Percentile { percentile: 100.0 * 29.5 / 30.0, among: 30 }));
        assert_eq!(percentile(0.0, &all).unwrap().percentile, 50.0 / 30.0);
        assert_eq!(percentile(29.0, &all[1..]), None);
    }
}
