//! Numbers, times and names as people read them.

use credence_engine::tiers::Tier;
use credence_protocol::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What stands as it is in a part of a path.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A point in time: exactly, as a date, and how long ago.
#[derive(Debug, Clone)]
pub(super) struct When {
    pub iso: String,
    pub date: String,
    pub ago: String,
}

impl When {
    pub(super) fn new(at: Timestamp, now: Timestamp) -> Self {
        let iso = at.to_string();
        // 2026-11-16T12:51:42.000000Z
        let date = format!("{} {}", iso.get(..10).unwrap_or(&iso), iso.get(11..16).unwrap_or_default());
        Self { date, ago: ago((now.micros() - at.micros()) / 1_000_000), iso }
    }
}

fn ago(seconds: i64) -> String {
    match seconds {
        ..=-60 => "in the future".to_owned(),
        -59..=4 => "now".to_owned(),
        5..=59 => format!("{seconds} s ago"),
        60..=3_599 => format!("{} min ago", seconds / 60),
        3_600..=86_399 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

/// No decimals.
pub(super) fn whole(number: f64) -> String {
    format!("{number:.0}")
}

/// One decimal.
pub(super) fn one(number: f64) -> String {
    format!("{number:.1}")
}

/// A share as percent.
pub(super) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent == 0.0 || percent >= 9.95 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}

/// With a sign, one decimal; 0 has none.
pub(super) fn signed(number: f64) -> String {
    let text = format!("{:.1}", number.abs());
    if text == "0.0" {
        text
    } else if number < 0.0 {
        format!("−{text}")
    } else {
        format!("+{text}")
    }
}

/// Thousands apart.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A number of any size with three digits that count.
pub(super) fn short(number: f64) -> String {
    let size = number.abs();
    match size {
        _ if !number.is_finite() => "–".to_owned(),
        0.0 => "0".to_owned(),
        s if s >= 1e9 => format!("{:.2e}", number),
        s if s >= 1e6 => format!("{:.2} M", number / 1e6),
        s if s >= 1e4 => format!("{:.1} k", number / 1e3),
        s if s >= 100.0 || number.fract() == 0.0 => format!("{number:.0}"),
        s if s >= 1.0 => trimmed(format!("{number:.2}")),
        s if s >= 1e-3 => trimmed(format!("{number:.4}")),
        _ => format!("{number:.1e}"),
    }
}

/// Without the zeros at the end of a fraction.
fn trimmed(text: String) -> String {
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// As a part of a path.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// A tier that somebody asked for by its name.
pub(super) fn tier(text: &str) -> Option<Tier> {
    Tier::ALL.into_iter().find(|tier| tier.key() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_read_them() {
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!([signed(-1.25), signed(0.04), signed(3.0)], ["−1.2", "0.0", "+3.0"]);
        assert_eq!([percent(0.0), percent(0.004), percent(0.5)], ["0 %", "0.4 %", "50 %"]);
        assert_eq!([short(0.0), short(12.345), short(1.2e7), short(0.00012)], ["0", "12.35", "12.00 M", "1.2e-4"]);
        assert_eq!([short(0.7), short(1.5), short(100.0)], ["0.7", "1.5", "100"]);
        assert_eq!([ago(0), ago(61), ago(7200), ago(200_000)], ["now", "1 min ago", "2 h ago", "2 d ago"]);
    }
}
