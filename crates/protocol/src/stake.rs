//! How much depends on a tool's result, as the caller says: in a call, a verdict, a receipt and a rollup alike.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::Error;

/// How much depends on a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stake {
    /// Little.
    Low,
    /// Something.
    Medium,
    /// Much.
    High,
    /// Everything.
    Critical,
}

impl Stake {
    /// All of them, lowest first.
    pub const ALL: [Stake; 4] = [Stake::Low, Stake::Medium, Stake::High, Stake::Critical];

    /// The name, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Stake::Low => "low",
            Stake::Medium => "medium",
            Stake::High => "high",
            Stake::Critical => "critical",
        }
    }
}

impl fmt::Display for Stake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Stake {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|stake| stake.name() == text)
            .ok_or_else(|| Error::name("stake", "low, medium, high or critical", text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_json_have_the_same_names() {
        for stake in Stake::ALL {
            assert_eq!(stake.to_string().parse(), Ok(stake));
            assert_eq!(serde_json::to_value(stake).unwrap(), stake.name());
            assert_eq!(serde_json::from_value::<Stake>(stake.name().into()).unwrap(), stake);
        }
        assert!("Low".parse::<Stake>().is_err() && "".parse::<Stake>().is_err());
    }
}
