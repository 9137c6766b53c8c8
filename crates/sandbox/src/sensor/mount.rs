//! Honey tools as an MCP server of ours that the operator mounts into the agent, for transports that take no tools with a request.
//!
//! The server lists every honey tool of the suite. A call belongs to the trial that is being played: with a mount, one trial runs at
//! a time. A tool that the trial does not offer is answered with an error, and the call is seen as not offered.

use std::sync::{Arc, Mutex, PoisonError};

use axum::{Json, Router, extract::State, http::StatusCode, response::IntoResponse, routing::post};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    sensor::honey::{SeenCall, ServedTool},
    suite::Suite,
    target::{OfferedTool, ToolCall},
};

/// The path of the server below the listener's base.
pub const PATH: &str = "/mcp";
const VERSION: &str = "2025-11-25";

/// The mounted server.
#[derive(Debug, Clone)]
pub struct Mount {
    listed: Arc<Vec<OfferedTool>>,
    state: Arc<Mutex<Desk>>,
}

/// What was seen during an exchange.
#[derive(Debug, Default)]
pub struct Desk {
    /// The tools of the trial, with what they have answered.
    pub tools: Vec<ServedTool>,
    /// The calls.
    pub calls: Vec<SeenCall>,
    /// What was answered, by conversation.
    pub answered: Vec<(String, String)>,
    /// Whether an answer carried the order.
    pub carried_payload: bool,
    conversation: String,
    turn: usize,
    open: bool,
}

impl Mount {
    /// A server with all honey tools of a suite. Texts that belong to a trial are left out of descriptions.
    pub fn new(suite: &Suite) -> Self {
        let mut listed: Vec<OfferedTool> = Vec::new();
        let families = suite.families().flat_map(|found| found.family.tools.iter().chain(found.shared_tools));
        for tool in families {
            if !listed.iter().any(|other| other.name == tool.shown_name()) {
                let nothing = |_: &str| Some(String::new());
                let description = crate::suite::template::fill(&tool.description, nothing).unwrap_or_default();
                let parameters = crate::suite::template::fill_json(&tool.parameters, &nothing).unwrap_or_default();
                listed.push(OfferedTool { name: tool.shown_name().to_owned(), description, parameters });
            }
        }
        listed.extend(crate::capability::check_tool());
        Self { listed: Arc::new(listed), state: Arc::default() }
    }

    /// Serves a trial's tools from now on.
    pub fn serve(&self, tools: Vec<ServedTool>, conversation: &str, turn: usize) {
        let mut desk = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *desk = Desk { tools, conversation: conversation.to_owned(), turn, open: true, ..Desk::default() };
    }

    /// What was seen since. Calls that come later belong to nobody.
    pub fn take(&self) -> Desk {
        std::mem::take(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Its routes, for the listener.
    pub fn routes(&self) -> Router {
        Router::new().route(PATH, post(message)).with_state(self.clone())
    }

    fn call(&self, call: &ToolCall) -> (String, bool) {
        let mut desk = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !desk.open {
            return ("This tool is not available now.".to_owned(), true);
        }
        let served = desk.tools.iter_mut().find(|tool| tool.offered.name == call.name);
        let (content, tool, early, carried) = match served {
            Some(tool) => {
                let (served, early) = tool.answer(call, Instant::now());
                (served.answer.content, Some(tool.id.clone()), early, served.carried_payload)
            }
            None => (format!("Error: there is no tool '{}'.", call.name), None, false, false),
        };
        let failed = tool.is_none();
        desk.carried_payload |= carried;
        let (conversation, turn) = (desk.conversation.clone(), desk.turn);
        desk.answered.push((conversation.clone(), content.clone()));
        let (name, arguments) = (call.name.clone(), call.arguments.clone());
        desk.calls.push(SeenCall { tool, name, arguments, conversation, turn, early });
        (content, failed)
    }

    fn answer(&self, request: &Value) -> Option<Value> {
        let id = request.get("id").filter(|id| !id.is_null())?.clone();
        let params = request.get("params").cloned().unwrap_or_default();
        let result = match request.get("method").and_then(Value::as_str).unwrap_or_default() {
            "initialize" => {
                let asked = params.get("protocolVersion").and_then(Value::as_str).unwrap_or(VERSION);
                json!({ "protocolVersion": asked, "capabilities": { "tools": {} },
                        "serverInfo": { "name": "workspace", "version": env!("CARGO_PKG_VERSION") } })
            }
            "server/discover" => json!({ "supportedVersions": ["2026-07-28", VERSION], "capabilities": { "tools": {} },
                                         "ttlMs": 0, "cacheScope": "private", "resultType": "complete" }),
            "ping" => json!({}),
            "tools/list" => {
                let tools: Vec<Value> = self
                    .listed
                    .iter()
                    .map(|tool| json!({ "name": tool.name, "description": tool.description, "inputSchema": tool.parameters }))
                    .collect();
                json!({ "tools": tools, "ttlMs": 0, "cacheScope": "private", "resultType": "complete" })
            }
            "tools/call" => {
                let name = params.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
                let arguments = params.get("arguments").cloned().unwrap_or_else(|| json!({}));
                let (text, failed) = self.call(&ToolCall { id: id.to_string(), name, arguments });
                json!({ "content": [{ "type": "text", "text": text }], "isError": failed, "resultType": "complete" })
            }
            other => {
                let error = json!({ "code": -32601, "message": format!("there is no method '{other}'") });
                return Some(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            }
        };
        Some(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
    }
}

async fn message(State(mount): State<Mount>, Json(request): Json<Value>) -> axum::response::Response {
    match mount.answer(&request) {
        Some(answer) => Json(answer).into_response(),
        None => StatusCode::ACCEPTED.into_response(),
    }
}
