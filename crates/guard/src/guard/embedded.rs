//! Calls that do not pass through the guard as messages: functions of the program that the guard is part of, or calls that another program
//! reports. They are judged, and their receipts written, as those of an MCP server are.
//!
//! A value stands in a receipt as the structured content of a result, a text as its text. What the model is shown instead, such as the
//! value as Python prints it, is committed to as *delivered*, so that a transcript with either form is told from an altered one.

use std::{borrow::Cow, time::Instant};

use credence_protocol::{
    Decision, Uuid,
    receipt::{CallOutcome, Commitment, Exact, Form, Members, Salts, View, Views, arguments_form, forms_of_result},
};
use credence_receipts::{
    Intent, NewReceipt, Private, now,
    parts::{judged_part, leaves},
};
use credence_verify::ToolProfile;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use super::{
    Guard,
    delivering::{Delivery, refusal_text},
    judging::{JudgedCall, cut},
};
use crate::{
    Error,
    answer::{Answer, AnswerParts, Leaves},
    content,
    pending::{PreparedArguments, StartedCall},
    settings::{Caller, GuardMode},
    switch::SWITCHED_OFF,
};

/// A check in receipts: parts of the value have no form, so their type and the digest of their description stand for them.
const OPAQUE_VALUE: &str = "opaque_value";
/// Bytes of a value's form beyond which no parts are looked at.
const MAX_PARTS_BYTES: usize = 256 * 1024;
/// Bytes of a value's form that is judged.
const MAX_JUDGED_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of a reason in a receipt.
const MAX_REASON: usize = 200;

/// A call that is about to be made.
pub struct NewCall<'a> {
    /// The tool.
    pub tool: &'a str,
    /// Its arguments, an object.
    pub arguments: &'a Exact<'a>,
    /// Who calls.
    pub caller: Caller,
    /// The program or framework, as it calls itself.
    pub client: Option<String>,
    /// The caller's trace, as the W3C writes it.
    pub traceparent: Option<String>,
    /// The user id of the process that reports the call.
    pub uid: Option<u32>,
    /// The mode that the caller asks for. The stricter of this and the guard's own holds.
    pub at_least: Option<GuardMode>,
}

/// A call whose intent is in the journal.
#[derive(Debug)]
pub struct BegunCall {
    started: StartedCall,
    /// The arguments as the engine judges them.
    arguments: Option<Value>,
    prepared: PreparedArguments,
    uid: Option<u32>,
    at_least: Option<GuardMode>,
    mode: GuardMode,
}

/// What came of a call.
pub struct ReturnedValue<'a> {
    /// What the function returned, or the text of its error.
    pub value: &'a Exact<'a>,
    /// The value is the whole result of an MCP tool.
    pub is_mcp_result: bool,
    /// It failed.
    pub is_error: bool,
    /// What the model is shown, where that is another text than the value's own.
    pub shown: Option<&'a str>,
    /// Parts of the value have no form of their own.
    pub opaque: bool,
    /// The value has more parts than were looked at, and a digest stands for it: it cannot be judged.
    pub too_large: bool,
}

/// What the guard thinks of a call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CallVerdict {
    /// The guard's id of the call, which is its receipt's.
    pub call: Uuid,
    /// The mode that held for the tool.
    pub mode: GuardMode,
    /// `None` where the result was not judged.
    pub decision: Option<Decision>,
    /// P(fabricated).
    pub posterior: Option<f64>,
    /// The checks that fired.
    pub checks: Vec<String>,
    /// What the engine says of a result that it does not accept.
    pub explanation: Option<String>,
    /// Why there is no verdict.
    pub unjudged: Option<String>,
    /// Why no receipt could be written.
    pub no_receipt: Option<String>,
    /// The result must not be used: what the model is told in its place.
    pub withheld: Option<String>,
}

/// What is left to do about a call once its caller has the result.
pub struct Finished {
    judged: JudgedCall,
    result: Option<Box<RawValue>>,
}

