//! `check_receipt`: did a tool call provably happen, and did it give what is claimed.
//!
//! A receipt is an entry of a guard's own log. Its proof says that it is in that log; the salts, where they were disclosed, whether
//! claimed arguments and a claimed result are what the guard saw. Everything rests on the log's key, so whoever asks must have it
//! from somebody else than the one who makes the claim.

use std::sync::Arc;

use credence_ledger::{Entry, Kind, LogVerifier, proof::InclusionProof};
use credence_protocol::{
    Uuid,
    receipt::{Exact, Receipt, Salts},
};
use rmcp::model::{JsonObject, Tool};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    schemas,
    tools::{ToolAnswer, ToolSpec, taken},
};
use crate::{app::App, problem::Problem, routes::receipts};

pub(super) fn check_receipt() -> Tool {
    let salt = json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]{22}$" });
    let matches = |what: &str| json!({ "type": "boolean", "description": format!("Whether the claimed {what} is what the receipt has; absent where that could not be compared") });
    ToolSpec {
        name: "check_receipt",
        title: "Check that a tool call happened",
        description: "Somebody says that a tool was called and gave a result: check the receipt that a guard wrote of it. Give `proof` (the text \
               that begins with c2sp.org/tlog-proof@v1) and `log_key` (name+hash+key of the guard's log, from a party you trust, not from \
               the one who makes the claim). To compare the claim as well, give tool, arguments, result and the `salts` that were \
               disclosed with the proof. Status: 'executed' (it happened and gave this), 'altered' (it happened, but the claim \
               differs), 'proven' (it happened; the result was not compared), 'unproven' (the proof does not hold), 'unknown' (no \
               proof given and no such receipt here). Do not conclude from 'unknown' that a call did not happen, nor from 'executed' \
               that the tool's content is true.",
        input_schema: schemas::object(
            json!({
                "receipt": { "type": "string", "format": "uuid", "description": "The call's id, to look up a receipt that this authority keeps" },
                "log": { "type": "string", "maxLength": 300, "description": "The guard's log that the receipt is in: needed where several guards used one id" },
                "proof": { "type": "string", "maxLength": 200_000, "description": "The proof's text, line breaks included" },
                "log_key": { "type": "string", "maxLength": 1024, "description": "The log's public key: name+hash+key" },
                "tool": { "type": "string", "maxLength": 512, "description": "The tool that is said to have been called" },
                "arguments": { "description": "The arguments that it is said to have been called with" },
                "result": { "description": "The result that it is said to have given; as text, exactly as it came, where it holds integers beyond 2^53" },
                "salts": {
                    "type": "object",
                    "description": "The receipt's salts, as disclosed with the proof",
                    "properties": { "arguments": salt, "result": salt },
                    "required": ["arguments", "result"],
                    "additionalProperties": false,
                },
            }),
            &[],
        ),
        output_schema: schemas::object(
            json!({
                "status": { "type": "string", "enum": ["executed", "altered", "proven", "unproven", "unknown"] },
                "remark": { "type": "string", "description": "What that means, and what it rests on" },
                "log": { "type": "string", "description": "The log's name" },
                "seq": { "type": "integer", "minimum": 0, "description": "The entry in that log" },
                "checkpoint_size": { "type": "integer", "minimum": 1, "description": "Entries under the signed checkpoint that the proof leads to" },
                "recorded_at": { "type": "string", "format": "date-time" },
                "tool_matches": matches("tool"),
                "arguments_match": matches("arguments"),
                "result_matches": matches("result"),
                "self_reported": { "type": "boolean", "description": "The agent's own program recorded or reported the call: the receipt is its word" },
                "receipt": { "type": "object", "description": "The receipt: call, tool, server, times, vantage, verdict, commitments" },
            }),
            &["status", "remark"],
        ),
        read_only: true,
        idempotent: true,
    }
    .into()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    receipt: Option<Uuid>,
    log: Option<String>,
    proof: Option<String>,
    log_key: Option<String>,
    tool: Option<String>,
    arguments: Option<Value>,
    result: Option<Value>,
    salts: Option<Salts>,
}

/// A receipt that this authority holds: its proof, the key of the log that it is in, which belongs to a registered provider, and
/// the salts, where they were disclosed.
pub(super) struct StoredReceipt {
    proof: String,
    log_key: String,
    salts: Option<Salts>,
}

/// The receipt of a call, if this authority holds it.
fn stored_receipt(app: &App, call: Uuid, log: Option<&str>) -> Result<Option<StoredReceipt>, Problem> {
    let held = match &app.receipts {
        Some(store) => receipts::find(store, &call, log)?,
        None => None,
    };
    held.map(|held| {
        let proof = held.proof().map_err(|rejection| Problem::from(&rejection))?.to_text();
        Ok(StoredReceipt { proof, log_key: held.log_key, salts: held.sent.salts })
    })
    .transpose()
}

