//! What every type that is checked text has in common: it parses from text, prints as text, and is text in JSON.

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
