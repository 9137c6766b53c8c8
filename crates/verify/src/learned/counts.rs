//! What was seen before, and how surprising the next would be.
//!
//! Everything counts results, not values: a hundred items in one answer are one observation.

use serde::{Deserialize, Serialize};

use super::lately::Lately;

/// Over how many observations the rate of novelties is taken.
const RECENT: f32 = 64.0;
/// Categories told apart; further ones are novel each time.
const MAX_CATEGORIES: usize = 32;
/// So many observations of each category are the same again and again.
const AGAIN: f32 = 16.0;
/// How many observations it takes to trust the share of a category since it first came.
const FROM_BIRTH: f32 = 16.0;
/// The least spread of a range, on the logarithmic scale it is kept in.
const LEAST_SPREAD: f64 = 0.05;
/// However far outside, a value is not more than this factor less likely than one just outside; little seen allows less.
const FARTHEST: f64 = 0.05;
/// How much less: so many times what few observations leave open.
const FEW: f64 = 4.0;

/// The number of the result that is being learned: what comes twice in one result counts once.
pub(crate) type Stamp = u32;

/// What a result that is learned counts, and its number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lesson {
    pub(crate) stamp: Stamp,
    /// 1, or less where the result is in doubt.
    pub(crate) weight: f32,
    /// Nobody was told of it yet: what is new here does not become usual, and does not make other news more likely.
    pub(crate) held: bool,
}

/// How often something new turns up.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Novelty {
    seen: f32,
    novel: f32,
    stamp: Stamp,
    counted: bool,
}

impl Novelty {
    /// P(the next is new): its recent rate, and what a rule of succession leaves open.
    pub(crate) fn probability(&self) -> f64 {
        let rate = self.novel / self.seen.clamp(1.0, RECENT);
        (f64::from(rate) + self.floor()).min(1.0)
    }

    /// What few observations leave open.
    pub(crate) fn floor(&self) -> f64 {
        0.5 / (f64::from(self.seen) + 1.0)
    }

    pub(crate) fn seen(&self) -> f32 {
        self.seen
    }

    pub(crate) fn learn(&mut self, novel: bool, Lesson { stamp, weight, .. }: Lesson) {
        if self.stamp != stamp || self.seen == 0.0 {
            self.stamp = stamp;
            // The very first is no novelty.
            self.counted = self.seen == 0.0;
            self.novel *= 1.0 - weight / RECENT;
            self.seen += weight;
        }
        if novel && !self.counted {
            self.counted = true;
            self.novel += weight;
        }
    }

    pub(crate) fn age(&mut self, keep: f32) {
        self.seen *= keep;
        self.novel *= keep;
    }
}

/// One category.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Counted {
    category: u32,
    count: f32,
    /// How many of any category there were when it came first.
    born: f32,
}

/// Which categories were seen, how often.
///
/// ```text
/// P(at least as rare) = max(share of all that are as rare, (count − 1) / (total − born + FROM_BIRTH)) + P(new)
/// ```
///
/// The second is the share that a category has had since it first came, which itself says nothing of how often it will: a tool that began to give empty lists gives them from
/// then on as often as it does, whatever came before.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Categories {
    counts: Vec<Counted>,
    total: f32,
    novelty: Novelty,
}

impl Categories {
    pub(crate) fn knows(&self, category: u32) -> bool {
        self.counts.iter().any(|known| known.category == category)
    }

    /// P(something at least as rare as `category`).
    pub(crate) fn rarity(&self, category: u32) -> f64 {
        let novel = self.novelty.probability();
        let Some(known) = self.counts.iter().find(|known| known.category == category) else { return novel };
        if known.count * 2.0 >= self.total {
            return 1.0;
        }
        let rarer: f32 =
            self.counts.iter().map(|other| if other.count <= known.count { other.count } else { 0.0 }).sum();
        let since = (known.count - 1.0).max(0.0) / (self.total - known.born + FROM_BIRTH);
        (f64::from((rarer / self.total).max(since)) + novel).min(1.0)
    }