impl BegunCall {
    /// The guard's id of the call.
    pub fn id(&self) -> Uuid {
        self.started.call
    }

    /// The tool.
    pub fn tool(&self) -> &str {
        &self.started.tool
    }

    /// The mode that held when it began.
    pub fn mode(&self) -> GuardMode {
        self.mode
    }
}

impl Guard {
    /// Writes into the journal that a call is about to be made. Until this returns, it must not be.
    pub fn begin_embedded(&self, new: NewCall<'_>) -> Result<BegunCall, Error> {
        let form = arguments_form(Some(new.arguments));
        let prepared = self.prepare_form(Salts::generate()?, &form);
        let arguments = RawValue::from_string(form).map_err(credence_receipts::Error::from)?;
        let caller = new.caller.or(&self.settings.caller);
        let started = StartedCall {
            call: Uuid::now_v7(),
            id: String::new(),
            tool: new.tool.to_owned(),
            arguments: Some(arguments),
            caller: Caller { session: caller.session.or_else(|| Some(self.settings.session.clone())), ..caller },
            client: new.client,
            at: now(),
            instant: Instant::now(),
            as_task: false,
            cancelled: false,
            traceparent: new.traceparent,
            prepared: Some(prepared),
        };
        let private = Private { salts: prepared.salts, print: prepared.print_text() };
        let intent = self.intent_of(&started, prepared.arguments, new.uid);
        self.begin(&[&(intent, private)])?;
        let mode = self.mode_of(new.tool).max(new.at_least.unwrap_or(GuardMode::Observe));
        let arguments = content::value(new.arguments).ok();
        Ok(BegunCall { started, arguments, prepared, uid: new.uid, at_least: new.at_least, mode })
    }

    fn intent_of(&self, started: &StartedCall, arguments: Commitment, uid: Option<u32>) -> Intent {
        // There is no request with an id of its own.
        Intent { request: None, uid, ..self.intent(started, arguments) }
    }

    /// Judges what came of a call, and writes its receipt. Until this returns, nobody must get the result.
    pub fn finish_embedded(
        &self,
        call: BegunCall,
        returned: &ReturnedValue<'_>,
        execution_ms: f64,
    ) -> (CallVerdict, Finished) {
        let (mut judged, mut verdict) = self.judge_call(call, returned, execution_ms);
        let mut one = [(judged, Answer::Nothing)];
        if let Some(why) = self.record(&mut one) {
            if verdict.mode == GuardMode::Enforce && verdict.withheld.is_none() {
                let why = format!("no receipt could be written for it ({why})");
                verdict.withheld = Some(refusal_text(&one[0].0.started.tool, &why));
            }
            verdict.no_receipt = Some(why);
        }
        [(judged, _)] = one;
        let kept = verdict.withheld.is_some() || judged.is_for_review();
        let result = kept.then(|| result_text(returned)).and_then(|text| RawValue::from_string(text).ok());
        (verdict, Finished { judged, result })
    }

    /// Has the engine judge a tool by this profile from now on.
    pub fn register_profile(&self, tool: &str, profile: ToolProfile) -> Result<(), Error> {
        Ok(self.engine.load().register(tool, profile)?)
    }

    /// A call of which nothing will be heard any more: its receipt says so.
    pub fn abandon_embedded(&self, call: BegunCall) {
        self.record_unanswered(vec![call.started]);
    }

    /// What is left to do about calls once their callers have the results.
    pub fn after_embedded(&self, finished: &[Finished]) {
        for one in finished {
            let answer = one.result.as_deref().map_or(Answer::Nothing, Answer::Result);
            self.keep_for_review(&one.judged, answer, None);
        }
        self.after_review(finished.iter().map(|one| &one.judged));
    }

