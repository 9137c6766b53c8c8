//! What every type that is checked text has in common: it parses from text, prints as text, and is text in JSON. And which characters
//! have no place in a name.

/// Whether a character makes a name look like another one, or a text read otherwise than it is written: control characters, line and
/// paragraph separators, directional marks and overrides, and characters that are not shown. Joiners are not among them: some
/// scripts need them.
pub fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Directions.
            '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}'
            // Lines.
            | '\u{2028}' | '\u{2029}'
            // Not shown: soft hyphen, zero-width spaces, invisible operators, annotations, tags.
            | '\u{00AD}' | '\u{180E}' | '\u{200B}' | '\u{2060}'..='\u{2064}' | '\u{206A}'..='\u{206F}' | '\u{FEFF}'
            | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}')
}

/// Implements the conversions of `$name`, which has `$parse(&str) -> Result<Self, Error>` and `as_str()`.
macro_rules! checked_text {
    ($name:ident, $parse:ident) => {
        impl std::str::FromStr for $name {
            type Err = crate::Error;
            fn from_str(text: &str) -> Result<Self, crate::Error> {
                Self::$parse(text)
            }
        }
        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                self.as_str()
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{:?}", self.as_str())
            }
        }
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(self.as_str())
            }
        }
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
                Self::$parse(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use checked_text;
