//! Named normalisations: from the numbers of an answer to a value in 0..=100 with its uncertainty. `x` is the number named by `of`.
//!
//! | value | formula |
//! |---|---|
//! | `linear` | from `from` onto `to`, clamped |
//! | `log` | `100 · min(1, ln(1 + x) / ln(1 + reference))` |
//! | `piecewise` | straight lines between `points`, flat outside |
//! | `age` | `100 · (1 − e^(−days / scale_days))` |
//! | `beta` | the mean of Beta(good + ½, bad + ½), times 100 |
//! | `checklist` | the points of what holds, as a share of all points, times 100 |
//!
//! | stddev | formula |
//! |---|---|
//! | `constant` | `value` |
//! | `number` | `x · scale` |
//! | `standard_error` | `scale · s / √n` of the list named by `of`, at least `least` |
//! | `beta` | the deviation of Beta(good + ½, bad + ½), times 100 |
//!
//! Old data are less certain: with `[age]`, `σ' = min(50, √(σ² + (20 · age / half_life)²))`.

use std::collections::BTreeMap;

use credence_protocol::limits::{MAX_STDDEV, MAX_VALUE};

/// What age adds to the deviation at one half-life.
const AGE_STDDEV: f64 = 20.0;

/// A number of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Number {
    /// What it comes to.
    pub value: f64,
    /// Of a pointer to many: each.
    pub list: Vec<f64>,
}

/// Numbers by their names. Every name that a rule uses is there: checked when the file is loaded, and when an answer is read.
pub(crate) type Numbers = BTreeMap<String, Number>;

/// How a value is made.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ValueRule {
    Linear { of: String, from: [f64; 2], to: [f64; 2] },
    Log { of: String, reference: f64 },
    Piecewise { of: String, points: Vec<[f64; 2]> },
    Age { of: String, scale_days: f64 },
    Beta { good: String, bad: String },
    Checklist { items: BTreeMap<String, f64> },
}

/// How an uncertainty is made.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum StddevRule {
    Constant(f64),
    Number { of: String, scale: f64 },
    StandardError { of: String, scale: f64, least: f64 },
    Beta { good: String, bad: String },
}

/// How old data are, and how fast they lose certainty.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AgeRule {
    pub of: String,
    pub half_life_days: f64,
}

fn value_of(numbers: &Numbers, name: &str) -> f64 {
    numbers.get(name).map_or(0.0, |number| number.value)
}

impl ValueRule {
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Linear { of, .. } | Self::Log { of, .. } | Self::Piecewise { of, .. } | Self::Age { of, .. } => {
                vec![of]
            }
            Self::Beta { good, bad } => vec![good, bad],
            Self::Checklist { items } => items.keys().map(String::as_str).collect(),
        }
    }

    /// The value, in 0..=100. None where it is not a number.
    pub fn value(&self, numbers: &Numbers) -> Option<f64> {
        let value = match self {
            Self::Linear { of, from, to } => {
                let share = ((value_of(numbers, of) - from[0]) / (from[1] - from[0])).clamp(0.0, 1.0);
                to[0] + share * (to[1] - to[0])
            }
            Self::Log { of, reference } => {
                MAX_VALUE * (libm::log1p(value_of(numbers, of).max(0.0)) / libm::log1p(*reference)).min(1.0)
            }
            Self::Piecewise { of, points } => piecewise(points, value_of(numbers, of)),
            Self::Age { of, scale_days } => MAX_VALUE * (1.0 - libm::exp(-value_of(numbers, of).max(0.0) / scale_days)),
            Self::Beta { good, bad } => MAX_VALUE * beta(numbers, good, bad).0,
            Self::Checklist { items } => {
                let all: f64 = items.values().sum();
                let held: f64 =
                    items.iter().map(|(name, points)| points * value_of(numbers, name).clamp(0.0, 1.0)).sum();
                MAX_VALUE * held / all
            }
        };
        value.is_finite().then(|| value.clamp(0.0, MAX_VALUE))
    }
}

impl StddevRule {
    pub fn names(&self) -> Vec<&str> {
        match self {
            Self::Constant(_) => Vec::new(),
            Self::Number { of, .. } | Self::StandardError { of, .. } => vec![of],
            Self::Beta { good, bad } => vec![good, bad],
        }
    }

    /// The number whose elements are used, not only their value.
    pub fn list(&self) -> Option<&str> {
        if let Self::StandardError { of, .. } = self { Some(of) } else { None }
    }

    /// The deviation, in 0..=50, with what age adds. None where it is not a number.
    pub fn stddev(&self, numbers: &Numbers, age: Option<&AgeRule>) -> Option<f64> {
        let own = match self {
            Self::Constant(value) => *value,
            Self::Number { of, scale } => value_of(numbers, of) * scale,
            Self::StandardError { of, scale, least } => {
                let list = numbers.get(of).map_or(&[][..], |number| &number.list);
                // One value says nothing of its own spread.
                if list.len() < 2 { MAX_STDDEV } else { (scale * standard_error(list)).max(*least) }
            }
            Self::Beta { good, bad } => MAX_VALUE * beta(numbers, good, bad).1,
        };
        let aged = age.map_or(0.0, |age| AGE_STDDEV * value_of(numbers, &age.of).max(0.0) / age.half_life_days);
        let stddev = libm::sqrt(own * own + aged * aged);
        stddev.is_finite().then(|| stddev.clamp(0.0, MAX_STDDEV))
    }
}

