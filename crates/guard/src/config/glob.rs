//! Patterns for labels and tools: `*` stands for any characters, `?` for one; every other character for itself.

use std::fmt;

/// Bytes of a pattern.
const MAX_BYTES: usize = 256;
/// Characters that mean something in other patterns and nothing here: refused, so that nobody relies on them.
const FOREIGN: [char; 6] = ['[', ']', '{', '}', '\\', '!'];

/// A pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob(Vec<char>);

impl Glob {
    /// Reads a pattern; the words of the error say what is wrong with it.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.len() > MAX_BYTES {
            return Err(format!("a pattern has 1 to {MAX_BYTES} bytes"));
        }
        if let Some(wrong) = text.chars().find(|c| c.is_control() || FOREIGN.contains(c)) {
            return Err(format!(
                "'{}' is not allowed in a pattern: only * and ? stand for something else",
                wrong.escape_default()
            ));
        }
        let mut chars: Vec<char> = text.chars().collect();
        chars.dedup_by(|a, b| *a == '*' && *b == '*');
        Ok(Self(chars))
    }

    /// Whether it fits this name.
    pub fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.chars().collect();
        fits(&self.0, &name, |pattern, c| pattern == '?' || pattern == c)
    }

    /// Whether it fits everything that `other` fits, as far as can be told from the two patterns: where it says so, it is so.
    pub fn covers(&self, other: &Glob) -> bool {
        // A wildcard of the other has to be met by one here.
        fits(&self.0, &other.0, |pattern, c| match c {
            '*' => false,
            '?' => pattern == '?',
            c => pattern == '?' || pattern == c,
        })
    }
}

/// Matches with one place to go back to: the last `*`.
fn fits(pattern: &[char], name: &[char], one: impl Fn(char, char) -> bool) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while n < name.len() {
        if pattern.get(p) == Some(&'*') {
            back = Some((p, n));
            p += 1;
        } else if pattern.get(p).is_some_and(|c| one(*c, name[n])) {
            (p, n) = (p + 1, n + 1);
        } else if let Some((star, from)) = back {
            back = Some((star, from + 1));
            (p, n) = (star + 1, from + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|c| write!(f, "{c}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_whole_names() {
        for (pattern, name, fits) in [
            ("files", "files", true),
            ("files", "files2", false),
            ("*", "", true),
            ("*", "anything at all", true),
            ("read_*", "read_", true),
            ("*_file", "read_file", true),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("größe*", "größer", true),
            ("a**b", "ab", true),
        ] {
            assert_eq!(Glob::new(pattern).unwrap().matches(name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn what_other_tools_take_for_a_pattern_is_refused() {
        for wrong in ["", "[ab]", "{a,b}", "a\\*", "!a", "a\nb", &"x".repeat(257)] {
            assert!(Glob::new(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_pattern_covers_what_it_fits() {
        let covers = |a: &str, b: &str| Glob::new(a).unwrap().covers(&Glob::new(b).unwrap());
        assert!(covers("*", "read_*") && covers("read_*", "read_file") && covers("read_*", "read_*"));
        assert!(covers("a?", "ab") && covers("*", "?"));
        assert!(!covers("read_*", "*") && !covers("ab", "a?") && !covers("?", "*") && !covers("a*", "*a"));
    }

    proptest::proptest! {
        #[test]
        fn covering_is_never_claimed_wrongly(a in "[ab*?]{1,5}", b in "[ab*?]{1,5}", name in "[ab]{0,6}") {
            let (a, b) = (Glob::new(&a).unwrap(), Glob::new(&b).unwrap());
            if a.covers(&b) && b.matches(&name) {
                proptest::prop_assert!(a.matches(&name));
            }
        }
    }
}
