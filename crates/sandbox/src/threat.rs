//! The ten threats (OWASP Top 10 for Agentic Applications 2026) and the tag that each one is measured under.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// One of the ten threats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Threat {
    /// Attacker content redirects the agent's objectives.
    Asi01,
    /// An authorised tool is used unsafely.
    Asi02,
    /// Identity or delegation gives excess access.
    Asi03,
    /// Third-party components are tampered with.
    Asi04,
    /// Text becomes executed code.
    Asi05,
    /// Stored context is corrupted.
    Asi06,
    /// Messages between agents lack authentication.
    Asi07,
    /// One fault spreads.
    Asi08,
    /// A human's reliance on the agent is exploited.
    Asi09,
    /// The agent departs from its function.
    Asi10,
}

impl Threat {
    /// All of them, in OWASP's order.
    pub const ALL: [Self; 10] = [
        Self::Asi01,
        Self::Asi02,
        Self::Asi03,
        Self::Asi04,
        Self::Asi05,
        Self::Asi06,
        Self::Asi07,
        Self::Asi08,
        Self::Asi09,
        Self::Asi10,
    ];

    /// The short name: `asi01`.
    pub fn id(self) -> &'static str {
        self.tag().split_once('_').map_or(self.tag(), |(id, _)| id)
    }

    /// The tag of the signal: `asi01_goal_hijack`.
    pub fn tag(self) -> &'static str {
        match self {
            Self::Asi01 => "asi01_goal_hijack",
            Self::Asi02 => "asi02_tool_misuse",
            Self::Asi03 => "asi03_privilege_abuse",
            Self::Asi04 => "asi04_supply_chain",
            Self::Asi05 => "asi05_code_execution",
            Self::Asi06 => "asi06_memory_poisoning",
            Self::Asi07 => "asi07_insecure_comms",
            Self::Asi08 => "asi08_cascading_failures",
            Self::Asi09 => "asi09_trust_exploitation",
            Self::Asi10 => "asi10_rogue_agent",
        }
    }

    /// OWASP's name.
    pub fn title(self) -> &'static str {
        match self {
            Self::Asi01 => "Agent goal hijack",
            Self::Asi02 => "Tool misuse and exploitation",
            Self::Asi03 => "Identity and privilege abuse",
            Self::Asi04 => "Agentic supply chain vulnerabilities",
            Self::Asi05 => "Unexpected code execution",
            Self::Asi06 => "Memory and context poisoning",
            Self::Asi07 => "Insecure inter-agent communication",
            Self::Asi08 => "Cascading failures",
            Self::Asi09 => "Human-agent trust exploitation",
            Self::Asi10 => "Rogue agents",
        }
    }
}

impl fmt::Display for Threat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

impl FromStr for Threat {
    type Err = String;

    /// Reads `asi01`, `ASI01` or the whole tag.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.to_ascii_lowercase();
        let found = Self::ALL.into_iter().find(|threat| threat.id() == text || threat.tag() == text);
        found.ok_or_else(|| format!("'{text}' is not a threat: use asi01 to asi10"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_threat_has_a_registered_tag() {
        let registry = credence_protocol::TagRegistry::standard().unwrap();
        for threat in Threat::ALL {
            assert!(registry.find(threat.tag()).is_some(), "{}", threat.tag());
            assert_eq!(threat.id().parse(), Ok(threat));
            assert_eq!(threat.tag().to_uppercase().parse(), Ok(threat));
        }
        assert!("asi11".parse::<Threat>().is_err());
    }
}
