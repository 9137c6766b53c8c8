//! Numbers as people read them: three significant digits, `k`, `M`, `G`, `T` above a thousand, a true minus sign.

/// Names of the powers of a thousand, largest first.
const UNITS: [(f64, &str); 4] = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];

/// Above this, and below [`SMALLEST`], powers of ten are clearer than digits.
const LARGEST: f64 = 999.5e12;
const SMALLEST: f64 = 1e-6;

/// Three significant digits: `1.23 k`, `3.4 M`, `0.00012`. Empty for what is not finite.
pub(crate) fn human(value: f64) -> String {
    if !value.is_finite() {
        return String::new();
    }
    let size = value.abs();
    if size == 0.0 {
        return "0".into();
    }
    let digits = if !(SMALLEST..LARGEST).contains(&size) {
        scientific(size)
    } else if let Some((unit, name)) = unit_of(size) {
        format!("{}{name}", significant(size / unit))
    } else {
        significant(size)
    };
    minus(value, digits)
}

/// [`human`] with `+` before what is above zero.
pub(crate) fn signed(value: f64) -> String {
    let text = human(value);
    if value > 0.0 { format!("+{text}") } else { text }
}

/// A tick's value with as many decimals as tell it from its neighbour one `step` away.
pub(crate) fn tick(value: f64, step: f64) -> String {
    let size = value.abs();
    // A multiple of the step that rounding left beside zero.
    if size < step.abs() * 1e-6 {
        return "0".into();
    }
    if !(SMALLEST..LARGEST).contains(&size) || !step.is_finite() || step <= 0.0 {
        return human(value);
    }
    let (unit, name) = unit_of(size).unwrap_or((1.0, ""));
    let decimals = (-(step / unit).log10().floor()).clamp(0.0, 9.0) as usize;
    minus(value, trimmed(format!("{:.decimals$}", size / unit)) + name)
}

/// A value with at most `decimals` decimals and no trailing zeros; [`human`] where that would be a row of digits.
pub(crate) fn fixed(value: f64, decimals: usize) -> String {
    if !value.is_finite() || value.abs() >= 1e6 {
        return human(value);
    }
    let text = trimmed(format!("{:.decimals$}", value.abs()));
    if text == "0" { text } else { minus(value, text) }
}

/// A share of 0..=1 in whole percent, never rounding something to nothing or nearly all to all.
pub(crate) fn percent(share: f64) -> String {
    match share.clamp(0.0, 1.0) * 100.0 {
        0.0 => "0%".into(),
        below if below < 1.0 => "<1%".into(),
        above if above > 99.0 && above < 100.0 => ">99%".into(),
        other => format!("{other:.0}%"),
    }
}

/// A count with its noun: `1 point`, `3 points`.
pub(crate) fn counted(count: usize, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

fn unit_of(size: f64) -> Option<(f64, &'static str)> {
    // 999.7 would print as 1000 with three digits, so it is already 1 k.
    UNITS.into_iter().find(|(unit, _)| size >= unit * 0.9995)
}

fn significant(size: f64) -> String {
    let decimals = (2.0 - size.log10().floor()).clamp(0.0, 12.0) as usize;
    trimmed(format!("{size:.decimals$}"))
}

fn scientific(size: f64) -> String {
    let text = format!("{size:.1e}");
    text.replace(".0e", "e").replace("e-", "e−")
}

fn trimmed(digits: String) -> String {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.').into() } else { digits }
}

fn minus(value: f64, digits: String) -> String {
    if value < 0.0 { format!("−{digits}") } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn human_numbers() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (72.46, "72.5"),
            (99.96, "100"),
            (999.7, "1 k"),
            (1_234.0, "1.23 k"),
            (1_200.0, "1.2 k"),
            (3_400_000.0, "3.4 M"),
            (7.25e9, "7.25 G"),
            (1.5e12, "1.5 T"),
            (2e15, "2e15"),
            (0.00012, "0.00012"),
            (0.5, "0.5"),
            (3.2e-9, "3.2e−9"),
            (-1_234.0, "−1.23 k"),
            (f64::MAX, "1.8e308"),
            (f64::NAN, ""),
            (f64::NEG_INFINITY, ""),
        ] {
            assert_eq!(human(value), text, "{value}");
        }
    }

    #[test]
    fn signs_are_printed_on_both_sides_of_zero() {
        assert_eq!((signed(4.2), signed(-4.2), signed(0.0)), ("+4.2".into(), "−4.2".into(), "0".into()));
    }

    #[test]
    fn neighbouring_ticks_differ() {
        assert_eq!(tick(1_000.5, 0.5), "1.0005 k");
        assert_eq!(tick(1_000.0, 500.0), "1 k");
        assert_eq!(tick(0.30000000000000004, 0.1), "0.3");
        assert_eq!(tick(1e-17, 0.1), "0");
        assert_eq!(tick(-20.0, 20.0), "−20");
    }

    #[test]
    fn shares_do_not_round_to_certainty() {
        assert_eq!(
            [0.0, 0.001, 0.005, 0.634, 0.996, 1.0, 7.0].map(percent),
            ["0%", "<1%", "<1%", "63%", ">99%", "100%", "100%"]
        );
    }

    #[test]
    fn fixed_decimals_have_no_negative_zero() {
        assert_eq!((fixed(-0.01, 1), fixed(71.96, 1), fixed(-3.25, 1)), ("0".into(), "72".into(), "−3.2".into()));
    }
}
