//! `verify_tool_result`, `report_outcome`: is a tool's result believable, and how did it go.

use std::sync::Arc;

use bytes::Bytes;
use credence_protocol::{Decision, Stake};
use rmcp::model::{JsonObject, Tool};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    schemas,
    tools::{ToolAnswer, ToolSpec, agent_argument, gives, taken},
};
use crate::{
    app::App,
    edge::Caller,
    extract::scoped,
    problem::Problem,
    routes::{outcomes, verify as judging},
    tokens::Scope,
};

/// As the description of the tool lists them.
const STAKES: [&str; 4] = [Stake::Low.name(), Stake::Medium.name(), Stake::High.name(), Stake::Critical.name()];

pub(super) fn verify_tool_result() -> Tool {
    ToolSpec {
        name: "verify_tool_result",
        title: "Judge a tool's result",
        description: "Does this result of a tool look like what the tool really gives, or made up? Call it with the tool's name, its result \
               exactly as it came, and the arguments and execution time where you know them: the more is given, the more is looked \
               at. The first line says ACCEPT, FLAG (check by other means before you rely on it) or BLOCK (do not use it), with the \
               probability that it is fabricated and what was noticed. The engine learns each tool's usual results from what is \
               judged, for this token alone; the first verdicts on a tool rest on little. ACCEPT means that nothing looked odd, not \
               that the call happened (check_receipt proves that) nor that the content is true. Needs scope 'verify' over HTTP.",
        input_schema: schemas::object(
            json!({
                "tool": { "type": "string", "minLength": 1, "maxLength": 512, "description": "The tool's name; the same tool always under the same name" },
                "result": { "description": "The result as the tool gave it: any JSON, text as a string" },
                "arguments": { "description": "The arguments that the tool was called with, as JSON" },
                "execution_time_ms": { "type": "number", "minimum": 0, "description": "How long the call took, measured by whoever made it; leave it out rather than guess" },
                "session_id": { "type": "string", "maxLength": 512, "description": "Results of one session are compared with each other" },
                "agent": { "type": "string", "maxLength": 512, "description": "The agent that called the tool" },
                "stake": { "type": "string", "enum": STAKES, "description": "How much depends on the result" },
            }),
            &["tool", "result"],
        ),
        output_schema: gives("Verdict"),
        read_only: false,
        idempotent: false,
    }
    .into()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VerifyArguments {
    tool: String,
    #[serde(deserialize_with = "present")]
    result: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    arguments: Option<Value>,
    execution_time_ms: Option<f64>,
    session_id: Option<String>,
    agent: Option<String>,
    stake: Option<String>,
}

/// A member that is there and null is there.
fn present<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(d).map(Some)
}

pub(super) async fn verify(
    app: &Arc<App>,
    caller: Option<&Caller>,
    arguments: JsonObject,
) -> Result<ToolAnswer, Problem> {
    let token = scoped(caller, Scope::Verify)?;
    let VerifyArguments { tool, result, arguments, execution_time_ms, session_id, agent, stake } =
        taken("verify_tool_result", arguments)?;
    if stake.as_deref().is_some_and(|stake| !STAKES.contains(&stake)) {
        let detail = format!("stake is one of {}", STAKES.join(", "));
        return Err(Problem::unprocessable("invalid_arguments", detail));
    }
    let mut trace = json!({ "tool": tool, "result": result });
    let mut add = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            trace[name] = value;
        }
    };
    add("args", arguments);
    add("execution_time_ms", execution_time_ms.map(Value::from));
    add("session_id", session_id.map(Value::from));
    add("agent", agent.map(Value::from));
    add("stake", stake.map(Value::from));
    let body = serde_json::to_vec(&trace).map_err(|e| Problem::internal(&e))?;
    let verdict = judging::judged(app, token, Bytes::from(body)).await?;
    let verdict: Value = serde_json::from_slice(&verdict).map_err(|e| Problem::internal(&e))?;
    let word = verdict["verdict"].as_str().unwrap_or_default();
    let then = match word.parse() {
        Ok(Decision::Block) => {
            "Do not use this result: call the tool again, or tell the user that it could not be had."
        }
        Ok(Decision::Flag) => "Check it by other means before you rely on it.",
        _ => "Nothing speaks against it. That is no proof that the call happened.",
    };
    let text = format!(
        "{}: fabricated with probability {:.3}. {} {then}",
        word.to_uppercase(),
        verdict["posterior"].as_f64().unwrap_or_default(),
        verdict["explanation"].as_str().unwrap_or_default(),
    );
    Ok(ToolAnswer { text, structured: verdict, document: None })
}

pub(super) fn report_outcome() -> Tool {
    ToolSpec {
        name: "report_outcome",
        title: "Report how it went",
        description: "After you or your user relied on an agent: say whether it went well. Reports show how good the scores are, and are \
               public in the log for good, under the token's name; report what happened, once, and nothing personal. Give `response` (the \
               hash that check_trust gave) where you acted on an answer, and an `id` of your own if you may have to send the same \
               report again: the same id is the same report. Gives the ledger entry. It does not change the agent's score by \
               itself. Needs scope 'ingest' over HTTP.",
        input_schema: schemas::object(
            json!({
                "agent": agent_argument("The agent that was relied on: its id, or an address of it"),
                "good": { "type": "boolean", "description": "Whether it went well" },
                "relied_at": { "type": "string", "format": "date-time", "description": "When it was relied on (RFC 3339): the score of then is put to the test; now when not given" },
                "response": { "type": "string", "pattern": "^[0-9a-f]{64}$", "description": "`hash` of the answer of check_trust that was acted on" },
                "id": { "type": "string", "format": "uuid", "description": "An id of your own for this report; made here when not given" },
            }),
            &["agent", "good"],
        ),
        output_schema: gives("Accepted"),
        read_only: false,
        idempotent: false,
    }
    .into()
}

pub(super) async fn report(
    app: &Arc<App>,
    caller: Option<&Caller>,
    arguments: JsonObject,
) -> Result<ToolAnswer, Problem> {
    let token = scoped(caller, Scope::Ingest)?;
    let outcome: outcomes::Reported = taken("report_outcome", arguments)?;
    let accepted = outcomes::record(app, token, outcome).await?;
    let text = if accepted.known {
        format!("This report was recorded before, as entry {}: nothing was added.", accepted.seq)
    } else {
        format!("Recorded as entry {} of the log.", accepted.seq)
    };
    Ok(ToolAnswer { text, structured: json!(accepted), document: None })
}
