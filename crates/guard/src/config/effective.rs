//! What holds for a server or one of its tools, and where that comes from.
//!
//! ```text
//! default < top of the file < [server] sections, in order < [server.tool] sections, in order < flags
//! ```
//!
//! Each setting is looked up on its own: a section that sets only `flags` leaves the mode to the others.

use std::fmt;

use serde::{Serialize, Serializer};

use super::{At, EnforceAfter, FlagAction, GuardConfig, Layer};
use crate::settings::{DEFAULT_CANARIES, GuardMode};

/// Flags of the command line, which override the file.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Flags {
    /// `--mode`.
    pub mode: Option<GuardMode>,
    /// `--content-injection`.
    pub content_injection: Option<bool>,
    /// `--canaries`.
    pub canaries: Option<f64>,
}

/// Where a setting comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nothing sets it.
    Default,
    /// This section of the file, and the line; the top of the file has no name.
    File(String, usize),
    /// This flag.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(section, line) if section.is_empty() => write!(f, "line {line}"),
            Self::File(section, line) => write!(f, "line {line}, {section}"),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

/// A setting and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting<T> {
    /// What holds.
    pub value: T,
    /// Why.
    pub origin: Origin,
}

impl<T: Serialize> Serialize for Setting<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::json!({ "value": self.value, "from": self.origin.to_string() }).serialize(serializer)
    }
}

impl<T> Setting<T> {
    fn default_of(value: T) -> Self {
        Self { value, origin: Origin::Default }
    }

    fn set(&mut self, at: Option<At<T>>, section: &str) {
        if let Some(At { value, line }) = at {
            *self = Self { value, origin: Origin::File(section.to_owned(), line) };
        }
    }

    fn flag(&mut self, value: Option<T>, flag: &'static str) {
        if let Some(value) = value {
            *self = Self { value, origin: Origin::Flag(flag) };
        }
    }
}

/// Everything that holds for a server or a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Effective {
    /// What is done about a result that is not believed.
    pub mode: Setting<GuardMode>,
    /// The share of genuine results that may be blocked; `None` leaves it to the engine and its calibration.
    pub block_rate: Setting<Option<f64>>,
    /// Whether results are looked at for text that instructs the model.
    pub content_injection: Setting<bool>,
    /// The share of accepted results of which a made-up variant is judged in shadow.
    pub canaries: Setting<f64>,
    /// What is done about flags.
    pub flags: Setting<FlagAction>,
    /// How long before enforcing.
    pub enforce_after: Setting<Option<EnforceAfter>>,
}

impl Effective {
    fn new() -> Self {
        Self {
            mode: Setting::default_of(GuardMode::default()),
            block_rate: Setting::default_of(None),
            content_injection: Setting::default_of(false),
            canaries: Setting::default_of(DEFAULT_CANARIES),
            flags: Setting::default_of(FlagAction::default()),
            enforce_after: Setting::default_of(None),
        }
    }

    fn take(&mut self, layer: &Layer, section: &str) {
        let some = |at: At<f64>| At { value: Some(at.value), line: at.line };
        self.mode.set(layer.mode, section);
        self.block_rate.set(layer.block_rate.map(some), section);
        self.content_injection.set(layer.content_injection, section);
        self.canaries.set(layer.canaries, section);
        self.flags.set(layer.flags, section);
        self.enforce_after.set(layer.enforce_after.map(|at| At { value: Some(at.value), line: at.line }), section);
    }
}

impl GuardConfig {
    /// What holds for `tool` of the server with this label; without a tool, for the server.
    pub fn effective(&self, server: &str, tool: Option<&str>, flags: &Flags) -> Effective {
        let mut effective = Effective::new();
        effective.take(&self.all, "");
        let fitting = || self.servers.iter().filter(|section| section.servers.matches(server));
        for section in fitting() {
            effective.take(&section.layer, &format!("[server.\"{}\"]", section.servers));
        }
        if let Some(tool) = tool {
            for section in fitting() {
                for one in section.tools.iter().filter(|one| one.tools.matches(tool)) {
                    effective.take(&one.layer, &format!("[server.\"{}\".tool.\"{}\"]", section.servers, one.tools));
                }
            }
        }
        effective.mode.flag(flags.mode, "--mode");
        effective.content_injection.flag(flags.content_injection, "--content-injection");
        effective.canaries.flag(flags.canaries, "--canaries");
        effective
    }

    /// The modes and waits that a call of this server can meet: the server's own, and those of every section of a tool.
    pub fn possible(&self, server: &str, flags: &Flags) -> Vec<(GuardMode, Option<EnforceAfter>)> {
        let own = self.effective(server, None, flags);
        let mut all = vec![(own.mode.value, own.enforce_after.value)];
        let fitting = self.servers.iter().filter(|section| section.servers.matches(server));
        for one in fitting.flat_map(|section| &section.tools) {
            let mut with = own.clone();
            with.take(&one.layer, "");
            with.mode.flag(flags.mode, "--mode");
            all.push((with.mode.value, with.enforce_after.value));
        }
        all
    }
}
