//! An amount of a chain's smallest unit. Beyond 2^53 numbers of JSON are not exact, so it is written as a decimal text.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// Wei or lamports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Amount(pub u128);

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let amount: u128 = text.parse().map_err(|_| D::Error::custom("an amount is a whole number in a text"))?;
        // One spelling: entries are compared byte for byte.
        if amount.to_string() != text {
            return Err(D::Error::custom("an amount is written without sign and leading zeros"));
        }
        Ok(Self(amount))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_one_spelling_and_lose_nothing() {
        let most = Amount(u128::MAX);
        let text = serde_json::to_string(&most).unwrap();
        assert_eq!(text, "\"340282366920938463463374607431768211455\"");
        assert_eq!(serde_json::from_str::<Amount>(&text).unwrap(), most);
        for bad in
            ["12", "\"012\"", "\"+1\"", "\"-1\"", "\"\"", "\"1e3\"", "\"340282366920938463463374607431768211456\""]
        {
            assert!(serde_json::from_str::<Amount>(bad).is_err(), "{bad}");
        }
    }
}