pub(super) async fn check(app: &Arc<App>, arguments: JsonObject) -> Result<ToolAnswer, Problem> {
    let mut claim: Claim = taken("check_receipt", arguments)?;
    if let (None, Some(call)) = (&claim.proof, claim.receipt) {
        let log = claim.log.clone();
        let Some(stored) = app.work(move |app| stored_receipt(app, call, log.as_deref())).await? else {
            let remark = "This authority keeps no such receipt, which does not mean that the call did not happen. Whoever runs the \
                          guard can export a proof: give it as `proof`, with the guard's `log_key`.";
            return Ok(tool_answer(json!({ "status": "unknown", "remark": remark })));
        };
        (claim.proof, claim.log_key) = (Some(stored.proof), Some(stored.log_key));
        claim.salts = claim.salts.or(stored.salts);
    }
    app.work(move |_| judged(&claim).map(tool_answer)).await
}

fn tool_answer(judged: Value) -> ToolAnswer {
    let word = |name: &str| judged[name].as_str().unwrap_or_default();
    ToolAnswer {
        text: format!("{}: {}", word("status").to_uppercase(), word("remark")),
        structured: judged,
        document: None,
    }
}

fn judged(claim: &Claim) -> Result<Value, Problem> {
    let wrong =
        |what: &str, why: &dyn std::fmt::Display| Problem::unprocessable("invalid_arguments", format!("{what}: {why}"));
    let Some(text) = &claim.proof else {
        return Err(wrong("proof", &"give the proof's text with log_key, or the call's id as receipt"));
    };
    let Some(key) = &claim.log_key else {
        return Err(wrong(
            "log_key",
            &"needed to check a proof: name+hash+key of the guard's log, from whoever runs the guard",
        ));
    };
    let log = LogVerifier::parse(key.trim()).map_err(|e| wrong("log_key", &e))?;
    let proof = InclusionProof::parse(text.trim_start()).map_err(|e| wrong("proof", &e))?;
    let checkpoint = match proof.verify(&log) {
        Ok(checkpoint) => checkpoint,
        Err(error) => {
            let remark = format!(
                "The proof does not hold under this key ({error}): it shows nothing. Do not rely on the claim."
            );
            return Ok(json!({ "status": "unproven", "remark": remark }));
        }
    };
    let entry = Entry::parse(proof.seq, &proof.entry).map_err(|e| wrong("proof", &e))?;
    if entry.kind != Kind::Receipt {
        let kind = entry.kind.key();
        return Err(wrong("proof", &format!("it proves an entry of kind '{kind}', not a receipt")));
    }
    let receipt: Receipt = entry.record(proof.seq).map_err(|e| wrong("proof", &e))?;
    let mut shown = json!({
        "log": checkpoint.origin, "seq": proof.seq, "checkpoint_size": checkpoint.size, "recorded_at": entry.recorded_at,
        "receipt": receipt,
    });
    let (arguments, result) = compared(claim, &receipt)?;
    let tool = claim.tool.as_deref().map(|claimed| names(claimed, &receipt.tool));
    let another = claim.receipt.is_some_and(|call| call != receipt.call);
    for (name, matches) in [("tool_matches", tool), ("arguments_match", arguments), ("result_matches", result)] {
        if let Some(matches) = matches {
            shown[name] = matches.into();
        }
    }
    let differs: Vec<&str> = [("tool", tool), ("arguments", arguments), ("result", result)]
        .into_iter()
        .filter_map(|(name, matches)| (matches == Some(false)).then_some(name))
        .chain(another.then_some("call id"))
        .collect();
    let happened = format!(
        "A call of '{}' on server '{}' at {} is entry {} of log {}",
        receipt.tool, receipt.server, receipt.started_at, proof.seq, checkpoint.origin
    );
    let uncompared = claim.salts.is_none() && (claim.arguments.is_some() || claim.result.is_some());
    let (status, remark) = if !differs.is_empty() {
        ("altered", format!("{happened}, but the claim differs in: {}. Do not rely on the claim.", differs.join(", ")))
    } else if result == Some(true) {
        ("executed", format!("{happened}, and gave the claimed result."))
    } else if uncompared {
        ("proven", format!("{happened}. The claim was not compared: that needs the receipt's salts."))
    } else {
        ("proven", format!("{happened}. What it gave was not compared."))
    };
    shown["status"] = status.into();
    let recorded =
        receipt.vantage.map(|vantage| format!(" It was recorded by {}.", vantage.in_words())).unwrap_or_default();
    shown["remark"] = format!("{remark}{recorded} This rests on the log key that was given.").into();
    shown["self_reported"] = receipt.vantage.is_some_and(|vantage| !vantage.is_independent()).into();
    Ok(shown)
}

/// Whether the claimed arguments and result are those of the receipt, where that can be told.
fn compared(claim: &Claim, receipt: &Receipt) -> Result<(Option<bool>, Option<bool>), Problem> {
    let Some(salts) = &claim.salts else { return Ok((None, None)) };
    let text = |value: &Option<Value>| value.as_ref().map(Value::to_string);
    let (arguments, result) = (text(&claim.arguments), text(&claim.result));
    let arguments = arguments.as_deref().map(Exact::parse).transpose()?;
    let result = result.as_deref().map(Exact::parse).transpose()?;
    Ok(receipt.matches(salts, arguments.as_ref(), result.as_ref()))
}

/// Whether `claimed` is how a client may call `tool`: clients put the server's name in front.
fn names(claimed: &str, tool: &str) -> bool {
    let prefixed = |prefix: &str| prefix.ends_with(['_', '.', '-', '/', ':']) && !tool.is_empty();
    claimed == tool || claimed.strip_suffix(tool).is_some_and(prefixed)
}
