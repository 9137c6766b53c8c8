//! The answer: a decision, a probability, what each check said, and a sentence.

use std::fmt;

use credence_protocol::{Decision, Stake};
use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{
    Change, Check,
    calibration::{DEFAULT_BLOCK, DEFAULT_FLAG},
    combiner::Evidence,
};

/// The decision on a posterior under the default thresholds. A result on which nothing fired is never blocked.
pub fn decide_by_default(posterior: f64, any_fired: bool) -> Decision {
    decide(posterior, any_fired, DEFAULT_FLAG, DEFAULT_BLOCK)
}

/// The decision on a posterior under these thresholds. A result on which nothing fired is never blocked.
pub(crate) fn decide(posterior: f64, any_fired: bool, flag: f64, block: f64) -> Decision {
    if posterior >= block && any_fired {
        Decision::Block
    } else if posterior >= flag.min(block) {
        Decision::Flag
    } else {
        Decision::Accept
    }
}

/// How far the engine went; `tier` in JSON, where it is a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The first checks (schema, pattern, latency, length) decided alone, to block.
    Zero = 0,
    /// All checks ran.
    One = 1,
}

impl Serialize for Stage {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u8(*self as u8)
    }
}

/// What one evaluated check said. A check that could not be evaluated is not listed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckResult {
    /// Which.
    #[serde(skip)]
    pub check: Check,
    /// Whether it fired.
    pub fired: bool,
    /// How strongly, 0..=1.
    pub score: f64,
    /// The ratio it was counted with.
    pub likelihood_ratio: f64,
    /// What it saw, where it fired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl CheckResult {
    pub(crate) fn evidence(&self) -> Evidence {
        Evidence { fired: self.fired, score: self.score, likelihood_ratio: self.likelihood_ratio }
    }

    /// Its evidence in nats; none where it did not fire.
    pub(crate) fn weight(&self) -> f64 {
        if self.fired { self.evidence().log_ratio() } else { f64::NEG_INFINITY }
    }
}

/// The engine's answer on one call. As JSON it has its [sentence](Self::explanation) beside what is here.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The tool.
    pub tool: String,
    /// What to do.
    pub decision: Decision,
    /// P(fabricated).
    pub posterior: f64,
    /// P(fabricated) before looking.
    pub prior: f64,
    /// How far the engine went.
    pub stage: Stage,
    /// What each evaluated check said.
    pub checks: Vec<CheckResult>,
    /// What the engine has learned to be a change of the tool, or is about to.
    pub changes: Vec<Change>,
    /// The agent that called, as given.
    pub agent: Option<String>,
    /// What was at stake, as given.
    pub stake: Option<Stake>,
    /// The posterior it would take to block, where only the budget of false blocks kept it from that.
    pub(crate) withheld: Option<f64>,
}

/// A verdict as it is written.
#[derive(Serialize)]
struct Written<'a> {
    tool: &'a str,
    verdict: Decision,
    posterior: f64,
    prior: f64,
    tier: Stage,
    #[serde(serialize_with = "by_name")]
    signals: &'a [CheckResult],
    explanation: String,
    #[serde(skip_serializing_if = "<[Change]>::is_empty")]
    changes: &'a [Change],
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stake: Option<Stake>,
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = Written {
            tool: &self.tool,
            verdict: self.decision,
            posterior: self.posterior,
            prior: self.prior,
            tier: self.stage,
            signals: &self.checks,
            explanation: self.explanation(),
            changes: &self.changes,
            agent: self.agent.as_deref(),
            stake: self.stake,
        };
        written.serialize(serializer)
    }
}

impl Verdict {
    /// Whether the result is taken for fabricated: the verdict is block.
    pub fn is_hallucinated(&self) -> bool {
        self.decision == Decision::Block
    }

    /// One plain sentence. It is made when somebody asks: most verdicts are never read.
    pub fn explanation(&self) -> String {
        explain(self)
    }

    /// What `check` said, when it could be evaluated.
    pub fn check(&self, check: Check) -> Option<&CheckResult> {
        self.checks.iter().find(|result| result.check == check)
    }

    /// Whether `check` fired.
    pub fn fired(&self, check: Check) -> bool {
        self.check(check).is_some_and(|result| result.fired)
    }
}

fn by_name<S: Serializer>(checks: &[CheckResult], s: S) -> Result<S::Ok, S::Error> {
    let mut map = s.serialize_map(Some(checks.len()))?;
    for result in checks {
        map.serialize_entry(result.check.name(), result)?;
    }
    map.end()
}

/// A share in percent, to a tenth. Whole numbers are written several times faster than fractions.
struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = libm::round(self.0 * 1000.0) as u32;
        write!(f, "{}.{} %", tenths / 10, tenths % 10)
    }
}

/// The sentence for a verdict.
fn explain(verdict: &Verdict) -> String {
    let Verdict { decision, posterior, checks, withheld, .. } = verdict;
    let percent = Percent(*posterior);
    let mut fired = checks.iter().filter(|result| result.fired);
    let strength = |result: &CheckResult| result.evidence().log_ratio();
    let Some(first) = fired.next() else {
        return match checks.len() {
            0 => {
                format!("{decision}: nothing could be checked yet, so P(fabricated) stays at the prior, {percent}")
            }
            n => format!("{decision}: none of the {n} checks that could be made fired; P(fabricated) {percent}"),
        };
    };
    let (mut strongest, mut others) = (first, 0);
    for result in fired {
        others += 1;
        if strength(result) > strength(strongest) {
            strongest = result;
        }
    }
    let seen = strongest.detail.as_deref().unwrap_or_default();
    let others = match others {
        0 => String::new(),
        1 => " (and one other check fired)".to_owned(),
        n => format!(" (and {n} other checks fired)"),
    };
    let alone = if *decision == Decision::Accept { ", which alone is not unusual" } else { "" };
    let withheld = withheld.map_or_else(String::new, |block| {
        format!("; not blocked below {}, to keep within the budget of false blocks", Percent(block))
    });
    format!("{decision}: {}: {seen}{alone}{others}; P(fabricated) {percent}{withheld}", strongest.check)
}
