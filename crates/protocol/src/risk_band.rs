//! How risky an agent says a claim is: in a contract, in what is made of it, and on the command line alike.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::Error;

/// How risky the agent says a claim is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RiskBand {
    /// Little.
    Low,
    /// Some.
    Moderate,
    /// Much.
    High,
}

impl RiskBand {
    /// All of them, lowest first.
    pub const ALL: [RiskBand; 3] = [RiskBand::Low, RiskBand::Moderate, RiskBand::High];

    /// The name, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            RiskBand::Low => "low",
            RiskBand::Moderate => "moderate",
            RiskBand::High => "high",
        }
    }
}

impl fmt::Display for RiskBand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for RiskBand {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|band| band.name() == text)
            .ok_or_else(|| Error::name("risk band", "low, moderate or high", text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_json_have_the_same_names() {
        for band in RiskBand::ALL {
            assert_eq!(band.to_string().parse(), Ok(band));
            assert_eq!(serde_json::to_value(band).unwrap(), band.name());
            assert_eq!(serde_json::from_value::<RiskBand>(band.name().into()).unwrap(), band);
        }
        assert!("medium".parse::<RiskBand>().is_err(), "that is a stake");
    }
}
