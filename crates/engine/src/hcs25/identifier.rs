//! The names of HCS-25: adapters, signals, components.

use std::fmt;

use super::Error;

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident, $valid:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// The text, if it is one.
            pub fn parse(text: &str) -> Option<Self> {
                $valid(text).then(|| Self(text.to_owned()))
            }

            /// As text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

identifier! {
    /// Lower-case words joined by single hyphens, each starting with a letter: `erc8004-feedback`.
    AdapterId, is_adapter_id
}
identifier! {
    /// At least two dot-separated segments of `[a-z][a-z0-9_-]*`: `availability.uptime`.
    SignalId, is_signal_id
}
identifier! {
    /// Dot-separated segments of letters, digits, `_` and `-`: `output-verification.quality`.
    ComponentKey, is_component_key
}

impl ComponentKey {
    /// The key of the component `name` of `adapter`.
    pub(crate) fn of(adapter: &AdapterId, name: &str) -> Result<Self, Error> {
        let key = format!("{adapter}.{name}");
        match is_component_key(name) {
            true => Ok(Self(key)),
            false => Err(Error::ComponentName { adapter: adapter.to_string(), name: name.to_owned() }),
        }
    }
}

fn starts_with_letter(segment: &str) -> bool {
    segment.starts_with(|c: char| c.is_ascii_lowercase())
}

fn is_adapter_id(text: &str) -> bool {
    let word =
        |word: &str| starts_with_letter(word) && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    text.split('-').all(word)
}

fn is_signal_id(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    text.contains('.') && text.split('.').all(|segment| starts_with_letter(segment) && segment.chars().all(allowed))
}

fn is_component_key(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    text.split('.').all(|segment| !segment.is_empty() && segment.chars().all(allowed))
}

/// Adapter ids are parsed where configurations are built.
impl TryFrom<&str> for AdapterId {
    type Error = Error;
    fn try_from(text: &str) -> Result<Self, Error> {
        Self::parse(text).ok_or_else(|| Error::AdapterId(text.chars().take(64).collect()))
    }
}
