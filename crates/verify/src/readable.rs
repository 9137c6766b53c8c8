//! Numbers as people read them: three digits that count, no long tails of zeros or digits.

/// From this magnitude on, and below the other, a number is written with an exponent.
const LARGE: f64 = 1e15;
const SMALL: f64 = 1e-6;

/// A number with as many digits as a reader needs.
///
/// `1234567.8` is `1234568`, `12.34` is `12.3`, `0.5` is `0.5`, `0.000123` is `0.000123`, `1e300` is `1e300`.
pub(crate) fn readable(number: f64) -> String {
    let magnitude = number.abs();
    if number != 0.0 && !(SMALL..LARGE).contains(&magnitude) {
        let text = format!("{number:.2e}");
        let Some((digits, exponent)) = text.split_once('e') else { return text };
        return format!("{}e{exponent}", without_zeros(digits));
    }
    // Bounds are kept as logarithms: a whole one is not exactly whole any more.
    let whole = (number - libm::round(number)).abs() <= 1e-9 * magnitude;
    if whole || magnitude >= 1e4 {
        return format!("{number:.0}");
    }
    let decimals = match magnitude {
        10.0.. => 1,
        0.1.. => 3,
        _ => 2 + (-libm::floor(libm::log10(magnitude))) as usize,
    };
    without_zeros(&format!("{number:.decimals$}")).to_owned()
}

fn without_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn numbers_are_short_and_say_what_they_are() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (12.0, "12"),
            (11.999_999_999_9, "12"),
            (12.345, "12.3"),
            (1_234_567.8, "1234568"),
            (0.5, "0.5"),
            (2.345_67, "2.346"),
            (0.0001, "0.0001"),
            (0.012_345, "0.0123"),
            (-0.000_123_456, "-0.000123"),
            (1e300, "1e300"),
            (-1.234_5e20, "-1.23e20"),
            (4.2e-9, "4.2e-9"),
            (f64::MIN_POSITIVE, "2.23e-308"),
        ] {
            assert_eq!(readable(number), text);
        }
    }
}
