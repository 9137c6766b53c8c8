//! The requests under way on one connection, and which message answers which of them.
//!
//! Requests are remembered by their id. A call that runs as a task (protocol 2025-11-25) is answered by the result of
//! `tasks/result`; one that needs input first (`resultType: input_required`, protocol 2026-07-28) is not answered yet.

use std::{
    collections::{HashMap, VecDeque},
    time::Instant,
};

use credence_protocol::{
    EntityId, Timestamp, Uuid,
    receipt::{Commitment, Salts},
};
use credence_receipts::now;
use credence_verify::Stake;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    message::{Message, id_key},
    settings::Caller,
    warn,
};

/// Requests under way that are remembered.
const MAX_PENDING: usize = 20_000;
/// Bytes of a `traceparent`.
const MAX_TRACEPARENT: usize = 64;

/// A call that went to the server.
#[derive(Debug, Clone)]
pub struct StartedCall {
    /// The guard's id of it.
    pub call: Uuid,
    /// The request's id, as JSON.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Option<Box<RawValue>>,
    /// Who called.
    pub caller: Caller,
    /// The client program.
    pub client: Option<String>,
    /// When.
    pub at: Timestamp,
    /// The same, to measure with.
    pub instant: Instant,
    /// It may go on as a task.
    pub as_task: bool,
    /// The client has given it up.
    pub cancelled: bool,
    /// The caller's trace, as the W3C writes it.
    pub traceparent: Option<String>,
    /// The argument part of its receipt, computed while the tool runs.
    pub prepared: Option<PreparedArguments>,
}

/// The argument part of a receipt.
#[derive(Debug, Clone, Copy)]
pub struct PreparedArguments {
    /// The receipt's salts.
    pub salts: Salts,
    /// The commitment to the arguments.
    pub arguments: Commitment,
    /// The fingerprint by which the receipt is found.
    pub print: [u8; 16],
}

impl PreparedArguments {
    /// The fingerprint as receipts keep it.
    pub fn print_text(&self) -> String {
        data_encoding::BASE64URL_NOPAD.encode(&self.print)
    }
}

/// What a request asked for.
#[derive(Debug)]
pub enum PendingRequest {
    /// A tool's result.
    Call(Box<StartedCall>),
    /// The list of tools.
    Tools,
    /// What the server says of itself.
    Server,
    /// The result of a call that runs as a task.
    TaskResult(String),
    /// Anything else: the answer passes as it is.
    Other,
}

/// The requests under way on one connection.
#[derive(Default)]
pub struct PendingRequests {
    pending: HashMap<String, VecDeque<PendingRequest>>,
    count: usize,
    /// Calls that were forgotten and have no receipt yet.
    forgotten: Vec<StartedCall>,
    client: Option<String>,
}

#[derive(Deserialize)]
struct CallParams<'a> {
    #[serde(default)]
    name: String,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    task: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Meta {
    #[serde(rename = "credence/agent")]
    agent: Option<String>,
    #[serde(rename = "credence/session")]
    session: Option<String>,
    #[serde(rename = "credence/stake")]
    stake: Option<Stake>,
    #[serde(rename = "io.modelcontextprotocol/clientInfo")]
    client: Option<ClientInfo>,
    traceparent: Option<String>,
}

#[derive(Deserialize)]
struct ClientInfo {
    name: String,
}

#[derive(Deserialize)]
struct Initialize {
    #[serde(rename = "clientInfo")]
    client: ClientInfo,
}

#[derive(Deserialize)]
struct Cancelled<'a> {
    #[serde(borrow, rename = "requestId")]
    request: &'a RawValue,
}

#[derive(Deserialize)]
struct TaskParams {
    #[serde(rename = "taskId")]
    task: String,
}

