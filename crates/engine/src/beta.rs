//! The Beta distribution: its distribution function and its quantiles, by `libm` and fixed steps, so that every machine agrees.
//!
//! `I_x(a, b)` is the regularised incomplete beta function, by its continued fraction (Lentz's method); quantiles by bisection.

/// Terms of the continued fraction at most; for the counts we meet some dozens are enough.
const MAX_TERMS: u32 = 10_000;
const ENOUGH: f64 = 1e-16;
const TINY: f64 = 1e-300;
/// Halvings of 0..=1 until neighbouring numbers are reached.
const HALVINGS: u32 = 80;

/// `I_x(a, b)`: the chance that a Beta(a, b) variable is at most `x`. `a` and `b` are above 0.
pub fn cdf(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let log_front = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b) + a * libm::log(x) + b * libm::log1p(-x);
    let front = libm::exp(log_front);
    // The fraction converges fast below the mean; above it the other tail is computed.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(x, a, b) / a
    } else {
        1.0 - front * fraction(1.0 - x, b, a) / b
    }
}

/// The value below which the share `p` of Beta(a, b) lies.
pub fn quantile(p: f64, a: f64, b: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if cdf(middle, a, b) < p { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// The share of successes behind `held` of `of`, as a 95 % Jeffreys interval: quantiles of Beta(held + ½, of − held + ½), open where
/// none or all held.
pub fn jeffreys_95(held: u64, of: u64) -> (f64, f64) {
    const TAIL: f64 = 0.025;
    let held = held.min(of);
    let (a, b) = (held as f64 + 0.5, (of - held) as f64 + 0.5);
    let low = if held == 0 { 0.0 } else { quantile(TAIL, a, b) };
    let high = if held == of { 1.0 } else { quantile(1.0 - TAIL, a, b) };
    (low, high)
}

fn fraction(x: f64, a: f64, b: f64) -> f64 {
    let away_from_0 = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_0(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for term in 1..=MAX_TERMS {
        let m = f64::from(term);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for step in [even, odd] {
            d = 1.0 / away_from_0(1.0 + step * d);
            c = away_from_0(1.0 + step / c);
            value *= c * d;
        }
        if (c * d - 1.0).abs() < ENOUGH {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Computed with thirty digits by another program.
    #[test]
    fn equals_known_values() {
        for (x, a, b, expected) in [
            (0.3, 2.0, 5.0, 0.579825),
            (0.9, 20.5, 0.5, 0.0388391698056926),
            (0.001, 0.5, 0.5, 0.0201350416333775),
            (0.99, 1000.0, 10.0, 0.44604227084551),
        ] {
            assert!((cdf(x, a, b) - expected).abs() < 1e-11, "{x} {a} {b}: {}", cdf(x, a, b));
        }
        for (held, of, low, high) in [
            (1, 10, 0.011011673763161, 0.38131477106662),
            (8, 10, 0.49722550356001, 0.95594058644737),
            (27, 30, 0.75659839101507, 0.97101938096727),
            (80, 100, 0.71372042717268, 0.86920958458132),
            (950, 1000, 0.93517154426685, 0.96222986774573),
            (0, 10, 0.0, 0.21719626750921),
            (10, 10, 0.78280373249079, 1.0),
            (0, 0, 0.0, 1.0),
        ] {
            let interval = jeffreys_95(held, of);
            assert!(
                (interval.0 - low).abs() < 1e-10 && (interval.1 - high).abs() < 1e-10,
                "{held} of {of}: {interval:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn quantiles_undo_the_distribution(p in 0.001..0.999_f64, a in 0.5..2000.0_f64, b in 0.5..2000.0_f64) {
            let x = quantile(p, a, b);
            prop_assert!((cdf(x, a, b) - p).abs() < 1e-9, "{} {}", x, cdf(x, a, b));
        }

        #[test]
        fn the_interval_holds_the_share(held in 0_u64..5_000, more in 0_u64..5_000) {
            let of = held + more;
            let (low, high) = jeffreys_95(held, of);
            let share = if of == 0 { 0.5 } else { held as f64 / of as f64 };
            prop_assert!(0.0 <= low && low <= share && share <= high && high <= 1.0);
        }
    }
}
