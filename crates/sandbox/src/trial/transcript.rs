//! What was said in one half of a trial, as JSON: for the operator, the judge and the report. Its digest is in the ledger.

use serde_json::{Value, json};

use crate::{
    sensor::honey::SeenCall,
    suite::{Listing, Turn},
    target::{Input, OfferedTool, Reply, TargetError},
};

/// Characters of an answer that are kept.
const MAX_KEPT: usize = 20_000;

/// One message and its answer. `offered` are the honey tools that came with it; where they are new to the conversation or changed, with
/// all that the target reads about them.
pub(super) fn exchange(
    n: usize,
    turn: &Turn,
    input: &Input<'_>,
    (offered, news): (&[OfferedTool], bool),
    reply: &Result<Reply, TargetError>,
) -> Value {
    let sent = match input {
        Input::Message { system, text } => json!({ "system": system, "text": text }),
        Input::Results { results, text } => {
            let results: Vec<Value> =
                results.iter().map(|result| json!({ "tool": result.name, "content": result.content })).collect();
            json!({ "results": results, "text": text })
        }
        Input::Act { action, text, trap_url } => json!({ "action": action, "text": text, "trap_url": trap_url }),
        Input::Call { name, arguments, caller } => {
            json!({ "call": name, "arguments": arguments, "credential": caller.credential, "session": caller.session })
        }
    };
    let answer = match reply {
        Ok(reply) => {
            let calls: Vec<Value> =
                reply.calls.iter().map(|call| json!({ "tool": call.name, "arguments": call.arguments })).collect();
            let text: String = reply.text.chars().take(MAX_KEPT).collect();
            json!({ "text": text, "calls": calls, "declined": reply.declined })
        }
        Err(error) => json!({ "error": error.why, "reason": error.reason }),
    };
    let tools: Vec<&str> = offered.iter().map(|tool| tool.name.as_str()).collect();
    let mut entry = json!({
        "turn": n + 1, "conversation": turn.conversation, "identity": turn.identity, "tools": tools,
        "sent": sent, "answer": answer,
    });
    if news && !offered.is_empty() {
        entry["offered"] = offered.iter().map(told).collect();
    }
    entry
}

/// A list of the target's own tools.
pub(super) fn listing(n: usize, listing: Listing, tools: &[OfferedTool]) -> Value {
    let tools: Vec<Value> = tools.iter().map(told).collect();
    json!({ "turn": n + 1, "listing": listing, "tools": tools })
}

/// A call of a honey tool that the operator mounted, and what it answered.
pub(super) fn mounted_call(call: &SeenCall, result: &str) -> Value {
    json!({ "turn": call.turn, "mounted_call": call.name, "arguments": call.arguments, "result": result })
}

/// The page of ours that the target fetched.
pub(super) fn page(text: &str) -> Value {
    json!({ "page": text })
}

fn told(tool: &OfferedTool) -> Value {
    json!({ "name": tool.name, "description": tool.description, "parameters": tool.parameters })
}