impl PendingRequests {
    /// Remembers a message from the client, as it goes to the server. `caller` is what is known of the caller already, `session`
    /// stands for the session of callers that name none.
    pub fn request(
        &mut self,
        message: &Message<'_>,
        caller: &Caller,
        session: &str,
        sent: Instant,
    ) -> Option<&mut StartedCall> {
        let params = message.params.map_or("{}", RawValue::get);
        if message.method.as_deref() == Some("notifications/cancelled") {
            self.cancel(params);
            return None;
        }
        let (Some(method), Some(id)) = (message.method.as_deref(), message.id) else { return None };
        let pending = match method {
            "tools/call" => match serde_json::from_str::<CallParams<'_>>(params) {
                Ok(params) => PendingRequest::Call(Box::new(self.start(id.get(), params, caller, session, sent))),
                // The server will refuse it; should it not, there is a receipt all the same.
                Err(error) => {
                    warn(&format!("a tools/call whose parameters cannot be read: {error}"));
                    let params = CallParams { name: String::new(), arguments: message.params, meta: None, task: None };
                    PendingRequest::Call(Box::new(self.start(id.get(), params, caller, session, sent)))
                }
            },
            "tools/list" => PendingRequest::Tools,
            "server/discover" => PendingRequest::Server,
            "tasks/result" => match serde_json::from_str::<TaskParams>(params) {
                Ok(TaskParams { task }) => PendingRequest::TaskResult(task),
                Err(_) => PendingRequest::Other,
            },
            "initialize" => {
                self.client = serde_json::from_str::<Initialize>(params).ok().map(|params| params.client.name);
                PendingRequest::Server
            }
            _ => PendingRequest::Other,
        };
        if self.count >= MAX_PENDING {
            self.forget_one();
        }
        self.count += 1;
        let queue = self.pending.entry(id_key(id.get())).or_default();
        queue.push_back(pending);
        match queue.back_mut() {
            Some(PendingRequest::Call(started)) => Some(started),
            _ => None,
        }
    }

    /// A call that was given up may still be answered; nobody waits for it to end.
    fn cancel(&mut self, params: &str) {
        let Ok(Cancelled { request }) = serde_json::from_str::<Cancelled<'_>>(params) else { return };
        for pending in self.pending.get_mut(&id_key(request.get())).into_iter().flatten() {
            if let PendingRequest::Call(started) = pending {
                started.cancelled = true;
            }
        }
    }

    fn start(&self, id: &str, params: CallParams<'_>, caller: &Caller, session: &str, sent: Instant) -> StartedCall {
        let meta: Meta = params.meta.and_then(|meta| serde_json::from_str(meta.get()).ok()).unwrap_or_default();
        let said = Caller {
            agent: meta.agent.and_then(|agent| match EntityId::new(&agent) {
                Ok(agent) => Some(agent),
                Err(error) => {
                    warn(&format!("_meta names an agent that cannot be one: {error}"));
                    None
                }
            }),
            session: meta.session.map(|session| credence_protocol::receipt::cut_name(&session)),
            stake: meta.stake,
        };
        let client = meta.client.map(|client| client.name).or_else(|| self.client.clone());
        StartedCall {
            call: Uuid::now_v7(),
            id: id.to_owned(),
            tool: params.name,
            arguments: params.arguments.map(ToOwned::to_owned),
            caller: caller.clone().or(&said).or(&Caller { session: Some(session.to_owned()), ..Caller::default() }),
            client: client.map(|client| credence_protocol::receipt::cut_name(&client)),
            at: now(),
            instant: sent,
            as_task: params.task.is_some(),
            cancelled: false,
            traceparent: meta.traceparent.filter(|text| text.len() <= MAX_TRACEPARENT),
            prepared: None,
        }
    }

    /// A client that never gets its answers must not fill the memory.
    fn forget_one(&mut self) {
        let oldest = self
            .pending
            .iter()
            .filter_map(|(id, queue)| match queue.front() {
                Some(PendingRequest::Call(started)) => Some((Some(started.instant), id)),
                Some(_) => Some((None, id)),
                None => None,
            })
            .min_by_key(|(instant, _)| *instant)
            .map(|(_, id)| id.clone());
        if let Some(id) = oldest {
            warn(&format!("{MAX_PENDING} requests are unanswered: one is forgotten"));
            if let Some(PendingRequest::Call(started)) = self.answered(&id) {
                self.forgotten.push(*started);
            }
        }
    }

    /// Calls that are not waited for any more, because there were too many: each needs a receipt.
    pub fn take_forgotten(&mut self) -> Vec<StartedCall> {
        std::mem::take(&mut self.forgotten)
    }

    /// The newest request with this id does not go on after all.
    pub fn retract(&mut self, id: &str) {
        let id = id_key(id);
        let Some(queue) = self.pending.get_mut(&id) else { return };
        self.count -= usize::from(queue.pop_back().is_some());
        if queue.is_empty() {
            self.pending.remove(&id);
        }
    }

    /// What the answer with this id answers, if anything; from then on it is answered.
    pub fn answered(&mut self, id: &str) -> Option<PendingRequest> {
        let id = id_key(id);
        let queue = self.pending.get_mut(&id)?;
        let first = queue.pop_front();
        if queue.is_empty() {
            self.pending.remove(&id);
        }
        self.count -= usize::from(first.is_some());
        first
    }

    /// Whether a request with this id is under way.
    pub fn awaits(&self, id: &str) -> bool {
        self.pending.contains_key(&id_key(id))
    }

    /// A call that runs as a task waits on: nothing is known of it yet.
    pub fn has_calls(&self) -> bool {
        self.pending
            .values()
            .flatten()
            .any(|pending| matches!(pending, PendingRequest::Call(_) | PendingRequest::TaskResult(_)))
    }

    /// The client program, where it has said so.
    pub fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    /// Who the client is, as it said elsewhere.
    pub fn set_client(&mut self, client: &str) {
        self.client = Some(client.to_owned());
    }

    /// Takes over what another connection leaves unanswered.
    pub fn take_over(&mut self, other: &mut PendingRequests) {
        self.forgotten.append(&mut other.forgotten);
        for (id, queue) in other.pending.drain() {
            self.count += queue.len();
            self.pending.entry(id).or_default().extend(queue);
        }
        other.count = 0;
        while self.count > MAX_PENDING {
            self.forget_one();
        }
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        let waits = |pending: &PendingRequest| matches!(pending, PendingRequest::Call(started) if !started.cancelled);
        !self.pending.values().flatten().any(waits)
    }

    /// The ids of requests other than calls that have no answer.
    pub fn unanswered_requests(&self) -> Vec<String> {
        let others = self.pending.iter().flat_map(|(id, queue)| {
            queue.iter().filter(|pending| !matches!(pending, PendingRequest::Call(_))).map(move |_| id.clone())
        });
        others.collect()
    }

    /// The ids of calls that have no answer.
    pub fn awaited_calls(&self) -> Vec<String> {
        let calls = self.pending.values().flatten().filter_map(|pending| match pending {
            PendingRequest::Call(started) => Some(started.id.clone()),
            _ => None,
        });
        calls.collect()
    }

    /// Every call that has no answer; none of them is under way any more.
    pub fn unanswered(&mut self) -> Vec<StartedCall> {
        self.count = 0;
        let calls = self.pending.drain().flat_map(|(_, queue)| queue).filter_map(|pending| match pending {
            PendingRequest::Call(started) => Some(*started),
            _ => None,
        });
        let mut calls: Vec<StartedCall> = self.forgotten.drain(..).chain(calls).collect();
        calls.sort_by_key(|started| started.call);
        calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Parsed, parse};

    fn request(requests: &mut PendingRequests, line: &str) {
        let Parsed::One(message) = parse(line) else { panic!("{line}") };
        requests.request(&message, &Caller::default(), "run", Instant::now());
    }

    #[test]
    fn answers_find_their_calls() {
        let mut requests = PendingRequests::default();
        request(&mut requests, r#"{"id":1,"method":"initialize","params":{"clientInfo":{"name":"c"}}}"#);
        request(
            &mut requests,
            r#"{"id":"1","method":"tools/call","params":{"name":"t","arguments":{"a":12345678901234567890},"_meta":{"credence/agent":"bot","credence/stake":"high","credence/session":"s"}}}"#,
        );
        request(&mut requests, r#"{"id":2,"method":"tools/list"}"#);
        assert!(matches!(requests.answered("1"), Some(PendingRequest::Server)));
        assert!(requests.answered("1").is_none(), "answered twice");
        let Some(PendingRequest::Call(started)) = requests.answered("\"1\"") else { panic!("1 and \"1\" are two ids") };
        assert_eq!(started.arguments.unwrap().get(), r#"{"a":12345678901234567890}"#);
        assert_eq!(started.client.as_deref(), Some("c"));
        assert_eq!(started.caller.agent.unwrap().as_str(), "bot");
        assert_eq!((started.caller.stake, started.caller.session.as_deref()), (Some(Stake::High), Some("s")));
        assert!(matches!(requests.answered("2"), Some(PendingRequest::Tools)));
        assert!(requests.answered("3").is_none());
    }

    #[test]
    fn one_id_used_twice_is_answered_in_order() {
        let mut requests = PendingRequests::default();
        for tool in ["a", "b"] {
            request(&mut requests, &format!(r#"{{"id":1,"method":"tools/call","params":{{"name":"{tool}"}}}}"#));
        }
        let mut tool = || match requests.answered("1") {
            Some(PendingRequest::Call(started)) => started.tool,
            other => panic!("{other:?}"),
        };
        assert_eq!((tool(), tool()), ("a".to_owned(), "b".to_owned()));
    }

    #[test]
    fn what_has_no_answer_is_told() {
        let mut requests = PendingRequests::default();
        request(&mut requests, r#"{"id":1,"method":"tools/call","params":{"name":"t"}}"#);
        request(&mut requests, r#"{"id":2,"method":"tools/call","params":7}"#);
        request(&mut requests, r#"{"id":3,"method":"ping"}"#);
        assert_eq!(requests.unanswered().len(), 2);
        assert!(requests.unanswered().is_empty() && !requests.awaits("3"));
    }

    #[test]
    fn memory_is_bounded() {
        let mut requests = PendingRequests::default();
        for n in 0..MAX_PENDING + 10 {
            request(&mut requests, &format!(r#"{{"id":{n},"method":"tools/call","params":{{"name":"t"}}}}"#));
        }
        assert_eq!(requests.pending.len(), MAX_PENDING);
        assert!(!requests.awaits("0"));
        assert_eq!(requests.take_forgotten().len(), 10, "each still gets its receipt");
    }

    #[test]
    fn a_request_that_does_not_go_on_is_not_waited_for() {
        let mut requests = PendingRequests::default();
        for tool in ["a", "b"] {
            request(&mut requests, &format!(r#"{{"id":1,"method":"tools/call","params":{{"name":"{tool}"}}}}"#));
        }
        requests.retract("1");
        assert!(matches!(requests.answered("1"), Some(PendingRequest::Call(started)) if started.tool == "a"));
        assert!(!requests.awaits("1") && requests.count == 0);
    }
}
