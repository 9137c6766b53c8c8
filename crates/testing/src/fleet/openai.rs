//! Chat completions and responses: the caller offers the tools and sends the results back.

use std::sync::Arc;

use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    agent::{Agent, identity, parsed},
    mind::{Message, Role, Scene, Step},
    orders::{Call, Tool},
};

pub(super) fn routes(agent: Arc<Agent>) -> Router {
    Router::new().route("/v1/chat/completions", post(chat)).route("/v1/responses", post(responses)).with_state(agent)
}

fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

fn tool(described: &Value) -> Tool {
    let text = |name: &str| described[name].as_str().unwrap_or_default().to_owned();
    Tool { name: text("name"), description: text("description"), schema: described["parameters"].clone() }
}

fn role(name: &Value) -> Role {
    match name.as_str() {
        Some("system" | "developer") => Role::System,
        Some("assistant") => Role::Assistant,
        Some("tool" | "function") => Role::Tool,
        _ => Role::User,
    }
}

fn call(name: &Value, arguments: &Value) -> Call {
    let arguments = arguments.as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    Call { tool: name.as_str().unwrap_or_default().to_owned(), arguments }
}

async fn chat(State(agent): State<Arc<Agent>>, headers: HeaderMap, body: Bytes) -> Response {
    if let Some(fault) = agent.fault().await {
        return fault;
    }
    let request = match parsed(&body) {
        Ok(request) => request,
        Err(refused) => return *refused,
    };
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let messages = messages.iter().map(|message| {
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        let calls = calls.map(|made| call(&made["function"]["name"], &made["function"]["arguments"])).collect();
        Message { role: role(&message["role"]), text: text_of(&message["content"]), calls }
    });
    let tools = request["tools"].as_array().into_iter().flatten().map(|offered| tool(&offered["function"]));
    let scene = Scene { identity: identity(&headers), messages: messages.collect(), tools: tools.collect() };
    let (message, finish) = match agent.mind.answer(&scene).await {
        Step::Say(text) => (json!({"role": "assistant", "content": text}), "stop"),
        Step::Call(call) => {
            let function = json!({"name": call.tool, "arguments": Value::Object(call.arguments).to_string()});
            let id = format!("call_{}", Uuid::new_v4().simple());
            (
                json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": function}]}),
                "tool_calls",
            )
        }
    };
    Json(json!({
        "id": format!("chatcmpl-{}", Uuid::new_v4().simple()), "object": "chat.completion", "created": 0, "model": request["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }))
    .into_response()
}

async fn responses(State(agent): State<Arc<Agent>>, headers: HeaderMap, body: Bytes) -> Response {
    if let Some(fault) = agent.fault().await {
        return fault;
    }
    let request = match parsed(&body) {
        Ok(request) => request,
        Err(refused) => return *refused,
    };
    let before = request["previous_response_id"].as_str().unwrap_or_default();
    let mut messages = agent.conversations.lock().unwrap().get(before).cloned().unwrap_or_default();
    if let Some(instructions) = request["instructions"].as_str() {
        messages.retain(|message| message.role != Role::System);
        messages.insert(0, Message::new(Role::System, instructions));
    }
    match &request["input"] {
        Value::String(text) => messages.push(Message::new(Role::User, text)),
        Value::Array(items) => messages.extend(items.iter().map(item)),
        _ => {}
    }
    let tools = request["tools"].as_array().into_iter().flatten().map(tool).collect();
    let scene = Scene { identity: identity(&headers), messages, tools };
    let mut answer = Message::new(Role::Assistant, "");
    let output = match agent.mind.answer(&scene).await {
        Step::Say(text) => {
            answer.text.clone_from(&text);
            let content = json!([{"type": "output_text", "text": text, "annotations": []}]);
            json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content})
        }
        Step::Call(call) => {
            answer.calls.push(call.clone());
            let arguments = Value::Object(call.arguments).to_string();
            let id = format!("call_{}", Uuid::new_v4().simple());
            json!({"type": "function_call", "id": "fc_1", "call_id": id, "name": call.tool, "arguments": arguments, "status": "completed"})
        }
    };
    let id = format!("resp_{}", Uuid::new_v4().simple());
    let mut messages = scene.messages;
    messages.push(answer);
    agent.conversations.lock().unwrap().insert(id.clone(), messages);
    Json(json!({"id": id, "object": "response", "created_at": 0, "status": "completed", "model": request["model"], "output": [output]}))
        .into_response()
}

fn item(item: &Value) -> Message {
    match item["type"].as_str() {
        Some("function_call_output") => Message::new(Role::Tool, text_of(&item["output"])),
        Some("function_call") => {
            let calls = vec![call(&item["name"], &item["arguments"])];
            Message { role: Role::Assistant, text: String::new(), calls }
        }
        _ => Message::new(role(&item["role"]), text_of(&item["content"])),
    }
}
