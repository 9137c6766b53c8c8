//! Points in time: microseconds since 1970, written as RFC 3339 in UTC with six decimals, so that text order is time order.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Error;

/// A point in time, to the microsecond.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From microseconds since 1970-01-01T00:00:00Z; refused beyond the years RFC 3339 can write.
    pub fn from_micros(micros: i64) -> Result<Self, Error> {
        let jiff = jiff::Timestamp::from_microsecond(micros).map_err(|_| Error::Time(format!("{micros} µs")))?;
        let year = jiff.to_zoned(jiff::tz::TimeZone::UTC).year();
        if (0..=9999).contains(&year) { Ok(Self(micros)) } else { Err(Error::Time(format!("{micros} µs"))) }
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub fn micros(self) -> i64 {
        self.0
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
        let shaped = text.len() >= 20 && text.as_bytes()[10].eq_ignore_ascii_case(&b'T');
        if !shaped {
            return Err(wrong());
        }
        let parsed: jiff::Timestamp = text.parse().map_err(|_| wrong())?;
        Self::from_micros(parsed.as_microsecond()).map_err(|_| wrong())
    }
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
        s.collect_str(self)
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
        for bad in ["2026-11-15", "2026-11-15T12:00:00", "now", "", "2026-13-01T00:00:00Z", "2026-11-15 12:00:00Z"] {
            assert!(bad.parse::<Timestamp>().is_err(), "{bad}");
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
