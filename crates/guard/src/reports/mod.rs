//! Calls that another program reports to a guard, over a Unix socket: `credence guard --serve` keeps journal and keys as a user of its own.
//!
//! ```text
//! agent's user                        guard's user
//! Guard(remote="unix:…")  ── lines ─▶ credence guard --serve SOCKET
//! ```
//!
//! One JSON object a line each way, answered in order: a [`Request`], then a [`Reply`]. What was reported cannot be removed or changed
//! later; that it happened is still the reporter's word, so receipts say `reported` and carry the reporter's user id.

mod client;
mod server;

use credence_protocol::{EntityId, Stake, Timestamp, Uuid};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use client::RemoteGuard;
pub use server::{ReportQuota, serve};

use crate::{embedded::CallVerdict, settings::GuardMode};

/// Bytes of one line.
const MAX_LINE: u64 = 32 * 1024 * 1024;

/// What a program asks of the guard.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Request {
    /// A call is about to be made.
    Begin {
        tool: String,
        arguments: Box<RawValue>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<EntityId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stake: Option<Stake>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        traceparent: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at_least: Option<GuardMode>,
    },
    /// What came of it.
    Finish {
        call: Uuid,
        value: Box<RawValue>,
        execution_ms: f64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shown: Option<String>,
        #[serde(default)]
        is_error: bool,
        #[serde(default)]
        is_mcp_result: bool,
        #[serde(default)]
        opaque: bool,
        #[serde(default)]
        too_large: bool,
    },
    /// Nothing more will be heard of it.
    Abandon { call: Uuid },
    /// How the guard treats a tool.
    Mode { tool: String },
    /// Compare a transcript with the receipts of calls that the same user id reported.
    Check(CheckRequest),
}

/// Which receipts a transcript is compared with.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckRequest {
    /// The transcript, as JSON text.
    pub transcript: String,
    /// Of this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Of this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<EntityId>,
    /// From this time on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Tools whose claims are left out.
    #[serde(default)]
    pub ignored_tools: Vec<String>,
    /// Members of results that are left out.
    #[serde(default)]
    pub ignored_members: Vec<String>,
}

/// What the guard says.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Reply {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<GuardMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<CallVerdict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<String>,
}
