//! Targets: one way of talking for every transport.
//!
//! A [`Target`] takes an [`Input`] for a [`Conversation`] and gives back a [`Reply`], or says why there is none. What the reply's
//! text means is decided elsewhere; only what the *target* says is in it, never `history` or our own words echoed by the protocol.

use std::{fmt, str::FromStr, time::Duration};

pub mod a2a;
pub mod chat;
mod connect;
pub mod http;
pub mod mcp;
mod origin_lock;
pub mod redact;
pub mod responses;
pub mod stdio;
pub mod wire;

pub use connect::{TargetSpec, command_digest, connect, connect_with, start};
pub use origin_lock::{BUSY, state_folder};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::wire::Wire;
use crate::{
    suite::{Action, Identity},
    trial::Reason,
};

/// How a target is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// OpenAI-compatible chat completions, with client tools.
    Chat,
    /// OpenAI-compatible responses, with client tools.
    Responses,
    /// A2A 1.0 or 0.3, over JSON-RPC or REST, as the agent card says.
    A2a,
    /// A tool server: its own tools are called.
    Mcp,
    /// Plain HTTP by a template and a JSON pointer.
    Http,
}

impl Transport {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Chat, Self::Responses, Self::A2a, Self::Mcp, Self::Http];

    /// The name in files and on the command line.
    pub fn id(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::A2a => "a2a",
            Self::Mcp => "mcp",
            Self::Http => "http",
        }
    }

    /// Whether a family without a list of transports runs over it.
    pub fn converses(self) -> bool {
        self != Self::Mcp
    }

    /// Whether tools can be offered with a request.
    pub fn takes_tools(self) -> bool {
        matches!(self, Self::Chat | Self::Responses)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|transport| transport.id() == text);
        found.ok_or_else(|| format!("'{text}' is not a transport: use chat, responses, a2a, mcp or http"))
    }
}

/// What a conversation has come to, as its transport needs it.
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    /// All messages so far, where the client carries them (`chat`).
    pub messages: Vec<Value>,
    /// The id under which the target continues (`responses`, `a2a`, `http`).
    pub context: Option<String>,
    /// The task of the last answer (`a2a`).
    pub task: Option<String>,
    /// The id and text of the last message (`a2a`).
    pub last_message: Option<(String, String)>,
    /// A name of the conversation that no other has.
    pub name: String,
}

/// A tool as the target sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferedTool {
    /// Its name.
    pub name: String,
    /// What it does, in our words.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// What one of our tools answers.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolAnswer {
    /// The id of the call.
    pub call: String,
    /// The tool's name.
    pub name: String,
    /// What it answers.
    pub content: String,
}

/// What is sent.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// A message of the user.
    Message {
        /// The system message of a new conversation.
        system: Option<&'a str>,
        /// The text.
        text: &'a str,
    },
    /// Results of the tools that the target called, and maybe a message with them.
    Results {
        /// The results.
        results: &'a [ToolAnswer],
        /// What the user says besides.
        text: Option<&'a str>,
    },
    /// Something of the protocol (`a2a`).
    Act {
        /// What.
        action: Action,
        /// The text, where the action has one.
        text: Option<&'a str>,
        /// Our trap.
        trap_url: Option<&'a str>,
    },
    /// A call of a tool of the target (`mcp`).
    Call {
        /// The tool.
        name: &'a str,
        /// Its arguments.
        arguments: &'a Value,
        /// Who calls, where it is not the identity alone.
        caller: Caller<'a>,
    },
}

/// Who calls a tool, where it is somebody else than an identity that the operator gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Caller<'a> {
    /// What is presented in place of the identity's credentials; empty for nothing.
    pub credential: Option<&'a str>,
    /// Whose session the call is made in.
    pub session: Option<Identity>,
}

/// A call of a tool by the target.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The target's id of it.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments; a text that is no JSON stands here as a string.
    pub arguments: Value,
}

/// What the target answered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reply {
    /// Its words. Empty where it only calls tools.
    pub text: String,
    /// The tools it calls.
    pub calls: Vec<ToolCall>,
    /// The protocol says that the target did not do it: a rejected or failed task, an error of a tool.
    pub declined: bool,
    /// From sending to the last byte, without waiting for a turn.
    pub elapsed: Duration,
}

/// Why there is no reply.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{why}")]
pub struct TargetError {
    /// For the outcome.
    pub reason: Reason,
    /// For people; without credentials.
    pub why: String,
    /// The run cannot go on: the budget is spent, consent is gone, the run was cancelled.
    pub ends_run: bool,
}

impl TargetError {
    /// A failure of one exchange.
    pub fn new(reason: Reason, why: impl Into<String>) -> Self {
        Self { reason, why: why.into(), ends_run: false }
    }
}

/// Where an exchange happens.
#[derive(Debug)]
pub struct Exchange<'a> {
    /// The conversation; the target updates it.
    pub conversation: &'a mut Conversation,
    /// As whom.
    pub identity: Identity,
    /// The tools that are offered.
    pub tools: &'a [OfferedTool],
    /// What is sent.
    pub input: Input<'a>,
}

/// Something that can be probed.
pub trait Target: Send + Sync {
    /// Its transport.
    fn transport(&self) -> Transport;

    /// Its connection, where it is reached over HTTP.
    fn wire(&self) -> Option<&Wire> {
        None
    }

    /// Whether it has credentials of a second identity.
    fn has_second_identity(&self) -> bool {
        self.wire().is_some_and(Wire::has_second_identity)
    }

    /// Whether it opened a session for us (`mcp`).
    fn has_session(&self) -> bool {
        false
    }

    /// Sends one input and reads the reply.
    fn exchange<'a>(&'a self, exchange: Exchange<'a>) -> BoxFuture<'a, Result<Reply, TargetError>>;

    /// The target's own tools (`mcp`).
    fn own_tools(&self) -> BoxFuture<'_, Result<Vec<OfferedTool>, TargetError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// One harmless call, for reliability.
    fn ping<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Reply, TargetError>> {
        Box::pin(async move {
            let mut conversation = Conversation { name: text.to_owned(), ..Conversation::default() };
            let input = Input::Message { system: None, text };
            let identity = Identity::First;
            self.exchange(Exchange { conversation: &mut conversation, identity, tools: &[], input }).await
        })
    }

    /// How many requests were sent so far.
    fn requests(&self) -> u64 {
        self.wire().map_or(0, Wire::requests)
    }

    /// Sends at most so many requests from the beginning on.
    fn limit_requests(&self, most: u64) {
        if let Some(wire) = self.wire() {
            wire.limit_requests(most);
        }
    }
}
