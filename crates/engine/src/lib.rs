//! Pure scoring: signals, summaries and records in, numbers out. No I/O, no clock, no randomness.
//!
//! - [`universal`]: the Universal Trust Score of seed 4, formula `uts/1`, from [`mixture`], [`coverage`] and [`tiers`];
//! - [`assured`]: the assured score, formula `uts/2`: what can be vouched for, with its estimate and range;
//! - [`voices`]: which sources are independent of each other;
//! - [`certification`]: which tier's requirements are met, and what is missing for the next;
//! - [`assessment`]: should I go ahead, for one purpose (seed 3);
//! - [`contribution`]: what each source did to a score;
//! - [`custom`]: a consumer's own source weights; sees signals only, never the universal score (seed 4, R07);
//! - [`hcs25`]: the HCS-25 trust score, its catalogue of adapters, and output verification by several providers (seed 0);
//! - [`reputation`]: what agents make of each other's claims (seed 1);
//! - [`beta`]: the Beta distribution, for intervals of shares;
//! - [`consistency`]: whether registrations of one agent agree;
//! - [`probe`]: what trials of the sandbox come to as signals;
//! - [`reliability`]: what outcomes say of the scores.
//!
//! Determinism is a promise to auditors: sums run in the order of the input, `erfc` comes from `libm` and not from the
//! platform, nothing iterates a hash map.
//!
//! ```
//! use credence_engine::universal::{self, Outcome, Weighted};
//!
//! let signals = [
//!     Weighted { source: "uptime-lab", value: 92.0, stddev: 2.0, weight: 1.0 },
//!     Weighted { source: "red-team", value: 88.0, stddev: 3.0, weight: 0.8 },
//! ];
//! let Outcome::Rated(score) = universal::score(&signals, universal::DEFAULT_COVERAGE_FLOOR)? else { panic!("rated") };
//! assert_eq!(score.to_string(), "45 ± 1.6 (Silver, 100% confidence)");
//! # Ok::<(), credence_engine::Error>(())
//! ```

pub mod assessment;
pub mod assured;
pub mod beta;
pub mod certification;
pub mod consistency;
pub mod contribution;
pub mod coverage;
pub mod custom;
mod error;
pub mod hcs25;
pub mod mixture;
pub mod probe;
pub mod reliability;
pub mod reputation;
pub mod tiers;
pub mod universal;
pub mod voices;

pub use error::Error;
