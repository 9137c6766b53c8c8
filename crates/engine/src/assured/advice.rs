//! What would raise an assured score most: for each tag that counts, one more fully trusted, fresh, independent source.
//!
//! Two cases for each tag, and both are told apart, because one is evidence and the other is merit:
//!
//! - **confirm**: the source says what is believed of the dimension now (the prior where nobody measured it). What is gained is
//!   certainty.
//! - **improve**: the source finds [`GOOD_VALUE`]. What is gained takes an agent that is that good.
//!
//! Gains are before rounding, so that small ones can be ranked.

use std::fmt;

use serde::Serialize;

use super::{Dimension, Measurement, Model, Numbers, Scale, Scratch};
use crate::Error;

/// What a good agent measures.
pub const GOOD_VALUE: f64 = 95.0;
/// Gains below this are not worth naming.
const LEAST_GAIN: f64 = 0.05;

/// One thing that would raise the score.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// What it would have to be measured under.
    pub tag: String,
    /// Of what dimension.
    pub dimension: Dimension,
    /// Whether anybody measures it now.
    pub measured: bool,
    /// Points gained if one more source said what is believed now.
    pub gain_confirmed: f64,
    /// Points gained if one more source found a good value.
    pub gain_improved: f64,
}

/// `another source under rel_uptime (reliability): +2.1 if it finds the same, +3.4 if it finds 95`
impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Advice { tag, dimension, measured, gain_confirmed, gain_improved } = self;
        let (source, found) = match measured {
            true => ("another source", "the same"),
            false => ("a first source", "what is believed"),
        };
        write!(f, "{source} under {tag} ({dimension}): {gain_confirmed:+.1} if it finds {found}, ")?;
        write!(f, "{gain_improved:+.1} if it finds {GOOD_VALUE}")
    }
}

impl Model {
    /// The `most` tags under which one more source would raise the score most, best first; ties in the order of dimensions and names.
    pub fn advice(&self, signals: &[Measurement], most: usize) -> Result<Vec<Advice>, Error> {
        let mut scratch = Scratch::default();
        let now = self.numbers(signals, &mut scratch)?;
        let newcomer = signals.iter().map(|signal| signal.voice).max().map_or(0, |voice| voice.saturating_add(1));
        let mut with = signals.to_vec();
        let mut all = Vec::new();
        for dimension in Dimension::ALL {
            if self.dimensions[dimension as usize].weight == 0.0 {
                continue;
            }
            let believed = now.dimensions[dimension as usize].map_or(self.parameters().prior_mean, |d| d.estimate);
            for slot in self.slots[dimension as usize].clone() {
                let Some(tag) = self.tag(&self.tags[slot].name) else { continue };
                let scale = self.tags[slot].scale;
                let mut gain = |found: f64| -> Result<f64, Error> {
                    let value = unread(scale, found);
                    with.push(Measurement { tag, voice: newcomer, value, stddev: 0.0, weight: 1.0, age_days: 0.0 });
                    let then = self.numbers(&with, &mut scratch);
                    with.pop();
                    Ok(exact(&then?) - exact(&now))
                };
                let (gain_confirmed, gain_improved) = (gain(believed)?, gain(GOOD_VALUE)?);
                let measured = signals.iter().any(|signal| signal.tag == tag && signal.weight > 0.0);
                let tag = self.tags[slot].name.clone();
                all.push(Advice { tag, dimension, measured, gain_confirmed, gain_improved });
            }
        }
        all.retain(|advice| best(advice) >= LEAST_GAIN);
        all.sort_by(|a, b| best(b).total_cmp(&best(a)));
        all.truncate(most);
        Ok(all)
    }
}

fn best(advice: &Advice) -> f64 {
    advice.gain_improved.max(advice.gain_confirmed)
}

/// The score before rounding.
fn exact(numbers: &Numbers) -> f64 {
    numbers.low.min(numbers.cap)
}

/// The value that is read as `found`.
fn unread(scale: Scale, found: f64) -> f64 {
    match scale {
        Scale::Plain => found,
        Scale::FourthRoot => {
            let factor = found / 100.0;
            100.0 * (factor * factor) * (factor * factor)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(tag: &str, voice: u32, value: f64) -> Measurement {
        let tag = Model::standard().unwrap().tag(tag).unwrap();
        Measurement { tag, voice, value, stddev: 3.0, weight: 1.0, age_days: 0.0 }
    }

    #[test]
    fn the_missing_dimension_comes_first() {
        let model = Model::standard().unwrap();
        let mut signals: Vec<_> = model.tags_of(Dimension::Security).map(|tag| measurement(tag, 0, 95.0)).collect();
        signals.extend(model.tags_of(Dimension::Reliability).map(|tag| measurement(tag, 1, 95.0)));
        let advice = model.advice(&signals, 3).unwrap();
        assert_eq!((advice.len(), advice[0].tag.as_str(), advice[0].measured), (3, "output_quality", false));
        assert!(advice.windows(2).all(|pair| best(&pair[0]) >= best(&pair[1])));
        // What it promises is what comes of it.
        let before = model.numbers(&signals, &mut Scratch::default()).unwrap();
        let mut with = signals.clone();
        with.push(Measurement { stddev: 0.0, ..measurement("output_quality", 2, GOOD_VALUE) });
        let after = model.numbers(&with, &mut Scratch::default()).unwrap();
        assert_eq!(advice[0].gain_improved, exact(&after) - exact(&before));
    }

    #[test]
    fn a_hole_in_security_is_what_to_mend_first() {
        let model = Model::standard().unwrap();
        let tags: Vec<&str> = model.parameters().tags.keys().map(String::as_str).collect();
        let signals: Vec<_> = (0..3)
            .flat_map(|voice| {
                tags.iter()
                    .map(move |tag| measurement(tag, voice, if *tag == "asi05_code_execution" { 0.0 } else { 98.0 }))
            })
            .collect();
        let advice = model.advice(&signals, 1).unwrap();
        assert_eq!((advice[0].tag.as_str(), advice[0].measured), ("asi05_code_execution", true));
        assert!(advice[0].gain_confirmed > 0.0 || advice[0].gain_improved > 5.0, "{advice:?}");
    }

    #[test]
    fn what_is_not_counted_is_not_advised() {
        let advice = Model::standard().unwrap().advice(&[], 100).unwrap();
        assert!(!advice.is_empty() && advice.iter().all(|a| a.dimension != Dimension::Adoption && !a.measured));
    }
}
