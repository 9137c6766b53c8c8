//! Consistency (seed 2, "Cross-Session Consistency"): implausible swings of numeric fields against earlier results of the
//! same session, and against earlier results for the same arguments.
//!
//! A violation is a field whose magnitude swings by a factor of at least `swing` against an earlier result; its strength is
//! `min(1, log10(factor) / 3)`, and the check's score the mean over all violations.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::fields::{Field, PathId};

/// Earlier results of a session that are compared.
pub(crate) const SESSION_RESULTS: usize = 10;
/// A swing in a session.
pub(crate) const SESSION_SWING: f64 = 50.0;
/// Earlier results for the same arguments that are compared, and needed.
pub(crate) const HISTORY_RESULTS: usize = 5;
/// A swing against history.
pub(crate) const HISTORY_SWING: f64 = 10.0;

/// Numeric fields of a result that are compared: what is kept of a result must not grow with it.
const MAX_FIELDS: usize = 64;

/// The numeric fields of the last few results.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Earlier(VecDeque<Box<[(PathId, f64)]>>);

/// Fields that swung.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Swings {
    /// 0..=1; 0 when none did.
    pub(crate) score: f64,
    /// The widest: which field, from what, to what.
    pub(crate) widest: Option<(PathId, f64, f64)>,
}

impl Earlier {
    /// Bytes of memory beside the struct itself.
    pub(crate) fn bytes(&self) -> usize {
        let slots = self.0.capacity() * size_of::<Box<[(PathId, f64)]>>();
        slots + self.0.iter().map(|fields| size_of_val(&**fields)).sum::<usize>()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn push(&mut self, fields: &[Field], keep: usize) {
        let fields = &fields[..fields.len().min(MAX_FIELDS)];
        // A full ring hands its oldest allocation on when the shape is the same, as it mostly is.
        let mut slot = if self.0.len() >= keep { self.0.pop_front() } else { None }.unwrap_or_default();
        if slot.len() == fields.len() {
            for (old, new) in slot.iter_mut().zip(fields) {
                *old = (new.path, new.value);
            }
        } else {
            slot = fields.iter().map(|field| (field.path, field.value)).collect();
        }
        self.0.push_back(slot);
    }

    pub(crate) fn swings(&self, fields: &[Field], swing: f64) -> Swings {
        let fields = &fields[..fields.len().min(MAX_FIELDS)];
        let (mut sum, mut count) = (0.0, 0_u32);
        let mut widest: Option<(f64, (PathId, f64, f64))> = None;
        for earlier in &self.0 {
            for (n, field) in fields.iter().enumerate() {
                // Results of one tool mostly have the same fields in the same places.
                let aligned = earlier.get(n).filter(|(path, _)| *path == field.path);
                let Some((_, was)) = aligned.or_else(|| earlier.iter().find(|(path, _)| *path == field.path)) else {
                    continue;
                };
                if let Some(factor) = factor(*was, field.value, swing) {
                    sum += (libm::log10(factor) / 3.0).min(1.0);
                    count += 1;
                    if widest.is_none_or(|(most, _)| factor > most) {
                        widest = Some((factor, (field.path, *was, field.value)));
                    }
                }
            }
        }
        let score = if count == 0 { 0.0 } else { sum / f64::from(count) };
        Swings { score, widest: widest.map(|(_, swing)| swing) }
    }
}

/// By how much the larger exceeds the smaller in magnitude, when by `least` or more; nothing is said of zeros.
fn factor(a: f64, b: f64, least: f64) -> Option<f64> {
    let (a, b) = (a.abs(), b.abs());
    let (small, large) = if a < b { (a, b) } else { (b, a) };
    // A cheap look first: nearly always there is no swing. The quotient decides.
    (small > 0.0 && large >= small * (least * 0.999)).then(|| large / small).filter(|factor| *factor >= least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::Fields;
    use serde_json::json;

    fn fields(price: f64) -> Vec<Field> {
        Fields::of(&json!({"price": price, "volume": 10}), 0, 100).unwrap().list
    }

    #[test]
    fn the_score_is_the_mean_over_violations() {
        let mut earlier = Earlier::default();
        earlier.push(&fields(100.0), 5);
        earlier.push(&fields(1.0), 5);
        assert_eq!(earlier.swings(&fields(50.0), 10.0).score, 50_f64.log10() / 3.0, "only one of the two swings");
        assert_eq!(earlier.swings(&fields(10.0), 10.0).score, 1.0 / 3.0, "both swing by ten");
        assert_eq!(earlier.swings(&fields(20.0), 50.0).widest, None);
        assert_eq!(earlier.swings(&fields(1e9), 10.0).score, 1.0, "capped");
    }

    #[test]
    fn only_the_last_few_count() {
        let mut earlier = Earlier::default();
        earlier.push(&fields(1.0), 2);
        earlier.push(&fields(100.0), 2);
        earlier.push(&fields(100.0), 2);
        assert_eq!(earlier.len(), 2);
        assert_eq!(earlier.swings(&fields(100.0), 10.0).score, 0.0);
    }

    #[test]
    fn zeros_are_no_swing() {
        let mut earlier = Earlier::default();
        earlier.push(&fields(0.0), 5);
        assert_eq!(earlier.swings(&fields(1000.0), 10.0).score, 0.0);
    }
}
