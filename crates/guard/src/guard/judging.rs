//! Judging an answer: what the engine thinks of it, and what the receipt says. What the client gets is in `delivering`.

use std::sync::PoisonError;

use credence_protocol::receipt::{
    CallOutcome, Commitment, Exact, Salts, Views, arguments_form, cut_name, forms_of_error, forms_of_result,
};
use credence_receipts::{
    CanaryRecord, ControlRecord, Intent, NewReceipt, PartDigests, Private,
    parts::{digest, digests, fingerprint_of_form},
};
use credence_verify::{Call, Decision, Origin, Stage};
use serde_json::{Value, value::RawValue};

use super::{Guard, controls::HeldResult, delivering::Delivery};
use crate::{
    Error,
    agreement::TEXT_DIFFERS,
    answer::{Answer, AnswerParts, Leaves},
    both::{LARGE_BYTES, both},
    config::FlagAction,
    content, injection,
    oversight::EndedCall,
    pending::{PreparedArguments, StartedCall},
    quarantine::{KeptChange, item::Explained},
    settings::GuardMode,
    switch::SWITCHED_OFF,
};

/// A check in receipts: the result has members that the protocol does not know.
pub(super) const EXTRA_MEMBERS: &str = "extra_members";
/// Bytes of a reason in a receipt.
const MAX_REASON: usize = 200;
/// Bytes of a request's id in a receipt; longer ones are left out.
const MAX_REQUEST_ID: usize = 128;

/// A call whose answer was judged; its receipt is not written yet.
pub struct JudgedCall {
    pub(super) started: StartedCall,
    pub(super) new: NewReceipt,
    pub(super) value: Option<Value>,
    pub(super) leaves: Leaves,
    /// What the client gets in place of the server's answer.
    pub(super) delivery: Delivery,
    /// `None` where there is no verdict.
    pub(super) assessment: Option<Assessment>,
    pub(super) injection: Option<injection::Finding>,
    /// There is nothing in the result.
    pub(super) empty: bool,
    /// Some of its members are not the protocol's.
    pub(super) foreign: bool,
    /// What is done about a result that is not believed, as it was when this one was judged.
    pub(super) mode: GuardMode,
    /// The guard is switched off.
    pub(super) off: bool,
    /// What is done about a flag.
    pub(super) flags: FlagAction,
    /// The share of accepted results of which a made-up variant is judged.
    pub(super) canaries: f64,
}

/// What was found out about a result.
#[derive(Debug, Clone)]
pub(super) struct Assessment {
    pub decision: Decision,
    pub posterior: f64,
    /// The checks that fired.
    pub checks: Vec<String>,
    pub stage: Stage,
    /// Something is wrong with the text beside the structure.
    pub text_in_doubt: bool,
    /// What the engine says of it, unless it is accepted.
    pub explained: Explained,
    /// The changes of the tool that it shows.
    pub changes: Vec<KeptChange>,
}

impl Guard {
    /// Computes the argument part of a receipt.
    pub fn prepare(&self, arguments: Option<&RawValue>) -> Option<PreparedArguments> {
        let salts = Salts::generate().ok()?;
        // Arguments that two readers may read differently: no claim will match them.
        let Ok(arguments) = arguments.map(Exact::of).transpose() else {
            let unreadable = salts.arguments.commit("unreadable", arguments.map_or("", RawValue::get));
            return Some(PreparedArguments { salts, arguments: unreadable, print: [0; 16] });
        };
        Some(self.prepare_form(salts, &arguments_form(arguments.as_ref())))
    }

    /// The same of arguments of which this is the [form](arguments_form).
    pub(super) fn prepare_form(&self, salts: Salts, form: &str) -> PreparedArguments {
        let print = fingerprint_of_form(&self.key, form);
        PreparedArguments { salts, arguments: salts.arguments_in_form(form), print }
    }

