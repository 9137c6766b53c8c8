//! Entity ids: agents and sources. `^[A-Za-z0-9._~-]{1,128}$`, the unreserved characters of RFC 3986, so that an id is
//! a URL path segment as it stands; `.` and `..` would be eaten by path normalisation and are refused.

use std::sync::Arc;

use crate::{Error, limits::MAX_ENTITY_ID_BYTES, text::checked_text};

/// The id of an agent or a source. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId(Arc<str>);

impl EntityId {
    /// Checks `id` against the rule above.
    pub fn new(id: &str) -> Result<Self, Error> {
        let legal = |b: &u8| b.is_ascii_alphanumeric() || b"._~-".contains(b);
        if id.is_empty()
            || id.len() > MAX_ENTITY_ID_BYTES
            || id == "."
            || id == ".."
            || !id.as_bytes().iter().all(legal)
        {
            return Err(Error::EntityId(id.chars().take(160).collect()));
        }
        Ok(Self(id.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

checked_text!(EntityId, new);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_the_unreserved_characters_and_nothing_else() {
        for good in ["a", "Weather-Bot_2.0~x", "...", &"a".repeat(128)] {
            assert_eq!(EntityId::new(good).unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", "a/b", "a b", "naïve", "a\n", "a%20", &"a".repeat(129)] {
            assert!(EntityId::new(bad).is_err(), "{bad:?}");
        }
    }
}
