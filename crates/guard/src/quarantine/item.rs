//! What is kept of a call whose result was flagged or withheld.

use credence_protocol::{Decision, EntityId, Timestamp, Uuid};
use credence_verify::{Change, ChangeStage, CheckResult, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The check for text that instructs the model. It never changes a verdict.
pub const CONTENT_INJECTION: &str = "content_injection";

/// A result that was flagged or withheld, that shows a change of its tool, or whose text reads like instructions, with everything that a
/// person needs to judge it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KeptItem {
    /// The call, by which its receipt is found.
    pub call: Uuid,
    /// The log that the receipt is in, without the segment; `None` where no receipt could be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// The guard's name of the server.
    pub server: String,
    /// The tool.
    pub tool: String,
    /// The agent that called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<EntityId>,
    /// The session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// When the call went to the server.
    pub started_at: Timestamp,
    /// How long the server took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_ms: Option<f64>,
    /// The guard's mode.
    pub mode: String,
    /// The client did not get it.
    pub withheld: bool,
    /// The verdict; `None` where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Decision>,
    /// P(fabricated).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub posterior: Option<f64>,
    /// Why there is no verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unjudged: Option<String>,
    /// The engine's sentence. It may repeat parts of the result.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub explanation: String,
    /// Every check that fired.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// The changes of the tool that were told when it came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<KeptChange>,
    /// The arguments, as they went to the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Box<RawValue>>,
    /// The result, as the server gave it; `None` where it cannot be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// Bytes of arguments and result, where these were too many to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted_bytes: Option<usize>,
}

/// A change of the tool, as the engine told it of this result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptChange {
    /// How far it has come, as alerts call it: `recurring`, `learned`, `believed_again`, `blocked_for_a_while`.
    pub reason: String,
    /// How many results showed it.
    pub sightings: u32,
    /// The member, its value and what was usual, in words.
    pub what: String,
}

impl KeptChange {
    /// As the engine told it.
    pub fn of(change: &Change) -> Self {
        Self { reason: reason_of(change.stage).to_owned(), sightings: change.sightings, what: change.what.clone() }
    }

    /// Whether every result for a while was blocked.
    pub fn is_lock_out(&self) -> bool {
        self.reason == LOCKED_OUT
    }

    /// How far it has come, without anything of the result.
    pub fn progress(&self) -> String {
        let times = if self.sightings == 1 { "1 result".to_owned() } else { format!("{} results", self.sightings) };
        format!("{} ({times})", self.reason)
    }
}

const LOCKED_OUT: &str = "blocked_for_a_while";

/// How far a change has come, in the words of alerts.
pub fn reason_of(stage: ChangeStage) -> &'static str {
    match stage {
        ChangeStage::Believed => "believed_again",
        ChangeStage::Learned => "learned",
        ChangeStage::LockedOut => LOCKED_OUT,
        // A lie that is told again and again looks the same: somebody has to look before it is believed.
        _ => "recurring",
    }
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Which check, as receipts call it.
    pub check: String,
    /// How strongly it fired, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// How much it counted: above 1 speaks for a fabrication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub likelihood_ratio: Option<f64>,
    /// The member, its value, and what was usual, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Finding {
    /// Found by the guard itself: there is only a name.
    pub fn named(check: &str) -> Self {
        Self { check: check.to_owned(), score: None, likelihood_ratio: None, detail: None }
    }

    /// Text that instructs the model; `detail` may repeat the beginning of it.
    pub fn of_instructions(score: f64, detail: String) -> Self {
        Self { check: CONTENT_INJECTION.to_owned(), score: Some(score), likelihood_ratio: None, detail: Some(detail) }
    }

    fn of(prefix: &str, result: CheckResult) -> Self {
        Self {
            check: format!("{prefix}{}", result.check.name()),
            score: Some(result.score),
            likelihood_ratio: Some(result.likelihood_ratio),
            detail: result.detail,
        }
    }
}

/// The engine's word on a result that is not accepted, or that shows a change.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Explained {
    /// The sentence.
    pub explanation: String,
    /// Every check that fired.
    pub findings: Vec<Finding>,
}

impl Explained {
    /// Adds what fired in a verdict; `prefix` tells the text beside a structure from the structure.
    pub fn add(&mut self, prefix: &str, verdict: Verdict) {
        if self.explanation.is_empty() {
            self.explanation = verdict.explanation();
        }
        let fired = verdict.checks.into_iter().filter(|one| one.fired);
        self.findings.extend(fired.map(|one| Finding::of(prefix, one)));
    }
}

impl KeptItem {
    /// About what it takes in memory and on disk.
    pub fn bytes(&self) -> usize {
        let raw = |value: &Option<Box<RawValue>>| value.as_ref().map_or(0, |raw| raw.get().len());
        let details: usize = self.findings.iter().map(|one| one.detail.as_ref().map_or(0, String::len) + 100).sum();
        let changes: usize = self.changes.iter().map(|one| one.what.len() + 100).sum();
        raw(&self.arguments) + raw(&self.result) + details + changes + self.explanation.len() + 600
    }

    /// Leaves arguments and result out where they are more than `most` bytes.
    pub fn within(mut self, most: usize) -> Self {
        if self.bytes() > most {
            self.omitted_bytes = Some(self.bytes());
            (self.arguments, self.result) = (None, None);
        }
        self
    }

    /// Whether it is kept because it may not be genuine, and not only because its text reads like instructions.
    pub fn is_doubted(&self) -> bool {
        self.withheld || self.verdict != Some(Decision::Accept)
    }

    /// Whether the engine has something to learn from an answer about it.
    pub fn concerns_engine(&self) -> bool {
        self.is_doubted() || !self.changes.is_empty()
    }

    /// Whether its text reads like instructions.
    pub fn has_instructions(&self) -> bool {
        self.findings.iter().any(|found| found.check == CONTENT_INJECTION)
    }

    /// Why nothing can be learned from an answer about it; `None` where something can.
    pub fn why_nothing_to_learn(&self) -> Option<String> {
        match &self.result {
            None => Some(format!("its content is not kept ({})", self.why_no_content())),
            Some(_) if self.posterior.is_none() && !self.has_instructions() => Some("it was not judged".to_owned()),
            Some(_) => None,
        }
    }

    /// Why its content is not kept.
    pub fn why_no_content(&self) -> String {
        match (self.omitted_bytes, &self.unjudged) {
            (Some(bytes), _) => format!("{bytes} bytes are more than one item may take"),
            (None, Some(why)) => why.clone(),
            (None, None) => "there was none".to_owned(),
        }
    }

    /// What is asked of the person, in a few words.
    pub fn headline(&self) -> String {
        let verdict = match self.verdict {
            Some(Decision::Block) => "blocked",
            Some(Decision::Flag) => "flagged",
            Some(Decision::Accept) => "accepted",
            None => "not judged",
        };
        let posterior = self.posterior.map_or_else(String::new, |p| format!(", P(fabricated) {:.0} %", p * 100.0));
        let delivered = if self.withheld { "withheld from the client" } else { "the client has it" };
        let instructs = if self.has_instructions() { "; its text reads like instructions" } else { "" };
        let changes: Vec<String> = self.changes.iter().map(KeptChange::progress).collect();
        let changes = if changes.is_empty() { String::new() } else { format!("; change {}", changes.join(", ")) };
        format!("{verdict}{posterior}{changes}{instructs}; {delivered}")
    }
}
