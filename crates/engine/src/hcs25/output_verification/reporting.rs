//! From verdict lines to a provider's signed report: what `credence verify` prints is counted, and what a window came to is
//! stated. Guards, the command line and the demo all report through [`RolledUp::statement`].

use credence_protocol::{
    Audience, Decision, EntityId, SecretKey, Stake, Statement, StatementKind, Timestamp,
    limits::MAX_CLOCK_SKEW_SECONDS, strict::StrictValue,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    CheckedOutput, DEFAULT_MIN_CHECKS, Evaluation, Parameters, ProviderRef, RolledUp, Rollup, Window,
    signal::{self, Estimate},
};
use crate::hcs25::Profile;

/// A line of `credence verify`; other fields are ignored.
#[derive(Deserialize)]
struct Line {
    verdict: Option<String>,
    posterior: Option<f64>,
    agent: Option<String>,
    stake: Option<Stake>,
    at: Option<Timestamp>,
    canary: Option<Canary>,
    control: Option<Control>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Canary {
    caught: bool,
}

#[derive(Deserialize)]
struct Control {
    rejected: bool,
}

/// What a verdict line was counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountedLine {
    /// A verdict on an agent that is counted.
    Verdict,
    /// A trace that could not be judged.
    Unjudged,
    /// A verdict on another agent than the one asked for, or on none.
    OtherAgent,
}

/// Why a line was not counted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadLine(String);

/// Which agents' verdicts are counted, and under which id.
pub struct Naming<'a> {
    /// Only verdicts on the agent with this id; those that name none are taken for its own.
    pub only: Option<String>,
    /// The id of the agent with this name.
    pub id_of: &'a mut dyn FnMut(String) -> Result<String, String>,
}

impl Rollup {
    /// Counts one line of `credence verify`. A verdict without a time is taken to be of `now`; one from the future is refused.
    pub fn add_line(&mut self, line: &[u8], now: Timestamp, naming: &mut Naming<'_>) -> Result<CountedLine, BadLine> {
        let bad = |why: String| Err(BadLine(why));
        let line: Line = serde_json::from_slice(line).map_err(|e| BadLine(e.to_string()))?;
        if line.error.is_some() {
            return Ok(CountedLine::Unjudged);
        }
        let decision = match line.verdict.as_deref() {
            // What HCS-25 calls a decision is understood, too.
            Some("allow") => Decision::Accept,
            Some("uncertain") => Decision::Flag,
            Some(name) => name.parse().map_err(|e: credence_protocol::Error| BadLine(format!("verdict: {e}")))?,
            None => return bad("it has no `verdict`".to_owned()),
        };
        let Some(posterior) = line.posterior else { return bad("it has no `posterior`".to_owned()) };
        if !(0.0..=1.0).contains(&posterior) {
            return bad(format!("posterior {posterior} is outside 0..=1"));
        }
        let at = line.at.unwrap_or(now);
        if at > now.plus_seconds(MAX_CLOCK_SKEW_SECONDS) {
            return bad(format!("its time {at} is in the future"));
        }
        let named = line.agent.map(|agent| (naming.id_of)(agent)).transpose().map_err(BadLine)?;
        let agent = match (&naming.only, named) {
            (Some(only), None) => only.clone(),
            (Some(only), Some(agent)) if *only == agent => agent,
            (None, Some(agent)) => agent,
            _ => return Ok(CountedLine::OtherAgent),
        };
        self.add(&agent, CheckedOutput::new(decision, posterior, line.stake, at));
        if let Some(canary) = line.canary {
            self.add_canary(&agent, canary.caught, at);
        }
        if let Some(control) = line.control {
            self.add_control(&agent, control.rejected, at);
        }
        Ok(CountedLine::Verdict)
    }

    /// What every agent's windows that end at `end` came to, by agent and window.
    pub fn summaries(&self, end: Timestamp) -> impl Iterator<Item = RolledUp> {
        self.agents().flat_map(move |agent| Window::ALL.into_iter().filter_map(move |w| self.summary(agent, w, end)))
    }
}

/// What a summary comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Rated {
    /// As the standard has it, profile `spec`.
    pub standard: Evaluation,
    /// As the authority's own signal has it; or why it says nothing.
    pub quality: Result<Estimate, String>,
}

impl RolledUp {
    /// The same, as reported by `provider`.
    pub fn reported_by(mut self, provider: &EntityId) -> Self {
        self.summary.providers = vec![ProviderRef {
            id: provider.to_string(),
            signer_address: None,
            methodology_url: None,
            checks_contributed: Some(self.summary.total_checks),
        }];
        self
    }

