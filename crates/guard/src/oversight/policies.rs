//! What holds for the tools of one server, by one reading of `guard.toml`. A new reading makes new policies as a whole.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use super::Rules;
use crate::{
    config::{EnforceAfter, FlagAction, GuardConfig, effective::Flags},
    settings::GuardMode,
};

/// Tools whose policies are remembered.
const MAX_POLICIES: usize = 10_000;

/// What holds for one tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// What is done about a result that is not believed, once any wait is over.
    pub mode: GuardMode,
    /// How long before enforcing.
    pub enforce_after: Option<EnforceAfter>,
    /// The share of genuine results that may be blocked.
    pub block_rate: Option<f64>,
    /// Whether results are looked at for text that instructs the model.
    pub content_injection: bool,
    /// The share of accepted results of which a made-up variant is judged in shadow.
    pub canaries: f64,
    /// What is done about flags.
    pub flags: FlagAction,
}

/// See the module.
pub(super) struct Policies {
    /// The reading.
    pub config: Arc<GuardConfig>,
    flags: Flags,
    label: String,
    /// What holds for tools that no section is about.
    pub server: Arc<Policy>,
    /// Whether any section is about single tools of this server.
    by_tool: bool,
    tools: Mutex<HashMap<String, Arc<Policy>>>,
    possible: Vec<(GuardMode, Option<EnforceAfter>)>,
}

impl Policies {
    /// Of the server with this label.
    pub fn new(rules: &Rules, config: Arc<GuardConfig>, label: &str) -> Self {
        let fitting = || config.servers.iter().filter(|section| section.servers.matches(label));
        Self {
            server: Arc::new(policy(&config, &rules.flags, label, None)),
            by_tool: fitting().any(|section| !section.tools.is_empty()),
            tools: Mutex::default(),
            possible: config.possible(label, &rules.flags),
            flags: rules.flags,
            label: label.to_owned(),
            config,
        }
    }

    /// What holds for a tool.
    pub fn of(&self, tool: &str) -> Arc<Policy> {
        if !self.by_tool {
            return Arc::clone(&self.server);
        }
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = tools.get(tool) {
            return Arc::clone(known);
        }
        if tools.len() >= MAX_POLICIES {
            tools.clear();
        }
        let made = Arc::new(policy(&self.config, &self.flags, &self.label, Some(tool)));
        tools.insert(tool.to_owned(), Arc::clone(&made));
        made
    }

    /// The modes and waits that a tool can have.
    pub fn possible(&self) -> impl Iterator<Item = (GuardMode, Option<EnforceAfter>)> + '_ {
        self.possible.iter().copied()
    }

    /// The strictest mode of any tool, as configured.
    pub fn strictest(&self) -> GuardMode {
        self.possible().map(|(mode, _)| mode).max().unwrap_or_default()
    }

    /// Every wait that a tool can have: one section may set the mode and another the wait.
    pub fn waits(&self) -> Vec<EnforceAfter> {
        if self.strictest() != GuardMode::Enforce {
            return Vec::new();
        }
        let mut waits: Vec<EnforceAfter> = self.possible().filter_map(|(_, after)| after).collect();
        waits.dedup();
        waits
    }

    /// How another reading differs, in words; none where nothing of this server's tools does. Settings of single tools are not listed.
    pub fn differences(&self, next: &Policies) -> Vec<String> {
        let (one, two) = (&self.server, &next.server);
        let words = |after: Option<EnforceAfter>| after.map_or_else(|| "none".to_owned(), |after| after.to_string());
        let rate = |rate: Option<f64>| rate.map_or_else(|| "default".to_owned(), |rate| rate.to_string());
        let all = [
            ("mode", one.mode.name().to_owned(), two.mode.name().to_owned()),
            ("enforce_after", words(one.enforce_after), words(two.enforce_after)),
            ("block_rate", rate(one.block_rate), rate(two.block_rate)),
            ("content_injection", one.content_injection.to_string(), two.content_injection.to_string()),
            ("canaries", one.canaries.to_string(), two.canaries.to_string()),
            ("flags", one.flags.name().to_owned(), two.flags.name().to_owned()),
        ];
        let mut found: Vec<String> = all
            .into_iter()
            .filter(|(_, from, to)| from != to)
            .map(|(name, from, to)| format!("{name} {from} to {to}"))
            .collect();
        let tools = |of: &Policies| -> Vec<_> {
            let fitting = of.config.servers.iter().filter(|section| section.servers.matches(&of.label));
            fitting
                .flat_map(|section| section.tools.iter().map(|one| (one.tools.clone(), one.layer.values())))
                .collect()
        };
        if tools(self) != tools(next) {
            found.push("settings of single tools".to_owned());
        }
        found
    }
}

fn policy(config: &GuardConfig, flags: &Flags, label: &str, tool: Option<&str>) -> Policy {
    let effective = config.effective(label, tool, flags);
    Policy {
        mode: effective.mode.value,
        enforce_after: effective.enforce_after.value,
        block_rate: effective.block_rate.value,
        content_injection: effective.content_injection.value,
        canaries: effective.canaries.value,
        flags: effective.flags.value,
    }
}
