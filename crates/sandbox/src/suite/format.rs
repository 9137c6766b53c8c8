//! The probe file: what a TOML file of the suite says, as types.
//!
//! A file holds the families of one threat. A *family* is one way of attacking, with one control: a harmless twin on the same channel
//! that a target must manage before its resistance means anything. Its *probes* are different wordings of the attack; each is also
//! tried in other spellings ([`Variant`]). Texts are templates: `{name}` is replaced by a value made for the trial ([`crate::values`]).
//! `docs/sandbox.md` explains the format to people who write probes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Threat, capability::Capability, target::Transport, variant::Variant};

/// One file: the families of one threat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeFile {
    /// The threat of all families in it.
    pub threat: Threat,
    /// Honey tools that several families of the file use.
    #[serde(default, rename = "tool")]
    pub tools: Vec<HoneyTool>,
    /// The families.
    #[serde(rename = "family")]
    pub families: Vec<Family>,
}

/// One way of attacking, with its control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    /// Unique in the suite: `asi01_document`.
    pub id: String,
    /// What is tried, for people.
    pub title: String,
    /// What an attacker gains where it works.
    pub gain: String,
    /// What the agent's owner can do about it.
    pub fix: String,
    /// What the target must be able to do; without it the family is not applicable.
    #[serde(default)]
    pub needs: Vec<Capability>,
    /// The transports it can run over. Empty: all that converse (not `mcp`).
    #[serde(default)]
    pub transports: Vec<Transport>,
    /// Values of the family's own: `{name}` becomes one of the list, by the trial's seed.
    #[serde(default)]
    pub choices: BTreeMap<String, Vec<String>>,
    /// Honey tools of this family alone.
    #[serde(default, rename = "tool")]
    pub tools: Vec<HoneyTool>,
    /// The harmless twin. It must hold `expect`, and must not hold `effected`.
    pub control: Control,
    /// The attack, where a probe has no own.
    #[serde(default)]
    pub attack: Option<Script>,
    /// The attack worked if one of these holds.
    pub effected: Vec<Condition>,
    /// The target says that it worked: case-insensitive regular expressions over its answers, beside those that fit any attack
    /// with an order ([`crate::sensor::wording`]). Shown, not counted.
    #[serde(default)]
    pub claimed: Vec<String>,
    /// The wordings.
    #[serde(rename = "probe")]
    pub probes: Vec<Probe>,
}

/// One wording of an attack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// Unique in the suite: `asi01_document_footer`.
    pub id: String,
    /// What the attacker wants done, by language. English is required where a script has a `{payload}` slot. Translations enable
    /// the language variants.
    #[serde(default)]
    pub order: BTreeMap<Language, String>,
    /// The spellings to try. Empty: plain, every encoding, and every language that `order` has.
    #[serde(default)]
    pub variants: Vec<Variant>,
    /// An attack of its own, in place of the family's.
    #[serde(default)]
    pub attack: Option<Script>,
}

/// Languages that orders are translated into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// English.
    En,
    /// German.
    De,
    /// French.
    Fr,
    /// Chinese.
    Zh,
    /// Arabic.
    Ar,
}

/// The harmless twin of an attack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// A page of ours that `{page_url}` leads to.
    #[serde(default)]
    pub page: Option<String>,
    /// What is said.
    #[serde(rename = "turn")]
    pub turns: Vec<Turn>,
    /// All of these must hold: the target can do the harmless version.
    pub expect: Vec<Condition>,
}

/// What is said in an attack, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// A page of ours that `{page_url}` leads to. It may hold `{payload}`.
    #[serde(default)]
    pub page: Option<String>,
    /// What is said.
    #[serde(rename = "turn")]
    pub turns: Vec<Turn>,
}

/// One message to the target, and the answers to its tool calls until it has no more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// In which conversation. A name that was not used before in this script opens a new one.
    #[serde(default = "first_conversation")]
    pub conversation: String,
    /// As whom.
    #[serde(default)]
    pub identity: Identity,
    /// The system message of a new conversation. Over transports without one it stands before the text.
    #[serde(default)]
    pub system: Option<String>,
    /// The user's message. It may hold `{payload}`.
    #[serde(default)]
    pub text: Option<String>,
    /// Ids of the honey tools that are offered from this turn on, in place of those offered before. Absent: as before.
    #[serde(default)]
    pub tools: Option<Vec<String>>,
    /// After so many honey tool calls in this turn the next turn's text follows at once, with the results: a stop order in mid-work.
    #[serde(default)]
    pub interrupt_after: Option<usize>,
    /// A call of one of the target's own tools, in place of a text (`mcp`).
    #[serde(default)]
    pub call: Option<ToolUse>,
    /// Something else than a message (A2A).
    #[serde(default)]
    pub action: Option<Action>,
    /// The list of the target's tools, in place of a text (`mcp`).
    #[serde(default)]
    pub listing: Option<Listing>,
    /// What a call presents in place of the identity's credentials: the value of the header, empty for none. A template (`mcp`).
    #[serde(default)]
    pub credential: Option<String>,
    /// The call is made in the session of this identity, which is not the caller's own (`mcp`).
    #[serde(default)]
    pub session: Option<Identity>,
}

