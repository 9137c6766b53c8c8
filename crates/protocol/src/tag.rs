//! Tags: an open vocabulary with a closed registry (seed 4, R02). Any well-formed string is a tag; only registered ones
//! are admitted. The registry is data: `tags.toml` beside the sources.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{EntityId, Error, limits::MAX_TAG_BYTES, text::checked_text};

/// A well-formed tag: `^[a-z0-9_]{1,64}$`. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(Arc<str>);

impl Tag {
    /// Checks the form, not the registry.
    pub fn new(text: &str) -> Result<Self, Error> {
        let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        if text.is_empty() || text.len() > MAX_TAG_BYTES || !text.bytes().all(legal) {
            return Err(Error::Tag(text.chars().take(80).collect()));
        }
        Ok(Self(text.into()))
    }

    /// The tag as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Who may emit a tag.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Emitter {
    /// Every registered source.
    Any,
    /// The authority alone ([`crate::AUTHORITY_SOURCE`]).
    Authority,
}

/// What the registry knows of a tag.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TagDefinition {
    /// The tag.
    pub name: Tag,
    /// What it measures, in a sentence; 100 is always best.
    pub meaning: String,
    /// What the raw measurement was counted in before it was normalised.
    pub unit: String,
    /// Who may emit it.
    pub emitter: Emitter,
    /// Admitted, but left out of scores until a real measurement exists (seed 4, ADR-016).
    #[serde(default)]
    pub deferred: bool,
}

impl TagDefinition {
    /// Whether `source` may emit this tag.
    pub fn may_be_emitted_by(&self, source: &EntityId) -> bool {
        self.emitter == Emitter::Any || source.as_str() == crate::AUTHORITY_SOURCE
    }
}

/// The registered tags.
#[derive(Debug, Clone)]
pub struct TagRegistry(BTreeMap<Tag, TagDefinition>);

impl TagRegistry {
    /// The registry that ships with Credence.
    pub fn standard() -> Result<Self, Error> {
        Self::from_toml(include_str!("../tags.toml"))
    }

    /// Reads a registry: an array of `[[tag]]` tables.
    pub fn from_toml(text: &str) -> Result<Self, Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            tag: Vec<TagDefinition>,
        }
        let file: File = toml::from_str(text).map_err(|e| Error::Registry(e.to_string()))?;
        let mut tags = BTreeMap::new();
        for tag in file.tag {
            if let Some(twice) = tags.insert(tag.name.clone(), tag) {
                return Err(Error::Registry(format!("'{}' is listed twice", twice.name)));
            }
        }
        Ok(Self(tags))
    }

    /// The definition of `tag`, when it is registered.
    pub fn find(&self, tag: &str) -> Option<&TagDefinition> {
        self.0.get(tag)
    }

    /// All definitions, by name.
    pub fn iter(&self) -> impl Iterator<Item = &TagDefinition> {
        self.0.values()
    }

    /// The registered tag most like `tag`, for error messages.
    pub fn nearest(&self, tag: &str) -> Option<&Tag> {
        let name = nearest(tag, self.0.keys().map(Tag::as_str))?;
        self.0.keys().find(|known| known.as_str() == name)
    }
}

/// The one of `known` that someone who wrote `name` may have meant, for error messages.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let closest = known.min_by_key(|known| distance(known, name))?;
    (distance(closest, name) <= name.len().div_ceil(3)).then_some(closest)
}

/// Levenshtein distance, for a suggestion in an error message only.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<u8> = b.bytes().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

checked_text!(Tag, new);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_registry_has_28_tags_and_the_ten_threats_in_order() {
        let registry = TagRegistry::standard().unwrap();
        assert_eq!(registry.iter().count(), 28);
        for n in 1..=10 {
            let prefix = format!("asi{n:02}_");
            assert_eq!(registry.iter().filter(|t| t.name.as_str().starts_with(&prefix)).count(), 1);
        }
        let deferred: Vec<_> = registry.iter().filter(|t| t.deferred).map(|t| t.name.as_str()).collect();
        assert_eq!(deferred, ["cross_chain_consistency"]);
    }

    #[test]
    fn suggests_the_nearest_tag() {
        let registry = TagRegistry::standard().unwrap();
        assert_eq!(registry.nearest("rel_uptme").unwrap().as_str(), "rel_uptime");
        assert!(registry.nearest("xyzzy").is_none());
    }

    #[test]
    fn a_registry_with_a_tag_twice_is_refused() {
        let row = "[[tag]]\nname='a'\nmeaning='m'\nunit='u'\nemitter='any'\n";
        assert!(TagRegistry::from_toml(row).is_ok());
        assert!(TagRegistry::from_toml(&format!("{row}{row}")).is_err());
        assert!(TagRegistry::from_toml("[[tag]]\nname='A B'\nmeaning='m'\nunit='u'\nemitter='any'\n").is_err());
    }
}
