//! Tiers: six bands of the score, immutable (seed 4, "Tier boundaries"), and how sure a band is.
//!
//! `P(tier) = Φ((max + ½ − mean) / stddev) − Φ((min − ½ − mean) / stddev)`; with stddev = 0 it is 1 or 0.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap};

/// A band of the score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// 0–9
    Unrated,
    /// 10–24
    Bronze,
    /// 25–49
    Silver,
    /// 50–69
    Gold,
    /// 70–84
    Platinum,
    /// 85–100
    Diamond,
}

impl Tier {
    /// All tiers, lowest first.
    pub const ALL: [Tier; 6] = [Tier::Unrated, Tier::Bronze, Tier::Silver, Tier::Gold, Tier::Platinum, Tier::Diamond];

    /// The band's lowest and highest score.
    pub const fn band(self) -> (u8, u8) {
        match self {
            Tier::Unrated => (0, 9),
            Tier::Bronze => (10, 24),
            Tier::Silver => (25, 49),
            Tier::Gold => (50, 69),
            Tier::Platinum => (70, 84),
            Tier::Diamond => (85, 100),
        }
    }

    /// The tier of a score.
    pub fn of(score: u8) -> Tier {
        let at_least = |tier: &&Tier| tier.band().0 <= score;
        Tier::ALL.iter().rev().find(at_least).copied().unwrap_or(Tier::Unrated)
    }

    /// The next higher tier.
    pub fn next(self) -> Option<Tier> {
        Tier::ALL.get(self as usize + 1).copied()
    }

    /// The name in lower case, as in JSON.
    pub const fn key(self) -> &'static str {
        match self {
            Tier::Unrated => "unrated",
            Tier::Bronze => "bronze",
            Tier::Silver => "silver",
            Tier::Gold => "gold",
            Tier::Platinum => "platinum",
            Tier::Diamond => "diamond",
        }
    }

    /// As shown to people.
    pub const fn name(self) -> &'static str {
        match self {
            Tier::Unrated => "Unrated",
            Tier::Bronze => "Bronze",
            Tier::Silver => "Silver",
            Tier::Gold => "Gold",
            Tier::Platinum => "Platinum",
            Tier::Diamond => "Diamond",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The probability of each tier, in the order of [`Tier::ALL`]. Mass beyond 0 and 100 belongs to none, so the six may
/// add up to less than 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TierDistribution([f64; 6]);

impl TierDistribution {
    /// Of a score with this mean and standard deviation.
    pub fn of(mean: f64, stddev: f64) -> Self {
        // Neighbouring bands share an edge: seven evaluations serve six bands.
        let below = |edge: f64| {
            if stddev > 0.0 { normal_cdf((edge - mean) / stddev) } else { f64::from(u8::from(mean < edge)) }
        };
        let mut lower = below(-0.5);
        Self(Tier::ALL.map(|tier| {
            let upper = below(f64::from(tier.band().1) + 0.5);
            let mass = upper - lower;
            lower = upper;
            mass
        }))
    }

    /// The probability of `tier`.
    pub fn of_tier(&self, tier: Tier) -> f64 {
        self.0[tier as usize]
    }
}

impl Serialize for TierDistribution {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(Some(6))?;
        for tier in Tier::ALL {
            map.serialize_entry(tier.key(), &self.of_tier(tier))?;
        }
        map.end()
    }
}

/// Φ, through `erfc` so that the lower tail keeps its digits.
fn normal_cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_tile_0_to_100() {
        for score in 0..=100 {
            let inside: Vec<_> = Tier::ALL.iter().filter(|t| (t.band().0..=t.band().1).contains(&score)).collect();
            assert_eq!(inside, [&Tier::of(score)]);
        }
    }

    /// By its own integral the seed's "85 ± 2 (Platinum, 78%)" is Diamond 59.9 %, Platinum 40.1 %.
    #[test]
    fn the_seed_display_example_by_its_own_integral() {
        let distribution = TierDistribution::of(85.0, 2.0);
        assert!((distribution.of_tier(Tier::Diamond) - 0.5987).abs() < 1e-4);
        assert!((distribution.of_tier(Tier::Platinum) - 0.4013).abs() < 1e-4);
    }

    #[test]
    fn point_estimates_are_certain() {
        let distribution = TierDistribution::of(69.5, 0.0);
        assert_eq!(distribution.of_tier(Tier::Platinum), 1.0);
        assert_eq!(distribution.of_tier(Tier::Gold), 0.0);
    }
}