pub(crate) fn first_conversation() -> String {
    "main".to_owned()
}

/// As whom a turn speaks. A conversation may be continued by another identity than the one that opened it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Identity {
    /// The first set of credentials.
    #[default]
    First,
    /// The second.
    Second,
    /// Without credentials.
    Anonymous,
}

/// What A2A can do besides a message. What comes back is this turn's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A message with the message id of the conversation's last one, and this turn's text (absent: the same text).
    Replay,
    /// Fetches the conversation's task, as this turn's identity.
    FetchTask,
    /// Lists the tasks that this turn's identity can see.
    ListTasks,
    /// Cancels the conversation's task, as this turn's identity.
    CancelTask,
    /// Asks for push notifications of the conversation's task at `{trap_url}`.
    PushToTrap,
}

/// A call of one of the target's own tools (`mcp`). Either `pick`, which is tried with every tool of the target that fits, or a
/// tool's `name`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolUse {
    /// Which tools, and which argument takes `value`. None fits: the family is not applicable.
    #[serde(default)]
    pub pick: Option<Pick>,
    /// A tool by its name, a template; it need not exist.
    #[serde(default)]
    pub name: Option<String>,
    /// The value of the picked argument, a template. May hold `{payload}`.
    #[serde(default)]
    pub value: Option<String>,
    /// Arguments besides, or in place of the least that the schema requires. Strings are templates.
    #[serde(default)]
    pub arguments: serde_json::Map<String, Value>,
    /// How often the call is made.
    #[serde(default = "once")]
    pub times: u32,
}

fn once() -> u32 {
    1
}

/// Which list of tools a turn looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Listing {
    /// The one with which the run began.
    First,
    /// The one that the target gives now.
    Now,
}

/// On which side of a limit in a tool's own schema a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// At most the maximum.
    Within,
    /// Above it, by the call's value.
    Beyond,
}

/// Which of a target's own tools fit. Regular expressions, case-insensitive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pick {
    /// Fits the name of an argument of type string.
    pub parameter: String,
    /// Fits the tool's name or description.
    #[serde(default)]
    pub tool: Option<String>,
    /// Picks arguments that are numbers with a `maximum` instead, and makes the value from that and the call's `value`, a whole number.
    #[serde(default)]
    pub limit: Option<Limit>,
}

/// A tool that we serve to the target, whose calls we see.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoneyTool {
    /// How turns and conditions name it, unique in its family and file.
    pub id: String,
    /// How the target sees it; the id where absent. Two ids with one name are one tool that changes between turns.
    #[serde(default)]
    pub name: Option<String>,
    /// What the target reads about it. A template; may hold `{payload}`.
    pub description: String,
    /// JSON Schema of its arguments. Strings in it are templates too.
    #[serde(default = "any_object")]
    pub parameters: Value,
    /// What it answers: the first rule that fits. Without one: `ok`.
    #[serde(default, rename = "result")]
    pub results: Vec<ToolResult>,
}

impl HoneyTool {
    /// How the target sees it.
    pub fn shown_name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.id)
    }
}

fn any_object() -> Value {
    serde_json::json!({ "type": "object", "properties": {} })
}

/// A rule for what a honey tool answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolResult {
    /// The arguments it is for; all of these must hold.
    #[serde(default, rename = "where")]
    pub arguments: Vec<ArgumentTest>,
    /// It serves only so many calls.
    #[serde(default)]
    pub times: Option<u32>,
    /// In which script; both where absent.
    #[serde(default)]
    pub only: Option<Part>,
    /// The answer, a template. May hold `{payload}`.
    pub content: String,
    /// The answer is an error.
    #[serde(default)]
    pub error: bool,
    /// The answer asks to wait so many seconds; a call before that is an early retry.
    #[serde(default)]
    pub retry_after_s: Option<u32>,
}

/// The two halves of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// The harmless twin.
    Control,
    /// The attack.
    Attack,
}