    /// The statement by which `provider` reports it on `agent`, to the authority `aud`. A guard adds the `checkpoint` of the receipts
    /// that were counted.
    pub fn statement(
        self,
        provider: &EntityId,
        aud: Option<Audience>,
        agent: &EntityId,
        checkpoint: Option<&str>,
        key: &SecretKey,
    ) -> Result<Statement, credence_protocol::Error> {
        let RolledUp { window, summary, .. } = self.reported_by(provider);
        let mut record = json!({ "agent": agent, "window": window, "summary": summary });
        if let Some(checkpoint) = checkpoint {
            record["checkpoint"] = json!(checkpoint);
        }
        Statement::sign(provider.clone(), aud, StatementKind::Summary, StrictValue(record), key)
    }

    /// What it comes to by default; none with fewer checks than [`DEFAULT_MIN_CHECKS`].
    pub fn rated(&self) -> Option<Rated> {
        let parameters = Parameters::default();
        let quality = signal::quality(&self.summary, &parameters).map_err(|why| why.to_string());
        (self.summary.total_checks >= DEFAULT_MIN_CHECKS)
            .then(|| Rated { standard: parameters.evaluate(&self.summary, Profile::Spec), quality })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hcs25::output_verification::Limits;

    fn now() -> Timestamp {
        "2026-11-16T12:00:00Z".parse().unwrap()
    }

    fn counted(lines: &[&str], only: Option<&str>) -> (Rollup, Vec<Result<CountedLine, BadLine>>) {
        let mut rollup = Rollup::new(Limits::default());
        let mut known = |name: String| Ok(name.trim_start_matches("alias:").to_owned());
        let mut naming = Naming { only: only.map(str::to_owned), id_of: &mut known };
        let counted = lines.iter().map(|line| rollup.add_line(line.as_bytes(), now(), &mut naming)).collect();
        (rollup, counted)
    }

    #[test]
    fn lines_are_counted_under_the_agents_id() {
        let lines = [
            r#"{"verdict":"accept","posterior":0.1,"agent":"alias:bot"}"#,
            r#"{"verdict":"block","posterior":0.9,"agent":"bot","canary":{"caught":true},"control":{"rejected":false}}"#,
            r#"{"verdict":"flag","posterior":0.3}"#,
            r#"{"error":"no tool","line":4}"#,
        ];
        let (rollup, all) = counted(&lines, None);
        use CountedLine::{OtherAgent, Unjudged, Verdict};
        assert_eq!(all, [Ok(Verdict), Ok(Verdict), Ok(OtherAgent), Ok(Unjudged)]);
        let summaries: Vec<RolledUp> = rollup.summaries(now()).collect();
        assert_eq!(summaries.iter().map(|up| up.window).collect::<Vec<_>>(), Window::ALL);
        assert!(summaries.iter().all(|up| up.agent == "bot" && up.summary.total_checks == 2 && up.rated().is_none()));
        assert!(summaries.iter().all(|up| up.summary.controls.is_some_and(|c| (c.checks, c.rejected) == (1, 0))));
        let (_, all) = counted(&lines, Some("other"));
        assert_eq!(all, [Ok(OtherAgent), Ok(OtherAgent), Ok(Verdict), Ok(Unjudged)]);
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        for (line, word) in [
            ("{", "EOF"),
            (r#"{"posterior":0.1,"agent":"a"}"#, "`verdict`"),
            (r#"{"verdict":"maybe","posterior":0.1,"agent":"a"}"#, "'maybe'"),
            (r#"{"verdict":"accept","agent":"a"}"#, "`posterior`"),
            (r#"{"verdict":"accept","posterior":1.5,"agent":"a"}"#, "1.5"),
            (r#"{"verdict":"accept","posterior":0.1,"agent":"a","at":"2026-11-17T12:00:00Z"}"#, "future"),
        ] {
            let (_, all) = counted(&[line], None);
            assert!(all[0].as_ref().is_err_and(|bad| bad.to_string().contains(word)), "{line}: {all:?}");
        }
    }

    #[test]
    fn a_statement_names_its_provider_and_checkpoint() {
        let (rollup, _) = counted(&[r#"{"verdict":"accept","posterior":0.1,"agent":"bot"}"#], None);
        let key = SecretKey::from_seed(&[5; 32]);
        let [provider, agent] = ["lab", "bot"].map(|name| EntityId::new(name).unwrap());
        let up = rollup.summary("bot", Window::Day, now()).unwrap();
        let stated = |checkpoint| {
            let statement = up.clone().statement(&provider, None, &agent, checkpoint, &key).unwrap();
            serde_json::from_str::<Value>(statement.canonical().as_str()).unwrap()
        };
        let plain = stated(None);
        assert_eq!((plain["author"].as_str(), plain["kind"].as_str()), (Some("lab"), Some("summary")));
        assert_eq!(plain["record"]["summary"]["providers"][0]["id"], "lab");
        assert_eq!(plain["record"]["summary"]["providers"][0]["checksContributed"], 1);
        assert!(plain["record"].get("checkpoint").is_none());
        assert_eq!(stated(Some("note"))["record"]["checkpoint"], "note");
    }
}
