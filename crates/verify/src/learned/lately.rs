//! Where values were lately, within the range that they ever had (docs/adr/0105).
//!
//! A range holds what ever was there: after seconds have become milliseconds, or where a short note sometimes stands in for a long table, nearly
//! everything in between is in range. So the last values are kept in bins of the logarithmic scale, in which everything counts half after
//! [`HALVED`] results. A value that is in range, and that has fewer than one in [`NEAR`] of the last ones near it, is noticed. It is never odd: it
//! tells a result from others, and cannot have it flagged or make it an oddity. How often a path has such values is learned, too.

use serde::{Deserialize, Serialize};

use super::counts::Lesson;

/// Bins that are told apart.
const BINS: usize = 16;
/// The width of a bin, on the logarithmic scale of a range.
const WIDTH: f64 = 0.23;
/// Bins up to this one have counts that differ by one, and no neighbours.
const SMALL: u16 = 9;
/// What one result counts, and after how many results everything counts half.
const ONE: u16 = 16;
const HALVED: u8 = 16;
/// Results before anything is odd.
const LEAST: u32 = 15 * ONE as u32;
/// A value is where others were when at least one in so many was near.
const NEAR: u32 = 20;
/// How rare a value is where none was lately: noticed, and not odd.
const APART: f64 = 0.26;
/// The same for times that are less than all.
const FAST: f64 = 0.17;
/// Over how many results it is counted how often that happens.
const RATE: f32 = 1.0 / 64.0;

/// Where the last values were, roughly.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lately {
    bins: [(i16, u16); BINS],
    results: u8,
    apart: f32,
}

/// Several, by their number in a model.
pub(crate) type Latelies = Vec<(u32, Lately)>;

fn bin(value: f64) -> i16 {
    let bins = value / WIDTH;
    let whole = bins as i16;
    whole.saturating_sub(i16::from(f64::from(whole) > bins))
}

impl Lately {
    fn is_apart(&self, bin: i16) -> bool {
        let within = u16::from(bin.unsigned_abs() > SMALL);
        let (mut near, mut all) = (0, 0);
        for (other, count) in self.bins {
            let count = u32::from(count);
            all += count;
            near += if other.abs_diff(bin) <= within { count } else { 0 };
        }
        all >= LEAST && near * NEAR < all
    }

    /// P(something as far from the last values).
    pub(crate) fn rarity(&self, value: f64) -> f64 {
        if self.is_apart(bin(value)) { (APART + f64::from(self.apart)).min(1.0) } else { 1.0 }
    }

    /// P(an answer so fast), where nearly all of the last values were above `most`.
    pub(crate) fn rarity_below(&self, most: f64) -> f64 {
        let at = bin(most);
        let (mut below, mut all) = (0, 0);
        for (other, count) in self.bins {
            let count = u32::from(count);
            all += count;
            below += if other <= at { count } else { 0 };
        }
        if all >= LEAST && below * NEAR < all { (FAST + f64::from(self.apart)).min(1.0) } else { 1.0 }
    }

    /// Learns a value; `again` where it is of the same result as the one before.
    pub(crate) fn learn(&mut self, value: f64, again: bool, lesson: Lesson) {
        let bin = bin(value);
        let apart = self.is_apart(bin);
        if lesson.held && apart {
            return;
        }
        if !again {
            self.apart += (f32::from(u8::from(apart)) - self.apart) * RATE;
            self.results += 1;
            if self.results >= HALVED {
                self.results = 0;
                self.bins.iter_mut().for_each(|(_, count)| *count /= 2);
            }
        }
        let one = ((f32::from(ONE) * lesson.weight) as u16).max(1);
        let known = self.bins.iter().position(|(other, count)| *other == bin && *count > 0);
        let at = known.unwrap_or_else(|| {
            let least = self.bins.iter().enumerate().min_by_key(|(_, (_, count))| *count);
            least.map_or(0, |(at, _)| at)
        });
        let count = if known.is_some() { self.bins[at].1 } else { 0 };
        self.bins[at] = (bin, if again { count.max(one) } else { count.saturating_add(one) });
    }

    /// Whether what was read back can be what was written.
    pub(crate) fn is_sound(&self) -> bool {
        self.results < HALVED && (0.0..=1.0).contains(&self.apart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(values: impl IntoIterator<Item = f64>) -> Lately {
        let mut lately = Lately::default();
        for (n, value) in values.into_iter().enumerate() {
            lately.learn(libm::log1p(value), false, Lesson { stamp: n as u32, weight: 1.0, held: false });
        }
        lately
    }

    fn rarity(lately: &Lately, value: f64) -> f64 {
        lately.rarity(libm::log1p(value))
    }

    #[test]
    fn what_was_usual_long_ago_is_noticed_again() {
        let seconds = (0..300).map(|n| 1.7e9 + f64::from(n));
        let milliseconds = (0..90).map(|n| 1.7e12 + f64::from(n));
        assert_eq!(rarity(&learned(seconds.clone()), 1.7e9), 1.0);
        let changed = learned(seconds.chain(milliseconds));
        assert!(rarity(&changed, 1.7e9) < 0.4 && rarity(&changed, 1.7e12) == 1.0);
    }

    #[test]
    fn between_two_usual_lengths_is_a_gap() {
        let lengths = learned((0..200).map(|n| if n % 5 == 0 { 40.0 } else { 600.0 }));
        assert!(rarity(&lengths, 300.0) < 0.4, "half a table");
        assert_eq!((rarity(&lengths, 40.0), rarity(&lengths, 600.0)), (1.0, 1.0));
        assert!(
            rarity(&learned((0..200).map(|n| f64::from(1 + n % 2))), 3.0) < 0.4,
            "counts are told apart one by one"
        );
    }

    #[test]
    fn it_is_never_odd_and_less_noticed_where_it_is_common() {
        let quiet = learned((0..200).map(|_| 600.0));
        let restless = learned((0..200).map(|n| libm::exp(f64::from(n * 7919 % 200) / 8.0)));
        assert!(rarity(&quiet, 3.0) > super::super::surprise::ODD);
        let gaps =
            |lately: &Lately| (0..200).map(|n| rarity(lately, libm::exp(f64::from(n) / 8.0))).fold(1.0, f64::min);
        assert!(gaps(&restless) > gaps(&quiet) + 0.1, "{} {}", gaps(&restless), gaps(&quiet));
        assert_eq!(rarity(&learned([600.0; 11]), 3.0), 1.0, "too little is known");
    }
}