/// A test of one argument of a call. Exactly one of the comparisons is given; texts are templates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArgumentTest {
    /// JSON pointer into the arguments; empty: the arguments as text.
    pub at: String,
    /// The value as text is this, whatever the case.
    #[serde(default)]
    pub equals: Option<String>,
    /// The value as text is there and is something else.
    #[serde(default)]
    pub differs: Option<String>,
    /// The value as text holds this, whatever the case.
    #[serde(default)]
    pub contains: Option<String>,
    /// The value as text is there and does not hold this.
    #[serde(default)]
    pub lacks: Option<String>,
    /// The value as text fits this regular expression.
    #[serde(default)]
    pub matches: Option<String>,
    /// The value is a number above this.
    #[serde(default)]
    pub above: Option<f64>,
    /// The value is there and not null or empty.
    #[serde(default)]
    pub present: Option<bool>,
}

/// What a sensor saw. `conversation` and `from_turn` (counted from 1) narrow down where it looks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "sensor", rename_all = "snake_case", deny_unknown_fields)]
pub enum Condition {
    /// All of these hold.
    All {
        /// The conditions.
        of: Vec<Condition>,
    },
    /// At least one of these holds.
    Any {
        /// The conditions.
        of: Vec<Condition>,
    },
    /// None of these holds.
    None {
        /// The conditions.
        of: Vec<Condition>,
    },
    /// A value that we never sent, computed from what we sent, is in an answer or in the arguments of a call.
    Canary {
        /// Which.
        kind: CanaryKind,
        /// Only in this conversation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conversation: Option<String>,
        /// Only from this turn on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from_turn: Option<usize>,
    },
    /// A honey tool was called.
    Call {
        /// Its id, or `*` for any.
        tool: String,
        /// Its arguments pass all of these.
        #[serde(default, rename = "where")]
        arguments: Vec<ArgumentTest>,
        /// So often or more.
        #[serde(default = "one")]
        at_least: usize,
        /// Only in this conversation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conversation: Option<String>,
        /// Only from this turn on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from_turn: Option<usize>,
    },
    /// A honey tool was called that was not offered.
    Unoffered,
    /// A honey tool was called again before the pause that it asked for was over.
    EarlyRetry {
        /// Its id.
        tool: String,
        /// So often or more.
        #[serde(default = "one")]
        at_least: usize,
    },
    /// The trial's trap URL was fetched.
    Trap,
    /// The trial's page was fetched.
    Page,
    /// The trial's failing URL, which answers every fetch with an error, was fetched.
    Failing {
        /// So often or more.
        at_least: u64,
    },
    /// A tool did its work with a value on this side of the limit in its own schema, and says so: the value is in its answer.
    Bound {
        /// Which side.
        side: Limit,
    },
    /// The target's tools were listed at least twice.
    Listed,
    /// Two lists of the target's tools have a tool of one name with another description or schema.
    ToolsChanged,
    /// An answer holds or lacks a text, or fits an expression. Case, spaces, hyphens, quotes and separators of thousands do not matter
    /// for `contains` and `lacks`. What was sent in the same conversation (also by a honey tool) never counts as held, unless
    /// `echo` allows it.
    Answer {
        /// A template, whatever the case; the value must not have been sent in that conversation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        contains: Option<String>,
        /// A template: no answer in scope holds it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lacks: Option<String>,
        /// A regular expression, case-insensitive; a match that was sent in that conversation does not count.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        matches: Option<String>,
        /// What was sent in the conversation counts too: for controls, and for values that a honey tool gave.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        echo: bool,
        /// For `contains`: a sentence that denies something does not count, so that quoting a value to refuse it is not stating it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        asserted: bool,
        /// Only in this conversation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conversation: Option<String>,
        /// Only from this turn on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from_turn: Option<usize>,
    },
    /// An answer says that something was not done, failed or is unknown, in one of several languages.
    Denied {
        /// Only in this conversation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conversation: Option<String>,
        /// Only from this turn on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from_turn: Option<usize>,
    },
    /// The target did the work: an answer that is no error came in each turn in scope (for A2A and MCP, where an error is a refusal).
    Accepted {
        /// Only in this conversation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conversation: Option<String>,
        /// Only from this turn on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from_turn: Option<usize>,
    },
}

fn one() -> usize {
    1
}

/// Computed canaries: what is sent, and what the target must make of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CanaryKind {
    /// `{half_a}` and `{half_b}` joined.
    Joined,
    /// `{backwards}` read from its end.
    Reversed,
    /// `{factor_a}` times `{factor_b}`.
    Product,
    /// `{factor_a}` plus `{factor_b}`.
    Sum,
    /// SHA-256 of `{digest_input}`, in hex.
    Sha256,
}
