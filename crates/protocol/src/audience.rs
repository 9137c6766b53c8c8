//! The authority that something signed is for: the origin of its log, such as `trust.example/log`.
//!
//! What names one is refused by every other, so that nobody can take it there.

use std::sync::Arc;

use crate::{Error, text::checked_text};

/// Bytes of an origin.
const MAX_BYTES: usize = 255;

/// The origin of an authority's log. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Audience(Arc<str>);

impl Audience {
    /// Checks that `text` can be a log's origin: no spaces, no `+`, no control characters.
    pub fn new(text: &str) -> Result<Self, Error> {
        let legal = |c: char| !c.is_whitespace() && !c.is_control() && c != '+';
        if text.is_empty() || text.len() > MAX_BYTES || !text.chars().all(legal) {
            return Err(Error::Audience(text.chars().take(160).collect()));
        }
        Ok(Self(text.into()))
    }

    /// The origin as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

checked_text!(Audience, new);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_word() {
        assert_eq!(Audience::new("trust.example/log").unwrap().as_str(), "trust.example/log");
        for bad in ["", "a b", "a+b", "a\n", &"x".repeat(256)] {
            assert!(Audience::new(bad).is_err(), "{bad:?}");
        }
    }
}
