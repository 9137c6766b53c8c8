//! What to do with a tool's result: the answer of a verification, in a verdict, a receipt and a rollup alike.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::Error;

/// What to do with a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Use it: it is believable.
    Accept,
    /// Check it by other means first: it is odd.
    Flag,
    /// Do not use it: it is probably fabricated.
    Block,
}

impl Decision {
    /// All of them, from the best to the worst.
    pub const ALL: [Decision; 3] = [Decision::Accept, Decision::Flag, Decision::Block];

    /// The name, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Decision::Accept => "accept",
            Decision::Flag => "flag",
            Decision::Block => "block",
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Decision {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|decision| decision.name() == text)
            .ok_or_else(|| Error::name("decision", "accept, flag or block", text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_json_have_the_same_names() {
        for decision in Decision::ALL {
            assert_eq!(decision.to_string().parse(), Ok(decision));
            assert_eq!(serde_json::to_value(decision).unwrap(), decision.name());
            assert_eq!(serde_json::from_value::<Decision>(decision.name().into()).unwrap(), decision);
        }
        let error = "allow".parse::<Decision>().unwrap_err();
        assert_eq!(error.to_string(), "'allow' is not a decision: accept, flag or block");
    }
}
