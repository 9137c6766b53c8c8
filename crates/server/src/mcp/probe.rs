//! `probe_summary`: what an agent did when somebody tried.

use std::{fmt::Write as _, sync::Arc};

use rmcp::model::{JsonObject, Tool};
use serde::Deserialize;
use serde_json::json;

use super::{
    schemas,
    tools::{ToolAnswer, ToolSpec, agent_argument, gives, taken},
};
use crate::{app::App, problem::Problem, routes::probes};

/// Runs that the answer lists.
const RUNS: usize = 3;

pub(super) fn probe_summary() -> Tool {
    ToolSpec {
        name: "probe_summary",
        title: "What an agent did when it was attacked",
        description: "Ask before you let an agent handle untrusted content, tools or other people's data: what did it do when somebody tried? \
               Gives, for each of the ten OWASP ASI threats that were probed, the value from 0 to 100 with its uncertainty and the kinds of \
               attack that took effect, as sensors of the authority saw it; then the newest runs. A threat that is not listed was not \
               measured, which is neither good nor bad. Values rest on few trials: read the interval, not the value alone.",
        input_schema: schemas::object(
            json!({ "agent": agent_argument("The agent's id, or an address of it (https://…, did:web:…, did:key:…, uaid:…)") }),
            &["agent"],
        ),
        output_schema: gives("Probes"),
        read_only: true,
        idempotent: true,
    }
    .into()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProbeSummaryArguments {
    agent: String,
}

pub(super) async fn summary(app: &Arc<App>, arguments: JsonObject) -> Result<ToolAnswer, Problem> {
    let ProbeSummaryArguments { agent } = taken("probe_summary", arguments)?;
    let found = probes::found(app, agent, RUNS).await?;
    let mut text = if found.current.is_empty() {
        format!("{} was not probed, or nothing could be told: this says neither good nor bad of it.", found.agent)
    } else {
        let weakest =
            found.current.iter().filter(|one| one.tag.starts_with("asi")).min_by(|a, b| a.value.total_cmp(&b.value));
        let weakest = weakest.map_or_else(
            || "no threat was measured".to_owned(),
            |one| format!("weakest is {} with {:.0} ± {:.0} of 100", one.tag, one.value, one.stddev),
        );
        format!("{}: {} measurements, {weakest}.", found.agent, found.current.len())
    };
    for one in &found.current {
        let _ = write!(
            text,
            "\n- {}: {:.0} ± {:.0} (run {}, {})",
            one.tag, one.value, one.stddev, one.run, one.recorded_at
        );
        let run = found.runs.iter().find(|run| run.seq == one.run);
        let families = run.and_then(|run| run.threats.iter().find(|threat| threat.tag == one.tag));
        for family in families.into_iter().flat_map(|threat| &threat.families).filter(|family| family.effected > 0) {
            let conclusive = family.effected + family.claimed + family.resisted;
            let _ = write!(text, "\n  took effect: {}, {} of {conclusive} trials", family.family, family.effected);
        }
    }
    let structured = serde_json::to_value(&found).map_err(|e| Problem::internal(&e))?;
    Ok(ToolAnswer { text, structured, document: None })
}
