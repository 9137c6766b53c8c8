//! From values to places: linear scales, round ticks, and what to leave out when there is not room for all.
//!
//! Ticks stand at multiples of 1, 2 or 5 times a power of ten, the smallest such step that gives no more than asked for.

/// Values beyond this are treated as this, so that sums and differences of two of them stay finite.
const LARGEST: f64 = 1e150;

/// A linear scale from a domain to a range of coordinates, which may run backwards (as `y` does).
pub(crate) struct Linear {
    pub(crate) low: f64,
    pub(crate) high: f64,
    from: f64,
    to: f64,
}

impl Linear {
    /// A scale of `low..=high`; a domain without extent is widened around its value, which then sits in the middle.
    pub(crate) fn new((low, high): (f64, f64), (from, to): (f64, f64)) -> Self {
        let (low, high) = (low.clamp(-LARGEST, LARGEST), high.clamp(-LARGEST, LARGEST));
        let size = low.abs().max(high.abs());
        if high - low > size * 1e-9 {
            return Self { low, high, from, to };
        }
        let margin = if size == 0.0 { 1.0 } else { size * 0.1 };
        Self { low: low - margin, high: high + margin, from, to }
    }

    /// The place of `value`; values outside the domain are placed at its edge.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let part = (value.clamp(self.low, self.high) - self.low) / (self.high - self.low);
        self.from + part * (self.to - self.from)
    }

    /// Round values inside the domain, at most `most`, and the step between them.
    pub(crate) fn ticks(&self, most: usize) -> (Vec<f64>, f64) {
        let step = nice_step((self.high - self.low) / most.max(1) as f64);
        let first = (self.low / step - 1e-9).ceil();
        // The billionth of a step keeps rounding from losing the last tick.
        let values =
            (0..=most).map(|index| (first + index as f64) * step).take_while(|v| *v <= self.high + step * 1e-9);
        (values.collect(), step)
    }
}

/// The smallest of 1, 2, 5 times a power of ten that is at least `least`.
pub(crate) fn nice_step(least: f64) -> f64 {
    if !least.is_finite() || least <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= least * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

/// Indices of at most `most` values that keep the shape of the whole: the first, the last, and the lowest and highest
/// of equal stretches between them, so no peak is lost.
pub(crate) fn thin(values: &[f64], most: usize) -> Vec<usize> {
    if values.len() <= most || most < 4 {
        return (0..values.len()).collect();
    }
    let last = values.len() - 1;
    let stretches = (most - 2) / 2;
    let mut kept = vec![0];
    for stretch in 0..stretches {
        let start = 1 + stretch * (last - 1) / stretches;
        let end = 1 + (stretch + 1) * (last - 1) / stretches;
        let by_value = |a: &usize, b: &usize| values[*a].total_cmp(&values[*b]);
        let mut ends = [(start..end).min_by(by_value), (start..end).max_by(by_value)];
        ends.sort();
        kept.extend(ends.into_iter().flatten());
    }
    kept.push(last);
    kept.dedup();
    kept
}

/// Whether a label is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LabelVisibility {
    /// At every size of text.
    Always,
    /// Only where the picture is wide and its text small.
    Wide,
    /// It would lie on another label.
    Never,
}

impl LabelVisibility {
    /// The class list of such a label, if it is drawn.
    pub(crate) fn class(self, base: &str) -> Option<String> {
        match self {
            Self::Always => Some(base.into()),
            Self::Wide => Some(format!("{base} c-extra")),
            Self::Never => None,
        }
    }
}

/// Which labels fit, given their places with the most important first, and the distance two of them need with small
/// text and with large.
pub(crate) fn room(places: &[f64], small: f64, large: f64) -> Vec<LabelVisibility> {
    let mut shown = vec![LabelVisibility::Never; places.len()];
    for (gap, verdict) in [(large, LabelVisibility::Always), (small, LabelVisibility::Wide)] {
        for index in 0..places.len() {
            let free =
                |other: usize| shown[other] == LabelVisibility::Never || (places[other] - places[index]).abs() >= gap;
            if shown[index] == LabelVisibility::Never && (0..places.len()).all(free) {
                shown[index] = verdict;
            }
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
        Linear::new((low, high), (0.0, 1.0)).ticks(most).0
    }

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks(0.0, 100.0, 5), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks(3.0, 47.0, 5), [10.0, 20.0, 30.0, 40.0]);
        assert_eq!(ticks(-1.0, 1.0, 4), [-1.0, -0.5, 0.0, 0.5, 1.0]);
        assert_eq!(ticks(0.00011, 0.00019, 4).len(), 4);
        for (low, high) in [(1e9, 1e9 + 7.0), (-3e-7, 2e-7), (-1e300, 1e300), (5.0, 5.0), (0.0, 0.0)] {
            let found = ticks(low, high, 6);
            assert!((1..=7).contains(&found.len()), "{low}..{high}: {found:?}");
        }
    }

    #[test]
    fn steps_are_one_two_or_five() {
        assert_eq!([0.011, 0.2, 3.0, 7.0, 1_000.0].map(nice_step), [0.02, 0.2, 5.0, 10.0, 1_000.0]);
        assert_eq!(nice_step(f64::NAN), 1.0);
    }

    #[test]
    fn a_domain_without_extent_puts_its_value_in_the_middle() {
        for value in [0.0, 5.0, -0.00012, 1e150] {
            let place = Linear::new((value, value), (0.0, 200.0)).at(value);
            assert!((place - 100.0).abs() < 1.0 || value == 1e150, "{value} is at {place}");
            assert!(place.is_finite());
        }
    }

    #[test]
    fn extremes_of_f64_stay_finite() {
        let scale = Linear::new((f64::MIN, f64::MAX), (0.0, 200.0));
        assert_eq!((scale.at(f64::MIN), scale.at(0.0), scale.at(f64::MAX)), (0.0, 100.0, 200.0));
    }

    #[test]
    fn thinning_keeps_ends_and_peaks() {
        let mut values: Vec<f64> = (0..5_000).map(|index| (f64::from(index) / 300.0).sin()).collect();
        values[1_234] = 9.0;
        values[4_321] = -9.0;
        let kept = thin(&values, 120);
        assert!(kept.len() <= 120 && kept.len() > 100, "{}", kept.len());
        assert!(kept.is_sorted_by(|a, b| a < b));
        for index in [0, 1_234, 4_321, 4_999] {
            assert!(kept.contains(&index), "{index}");
        }
        assert_eq!(thin(&values[..120], 120).len(), 120);
        assert!(thin(&[1.0; 121], 120).len() <= 120);
    }

    #[test]
    fn labels_make_room_for_the_more_important() {
        use LabelVisibility::{Always, Never, Wide};
        assert_eq!(room(&[0.0, 100.0, 15.0, 85.0, 5.0], 15.0, 20.0), [Always, Always, Wide, Wide, Never]);
        assert_eq!(LabelVisibility::Wide.class("c-tick").as_deref(), Some("c-tick c-extra"));
    }
}
