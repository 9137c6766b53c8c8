//! Points in time: microseconds since 1970, written as RFC 3339 in UTC with six decimals, so that text order is time order.

use std::{fmt, str::FromStr};

use jiff::fmt::temporal::DateTimePrinter;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

use crate::Error;

/// From 0000-01-01T00:00:00Z to 9999-12-31T23:59:59.999999Z, less the hours at the ends that only an offset could reach.
const WRITABLE_MICROS: std::ops::RangeInclusive<i64> = -62_167_219_200_000_000..=253_402_207_200_000_000;

/// Six decimals.
const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(6));

/// A point in time, to the microsecond.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From microseconds since 1970-01-01T00:00:00Z; refused beyond the years RFC 3339 can write.
    pub fn from_micros(micros: i64) -> Result<Self, Error> {
        if WRITABLE_MICROS.contains(&micros) { Ok(Self(micros)) } else { Err(Error::Time(format!("{micros} µs"))) }
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub fn micros(self) -> i64 {
        self.0
    }

    /// This time plus `duration`, staying within what can be written.
    pub fn plus(self, duration: std::time::Duration) -> Self {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self::from_micros(self.0.saturating_add(micros)).unwrap_or(self)
    }

    /// This time plus `seconds`, staying within what can be written.
    pub fn plus_seconds(self, seconds: i64) -> Self {
        let micros = self.0.saturating_add(seconds.saturating_mul(1_000_000));
        Self::from_micros(micros).unwrap_or(self)
    }
}

impl FromStr for Timestamp {
    type Err = Error;

    /// RFC 3339: a date, `T`, a time and an offset. A bare date or a missing offset is refused.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Time(text.chars().take(64).collect());
        if !is_rfc3339(text.as_bytes()) {
            return Err(wrong());
        }
        let parsed: jiff::Timestamp = text.parse().map_err(|_| wrong())?;
        Self::from_micros(parsed.as_microsecond()).map_err(|_| wrong())
    }
}

/// `YYYY-MM-DDTHH:MM:SS[.digits](Z|±HH:MM)` and nothing else: the parser behind it knows more forms than the standard.
/// Leap seconds are refused, because they would silently become another second.
fn is_rfc3339(text: &[u8]) -> bool {
    let digits =
        |range: std::ops::Range<usize>| text.get(range).is_some_and(|part| part.iter().all(u8::is_ascii_digit));
    let marks = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    let fixed = text.len() >= 20
        && marks.iter().all(|(at, mark)| text[*at] == *mark)
        && text[10].eq_ignore_ascii_case(&b'T')
        && [0..4, 5..7, 8..10, 11..13, 14..16, 17..19].into_iter().all(digits)
        && &text[17..19] != b"60";
    if !fixed {
        return false;
    }
    let fraction = if text[19] == b'.' { 1 + text[20..].iter().take_while(|b| b.is_ascii_digit()).count() } else { 0 };
    let offset = &text[19 + fraction..];
    let zone = offset.eq_ignore_ascii_case(b"Z")
        || (offset.len() == 6
            && matches!(offset[0], b'+' | b'-')
            && offset[3] == b':'
            && [1, 2, 4, 5].iter().all(|at| offset[*at].is_ascii_digit()));
    fraction != 1 && zone
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(time) => write!(f, "{time:.6}"),
            Err(_) => Err(fmt::Error),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        // In one piece: two stand in the journal for every tool call.
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(time) => s.serialize_str(&PRINTER.timestamp_to_string(&time)),
            Err(error) => Err(ser::Error::custom(error)),
        }
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_normalised_and_bare_dates_refused() {
        let utc: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
        let berlin: Timestamp = "2026-11-15T13:00:00.000000+01:00".parse().unwrap();
        assert_eq!(utc, berlin);
        assert_eq!(berlin.to_string(), "2026-11-15T12:00:00.000000Z");
        for bad in [
            "2026-11-15",
            "2026-11-15T12:00:00",
            "now",
            "",
            "2026-13-01T00:00:00Z",
            "2026-11-15 12:00:00Z",
            "2026-11-15T12:00:00+01[Europe/Berlin]",
            "2026-11-15T12:00:00Z[UTC]",
            "2026-11-15T12:00:00,5Z",
            "2026-11-15T12:00:60Z",
            "2026-11-15T12:00:00.Z",
            "2026-11-15T12:00:00+01",
            "2026-11-15T12:00:00+0100",
            "2026-11-15T25:00:00Z",
        ] {
            assert!(bad.parse::<Timestamp>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_ends_of_what_can_be_written() {
        for end in [*WRITABLE_MICROS.start(), *WRITABLE_MICROS.end()] {
            let text = Timestamp::from_micros(end).unwrap().to_string();
            assert_eq!(text.parse::<Timestamp>().unwrap().micros(), end, "{text}");
        }
        assert!(Timestamp::from_micros(WRITABLE_MICROS.start() - 1).is_err());
        assert!(Timestamp::from_micros(WRITABLE_MICROS.end() + 1).is_err());
    }

    #[test]
    fn in_json_it_is_its_text() {
        for micros in [*WRITABLE_MICROS.start(), -1, 0, 1_700_000_000_120_000, *WRITABLE_MICROS.end()] {
            let time = Timestamp::from_micros(micros).unwrap();
            assert_eq!(serde_json::to_value(time).unwrap(), time.to_string());
        }
    }

    #[test]
    fn text_order_is_time_order() {
        let texts: Vec<String> = [0, 1, 999_999, 1_000_000, 1_700_000_000_123_456]
            .map(|micros| Timestamp::from_micros(micros).unwrap().to_string())
            .to_vec();
        assert!(texts.is_sorted(), "{texts:?}");
        assert!(texts.iter().all(|t| t.len() == texts[0].len()));
    }
}
