//! `guard.toml`: one file for all guards of a user.
//!
//! ```text
//! mode = "enforce"                          every server, every tool
//! [server."files*"]                         servers whose label fits the pattern
//! [server."files*".tool."write_*"]          their tools
//! ```
//!
//! Setting by setting: a flag of the command line overrides the file; in the file a tool's section overrides its server's, which
//! overrides the top. Where two sections of one level fit, the one further down in the file wins (ADR 29).
//!
//! - [`file`]: where the file is, and whose it must be; [`read`](mod@read): what it says, with the line of everything;
//! - [`glob`]: patterns; [`effective`]: what holds for a server or a tool, and why; [`check`](mod@check): rules that can never match;
//! - [`watch`]: the file of a running guard.

pub mod check;
pub mod effective;
pub mod file;
pub mod glob;
mod read;
pub mod watch;

use std::{path::PathBuf, time::Duration};

use serde::Serialize;
use url::Url;

use crate::settings::GuardMode;
use glob::Glob;

/// Bytes of quarantined results that are kept, by default, in MiB.
pub const DEFAULT_QUARANTINE_MIB: u64 = 64;
/// Days for which they are kept, by default.
pub const DEFAULT_QUARANTINE_DAYS: u64 = 7;
/// Alerts of one kind in a minute, by default.
pub const DEFAULT_ALERTS_PER_MINUTE: u32 = 30;

/// What can be wrong with a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file could not be read.
    #[error("{path}: {why}", path = .0.display(), why = .1)]
    Unreadable(PathBuf, String),
    /// The file is not as private as it has to be: what to do is in the words.
    #[error("{path} is not used: {why}", path = .0.display(), why = .1)]
    Unsafe(PathBuf, String),
    /// Something in it is wrong.
    #[error("{path}, line {line}: {why}", path = path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what to write.
        why: String,
    },
}

/// What is done about a result that is flagged and passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FlagAction {
    /// The model gets a note.
    #[default]
    Note,
    /// Nobody is told; `_meta` and the receipt have the verdict.
    Silent,
    /// A line on the guard's standard error, and no note.
    Log,
}

impl FlagAction {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Silent => "silent",
            Self::Log => "log",
        }
    }
}

/// How long results only carry notes although the mode is `enforce`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EnforceAfter {
    /// So long.
    Time(Duration),
    /// So many calls of the server.
    Calls(u64),
}

impl std::fmt::Display for EnforceAfter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Time(time) => f.write_str(&words_of(*time)),
            Self::Calls(calls) => write!(f, "{calls} calls"),
        }
    }
}

/// A duration as the file writes it: its two largest units.
pub fn words_of(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [("d", seconds / 86_400), ("h", seconds / 3600 % 24), ("m", seconds / 60 % 60), ("s", seconds % 60)];
    let parts: Vec<String> = units
        .iter()
        .skip_while(|(_, n)| *n == 0)
        .take(2)
        .filter(|(_, n)| *n > 0)
        .map(|(u, n)| format!("{n}{u}"))
        .collect();
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

/// A value and the line where it stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct At<T> {
    /// What it says.
    pub value: T,
    /// Where, from 1.
    pub line: usize,
}

/// The settings of one section; what is absent is left to the others.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Layer {
    /// What is done about a result that is not believed.
    pub mode: Option<At<GuardMode>>,
    /// The share of genuine results that may be blocked.
    pub block_rate: Option<At<f64>>,
    /// Whether results are looked at for text that instructs the model.
    pub content_injection: Option<At<bool>>,
    /// The share of accepted results of which a made-up variant is judged in shadow.
    pub canaries: Option<At<f64>>,
    /// What is done about flags.
    pub flags: Option<At<FlagAction>>,
    /// How long before enforcing.
    pub enforce_after: Option<At<EnforceAfter>>,
}

impl Layer {
    /// Its settings without their lines.
    pub(crate) fn values(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        fn value<T: Copy>(at: Option<At<T>>) -> Option<T> {
            at.map(|at| at.value)
        }
        (
            (value(self.mode), value(self.block_rate), value(self.content_injection)),
            (value(self.canaries), value(self.flags), value(self.enforce_after)),
        )
    }
}

/// `[server."PATTERN"]`.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerSection {
    /// Which servers, by their label.
    pub servers: Glob,
    /// Where the section begins.
    pub line: usize,
    /// Its settings.
    pub layer: Layer,
    /// Its tools, in the order of the file.
    pub tools: Vec<ToolSection>,
}

/// `[server."PATTERN".tool."PATTERN"]`.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSection {
    /// Which tools.
    pub tools: Glob,
    /// Where the section begins.
    pub line: usize,
    /// Its settings.
    pub layer: Layer,
}

