//! What all transports of the fleet share: the mind, conversations that the agent keeps, and faults on the wire.

use std::{
    collections::HashMap,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::Value;

use super::{
    mind::{Message, Mind, Scene, Step},
    weakness::Weakness,
};

/// What goes wrong on the wire, whatever the agent would have said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// This status, always.
    Status(u16),
    /// A page of HTML with status 200.
    Html,
    /// JSON that breaks off.
    BrokenJson,
    /// An empty answer with status 200.
    Empty,
    /// No answer.
    Silence,
    /// A different fault in two of three requests.
    Changing,
    /// It works, then refuses every request after this many.
    BansAfter(usize),
    /// It answers after this many milliseconds.
    Slow(u64),
}

/// A running agent.
pub struct Agent {
    pub(super) mind: Mind,
    pub(super) weak: Vec<Weakness>,
    fault: Fault,
    requests: AtomicUsize,
    /// Conversations that the agent keeps, by id.
    pub(super) conversations: Mutex<HashMap<String, Vec<Message>>>,
    /// Tasks and their owners, by id.
    pub(super) tasks: Mutex<HashMap<String, (String, Value)>>,
}

impl Agent {
    pub(super) fn new(mind: Mind, weak: &[Weakness], fault: Fault) -> Self {
        Self {
            mind,
            weak: weak.to_vec(),
            fault,
            requests: AtomicUsize::new(0),
            conversations: Mutex::default(),
            tasks: Mutex::default(),
        }
    }

    pub(super) fn is(&self, weakness: Weakness) -> bool {
        self.weak.contains(&weakness)
    }

    /// How many requests have come.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    /// The fault that this request meets, if any.
    pub(super) async fn fault(&self) -> Option<Response> {
        let count = self.requests.fetch_add(1, Ordering::Relaxed);
        let fault = match self.fault {
            Fault::Changing => {
                [Fault::None, Fault::Status(503), Fault::Html, Fault::None, Fault::Status(429), Fault::BrokenJson]
                    [count % 6]
            }
            Fault::BansAfter(most) if count >= most => Fault::Status(403),
            Fault::BansAfter(_) => Fault::None,
            other => other,
        };
        match fault {
            Fault::Status(code) => {
                let status = StatusCode::from_u16(code).unwrap();
                Some((status, [(header::CONTENT_TYPE, "text/plain")], "not now").into_response())
            }
            Fault::Html => {
                Some(axum::response::Html("<!doctype html><title>Gateway</title><p>Please log in.").into_response())
            }
            Fault::BrokenJson => {
                Some(([(header::CONTENT_TYPE, "application/json")], "{\"choices\": [{\"mess").into_response())
            }
            Fault::Empty => Some(StatusCode::OK.into_response()),
            Fault::Silence => {
                std::future::pending::<()>().await;
                None
            }
            Fault::Slow(milliseconds) => {
                tokio::time::sleep(Duration::from_millis(milliseconds)).await;
                None
            }
            Fault::None | Fault::Changing | Fault::BansAfter(_) => None,
        }
    }

    /// Answers a conversation that the agent keeps itself, for transports without tools of the caller.
    pub(super) async fn converse(&self, conversation: &str, identity: &str, text: &str) -> String {
        // A conversation belongs to the identity that opened it.
        let key = format!("{identity}\n{conversation}");
        let mut messages = self.conversations.lock().unwrap().get(&key).cloned().unwrap_or_default();
        messages.push(Message::new(super::mind::Role::User, text));
        let scene = Scene { identity: identity.to_owned(), messages, tools: Vec::new() };
        let said = match self.mind.answer(&scene).await {
            Step::Say(said) => said,
            Step::Call(_) => String::new(),
        };
        let mut messages = scene.messages;
        messages.push(Message::new(super::mind::Role::Assistant, said.clone()));
        self.conversations.lock().unwrap().insert(key, messages);
        said
    }
}

/// Who asks: the credential as it came.
pub(super) fn identity(headers: &HeaderMap) -> String {
    let given = headers.get(header::AUTHORIZATION).or_else(|| headers.get("x-api-key"));
    given.and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

/// A JSON body, or the answer that a server gives to something else.
pub(super) fn parsed(body: &[u8]) -> Result<Value, Box<Response>> {
    serde_json::from_slice(body)
        .map_err(|e| Box::new((StatusCode::BAD_REQUEST, format!("the body is not JSON: {e}")).into_response()))
}