    fn judge_call(
        &self,
        call: BegunCall,
        returned: &ReturnedValue<'_>,
        execution_ms: f64,
    ) -> (JudgedCall, CallVerdict) {
        let BegunCall { started, arguments, prepared, uid, at_least, .. } = call;
        let policy = self.oversight.policy(&started.tool);
        let off = self.oversight.is_off();
        let mode = self.oversight.mode_of(&policy).max(at_least.unwrap_or(GuardMode::Observe));
        let mut unjudged: Option<String> = off.then(|| SWITCHED_OFF.to_owned());
        let parts = parts_of(returned, policy.content_injection, &mut unjudged);
        let mut assessment = None;
        if parts.outcome == CallOutcome::Result && unjudged.is_none() {
            self.calibrate(&started.tool, &policy);
            match self.assess(&started, &parts, arguments.as_ref(), execution_ms) {
                Ok(assessed) => assessment = Some(assessed),
                Err(error) => unjudged = Some(cut(&error.to_string(), MAX_REASON)),
            }
        } else if unjudged.is_none() {
            unjudged = Some(parts.why_unjudged().to_owned());
        }
        let blocked = assessment.as_ref().is_some_and(|one| one.decision == Decision::Block);
        let scan = policy.content_injection && !off;
        let injection = scan.then(|| self.instructions.look(&started, &parts, !blocked)).flatten();
        let private = Private { salts: prepared.salts, print: prepared.print_text() };
        let mut receipt = self.intent_of(&started, prepared.arguments, uid).into_receipt(parts.outcome);
        receipt.execution_ms = Some(execution_ms);
        receipt.result = Views::commit(&private.salts.result, &parts.forms);
        receipt.checks = assessment.as_ref().map(|one| one.checks.clone()).unwrap_or_default();
        if returned.opaque {
            receipt.checks.push(OPAQUE_VALUE.to_owned());
        }
        receipt.verdict = assessment.as_ref().map(|one| one.decision);
        receipt.posterior = assessment.as_ref().map(|one| one.posterior);
        receipt.unjudged = unjudged;
        receipt.content_injection = injection.as_ref().map(|finding| finding.score);
        let mut judged = JudgedCall {
            assessment,
            injection,
            value: parts.value,
            empty: parts.empty,
            foreign: false,
            leaves: parts.leaves,
            new: NewReceipt { receipt, private },
            started,
            delivery: Delivery::AsItCame,
            mode,
            off,
            flags: policy.flags,
            canaries: policy.canaries,
        };
        let withheld = self.withheld(&judged);
        let shown = withheld.as_deref().or(returned.shown).map(forms_of_shown);
        let delivered = shown.and_then(|forms| Views::commit(&judged.new.private.salts.result, &forms));
        judged.new.receipt.delivered = delivered.filter(|views| Some(*views) != judged.new.receipt.result);
        if let Some(text) = &withheld {
            judged.delivery = Delivery::Withheld(text.clone());
        }
        let receipt = &judged.new.receipt;
        let verdict = CallVerdict {
            call: receipt.call,
            mode,
            decision: receipt.verdict,
            posterior: receipt.posterior,
            checks: receipt.checks.clone(),
            explanation: judged.assessment.as_ref().map(|one| one.explained.explanation.clone()),
            unjudged: receipt.unjudged.clone(),
            no_receipt: None,
            withheld,
        };
        (judged, verdict)
    }

    /// What the model is told in place of a result that it must not get.
    fn withheld(&self, judged: &JudgedCall) -> Option<String> {
        let receipt = &judged.new.receipt;
        if judged.mode != GuardMode::Enforce || judged.off || receipt.outcome != CallOutcome::Result {
            return None;
        }
        let tool = &judged.started.tool;
        if let Some(why) = &receipt.unjudged {
            return Some(refusal_text(tool, &format!("its result could not be verified ({why})")));
        }
        let blocked = judged.assessment.as_ref().filter(|one| one.decision == Decision::Block)?;
        if self.is_let_through(judged, blocked) {
            return None;
        }
        let reasons = content::reasons(&blocked.checks, blocked.posterior);
        Some(refusal_text(tool, &format!("its result is not believable: {reasons} (receipt {})", receipt.call)))
    }
}