/// `[quarantine]`: results that were flagged or withheld, kept for somebody to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Quarantine {
    /// Whether they are kept.
    pub enabled: bool,
    /// How much room they may take.
    pub max_mib: u64,
    /// For how many days.
    pub days: u64,
}

impl Default for Quarantine {
    fn default() -> Self {
        Self { enabled: true, max_mib: DEFAULT_QUARANTINE_MIB, days: DEFAULT_QUARANTINE_DAYS }
    }
}

/// `[reviews]`: what an authority is told of results that wait for an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Reviews {
    /// Calls, tools, verdicts and names of members.
    pub send: bool,
    /// Arguments and results too, encrypted to the key.
    pub report_content: bool,
    /// The reviewer's public key, which was checked.
    pub reviewer_key: Option<String>,
}

/// What somebody is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertKind {
    /// A result was blocked.
    Block,
    /// A tool or server has changed: its results are believed again, or it declares another name.
    Change,
    /// Several results of one tool in a row were withheld.
    LockOut,
    /// Something that only the guard writes was changed, or a tool wants to be judged less strictly.
    Tampering,
}

impl AlertKind {
    /// All of them.
    pub const ALL: [AlertKind; 4] = [Self::Block, Self::Change, Self::LockOut, Self::Tampering];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Change => "change",
            Self::LockOut => "lock_out",
            Self::Tampering => "tampering",
        }
    }
}

/// `[alerts]`.
#[derive(Debug, Clone, PartialEq)]
pub struct AlertConfig {
    /// Of what.
    pub on: Vec<AlertKind>,
    /// An address that gets a POST.
    pub webhook: Option<Webhook>,
    /// A program and its arguments.
    pub command: Option<Vec<String>>,
    /// At most so many of one kind in a minute.
    pub per_minute: u32,
}

/// `[alerts.webhook]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Webhook {
    /// The address; it holds no secret.
    pub url: Url,
    /// A header with a secret.
    pub header: Option<SecretHeader>,
}

/// A header whose value stands elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct SecretHeader {
    /// Its name.
    pub name: String,
    /// Where its value is.
    pub from: SecretFrom,
}

/// Where a secret is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretFrom {
    /// In this variable of the environment.
    Environment(String),
    /// In this file, which only its owner can read.
    File(PathBuf),
}

/// `[metrics]`: where Prometheus' text goes. `{server}` and `{place}` in the path are replaced, for each guard has its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricsConfig {
    /// A file that is replaced as a whole.
    File(String),
    /// A Unix socket that answers with it.
    Socket(String),
}

/// Where settings stand whose values depend on what is outside of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyLines(pub(crate) std::collections::BTreeMap<&'static str, usize>);

impl KeyLines {
    /// The line of a key, such as `alerts.webhook.env`; 1 where it is not known.
    pub fn of(&self, key: &str) -> usize {
        self.0.get(key).copied().unwrap_or(1)
    }
}

/// Everything in the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GuardConfig {
    /// The file; `None` where there is none.
    pub path: Option<PathBuf>,
    /// For every server and tool.
    pub all: Layer,
    /// For some servers, in the order of the file.
    pub servers: Vec<ServerSection>,
    /// What is kept of results that were not believed.
    pub quarantine: Quarantine,
    /// What an authority is told of them.
    pub reviews: Reviews,
    /// Whom to tell.
    pub alerts: Option<AlertConfig>,
    /// Numbers.
    pub metrics: Option<MetricsConfig>,
    /// An OpenTelemetry collector (OTLP over HTTP) that gets a span of each call.
    pub otlp_endpoint: Option<Url>,
    /// Where some of these stand.
    pub lines: KeyLines,
}

impl GuardConfig {
    /// Reads `named`, or the file in the user's configuration folder where it exists.
    pub fn load(named: Option<&std::path::Path>) -> Result<Self, ConfigError> {
        let path = match named {
            Some(path) => path.to_owned(),
            None => match file::default_path().filter(|path| path.symlink_metadata().is_ok()) {
                Some(path) => path,
                None => return Ok(Self::default()),
            },
        };
        let text = file::read(&path)?;
        Self::parse(&path, &text)
    }

    /// The sections of which another reading says something else and that hold from the guard's next start on.
    pub fn restart_for(&self, next: &Self) -> Vec<&'static str> {
        let all = [
            ("quarantine", self.quarantine != next.quarantine),
            ("reviews", self.reviews != next.reviews),
            ("alerts", self.alerts != next.alerts),
            ("metrics", self.metrics != next.metrics),
            ("telemetry", self.otlp_endpoint != next.otlp_endpoint),
        ];
        all.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }

    /// Reads the text of the file at `path`.
    pub fn parse(path: &std::path::Path, text: &str) -> Result<Self, ConfigError> {
        read::read(path, text)
    }
}

#[cfg(test)]
mod tests;
