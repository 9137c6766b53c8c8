//! Dates in UTC without a calendar library: civil dates from microseconds since 1970, and round ticks on a time axis.
//!
//! Days are counted from 1 March 2000, the start of a 400 year cycle that puts the leap day last in its year, its four
//! years and (three times out of four) not in its century: 146 097, 36 524, 1 461 and 365 days.

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Days from 1 January 1970 to 1 March 2000.
const CYCLE_START: i64 = 11_017;
/// Lengths of the months from March on; February last, with its leap day.
const MONTHS: [i64; 12] = [31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 31, 29];
const NAMES: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Steps of less than a month, each a round share of the next unit.
const STEPS: [i64; 15] = [
    SECOND,
    5 * SECOND,
    15 * SECOND,
    30 * SECOND,
    MINUTE,
    5 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    7 * DAY,
];
/// Steps of whole months.
const MONTH_STEPS: [i64; 4] = [1, 2, 3, 6];

/// A date of the Gregorian calendar; `month` and `day` begin at 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Date {
    pub(crate) year: i64,
    pub(crate) month: i64,
    pub(crate) day: i64,
}

impl Date {
    /// The date of a moment in microseconds since 1970 UTC.
    pub(crate) fn of(at: i64) -> Self {
        let days = at.div_euclid(DAY) - CYCLE_START;
        let mut year = 2000 + 400 * days.div_euclid(146_097);
        let mut rest = days.rem_euclid(146_097);
        // The last day of a cycle, of four years and of a year would open a period too many: hence the limits.
        for (length, years, limit) in [(36_524, 100, 3), (1_461, 4, 24), (365, 1, 3)] {
            let whole = (rest / length).min(limit);
            year += whole * years;
            rest -= whole * length;
        }
        let mut month = 0;
        while month < 11 && rest >= MONTHS[month] {
            rest -= MONTHS[month];
            month += 1;
        }
        // Month 0 is March; January and February belong to the next year.
        let (year, month) = if month >= 10 { (year + 1, month - 9) } else { (year, month + 3) };
        Self { year, month: month as i64, day: rest + 1 }
    }

    /// Midnight at the start of the date; none when it is outside what microseconds can count.
    pub(crate) fn start(self) -> Option<i64> {
        let since_march = (self.month + 9) % 12;
        let years = self.year - 2000 - i64::from(self.month < 3);
        let leap_days = years.div_euclid(4) - years.div_euclid(100) + years.div_euclid(400);
        let months: i64 = MONTHS[..since_march as usize].iter().sum();
        (CYCLE_START + years * 365 + leap_days + months + self.day - 1).checked_mul(DAY)
    }

    fn month_name(self) -> &'static str {
        NAMES[(self.month - 1).clamp(0, 11) as usize]
    }
}

/// `3 May 2024`.
pub(crate) fn date(at: i64) -> String {
    let date = Date::of(at);
    format!("{} {} {}", date.day, date.month_name(), date.year)
}

/// `3 May 2024, 14:05 UTC`.
pub(crate) fn moment(at: i64) -> String {
    format!("{}, {} UTC", date(at), clock(at))
}

/// `3 May 2024 to 9 June 2025`, or one date when both are the same.
pub(crate) fn period(first: i64, last: i64) -> String {
    let (first, last) = (date(first), date(last));
    if first == last { first } else { format!("{first} to {last}") }
}

/// Round moments in `first..=last`, about `most`, each with its label. Never empty.
pub(crate) fn ticks(first: i64, last: i64, most: usize) -> Vec<(i64, String)> {
    let span = last.saturating_sub(first);
    let least = span / most.max(1) as i64;
    let found = match STEPS.into_iter().find(|step| *step >= least) {
        Some(step) => even_ticks(first, last, step),
        None => month_ticks(first, last, least),
    };
    if found.is_empty() { vec![(first, date(first))] } else { found }
}