    /// Judges an answer. Nothing is written yet.
    pub fn judge(&self, started: StartedCall, answer: Answer<'_>, execution_ms: f64) -> JudgedCall {
        let policy = self.oversight.policy(&started.tool);
        let (mode, off) = (self.oversight.mode_of(&policy), self.oversight.is_off());
        let mut unjudged: Option<String> = off.then(|| SWITCHED_OFF.to_owned());
        let prepared = started.prepared.or_else(|| self.prepare(started.arguments.as_deref()));
        let prepared = prepared.unwrap_or_else(|| {
            unjudged = Some("the system gives no randomness".to_owned());
            without_commitment()
        });
        let PreparedArguments { salts, arguments, .. } = prepared;
        let parsed_arguments = started.arguments.as_deref().and_then(|raw| Exact::of(raw).ok());
        let scan = policy.content_injection && !off;
        let parts = AnswerParts::parse(answer, parsed_arguments.as_ref(), scan, &mut unjudged);
        let assess = || {
            if let Some(why) = unjudged {
                return Err(why);
            }
            if parts.outcome != CallOutcome::Result {
                return Err(parts.why_unjudged().to_owned());
            }
            self.calibrate(&started.tool, &policy);
            let arguments = parsed_arguments.as_ref().and_then(|exact| content::value(exact).ok());
            let assessed = self.assess(&started, &parts, arguments.as_ref(), execution_ms);
            assessed.map_err(|error| cut(&error.to_string(), MAX_REASON))
        };
        let bytes: usize = parts.forms.iter().map(|(_, form)| form.len()).sum();
        let (assessed, result) = both(bytes >= LARGE_BYTES, assess, || Views::commit(&salts.result, &parts.forms));
        let (assessment, unjudged) = match assessed {
            Ok(assessment) => (Some(assessment), None),
            Err(why) => (None, Some(why)),
        };
        let blocked = assessment.as_ref().is_some_and(|one| one.decision == Decision::Block);
        let injection = scan.then(|| self.instructions.look(&started, &parts, !blocked)).flatten();
        let private = Private { salts, print: prepared.print_text() };
        let mut receipt = self.intent(&started, arguments).into_receipt(parts.outcome);
        receipt.execution_ms = (parts.outcome != CallOutcome::Unanswered).then_some(execution_ms);
        receipt.result = result;
        receipt.checks = assessment.as_ref().map(|one| one.checks.clone()).unwrap_or_default();
        if parts.foreign {
            receipt.checks.push(EXTRA_MEMBERS.to_owned());
        }
        receipt.verdict = assessment.as_ref().map(|one| one.decision);
        receipt.posterior = assessment.as_ref().map(|one| one.posterior);
        receipt.unjudged = unjudged;
        receipt.content_injection = injection.as_ref().map(|finding| finding.score);
        drop(parsed_arguments);
        let mut judged = JudgedCall {
            assessment,
            injection,
            value: parts.value,
            empty: parts.empty,
            foreign: parts.foreign,
            leaves: parts.leaves,
            new: NewReceipt { receipt, private },
            started,
            delivery: Delivery::AsItCame,
            mode,
            off,
            flags: policy.flags,
            canaries: policy.canaries,
        };
        judged.delivery = self.deliver(&judged, answer, None);
        let forms = match &judged.delivery {
            // `_meta` alone, or nothing at all, was added: the client has what the server gave.
            Delivery::AsItCame | Delivery::Annotated(_) => Vec::new(),
            Delivery::Changed(text) | Delivery::Withheld(text) => {
                Exact::parse(text).map(|exact| forms_of_result(&exact)).unwrap_or_default()
            }
            Delivery::Error(object) => Exact::parse(object).map(|exact| forms_of_error(&exact)).unwrap_or_default(),
        };
        let delivered = Views::commit(&judged.new.private.salts.result, &forms);
        judged.new.receipt.delivered = delivered.filter(|views| Some(*views) != judged.new.receipt.result);
        judged
    }

    /// Has the engine judge a result, and the text beside its structure.
    pub(super) fn assess(
        &self,
        started: &StartedCall,
        parts: &AnswerParts,
        arguments: Option<&Value>,
        execution_ms: f64,
    ) -> Result<Assessment, Error> {
        let value = parts.value.as_ref();
        let value = value.ok_or_else(|| Error::Content("the result holds nothing to judge".to_owned()))?;
        // Declared errors are not judged at all.
        let mut call = question(started, value, Some(execution_ms), &self.settings.session);
        if let Some(arguments) = arguments {
            call = call.args(arguments);
        }
        let engine = self.engine.load();
        let verdict = engine.verify(&call)?;
        let mut assessment = Assessment {
            decision: verdict.decision,
            posterior: verdict.posterior,
            checks: content::fired(&verdict),
            stage: verdict.stage,
            text_in_doubt: false,
            explained: Explained::default(),
            changes: verdict.changes.iter().map(KeptChange::of).collect(),
        };
        // An accepted result that shows a change is kept, too.
        if verdict.decision != Decision::Accept || !verdict.changes.is_empty() {
            assessment.explained.add("", verdict);
        }
        if !parts.structured || assessment.decision == Decision::Block {
            return Ok(assessment);
        }
        let mut findings: Vec<String> = {
            let mut habits = self.habits.lock().unwrap_or_else(PoisonError::into_inner);
            let odd_numbers = parts.differing.as_ref().map(|text| text.odd_numbers);
            habits.findings(&started.tool, odd_numbers).into_iter().map(str::to_owned).collect()
        };
        // As the result of a tool without structure would be: under a name of its own, with a memory of its own.
        if let Some(text) = &parts.differing {
            let name = name_of_text(&started.tool);
            let judged = text.value.as_ref().map(|value| {
                let call = Call::new(&name, value).origin(Origin::Upstream).at(started.at);
                engine.verify(&arguments.as_ref().map_or(call, |arguments| call.args(arguments)))
            });
            if let Some(Ok(judged)) = &judged {
                assessment.changes.extend(judged.changes.iter().map(KeptChange::of));
            }
            match judged {
                Some(Ok(judged)) if judged.decision == Decision::Accept => {}
                Some(Ok(judged)) => {
                    assessment.posterior = assessment.posterior.max(judged.posterior);
                    findings.extend(content::fired(&judged).into_iter().map(|check| format!("text_{check}")));
                    assessment.explained.add("text_", judged);
                }
                _ => findings.push("text_unjudged".to_owned()),
            }
        }
        if !findings.is_empty() {
            assessment.text_in_doubt = true;
            // That there is prose beside a structure is no alarm by itself: every tool that writes summaries would begin with some.
            if findings.iter().any(|finding| finding != TEXT_DIFFERS) {
                assessment.decision = assessment.decision.max(Decision::Flag);
            }
            assessment.checks.extend(findings);
        }
        Ok(assessment)
    }