    /// Whether each came many times, and none is left out.
    pub(crate) fn are_repeated(&self) -> bool {
        self.counts.len() < MAX_CATEGORIES && self.counts.len() as f32 * AGAIN < self.total
    }

    /// The category seen most often.
    pub(crate) fn commonest(&self) -> Option<u32> {
        self.counts.iter().max_by(|a, b| a.count.total_cmp(&b.count)).map(|known| known.category)
    }

    /// The share of all that `category` has.
    pub(crate) fn share(&self, category: u32) -> f64 {
        let known = self.counts.iter().find(|known| known.category == category);
        known.map_or(0.0, |known| f64::from(known.count / self.total.max(1.0)))
    }

    /// Learns one; gives the bytes of memory that it took.
    pub(crate) fn learn(&mut self, category: u32, lesson: Lesson) -> usize {
        let known = self.counts.iter().position(|known| known.category == category);
        if lesson.held && known.is_none() {
            return 0;
        }
        let born = self.total;
        self.total += lesson.weight;
        self.novelty.learn(known.is_none(), lesson);
        match known {
            Some(known) => self.counts[known].count += lesson.weight,
            None if self.counts.len() < MAX_CATEGORIES => {
                let before = self.bytes();
                self.counts.push(Counted { category, count: lesson.weight, born });
                return self.bytes() - before;
            }
            None => {}
        }
        0
    }

    /// Bytes outside the struct itself.
    pub(crate) fn bytes(&self) -> usize {
        self.counts.capacity() * size_of::<Counted>()
    }

    /// How many results were seen, and how many categories.
    pub(crate) fn size(&self) -> (f32, usize) {
        (self.novelty.seen, self.counts.len())
    }

    pub(crate) fn age(&mut self, keep: f32) {
        self.total *= keep;
        self.novelty.age(keep);
        for known in &mut self.counts {
            known.count *= keep;
            known.born *= keep;
        }
    }
}

/// The range of a number, on a logarithmic scale of the caller's.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Range {
    low: f64,
    high: f64,
    mean: f64,
    squares: f64,
    count: f64,
    novelty: Novelty,
    /// Snapshots have it in a list of its own.
    #[serde(skip)]
    lately: Lately,
}

impl Range {
    pub(crate) fn seen(&self) -> f32 {
        self.novelty.seen
    }

    /// The least and the greatest seen.
    pub(crate) fn bounds(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// P(something at least as far outside).
    pub(crate) fn rarity(&self, value: f64) -> f64 {
        if self.count == 0.0 {
            return 1.0;
        }
        if (self.low..=self.high).contains(&value) {
            return self.lately.rarity(value);
        }
        let bound = if value < self.low { self.low } else { self.high };
        // Counts and lengths move by ones: from 0 to 1 is not far.
        let one = if is_whole(bound) && is_whole(value) { libm::log1p(libm::exp(-bound.abs())) } else { 0.0 };
        let spread = libm::sqrt(self.squares.max(0.0) / self.count).max(LEAST_SPREAD).max(one);
        let off = if value < self.low { self.low - value } else { value - self.high } / spread;
        let farther = (1.0 / ((off + 1.0) * libm::sqrt(off + 1.0))).max(FARTHEST).max(FEW * self.novelty.floor());
        // A record by a hair is what made-up values are not.
        let near = off.clamp(1e-3, 1.0);
        ((self.novelty.probability() + self.novelty.floor()) * farther / near).min(1.0)
    }

    /// Where values were lately.
    pub(crate) fn lately(&self) -> &Lately {
        &self.lately
    }

    pub(crate) fn lately_mut(&mut self) -> &mut Lately {
        &mut self.lately
    }

    pub(crate) fn learn(&mut self, value: f64, lesson: Lesson) {
        let first = self.count == 0.0;
        let outside = first || !(self.low..=self.high).contains(&value);
        if outside && lesson.held {
            return;
        }
        let again = self.novelty.stamp == lesson.stamp && !first;
        self.lately.learn(value, again, lesson);
        self.novelty.learn(outside, lesson);
        self.low = if first { value } else { self.low.min(value) };
        self.high = if first { value } else { self.high.max(value) };
        self.count += 1.0;
        let off = value - self.mean;
        self.mean += off / self.count;
        self.squares += off * (value - self.mean);
    }

    pub(crate) fn age(&mut self, keep: f32) {
        self.novelty.age(keep);
        self.count = (self.count * f64::from(keep)).max(1.0);
        self.squares *= f64::from(keep);
    }
}

/// Whether a number is whole, given on the logarithmic scale.
fn is_whole(scaled: f64) -> bool {
    let value = libm::expm1(scaled.abs());
    (value - libm::round(value)).abs() < 1e-6 * (1.0 + value)
}

/// Levels of surprise at which false alarms are counted, in nats.
const LEVELS: [f64; 16] = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 7.0, 8.0, 9.0, 10.0];
/// How many observations the expectation before any is worth.
const EXPECTATION: f64 = 4.0;

