//! What is written about a call: the intent before it, the receipt after it, and what stays private with the guard.

use std::collections::HashSet;

use credence_protocol::{
    Decision, EntityId, Stake, Timestamp, Uuid,
    receipt::{CallOutcome, Commitment, Receipt, Salts, Vantage},
};
use serde::{Deserialize, Serialize};

/// A call that is about to be forwarded: everything about its receipt that is known before there is an answer.
///
/// [`Intent::into_receipt`] makes the receipt. An intent is in the [journal](crate::journal) before the call goes on, so that a call
/// whose guard is killed before the answer is still known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intent {
    /// The agent that calls, as the operator or the caller said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<EntityId>,
    /// The commitment to the arguments.
    pub arguments: Commitment,
    /// The guard's id of the call.
    pub call: Uuid,
    /// The client program, as it calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The JSON-RPC id of the request, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The guard's name of the server.
    pub server: String,
    /// The session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What is at stake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stake: Option<Stake>,
    /// When the call goes to the server.
    pub started_at: Timestamp,
    /// The tool.
    pub tool: String,
    /// The user id of the process that reports the call, where one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Who else could have written the receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vantage: Option<Vantage>,
}

impl Intent {
    /// The receipt of this call, with nothing known but its outcome; the caller fills in the rest.
    pub fn into_receipt(self, outcome: CallOutcome) -> Receipt {
        Receipt {
            agent: self.agent,
            arguments: self.arguments,
            call: self.call,
            client: self.client,
            content_injection: None,
            delivered: None,
            execution_ms: None,
            outcome,
            posterior: None,
            request: self.request,
            result: None,
            server: self.server,
            session: self.session,
            checks: Vec::new(),
            stake: self.stake,
            started_at: self.started_at,
            tool: self.tool,
            uid: self.uid,
            unjudged: None,
            vantage: self.vantage,
            verdict: None,
        }
    }
}

/// The receipts of calls that were forwarded and are not among `answered`; `why` says why there is no answer.
pub(crate) fn unanswered(intents: Vec<(Intent, Private)>, answered: &[NewReceipt], why: &str) -> Vec<NewReceipt> {
    let answered: HashSet<Uuid> = answered.iter().map(|new| new.receipt.call).collect();
    let open = intents.into_iter().filter(|(intent, _)| !answered.contains(&intent.call));
    let receipt = |intent: Intent| {
        let receipt = intent.into_receipt(CallOutcome::Unanswered);
        Receipt { unjudged: Some(why.to_owned()), ..receipt }
    };
    open.map(|(intent, private)| NewReceipt { receipt: receipt(intent), private }).collect()
}

/// What a guard keeps to itself of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Private {
    /// The salts of its commitments.
    pub salts: Salts,
    /// The [fingerprint](crate::parts::fingerprint) of the arguments, which finds the receipt: equal for equal arguments, and only
    /// under this guard's key.
    #[serde(default)]
    pub print: String,
}

/// A receipt to be written.
#[derive(Debug, Clone)]
pub struct NewReceipt {
    /// What goes into the ledger.
    pub receipt: Receipt,
    /// What stays beside it.
    pub private: Private,
}

/// Digests of the parts of a call's arguments and result: they tell which part a claim has changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PartDigests {
    /// Of the arguments, with their paths.
    pub arguments: Vec<(String, String)>,
    /// Of the result.
    pub result: Vec<(String, String)>,
}

/// A made-up result and whether the engine caught it, as an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CanaryRecord {
    /// The call whose result it was made of.
    pub call: Uuid,
    /// The agent, as in the receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<EntityId>,
    /// What was made up.
    pub fabrication: String,
    /// It was not accepted.
    pub caught: bool,
}

/// A result known to be genuine and whether the engine rejected it, as an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ControlRecord {
    /// The call whose result was judged again.
    pub call: Uuid,
    /// The agent, as in that call's receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<EntityId>,
    /// It was not accepted.
    pub rejected: bool,
}

/// What window summaries count of a receipt.
#[derive(Debug, Clone, PartialEq)]
pub struct CountedCall {
    /// The agent that called.
    pub agent: EntityId,
    /// The verdict on the result.
    pub verdict: Decision,
    /// P(fabricated).
    pub posterior: f64,
    /// What was at stake.
    pub stake: Option<Stake>,
    /// When the call went to the server.
    pub at: Timestamp,
}

impl CountedCall {
    /// `None` unless the call was judged and its agent has a name: only such calls are reported. A call that rests on the word of the
    /// agent's side is self-reported, and counts in no summary of a provider.
    pub fn of(receipt: &Receipt) -> Option<Self> {
        if receipt.vantage.is_some_and(|vantage| !vantage.is_independent()) {
            return None;
        }
        Some(Self {
            agent: receipt.agent.clone()?,
            verdict: receipt.verdict?,
            posterior: receipt.posterior?,
            stake: receipt.stake,
            at: receipt.started_at,
        })
    }
}