    /// What is known of a call before there is an answer.
    pub(crate) fn intent(&self, started: &StartedCall, arguments: Commitment) -> Intent {
        Intent {
            agent: started.caller.agent.clone(),
            arguments,
            call: started.call,
            client: started.client.clone(),
            request: (started.id.len() <= MAX_REQUEST_ID).then(|| started.id.clone()),
            server: self.settings.name.clone(),
            session: started.caller.session.clone(),
            stake: started.caller.stake,
            started_at: started.at,
            tool: cut_name(&started.tool),
            uid: None,
            vantage: Some(self.settings.vantage),
        }
    }

    /// What the client gets where no receipt could be written, for this reason.
    pub(super) fn deliver_without_receipt(&self, judged: &mut JudgedCall, answer: Answer<'_>, why: &str) {
        judged.delivery = self.deliver(judged, answer, Some(why));
    }

    /// Whether it is this accepted result's turn to be put to the test.
    pub(super) fn owes_shadow(&self, judged: &JudgedCall) -> bool {
        let mut owed = self.canaries_owed.lock().unwrap_or_else(PoisonError::into_inner);
        *owed += judged.canaries;
        let due = *owed >= 1.0;
        if due {
            *owed -= 1.0;
        }
        due
    }

    /// An earlier result of the same tool that was accepted, judged again in shadow; this one takes its place.
    pub(super) fn control(&self, judged: &JudgedCall) -> Result<Option<ControlRecord>, Error> {
        let Some(value) = &judged.value else { return Ok(None) };
        let held = HeldResult {
            call: judged.new.receipt.call,
            agent: judged.new.receipt.agent.clone(),
            value: value.clone(),
            arguments: judged.started.arguments.clone(),
            execution_ms: judged.new.receipt.execution_ms,
        };
        let former = {
            let mut controls = self.controls.lock().unwrap_or_else(PoisonError::into_inner);
            controls.exchange(&judged.started.tool, held)
        };
        let Some(former) = former else { return Ok(None) };
        let verdict = self.engine.load().verify(&former.call(&judged.started.tool).learn(false))?;
        let rejected = verdict.decision != Decision::Accept;
        Ok(Some(ControlRecord { call: former.call, agent: former.agent, rejected }))
    }

    /// A made-up variant of the result, judged in shadow.
    pub(super) fn canary(&self, judged: &JudgedCall) -> Result<Option<CanaryRecord>, Error> {
        let Some(value) = &judged.value else { return Ok(None) };
        let receipt = &judged.new.receipt;
        // As the genuine result was judged: at its time, in its session.
        let mut call = question(&judged.started, value, receipt.execution_ms, &self.settings.session);
        if let Some(arguments) = &judged.started.arguments {
            call = call.args_from_bytes(arguments.get().as_bytes());
        }
        let Some(made) = self.engine.load().canary(&call)? else { return Ok(None) };
        let canary = CanaryRecord {
            call: receipt.call,
            agent: receipt.agent.clone(),
            fabrication: made.fabrication.name().to_owned(),
            caught: made.verdict.decision != Decision::Accept,
        };
        Ok(Some(canary))
    }
}

