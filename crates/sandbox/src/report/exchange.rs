//! What was said in a trial, for the report: who spoke to whom, with which tools, and what came back.
//!
//! An attack may stand in the description of a tool, in a page that the target opens, or in another user's conversation. The reader sees
//! all of it, as the target did.

use std::fmt::Write as _;

use serde_json::Value;

use super::html::escape;

/// Characters of a text that are shown.
const MAX_TEXT: usize = 4_000;

/// All exchanges of a trial, in order.
pub(super) fn all(page: &mut String, exchanges: &[Value]) {
    let mut conversations: Vec<&str> = Vec::new();
    for exchange in exchanges {
        if let Some(name) = exchange["conversation"].as_str().filter(|name| !conversations.contains(name)) {
            conversations.push(name);
        }
    }
    for exchange in exchanges {
        let place = place(exchange, &conversations);
        if !exchange["listing"].is_null() {
            let which = format!("The tools that the target lists ({})", text(&exchange["listing"]));
            block(page, &which, Side::Theirs, &exchange["tools"].to_string());
        } else if !exchange["mounted_call"].is_null() {
            let called = format!("{} {}", text(&exchange["mounted_call"]), exchange["arguments"]);
            block(page, "The agent called our tool", Side::Theirs, &called);
            if let Some(result) = exchange["result"].as_str() {
                block(page, "Our tool answered", Side::Ours, result);
            }
        } else if let Some(served) = exchange["page"].as_str() {
            block(page, "The page of ours that the agent opened", Side::Ours, served);
        } else {
            if let Some(tools) = exchange["offered"].as_array() {
                block(page, &format!("The tools that the agent is offered{place}"), Side::Ours, &offered(tools));
            }
            block(page, &format!("Sent{place}"), Side::Ours, &sent(&exchange["sent"]));
            block(page, "Answered", Side::Theirs, &answered(&exchange["answer"]));
        }
    }
}

#[derive(Clone, Copy)]
enum Side {
    Ours,
    Theirs,
}

fn block(page: &mut String, who: &str, side: Side, text: &str) {
    let class = match side {
        Side::Ours => "ours",
        Side::Theirs => "theirs",
    };
    let _ =
        writeln!(page, "<p class=\"who\">{}</p>\n<pre class=\"{class}\">{}</pre>", escape(who), escape(&clipped(text)));
}

/// In which conversation and as whom, where that is not plain.
fn place(exchange: &Value, conversations: &[&str]) -> String {
    let mut place = String::new();
    let number = exchange["conversation"].as_str().and_then(|name| conversations.iter().position(|one| *one == name));
    if let Some(number) = number.filter(|_| conversations.len() > 1) {
        let _ = write!(place, ", conversation {}", number + 1);
    }
    match exchange["identity"].as_str() {
        Some("second") => place.push_str(", as another user"),
        Some("anonymous") => place.push_str(", without credentials"),
        _ => {}
    }
    place
}

fn offered(tools: &[Value]) -> String {
    let lines: Vec<String> =
        tools.iter().map(|tool| format!("{}: {}", text(&tool["name"]), text(&tool["description"]))).collect();
    lines.join("\n")
}

fn sent(sent: &Value) -> String {
    let mut ours: Vec<String> = Vec::new();
    if let Some(system) = sent["system"].as_str() {
        ours.push(format!("[system] {system}"));
    }
    for result in sent["results"].as_array().into_iter().flatten() {
        ours.push(format!("[result of {}] {}", text(&result["tool"]), text(&result["content"])));
    }
    // A text that comes with results stands after them.
    ours.extend(sent["text"].as_str().map(str::to_owned));
    for (member, label) in [("call", "call of"), ("action", "action")] {
        if !sent[member].is_null() {
            let arguments = if sent["arguments"].is_null() { String::new() } else { sent["arguments"].to_string() };
            ours.push(format!("[{label} {}] {arguments}", text(&sent[member])));
        }
    }
    ours.join("\n")
}

fn answered(answer: &Value) -> String {
    let said = answer["text"].as_str().filter(|text| !text.is_empty());
    let mut theirs: Vec<String> = said.map(str::to_owned).into_iter().collect();
    for call in answer["calls"].as_array().into_iter().flatten() {
        theirs.push(format!("[calls {}] {}", text(&call["tool"]), call["arguments"]));
    }
    if let Some(error) = answer["error"].as_str() {
        theirs.push(format!("[no answer] {error}"));
    }
    theirs.join("\n")
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn clipped(text: &str) -> String {
    let kept: String = text.chars().take(MAX_TEXT).collect();
    if kept.len() < text.len() { format!("{kept}\n… ({} characters in all)", text.chars().count()) } else { kept }
}
