//! Numbers that are written as texts.

/// The longest text that is taken for a number, and its most digits: what is longer is an identifier.
const LONGEST_NUMBER: usize = 20;
const MOST_DIGITS: usize = 12;

/// The number that a text is, as gateways and other locales write numbers: `-12.5`, `$1,200.00`, `1.234,5`, `80%`. One that starts with a zero is an
/// identifier.
pub(super) fn number_in(text: &str) -> Option<f64> {
    let bytes = text.as_bytes();
    if bytes.len() > LONGEST_NUMBER || !bytes.last().is_some_and(|last| last.is_ascii_digit() || *last == b'%') {
        return None;
    }
    let (negative, bytes) = bytes.strip_prefix(b"-").map_or((false, bytes), |rest| (true, rest));
    let bytes = bytes.strip_prefix(b"$").unwrap_or(bytes);
    let bytes = bytes.strip_suffix(b"%").unwrap_or(bytes);
    if let [b'0', b'0'..=b'9', ..] = bytes {
        return None;
    }
    // The last separator is that of the fraction, unless three digits follow and it is a comma or came before.
    let last = bytes.iter().rposition(|byte| matches!(byte, b'.' | b','));
    let is_grouped = |at: usize| {
        bytes.len() - at == 4 && (bytes[at] == b',' || bytes[..at].contains(&bytes[at])) && bytes[0] != b'0'
    };
    let point = last.filter(|at| !is_grouped(*at));
    let (mut number, mut scale, mut digits) = (0.0, 1.0, 0);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                number = number * 10.0 + f64::from(byte - b'0');
                scale *= if point.is_some_and(|point| at > point) { 10.0 } else { 1.0 };
                digits += 1;
            }
            b'.' | b',' if at > 0 => {}
            _ => return None,
        }
    }
    let number = if negative { -number / scale } else { number / scale };
    (1..=MOST_DIGITS).contains(&digits).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_written_as_texts() {
        for (text, number) in [
            ("12", 12.0),
            ("-12.5", -12.5),
            ("0.345", 0.345),
            ("$1,200.00", 1_200.0),
            ("1.234,5", 1_234.5),
            ("1,234", 1_234.0),
            ("1.234.567", 1_234_567.0),
            ("12,50", 12.5),
            ("80%", 80.0),
        ] {
            assert!(
                number_in(text).is_some_and(|found| (found - number).abs() < 1e-9),
                "{text}: {:?}",
                number_in(text)
            );
        }
        for text in
            ["", "-", "$", "007", "12 km", "v2", "2026-05-01", "10:30", "+49301234567", "4012888888881881", ".5", "1e5"]
        {
            assert_eq!(number_in(text), None, "{text}");
        }
    }
}