fn even_ticks(first: i64, last: i64, step: i64) -> Vec<(i64, String)> {
    // Weeks begin on Monday, and 1970 began on a Thursday.
    let shift = if step == 7 * DAY { 4 * DAY } else { 0 };
    let past = first.saturating_sub(shift).rem_euclid(step);
    let start = first.checked_add((step - past) % step);
    let places = std::iter::successors(start, |at| at.checked_add(step));
    let label = |at: i64| {
        let day = Date::of(at);
        if at.rem_euclid(DAY) == 0 {
            format!("{} {}", day.day, day.month_name())
        } else if step < MINUTE {
            format!("{}:{:02}", clock(at), at.rem_euclid(MINUTE) / SECOND)
        } else {
            clock(at)
        }
    };
    places.take_while(|at| *at <= last).map(|at| (at, label(at))).collect()
}

fn month_ticks(first: i64, last: i64, least: i64) -> Vec<(i64, String)> {
    let months = MONTH_STEPS.into_iter().find(|months| months * 30 * DAY >= least);
    let step =
        months.unwrap_or_else(|| 12 * crate::scale::nice_step(least as f64 / (365.0 * DAY as f64)).max(1.0) as i64);
    let begin = Date::of(first);
    let start = (begin.year * 12 + begin.month - 1).div_euclid(step) * step;
    let mut found: Vec<(i64, String)> = Vec::new();
    for index in 0..64 {
        let month = start + index * step;
        let date = Date { year: month.div_euclid(12), month: month.rem_euclid(12) + 1, day: 1 };
        let Some(at) = date.start().filter(|at| *at >= first) else {
            continue;
        };
        if at > last {
            break;
        }
        let label = match (step % 12 == 0, found.is_empty() || date.month == 1) {
            (true, _) => date.year.to_string(),
            (false, true) => format!("{} {}", date.month_name(), date.year),
            (false, false) => date.month_name().into(),
        };
        found.push((at, label));
    }
    found
}

fn clock(at: i64) -> String {
    let minutes = at.rem_euclid(DAY) / MINUTE;
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days() {
        for (days, text) in [
            (0, "1 Jan 1970"),
            (-1, "31 Dec 1969"),
            (58, "28 Feb 1970"),
            (59, "1 Mar 1970"),
            (789, "29 Feb 1972"),
            (11_016, "29 Feb 2000"),
            (11_017, "1 Mar 2000"),
            (19_782, "29 Feb 2024"),
            (19_783, "1 Mar 2024"),
            (20_088, "31 Dec 2024"),
            (20_089, "1 Jan 2025"),
            (47_540, "28 Feb 2100"),
            (47_541, "1 Mar 2100"),
            (-25_509, "28 Feb 1900"),
            (-25_508, "1 Mar 1900"),
        ] {
            assert_eq!(date(days * DAY), text);
            assert_eq!(date(days * DAY + DAY - 1), text, "the day's last microsecond");
        }
        assert_eq!(moment(1_714_745_100 * SECOND), "3 May 2024, 14:05 UTC");
    }

    #[test]
    fn every_day_of_eight_centuries_follows_the_day_before_and_comes_back() {
        let mut before = Date::of(-150_001 * DAY);
        for day in -150_000..150_000 {
            let date = Date::of(day * DAY);
            assert_eq!(date.start(), Some(day * DAY));
            let next_day = date.day == before.day + 1 && date.month == before.month;
            let first = date.day == 1 && (date.month == before.month + 1 || date.month == 1);
            assert!(next_day || first, "{before:?} then {date:?}");
            before = date;
        }
    }

    fn labels(first: i64, last: i64) -> Vec<String> {
        ticks(first, last, 6).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_fit_the_span() {
        let may = 19_846 * DAY; // 3 May 2024
        assert_eq!(labels(may, may + 5 * DAY), ["3 May", "4 May", "5 May", "6 May", "7 May", "8 May"]);
        assert_eq!(labels(may + 20 * HOUR, may + 30 * HOUR), ["21:00", "4 May", "03:00", "06:00"]);
        assert_eq!(labels(may, may + 400 * DAY), ["Jul 2024", "Oct", "Jan 2025", "Apr"]);
        assert_eq!(labels(may, may + 2_500 * DAY), ["2026", "2028", "2030"]);
        assert_eq!(labels(may + 1, may + 2), ["3 May 2024"]);
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        assert!(ticks(i64::MIN, i64::MAX, 6).len() < 64);
        assert!(!ticks(i64::MIN, i64::MIN, 6).is_empty());
        assert!(!ticks(i64::MAX, i64::MAX, 6).is_empty());
        assert_eq!(Date::of(i64::MAX).year, 294_247);
    }
}
