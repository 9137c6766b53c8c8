//! Texts but for how much white space there is: the form of the views `letters`, `joined` and `told`.

use std::ops::Range;

/// Every run of white space as one space, none at the ends.
pub(super) fn collapsed(text: &str) -> String {
    let text = text.trim();
    let mut out = String::with_capacity(text.len());
    let (mut done, mut at) = (0, 0);
    // Copied from one place to the next where something other than a single space stands between two words.
    while let Some(run) = next_run(text, at) {
        out.push_str(&text[done..run.start]);
        out.push(' ');
        (done, at) = (run.end, run.end);
    }
    out.push_str(&text[done..]);
    out
}

/// The next run of white space from `at` on that is not one space.
fn next_run(text: &str, mut at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    loop {
        // Everything else is no white space: ASCII, or the first bytes of characters that are.
        let begins = |byte: &u8| matches!(byte, 0x09..=0x0d | b' ' | 0xc2 | 0xe1 | 0xe2 | 0xe3);
        at += bytes.get(at..)?.iter().position(begins)?;
        // Most often: one space before a word.
        if bytes[at] == b' ' && bytes.get(at + 1).is_some_and(u8::is_ascii_graphic) {
            at += 2;
            continue;
        }
        let rest = &text[at..];
        let length = rest.len() - rest.trim_start().len();
        if length > 1 || length == 1 && bytes[at] != b' ' {
            return Some(at..at + length);
        }
        at += if length == 1 { 1 } else { rest.chars().next().map_or(1, char::len_utf8) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        /// As splitting at white space and joining by spaces, whatever white space there is.
        #[test]
        fn white_space_is_collapsed(text in "[a-c é\u{a0}\u{85}\u{1680}\u{2003}\u{2028}\u{3000}â\u{2014}\t\n\r\u{b}\u{c}\u{1c}]{0,40}") {
            let plain = text.split_whitespace().collect::<Vec<_>>().join(" ");
            proptest::prop_assert_eq!(collapsed(&text), plain);
        }
    }
}
