//! What a target can do, found out by cheap harmless requests before the attacks.
//!
//! A family that needs something the target lacks is *not applicable*: it gives no signal, never 100. The same holds for spellings: a
//! target that does not follow a harmless request in rot13 is not attacked in rot13.

use std::{collections::BTreeMap, fmt, sync::LazyLock};

use serde::{Deserialize, Serialize};

use crate::{
    suite::{FamilyInFile, Part, ProbeFile, template},
    target::{OfferedTool, TargetError, wire::Wire},
    trial::{
        Reason,
        conditions::Seen,
        play::{Half, Stage, filler, play},
    },
    values::{TrialKey, Values},
    variant::Variant,
};

/// Something that a family may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// Calls honey tools: offered with the request (`chat`, `responses`), or mounted by the operator.
    Tools,
    /// Tells in a new conversation what it was told to remember in an earlier one.
    Memory,
    /// Fetches a URL that the user gives.
    Fetch,
    /// Computes what needs code: the SHA-256 of a word.
    Code,
    /// The operator gave credentials of a second identity.
    Identities,
    /// Our listener can be reached by the target (there is one).
    Listener,
    /// The listener's address, as the target sees it, is loopback: a fetch of it is a fetch inside the target's network.
    InternalListener,
    /// The operator gave credentials.
    Credentials,
    /// The target opened a session (`mcp`).
    Sessions,
}

impl Capability {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Tools, Self::Memory, Self::Fetch, Self::Code, Self::Identities, Self::Listener];

    /// The name in files and reports.
    pub fn id(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Memory => "memory",
            Self::Fetch => "fetch",
            Self::Code => "code",
            Self::Identities => "identities",
            Self::Listener => "listener",
            Self::InternalListener => "internal_listener",
            Self::Credentials => "credentials",
            Self::Sessions => "sessions",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// Tries of a check before the target is said not to be able: a flaky target gets a second chance.
const TRIES: u32 = 2;
/// The requests of the checks, in the probe format.
const CHECKS: &str = include_str!("checks.toml");

/// What a target can do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Abilities {
    /// By capability: whether the target has it. Those that no family needs are not checked.
    pub capabilities: BTreeMap<Capability, bool>,
    /// By spelling: whether the target follows it.
    pub spellings: BTreeMap<Variant, bool>,
}

impl Abilities {
    /// What of `needs` the target lacks.
    pub fn missing(&self, needs: &[Capability]) -> Vec<Capability> {
        needs.iter().copied().filter(|need| self.capabilities.get(need) != Some(&true)).collect()
    }

    /// Whether a spelling can be tried.
    pub fn reads(&self, variant: Variant) -> bool {
        variant == Variant::Plain || self.spellings.get(&variant) == Some(&true)
    }
}

/// Checks one capability.
pub async fn check(
    stage: &Stage<'_>,
    capability: Capability,
    seed: u64,
    listener: Option<&str>,
) -> Result<bool, TargetError> {
    match capability {
        Capability::Identities => return Ok(stage.target.has_second_identity()),
        Capability::Credentials => return Ok(stage.target.wire().is_some_and(Wire::has_credentials)),
        Capability::Sessions => return Ok(stage.target.has_session()),
        Capability::Listener => return Ok(listener.is_some()),
        Capability::InternalListener => return Ok(listener.is_some_and(is_loopback)),
        Capability::Fetch if listener.is_none() => return Ok(false),
        Capability::Tools if !stage.target.transport().takes_tools() && stage.mount.is_none() => return Ok(false),
        _ if !stage.target.transport().converses() => return Ok(false),
        _ => {}
    }
    passes(stage, capability.id(), Variant::Plain, seed, listener).await
}

/// Checks one spelling.
pub async fn check_spelling(stage: &Stage<'_>, variant: Variant, seed: u64) -> Result<bool, TargetError> {
    if !stage.target.transport().converses() {
        return Ok(false);
    }
    passes(stage, "spelling", variant, seed, None).await
}

async fn passes(
    stage: &Stage<'_>,
    id: &str,
    variant: Variant,
    seed: u64,
    listener: Option<&str>,
) -> Result<bool, TargetError> {
    let checks = checks().map_err(|why| TargetError::new(Reason::Malformed, why))?;
    let Some(family) = checks.families.iter().find(|family| family.id == id) else { return Ok(false) };
    let family = FamilyInFile { threat: checks.threat, family, shared_tools: &checks.tools };
    let mut down = None;
    for trial in 0..TRIES {
        let key = TrialKey { seed, probe: format!("check {id}"), variant, trial, part: Part::Control };
        let values = Values::new(key, listener.map(str::to_owned));
        let order = family.family.probes.first().and_then(|probe| probe.order.get(&variant.language()));
        let order = order.map(|order| template::fill(order, filler(family, &values, None))).transpose();
        let order = order.map_err(|e| TargetError::new(Reason::Malformed, e.to_string()))?;
        let payload = order.map(|order| variant.encode(&order));
        let control = &family.family.control;
        let half = Half {
            family,
            turns: &control.turns,
            page: control.page.as_deref(),
            payload: payload.as_deref(),
            values: &values,
            part: Part::Control,
        };
        let played = play(stage, &half).await;
        if let Some(error) = played.error.as_ref().filter(|error| error.ends_run) {
            return Err(error.clone());
        }
        down = played.error.clone().filter(|error| error.reason.is_down());
        if (Seen { family, values: &values, played: &played }).first_missing(&control.expect).is_none() {
            return Ok(true);
        }
    }
    // A target that is down is not one that cannot.
    down.map_or(Ok(false), Err)
}

fn is_loopback(base: &str) -> bool {
    let Ok(url) = url::Url::parse(base) else { return false };
    match url.host() {
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// The tool of the check for tools, as a mounted server lists it.
pub(crate) fn check_tool() -> Option<OfferedTool> {
    let tool = checks().ok()?.tools.first()?.clone();
    Some(OfferedTool { name: tool.id, description: tool.description, parameters: tool.parameters })
}

fn checks() -> Result<&'static ProbeFile, String> {
    static PARSED: LazyLock<Result<ProbeFile, String>> =
        LazyLock::new(|| toml::from_str(CHECKS).map_err(|e| e.to_string()));
    PARSED.as_ref().map_err(Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checks_are_in_order() {
        let checks = checks().unwrap();
        assert!(check_tool().is_some());
        let mut ids: Vec<&str> = checks.families.iter().map(|family| family.id.as_str()).collect();
        ids.sort_unstable();
        assert_eq!(ids, ["code", "fetch", "memory", "spelling", "tools"]);
        let order = &checks.families.iter().find(|family| family.id == "spelling").unwrap().probes[0].order;
        for variant in Variant::ALL {
            assert!(order.contains_key(&variant.language()), "{variant}");
        }
    }

    #[test]
    fn what_was_not_checked_is_missing() {
        let mut abilities = Abilities::default();
        assert_eq!(abilities.missing(&[Capability::Tools]), [Capability::Tools]);
        abilities.capabilities.insert(Capability::Tools, true);
        abilities.capabilities.insert(Capability::Memory, false);
        assert_eq!(abilities.missing(&[Capability::Tools, Capability::Memory]), [Capability::Memory]);
        assert!(abilities.reads(Variant::Plain) && !abilities.reads(Variant::Rot13));
    }
}