/// What is in a value, as in an answer of a server.
fn parts_of(returned: &ReturnedValue<'_>, texts: bool, unjudged: &mut Option<String>) -> AnswerParts {
    let value = returned.value;
    let said_so = returned.is_mcp_result && matches!(value.get("isError"), Some(Exact::Word("true")));
    let outcome = if returned.is_error || said_so { CallOutcome::ToolError } else { CallOutcome::Result };
    let of_text;
    let mut whole = None;
    let (forms, judged) = match value {
        value if returned.is_mcp_result => (forms_of_result(value), judged_part(value)),
        Exact::Text(text) => {
            // A text that is JSON is judged as that.
            of_text = text_result(text, returned.is_error);
            (forms_of_result(&of_text), judged_part(&of_text))
        }
        other => {
            let structured = other.canonical();
            whole = Some(structured.clone());
            let result = ["{\"structuredContent\":", &structured, "}"].concat();
            (vec![(View::Whole, result), (View::Structured, structured)], Cow::Borrowed(other))
        }
    };
    let bytes = forms.first().map_or(0, |(_, form)| form.len());
    let mut parts = AnswerParts {
        outcome,
        forms,
        value: None,
        texts: if texts { content::texts(value) } else { Vec::new() },
        empty: if returned.is_mcp_result { content::is_empty(value) } else { content::says_nothing(value) },
        foreign: false,
        structured: false,
        differing: None,
        leaves: match whole {
            _ if bytes > MAX_PARTS_BYTES => Leaves::None,
            Some(form) => Leaves::Whole(form),
            None => Leaves::Apart(leaves(&judged)),
        },
    };
    if outcome == CallOutcome::Result {
        match content::value(&judged) {
            _ if returned.too_large => *unjudged = Some("a result with more parts than are judged".to_owned()),
            _ if bytes > MAX_JUDGED_BYTES => {
                *unjudged = Some(format!("a result of {bytes} bytes; up to {MAX_JUDGED_BYTES} are judged"));
            }
            Ok(value) => parts.value = Some(value),
            Err(_) => *unjudged = Some("a number in the result is beyond what can be judged".to_owned()),
        }
    }
    parts
}

/// The views of a text that a model was shown: those by which transcripts tell texts. It is made for every call, so no more than these.
fn forms_of_shown(text: &str) -> Vec<Form> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut forms =
        vec![(View::Whole, text.to_owned()), (View::Text, text.trim().to_owned()), (View::Letters, words.join(" "))];
    if let Ok(value @ (Exact::Object(_) | Exact::List(_))) = Exact::parse(text) {
        forms.push((View::Structured, value.canonical()));
    }
    forms
}

/// A text, as a server would give it.
fn text_result(text: &str, is_error: bool) -> Exact<'_> {
    let item = [("text".into(), Exact::Text(text.into())), ("type".into(), Exact::Text("text".into()))];
    let mut members = Members::from([("content".into(), Exact::List(vec![Exact::Object(item.into())]))]);
    if is_error {
        members.insert("isError".into(), Exact::Word("true"));
    }
    Exact::Object(members)
}

/// The result as JSON, for review.
fn result_text(returned: &ReturnedValue<'_>) -> String {
    let error = if returned.is_error { ",\"isError\":true" } else { "" };
    match returned.value {
        result if returned.is_mcp_result => result.canonical(),
        Exact::Text(_) => {
            format!("{{\"content\":[{{\"text\":{},\"type\":\"text\"}}]{error}}}", returned.value.canonical())
        }
        other => format!("{{\"content\":[],\"structuredContent\":{}{error}}}", other.canonical()),
    }
}
