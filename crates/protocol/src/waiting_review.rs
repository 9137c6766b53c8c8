//! What a guard tells an authority of results that wait for a person's answer: call, tool, verdict and the names of what was odd. No
//! arguments and no results, unless the operator of the guard asks for it: then they are encrypted to a reviewer's key, which the
//! authority does not have.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{Decision, Timestamp};

/// Results of one report.
pub const MAX_REVIEWS: usize = 200;
/// Bytes of a log's name.
pub const MAX_LOG_BYTES: usize = 300;
/// Bytes of the name of a tool, a check or a member.
pub const MAX_NAME_BYTES: usize = 256;
/// Checks or members of one result.
pub const MAX_NAMES: usize = 64;
/// Characters of encrypted content, base64url.
pub const MAX_SEALED: usize = 256 * 1024;

/// Everything that waits for an answer at one guard. It takes the place of the guard's report before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviewReport {
    /// The guard's log, without the segment: `PROVIDER/guard/SERVER/PLACE`.
    pub log: String,
    /// The oldest first.
    pub reviews: Vec<WaitingReview>,
}

/// A result that waits for an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitingReview {
    /// The call.
    pub call: Uuid,
    /// The tool.
    pub tool: String,
    /// When the call was made.
    pub at: Timestamp,
    /// The verdict; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Decision>,
    /// The client did not get it.
    pub withheld: bool,
    /// The checks that fired.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// The members that they found odd: paths, without values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    /// Arguments, result and explanation, encrypted to a reviewer's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<String>,
}

impl ReviewReport {
    /// What is wrong with it, naming the limit.
    pub fn check(&self) -> Result<(), String> {
        let at_most = |what: &str, found: usize, most: usize| match found <= most {
            true => Ok(()),
            false => Err(format!("{what}: {found}, and {most} is the limit")),
        };
        at_most("bytes of 'log'", self.log.len(), MAX_LOG_BYTES)?;
        if self.log.is_empty() {
            return Err("'log' is empty: it names the guard's log".to_owned());
        }
        at_most("reviews of one report", self.reviews.len(), MAX_REVIEWS)?;
        for (n, review) in self.reviews.iter().enumerate() {
            at_most(&format!("bytes of 'reviews[{n}].tool'"), review.tool.len(), MAX_NAME_BYTES)?;
            for (what, names) in [("checks", &review.checks), ("members", &review.members)] {
                at_most(&format!("'reviews[{n}].{what}'"), names.len(), MAX_NAMES)?;
                let longest = names.iter().map(String::len).max().unwrap_or_default();
                at_most(&format!("bytes of a name in 'reviews[{n}].{what}'"), longest, MAX_NAME_BYTES)?;
            }
            let sealed = review.sealed.as_ref().map_or(0, String::len);
            at_most(&format!("characters of 'reviews[{n}].sealed'"), sealed, MAX_SEALED)?;
        }
        Ok(())
    }

    /// About what it takes in memory.
    pub fn bytes(&self) -> usize {
        let names = |names: &[String]| names.iter().map(|name| name.len() + 24).sum::<usize>();
        let of = |one: &WaitingReview| {
            200 + one.tool.len() + names(&one.checks) + names(&one.members) + one.sealed.as_ref().map_or(0, String::len)
        };
        self.log.len() + self.reviews.iter().map(of).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_named() {
        let review = WaitingReview {
            call: Uuid::from_u128(1),
            tool: "weather".into(),
            at: "2026-11-18T12:00:00Z".parse().unwrap(),
            verdict: Some(Decision::Flag),
            withheld: false,
            checks: vec!["structure_drift".into()],
            members: vec!["items[].price".into()],
            sealed: None,
        };
        let report = |review: WaitingReview| ReviewReport { log: "lab/guard/fs/1".into(), reviews: vec![review] };
        assert_eq!(report(review.clone()).check(), Ok(()));
        let long = "x".repeat(MAX_NAME_BYTES + 1);
        for (bad, what) in [
            (WaitingReview { tool: long.clone(), ..review.clone() }, "reviews[0].tool"),
            (WaitingReview { members: vec![long.clone()], ..review.clone() }, "reviews[0].members"),
            (WaitingReview { checks: vec![String::new(); MAX_NAMES + 1], ..review.clone() }, "reviews[0].checks"),
            (WaitingReview { sealed: Some("x".repeat(MAX_SEALED + 1)), ..review.clone() }, "reviews[0].sealed"),
        ] {
            let why = report(bad).check().unwrap_err();
            assert!(why.contains(what) && why.contains("is the limit"), "{why}");
        }
        let many = ReviewReport { log: "l".into(), reviews: vec![review; MAX_REVIEWS + 1] };
        assert!(many.check().unwrap_err().contains("200 is the limit"));
        assert!(ReviewReport { log: String::new(), reviews: Vec::new() }.check().is_err());
    }
}