fn piecewise(points: &[[f64; 2]], x: f64) -> f64 {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return f64::NAN };
    if x <= first[0] {
        return first[1];
    }
    for pair in points.windows(2) {
        let ([x0, y0], [x1, y1]) = (pair[0], pair[1]);
        if x <= x1 {
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
        }
    }
    last[1]
}

fn standard_error(list: &[f64]) -> f64 {
    let n = list.len() as f64;
    let mean = list.iter().sum::<f64>() / n;
    let variance = list.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0);
    libm::sqrt(variance / n)
}

/// Mean and deviation.
fn beta(numbers: &Numbers, good: &str, bad: &str) -> (f64, f64) {
    let (a, b) = (value_of(numbers, good).max(0.0) + 0.5, value_of(numbers, bad).max(0.0) + 0.5);
    let n = a + b;
    (a / n, libm::sqrt(a * b / (n * n * (n + 1.0))))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers(pairs: &[(&str, f64)]) -> Numbers {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), Number { value: *value, list: vec![*value] })).collect()
    }

    fn close(a: Option<f64>, b: f64) {
        assert!(a.is_some_and(|a| (a - b).abs() < 1e-9), "{a:?} {b}");
    }

    #[test]
    fn values_by_formula() {
        let of = || "x".to_owned();
        let at = |x: f64| numbers(&[("x", x)]);
        let linear = ValueRule::Linear { of: of(), from: [0.0, 10.0], to: [0.0, 100.0] };
        close(linear.value(&at(7.3)), 73.0);
        close(linear.value(&at(11.0)), 100.0);
        let falling = ValueRule::Linear { of: of(), from: [0.0, 100.0], to: [100.0, 0.0] };
        close(falling.value(&at(30.0)), 70.0);
        let log = ValueRule::Log { of: of(), reference: 1e5 };
        close(log.value(&at(0.0)), 0.0);
        close(log.value(&at(1e5)), 100.0);
        close(log.value(&at(999.0)), 100.0 * 1000f64.ln() / 100_001f64.ln());
        let lines = ValueRule::Piecewise { of: of(), points: vec![[0.0, 0.0], [1200.0, 50.0], [2800.0, 100.0]] };
        close(lines.value(&at(600.0)), 25.0);
        close(lines.value(&at(2000.0)), 75.0);
        close(lines.value(&at(9000.0)), 100.0);
        let age = ValueRule::Age { of: of(), scale_days: 730.0 };
        close(age.value(&at(730.0)), 100.0 * (1.0 - (-1f64).exp()));
        let beta = ValueRule::Beta { good: "x".into(), bad: "y".into() };
        close(beta.value(&numbers(&[("x", 9.0), ("y", 0.0)])), 95.0);
        let items = BTreeMap::from([("x".to_owned(), 3.0), ("y".to_owned(), 1.0)]);
        close(ValueRule::Checklist { items }.value(&numbers(&[("x", 1.0), ("y", 0.0)])), 75.0);
    }

    #[test]
    fn deviations_by_formula() {
        let list = vec![10.0, 8.0, 6.0, 0.0];
        let numbers = Numbers::from([
            ("checks".to_owned(), Number { value: 6.0, list: list.clone() }),
            ("one".to_owned(), Number { value: 6.0, list: vec![6.0] }),
            ("days".to_owned(), Number { value: 30.0, list: vec![30.0] }),
        ]);
        let error = |of: &str| StddevRule::StandardError { of: of.into(), scale: 10.0, least: 0.0 };
        let mean = 6.0;
        let s2 = list.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 3.0;
        close(error("checks").stddev(&numbers, None), 10.0 * (s2 / 4.0).sqrt());
        close(error("one").stddev(&numbers, None), 50.0);
        let age = AgeRule { of: "days".into(), half_life_days: 30.0 };
        close(StddevRule::Constant(15.0).stddev(&numbers, Some(&age)), 25.0);
        let stale = AgeRule { of: "days".into(), half_life_days: 1.0 };
        close(StddevRule::Constant(15.0).stddev(&numbers, Some(&stale)), 50.0);
    }

    proptest! {
        #[test]
        fn whatever_a_source_says_stays_in_range(x in any::<f64>(), y in any::<f64>()) {
            let numbers = numbers(&[("x", x), ("y", y)]);
            let rules = [
                ValueRule::Linear { of: "x".into(), from: [0.0, 10.0], to: [0.0, 100.0] },
                ValueRule::Log { of: "x".into(), reference: 1e5 },
                ValueRule::Piecewise { of: "x".into(), points: vec![[0.0, 0.0], [1.0, 100.0]] },
                ValueRule::Age { of: "x".into(), scale_days: 730.0 },
                ValueRule::Beta { good: "x".into(), bad: "y".into() },
            ];
            for rule in rules {
                if let Some(value) = rule.value(&numbers) {
                    prop_assert!((0.0..=100.0).contains(&value), "{rule:?} {value}");
                }
            }
            let stddev = StddevRule::Number { of: "x".into(), scale: 1.0 }.stddev(&numbers, None);
            prop_assert!(stddev.is_none_or(|stddev| (0.0..=50.0).contains(&stddev)));
        }
    }
}