/// How often genuine results surprise this much: the false-alarm rate, the denominator of a likelihood ratio.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Alarms {
    seen: f32,
    reached: [f32; LEVELS.len()],
}

impl Alarms {
    /// P(a genuine result surprises by `surprise` or more): as counted, shrunk towards what a calibrated surprise would
    /// give.
    pub(crate) fn rate(&self, surprise: f64) -> f64 {
        let level = LEVELS.partition_point(|level| *level <= surprise);
        let reached = if level == 0 { self.seen } else { self.reached[level - 1] };
        let expected = libm::exp(LEVELS[0] - surprise).min(1.0);
        (f64::from(reached) + EXPECTATION * expected) / (f64::from(self.seen) + EXPECTATION)
    }

    pub(crate) fn learn(&mut self, surprise: f64, weight: f32) {
        self.seen += weight;
        for (level, reached) in LEVELS.iter().zip(&mut self.reached) {
            if surprise < *level {
                break;
            }
            *reached += weight;
        }
    }

    pub(crate) fn age(&mut self, keep: f32) {
        self.seen *= keep;
        self.reached.iter_mut().for_each(|reached| *reached *= keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nth(stamp: Stamp) -> Lesson {
        Lesson { stamp, weight: 1.0, held: false }
    }

    #[test]
    fn what_is_always_new_surprises_nobody() {
        let mut names = Categories::default();
        (0..100).for_each(|n| {
            let _ = names.learn(n, nth(n + 1));
        });
        assert!(names.rarity(1000) > 0.7);
        let mut states = Categories::default();
        (0..100).for_each(|n| {
            let _ = states.learn(n % 3, nth(n + 1));
        });
        assert!(states.rarity(1000) < 0.02);
        assert!(states.rarity(1) > 0.3);
    }

    #[test]
    fn many_items_of_one_result_are_one_observation() {
        let mut states = Categories::default();
        (0..1000).for_each(|_| {
            let _ = states.learn(1, nth(1));
        });
        assert!(states.rarity(2) >= 0.25, "one result was seen");
    }

    #[test]
    fn the_farther_outside_the_rarer() {
        let mut range = Range::default();
        (0..100).for_each(|n| range.learn(f64::from(n % 10), nth(n + 1)));
        assert_eq!(range.rarity(5.0), 1.0);
        assert!(range.rarity(9.1) > 0.1, "hardly outside");
        assert!(range.rarity(15.0) < 0.02);
        assert!(range.rarity(30.0) < range.rarity(15.0));
        assert_eq!(range.rarity(1e6), range.rarity(1e9), "but not without end");
    }

    #[test]
    fn false_alarms_lower_the_ratio() {
        let (mut quiet, mut noisy) = (Alarms::default(), Alarms::default());
        for n in 0..100 {
            quiet.learn(0.0, 1.0);
            noisy.learn(if n % 5 == 0 { 4.0 } else { 0.0 }, 1.0);
        }
        assert!(quiet.rate(4.0) < 0.01);
        assert!((0.15..0.25).contains(&noisy.rate(4.0)));
    }
}