impl JudgedCall {
    /// What the client gets.
    pub fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    /// Whether the client did not get the result.
    pub fn is_withheld(&self) -> bool {
        matches!(self.delivery, Delivery::Withheld(_))
            || matches!(self.delivery, Delivery::Error(_)) && self.new.receipt.outcome != CallOutcome::ProtocolError
    }

    /// What an operator sees of it. `session` stands for callers that name none.
    pub(super) fn ended(&self, session: &str) -> EndedCall<'_> {
        EndedCall {
            receipt: &self.new.receipt,
            changes: self.changes(),
            withheld: self.is_withheld(),
            mode: self.mode,
            traceparent: self.started.traceparent.as_deref(),
            session: self.started.caller.session.as_deref().filter(|named| *named != session),
        }
    }

    /// The changes of the tool that its result shows.
    pub(super) fn changes(&self) -> &[KeptChange] {
        self.assessment.as_ref().map(|one| one.changes.as_slice()).unwrap_or_default()
    }

    /// Whether a person should be able to look at its result: it is not believed, shows a change, or gives orders.
    pub(super) fn is_for_review(&self) -> bool {
        let doubted = self.assessment.as_ref().is_some_and(|one| one.decision != Decision::Accept);
        doubted || !self.changes().is_empty() || self.injection.as_ref().is_some_and(|finding| finding.fired)
    }

    /// Whether its result was accepted.
    pub(super) fn is_accepted(&self) -> bool {
        self.assessment.as_ref().is_some_and(|one| one.decision == Decision::Accept)
    }

    /// The digests of the parts of its arguments and result.
    pub(super) fn part_digests(&self) -> PartDigests {
        let salts = &self.new.private.salts;
        let arguments = self.started.arguments.as_deref().and_then(|raw| Exact::of(raw).ok());
        let result = self.leaves.apart();
        PartDigests {
            arguments: arguments.map(|value| digests(&value, &salts.arguments)).unwrap_or_default(),
            result: result.iter().map(|(path, form)| (path.clone(), digest(&salts.result, path, form))).collect(),
        }
    }

    /// The request's id, as JSON.
    pub fn id(&self) -> &str {
        &self.started.id
    }
}

/// What the engine is asked of a result, but for its arguments. `own_session` stands for callers that name none.
fn question<'a>(started: &'a StartedCall, value: &'a Value, execution_ms: Option<f64>, own_session: &str) -> Call<'a> {
    // The guard read it from the server itself.
    let mut call = Call::new(&started.tool, value).origin(Origin::Upstream).at(started.at);
    if let Some(ms) = execution_ms {
        call = call.execution_time_ms(ms);
    }
    // A session that nobody named is this process: it says nothing of who calls, and would be the only caller there is.
    match started.caller.session.as_deref().filter(|session| *session != own_session) {
        Some(session) => call.session(session),
        None => call,
    }
}

/// For a call whose arguments nothing can be said of: no claim will match it.
#[allow(clippy::expect_used, reason = "a constant")]
fn without_commitment() -> PreparedArguments {
    let zero = || "AAAAAAAAAAAAAAAAAAAAAA".parse().expect("22 characters of base64url");
    let salts = Salts { arguments: zero(), result: zero() };
    PreparedArguments { salts, arguments: salts.arguments.commit("unreadable", ""), print: [0; 16] }
}

/// The name under which the engine knows the text beside a tool's structure.
pub(super) fn name_of_text(tool: &str) -> String {
    format!("{tool} (text)")
}

/// At most so many bytes of a text.
pub(super) fn cut(text: &str, most: usize) -> String {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Caller;

    #[test]
    fn the_engine_is_told_when_and_in_which_session_a_call_was_made() {
        let value = serde_json::json!({ "status": "green" });
        let mut started = StartedCall {
            call: credence_protocol::Uuid::now_v7(),
            id: "1".to_owned(),
            tool: "health".to_owned(),
            arguments: None,
            caller: Caller { session: Some("s-1".to_owned()), ..Caller::default() },
            client: None,
            at: credence_receipts::now(),
            instant: std::time::Instant::now(),
            as_task: false,
            cancelled: false,
            traceparent: None,
            prepared: None,
        };
        let told = || Call::new("health", &value).origin(Origin::Upstream).at(started.at);
        let asked = question(&started, &value, Some(3.0), "own");
        assert_eq!(format!("{asked:?}"), format!("{:?}", told().execution_time_ms(3.0).session("s-1")));
        let without = told();
        started.caller.session = Some("own".to_owned());
        let asked = question(&started, &value, None, "own");
        assert_eq!(format!("{asked:?}"), format!("{without:?}"), "a session that nobody named is none");
    }
}
