//! Whether a score may be shown (DESIGN, *Universal score*).

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::Error;

/// Whether a score may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScoreStatus {
    /// Computed from enough sources.
    Published,
    /// Coverage is below the floor: computed, recorded, not published.
    Partial,
    /// No signal counts.
    Unrated,
}

impl ScoreStatus {
    /// All of them, from the best supported to the least.
    pub const ALL: [ScoreStatus; 3] = [ScoreStatus::Published, ScoreStatus::Partial, ScoreStatus::Unrated];

    /// The name, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            ScoreStatus::Published => "published",
            ScoreStatus::Partial => "partial",
            ScoreStatus::Unrated => "unrated",
        }
    }
}

impl fmt::Display for ScoreStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for ScoreStatus {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|status| status.name() == text)
            .ok_or_else(|| Error::name("score status", "published, partial or unrated", text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_json_have_the_same_names() {
        for status in ScoreStatus::ALL {
            assert_eq!(status.to_string().parse(), Ok(status));
            assert_eq!(serde_json::to_value(status).unwrap(), status.name());
            assert_eq!(serde_json::from_value::<ScoreStatus>(status.name().into()).unwrap(), status);
        }
        assert!("hidden".parse::<ScoreStatus>().is_err());
    }
}
