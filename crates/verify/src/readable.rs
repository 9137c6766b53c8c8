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
    let decimals = match magnitude {
        _ if whole => 0,
        1e4.. => 0,
        10.0.. => 1,
        0.1.. => 3,
        _ => 2 + (-libm::floor(libm::log10(magnitude))) as u32,
    };
    with_decimals(number, decimals)
}

/// A number rounded to this many decimals, without zeros at the end. Whole numbers are written several times faster than fractions.
fn with_decimals(number: f64, mut decimals: u32) -> String {
    let scale = 10_u64.pow(decimals);
    let scaled = libm::rint(number.abs() * scale as f64) as u64;
    let (whole, mut part) = (scaled / scale, scaled % scale);
    let sign = if number.is_sign_negative() { "-" } else { "" };
    if part == 0 {
        return format!("{sign}{whole}");
    }
    while part.is_multiple_of(10) {
        part /= 10;
        decimals -= 1;
    }
    format!("{sign}{whole}.{part:0width$}", width = decimals as usize)
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
            (9_999.96, "10000"),
            (9.999_96, "10"),
            (1e4 + 0.5, "10000"),
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
