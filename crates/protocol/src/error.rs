//! Everything that can be wrong with a document before any state is consulted.

use crate::limits;

/// Characters of a refused word that are repeated in the message.
const MAX_QUOTED_CHARS: usize = 64;

/// Why a document, id or key was refused. Each message says what was wrong and what to do.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not JSON, a duplicate key, an unsafe number, too deep, or a missing, unknown or mistyped field.
    #[error("malformed JSON: {0}")]
    Malformed(String),
    /// Longer than [`limits::MAX_SIGNAL_BYTES`] in canonical form, or far longer as received.
    #[error("{bytes} bytes, the limit is {limit}: move bulky evidence elsewhere and cite its digest")]
    TooLarge {
        /// The document's size.
        bytes: usize,
        /// The limit it broke.
        limit: usize,
    },
    /// Not an entity id.
    #[error("'{0}' is not an entity id: 1 to 128 of A-Z a-z 0-9 . _ ~ - (and neither '.' nor '..')")]
    EntityId(String),
    /// Not a root.
    #[error(
        "'{0}' is not a root: up to 128 bytes, names of A-Z a-z 0-9 . _ ~ - joined by single colons, such as erc8004:eip155:8453"
    )]
    Root(String),
    /// Not the origin of a log.
    #[error("aud: '{0}' is not the origin of an authority's log: up to 255 bytes without spaces and '+'")]
    Audience(String),
    /// Not one of the alias forms.
    #[error("'{input}' is not an alias: {why}")]
    Alias {
        /// What was given.
        input: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Not an external subject.
    #[error("'{input}' is not a subject: {why}")]
    Subject {
        /// What was given.
        input: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Not a well-formed tag.
    #[error("'{0}' is not a well-formed tag: 1 to 64 of a-z 0-9 _")]
    Tag(String),
    /// No tag, too many, or one twice.
    #[error("tags: {0}")]
    Tags(String),
    /// `id` or `supersedes` is not a UUIDv7 in lower-case hyphenated form.
    #[error("{field}: '{input}' is not a UUIDv7 in lower-case hyphenated form")]
    SignalId {
        /// Which field.
        field: &'static str,
        /// What was given.
        input: String,
    },
    /// Not an RFC 3339 time with an offset.
    #[error("'{0}' is not an RFC 3339 time with an offset, such as 2026-11-15T12:00:00Z")]
    Time(String),
    /// `value` outside 0..=100 or not finite.
    #[error("value {0} is outside 0..=100 (100 is always best)")]
    Value(f64),
    /// `stddev` outside 0..=50 or not finite.
    #[error("stddev {0} is outside 0..={max} (0 means a point estimate)", max = limits::MAX_STDDEV)]
    Stddev(f64),
    /// Not a usable Ed25519 key, in whichever form was named.
    #[error("not a usable Ed25519 key: {0}")]
    Key(&'static str),
    /// The signature does not decode to 64 bytes.
    #[error("not a signature: expected 86 characters of unpadded base64url")]
    SignatureForm,
    /// The signature does not verify under the key, by the strict rule.
    #[error("bad signature: the content is not what key {0} signed (canonical JSON of all fields but 'signature')")]
    BadSignature(crate::KeyId),
    /// The key at hand is not the one the document names.
    #[error("the document names key {named}, but the key given is {given}")]
    KeyMismatch {
        /// The key id in the document.
        named: crate::KeyId,
        /// The key id of the key given.
        given: crate::KeyId,
    },
    /// A word that is none of a closed vocabulary.
    #[error("'{input}' is not a {what}: {expected}")]
    Name {
        /// What was expected, such as a stake.
        what: &'static str,
        /// The words there are.
        expected: &'static str,
        /// What was given, shortened.
        input: String,
    },
    /// The operating system gave no randomness.
    #[error("no randomness from the operating system: {0}")]
    Randomness(String),
    /// The tag registry data is not valid.
    #[error("tag registry: {0}")]
    Registry(String),
}

impl Error {
    /// `input` is none of the names of `what`.
    pub(crate) fn name(what: &'static str, expected: &'static str, input: &str) -> Self {
        Self::Name { what, expected, input: input.chars().take(MAX_QUOTED_CHARS).collect() }
    }
}
