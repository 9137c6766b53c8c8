//! A2A in both versions and both HTTP bindings. The agent keeps conversations and tasks; the caller offers no tools.

use std::sync::Arc;

use axum::{
    Json, Router,
    body::Bytes,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    agent::{Agent, identity, parsed},
    weakness::Weakness,
};

/// Which A2A an agent speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Version 1.0, JSON-RPC.
    V1JsonRpc,
    /// Version 1.0, HTTP+JSON.
    V1Rest,
    /// Version 0.3, JSON-RPC.
    V03JsonRpc,
    /// Version 0.3, HTTP+JSON.
    V03Rest,
}

impl Dialect {
    fn is_v1(self) -> bool {
        matches!(self, Self::V1JsonRpc | Self::V1Rest)
    }
}

#[derive(Clone)]
struct Face {
    agent: Arc<Agent>,
    dialect: Dialect,
    url: String,
}

pub(super) fn routes(agent: Arc<Agent>, dialect: Dialect, url: String) -> Router {
    let face = Face { agent, dialect, url };
    let card = Router::new().route("/.well-known/agent-card.json", get(card));
    let work = match dialect {
        Dialect::V1JsonRpc | Dialect::V03JsonRpc => Router::new().route("/a2a", post(rpc)),
        Dialect::V1Rest => Router::new()
            .route("/a2a/message:send", post(rest_send))
            .route("/a2a/tasks/{id}", get(rest_task))
            .route("/a2a/tasks/{id}/pushNotificationConfigs", post(rest_push)),
        Dialect::V03Rest => Router::new()
            .route("/a2a/v1/message:send", post(rest_send))
            .route("/a2a/v1/tasks/{id}", get(rest_task))
            .route("/a2a/v1/tasks/{id}/pushNotificationConfigs", post(rest_push)),
    };
    card.merge(work).with_state(face)
}

async fn card(State(face): State<Face>) -> Json<Value> {
    let push = face.agent.is(Weakness::NotifiesAnyone);
    let mut card = json!({
        "name": "simulated agent", "description": "Answers questions and carries out small tasks.", "version": "1.0.0",
        "capabilities": {"streaming": false, "pushNotifications": push},
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "chat", "name": "Chat", "description": "Answers questions", "tags": ["chat"]}],
    });
    let url = format!("{}/a2a", face.url);
    let more = match face.dialect {
        Dialect::V1JsonRpc => {
            json!({"supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]})
        }
        Dialect::V1Rest => {
            json!({"supportedInterfaces": [{"url": url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}]})
        }
        Dialect::V03JsonRpc => json!({"url": url, "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0"}),
        Dialect::V03Rest => json!({"url": url, "preferredTransport": "HTTP+JSON", "protocolVersion": "0.3.0"}),
    };
    for (name, value) in more.as_object().unwrap() {
        card[name] = value.clone();
    }
    Json(card)
}

async fn rpc(State(face): State<Face>, headers: HeaderMap, body: Bytes) -> Response {
    if let Some(fault) = face.agent.fault().await {
        return fault;
    }
    let request = match parsed(&body) {
        Ok(request) => request,
        Err(refused) => return *refused,
    };
    let version = headers.get("a2a-version").and_then(|value| value.to_str().ok()).unwrap_or("0.3");
    let params = &request["params"];
    let result = match request["method"].as_str().unwrap_or_default() {
        _ if face.dialect.is_v1() && !version.starts_with("1.") => Err((-32009, "this version is not supported")),
        "SendMessage" if face.dialect.is_v1() => face.send(&headers, params).await,
        "message/send" if !face.dialect.is_v1() => face.send(&headers, params).await,
        "GetTask" | "tasks/get" => face.task(&headers, params["id"].as_str().unwrap_or_default()),
        "CreateTaskPushNotificationConfig" | "tasks/pushNotificationConfig/set" => face.push(&headers, params).await,
        _ => Err((-32601, "method not found")),
    };
    let id = &request["id"];
    Json(match result {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err((code, message)) => json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}),
    })
    .into_response()
}

fn rest(result: Result<Value, (i32, &'static str)>) -> Response {
    match result {
        Ok(result) => Json(result).into_response(),
        Err((code, message)) => {
            let status = if code == -32001 { StatusCode::NOT_FOUND } else { StatusCode::BAD_REQUEST };
            (status, Json(json!({"error": {"code": status.as_u16(), "status": "FAILED", "message": message}})))
                .into_response()
        }
    }
}

async fn rest_send(State(face): State<Face>, headers: HeaderMap, body: Bytes) -> Response {
    if let Some(fault) = face.agent.fault().await {
        return fault;
    }
    match parsed(&body) {
        Ok(request) => rest(face.send(&headers, &request).await),
        Err(refused) => *refused,
    }
}

async fn rest_task(State(face): State<Face>, headers: HeaderMap, Path(id): Path<String>) -> Response {
    if let Some(fault) = face.agent.fault().await {
        return fault;
    }
    rest(face.task(&headers, &id))
}

async fn rest_push(State(face): State<Face>, headers: HeaderMap, Path(_): Path<String>, body: Bytes) -> Response {
    match parsed(&body) {
        Ok(request) => rest(face.push(&headers, &request).await),
        Err(refused) => *refused,
    }
}

/// The first URL anywhere in a value.
fn any_url(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => text.starts_with("http").then(|| text.clone()),
        Value::Array(items) => items.iter().find_map(any_url),
        Value::Object(members) => members.values().find_map(any_url),
        _ => None,
    }
}

impl Face {
    async fn send(&self, headers: &HeaderMap, params: &Value) -> Result<Value, (i32, &'static str)> {
        let message = &params["message"];
        if message["messageId"].as_str().is_none_or(str::is_empty) {
            return Err((-32602, "the message has no messageId"));
        }
        let parts = message["parts"].as_array().cloned().unwrap_or_default();
        let text: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
        let context = message["contextId"].as_str().map_or_else(|| Uuid::new_v4().to_string(), str::to_owned);
        let who = identity(headers);
        let said = self.agent.converse(&context, &who, &text.join("\n")).await;
        let task = Uuid::new_v4().to_string();
        let v1 = self.dialect.is_v1();
        let part = if v1 { json!({"text": said}) } else { json!({"kind": "text", "text": said}) };
        let state = if v1 { "TASK_STATE_COMPLETED" } else { "completed" };
        let mut made = json!({
            "id": task, "contextId": context, "status": {"state": state},
            "artifacts": [{"artifactId": "answer", "parts": [part]}], "history": [message],
        });
        if !v1 {
            made["kind"] = json!("task");
        }
        self.agent.tasks.lock().unwrap().insert(task, (who, made.clone()));
        Ok(if v1 { json!({"task": made}) } else { made })
    }

    fn task(&self, headers: &HeaderMap, id: &str) -> Result<Value, (i32, &'static str)> {
        let tasks = self.agent.tasks.lock().unwrap();
        let found =
            tasks.get(id).filter(|(owner, _)| self.agent.is(Weakness::OpenTasks) || *owner == identity(headers));
        found.map(|(_, task)| task.clone()).ok_or((-32001, "there is no such task"))
    }

    async fn push(&self, _: &HeaderMap, params: &Value) -> Result<Value, (i32, &'static str)> {
        let url = any_url(params).filter(|_| self.agent.is(Weakness::NotifiesAnyone));
        let Some(url) = url else { return Err((-32003, "push notifications are not supported")) };
        self.agent.mind.notify(&url).await;
        Ok(params.clone())
    }
}
