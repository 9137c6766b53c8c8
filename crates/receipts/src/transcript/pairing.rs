//! Pairing: each result with its call as the transcript is read, once through.

use std::{collections::HashMap, sync::Arc};

use serde_json::value::RawValue;

use super::{
    Claim, ClaimedResult, Error, Format, MAX_CLAIMS, MAX_DEPTH, MAX_ITEMS, MAX_NAME_BYTES, MAX_PROBLEMS, Problem,
    Transcript, Why,
    json::{self, At, Node},
};

/// What a result names its call by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Id {
    /// An id of a conversation (`tool_call_id`, `call_id`, `tool_use_id`): never used again.
    Conversation(String),
    /// A function's name, in the days before ids.
    Function(String),
    /// A JSON-RPC id, in its own JSON text: `1` and `"1"` are two.
    Rpc(String),
}

impl Id {
    fn shown(&self) -> Option<String> {
        match self {
            Id::Conversation(id) => Some(id.clone()),
            Id::Function(_) => None,
            Id::Rpc(json) => Some(serde_json::from_str(json).unwrap_or_else(|_| json.clone())),
        }
    }

    /// The id as a message quotes it, cut where it goes on and on.
    pub(super) fn quoted(&self) -> String {
        let (Id::Conversation(id) | Id::Function(id) | Id::Rpc(id)) = self;
        id.chars().take(80).collect()
    }
}

/// A call the transcript shows.
pub(super) struct Call {
    pub(super) id: Option<Id>,
    pub(super) tool: Option<String>,
    pub(super) arguments: Option<Arc<RawValue>>,
}

/// A result the transcript shows.
pub(super) struct Answer {
    pub(super) said: ClaimedResult,
    pub(super) receipt: Option<String>,
    pub(super) is_error: bool,
}

/// What the next response with some JSON-RPC id answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited {
    Tool,
    Other,
    Nothing,
}

/// What is known under one id.
#[derive(Default)]
struct Entry {
    /// Requests without a response, the latest last: the claim of a tool call, `None` for another request.
    open: Vec<Option<usize>>,
    /// How many of them are tool calls.
    open_calls: usize,
    /// The claim of the tool call answered last.
    answered: Option<usize>,
}

#[derive(Default)]
pub(super) struct Pairing {
    transcript: Transcript,
    entries: HashMap<Id, Entry>,
    overflow: bool,
}

impl Pairing {
    pub(super) fn close(self) -> Result<Transcript, Error> {
        if self.overflow { Err(Error::TooManyCalls) } else { Ok(self.transcript) }
    }

    pub(super) fn problem(&mut self, at: &At<'_>, why: Why) {
        if self.transcript.problems.len() < MAX_PROBLEMS {
            self.transcript.problems.push(Problem { at: at.to_string(), why });
        } else {
            self.transcript.problems_left_out += 1;
        }
    }

    /// Reads an object of the transcript, or lists why it cannot be read.
    pub(super) fn node<'a>(&mut self, raw: &'a RawValue, at: &At<'_>) -> Option<Node<'a>> {
        Node::read(raw).map_err(|why| self.problem(at, why)).ok()
    }

    /// Calls `each` with the items of a list.
    pub(super) fn each<'a>(
        &mut self,
        list: &'a RawValue,
        at: &At<'_>,
        mut each: impl FnMut(&mut Self, &'a RawValue, &At<'_>),
    ) {
        let read = json::items(list, |index, item| {
            each(self, item, &at.index(index));
            true
        });
        if let Err(why) = read {
            self.problem(at, why);
        }
    }

    /// The id of a call in a conversation; a missing one is a problem.
    pub(super) fn id(&mut self, raw: Option<&RawValue>, at: &At<'_>) -> Option<Id> {
        let number = |raw: &RawValue| raw.get().starts_with(|c: char| c == '-' || c.is_ascii_digit());
        let id = raw.and_then(|raw| json::text(raw).or_else(|| number(raw).then(|| raw.get().into())));
        if id.is_none() {
            self.problem(at, Why::NoId);
        }
        id.map(|id| Id::Conversation(id.into_owned()))
    }

    /// The name of a tool; a missing one is a problem.
    pub(super) fn name(&mut self, raw: Option<&RawValue>, at: &At<'_>) -> Option<String> {
        let name = raw.and_then(json::text).filter(|name| !name.is_empty() && name.len() <= MAX_NAME_BYTES);
        if name.is_none() {
            self.problem(at, Why::NoName);
        }
        name.map(|name| name.into_owned())
    }

    /// Arguments given as JSON.
    pub(super) fn arguments(&mut self, raw: Option<&RawValue>, at: &At<'_>) -> Option<Arc<RawValue>> {
        let raw = raw?;
        self.check_depth(raw, at);
        Some(raw.to_owned().into())
    }

    /// Arguments given as JSON within a JSON string, or, as some servers do, directly.
    pub(super) fn written_arguments(&mut self, raw: Option<&RawValue>, at: &At<'_>) -> Option<Arc<RawValue>> {
        let raw = raw?;
        if !json::is_text(raw) {
            return self.arguments(Some(raw), at);
        }
        let parsed = match json::text(raw) {
            Some(text) => RawValue::from_string(text.into_owned()).map_err(|error| json::message(&error)),
            None => Err("half a surrogate pair".to_owned()),
        };
        match parsed {
            Ok(arguments) => {
                self.check_depth(&arguments, at);
                Some(arguments.into())
            }
            Err(message) => {
                self.problem(at, Why::Arguments(message));
                None
            }
        }
    }

    /// A result as a conversation gives it: a text, a list of content items, or other JSON.
    pub(super) fn answer(&mut self, raw: Option<&RawValue>, is_error: bool, at: &At<'_>) -> Answer {
        let Some(raw) = raw else {
            return Answer { said: ClaimedResult::Text(String::new()), receipt: None, is_error };
        };
        self.check_depth(raw, at);
        let said = if json::is_text(raw) {
            json::text(raw).map(|text| ClaimedResult::Text(text.into_owned())).ok_or(Why::NotText)
        } else if json::is_list(raw) {
            let mut list = Vec::new();
            let read = json::items(raw, |index, item| {
                list.push(item.to_owned());
                index < MAX_ITEMS
            });
            read.and(if list.len() > MAX_ITEMS { Err(Why::TooManyItems) } else { Ok(ClaimedResult::Items(list)) })
        } else {
            Ok(ClaimedResult::Json(raw.to_owned()))
        };
        let said = said.unwrap_or_else(|why| {
            self.problem(at, why);
            ClaimedResult::Json(raw.to_owned())
        });
        Answer { said, receipt: json::receipt(raw), is_error }
    }

    /// A result kept as one piece of JSON.
    pub(super) fn whole(
        &mut self,
        raw: &RawValue,
        said: fn(Box<RawValue>) -> ClaimedResult,
        is_error: bool,
        at: &At<'_>,
    ) -> Answer {
        self.check_depth(raw, at);
        Answer { said: said(raw.to_owned()), receipt: json::receipt(raw), is_error }
    }

    fn check_depth(&mut self, raw: &RawValue, at: &At<'_>) {
        if json::depth(raw) > MAX_DEPTH {
            self.problem(at, Why::TooDeep);
        }
    }

    /// Enters a call. It is a claim with no result until [`Pairing::answered`].
    pub(super) fn called(&mut self, format: Format, call: Call, at: &At<'_>) {
        self.called_and_answered(format, call, None, at);
    }

    /// Enters a call together with its result, where one object has both.
    pub(super) fn called_and_answered(&mut self, format: Format, call: Call, answer: Option<Answer>, at: &At<'_>) {
        let waits = answer.is_none();
        let Answer { said, receipt, is_error } =
            answer.unwrap_or(Answer { said: ClaimedResult::Nothing, receipt: None, is_error: false });
        let claim = Claim {
            at: at.to_string(),
            call: call.id.as_ref().and_then(Id::shown),
            receipt,
            tool: call.tool,
            arguments: call.arguments,
            result: said,
            is_error,
        };
        let Some(number) = self.claim(format, claim) else { return };
        let Some(id) = call.id else { return };
        let shown = id.quoted();
        let entry = self.entries.entry(id.clone()).or_default();
        let repeated = match id {
            Id::Conversation(_) => entry.open_calls > 0 || entry.answered.is_some(),
            // A new session counts from the start again.
            Id::Rpc(_) => entry.open_calls > 0,
            Id::Function(_) => false,
        };
        if waits {
            entry.open.push(Some(number));
            entry.open_calls += 1;
        } else {
            entry.answered = Some(number);
        }
        if repeated {
            self.problem(at, Why::SameId(shown));
        }
    }

    /// Enters a request that is no tool call, so that its response is not taken for a result.
    pub(super) fn asked_otherwise(&mut self, id: Id) {
        self.entries.entry(id).or_default().open.push(None);
    }

    /// What a response with this id answers.
    pub(super) fn awaited(&self, id: &Id) -> Awaited {
        match self.entries.get(id).map(|entry| (entry.open.last(), entry.answered)) {
            Some((Some(None), _)) => Awaited::Other,
            Some((Some(Some(_)), _) | (None, Some(_))) => Awaited::Tool,
            _ => Awaited::Nothing,
        }
    }

    /// Enters a response that is no result: to another request, or one that asks for more first.
    pub(super) fn answered_otherwise(&mut self, id: &Id) {
        if let Some(entry) = self.entries.get_mut(id)
            && let Some(Some(number)) = entry.open.pop()
        {
            entry.open_calls -= 1;
            entry.answered = Some(number);
        }
    }

    /// Enters a result: of the latest call of this id that has none.
    pub(super) fn answered(&mut self, format: Format, id: Option<Id>, answer: Answer, at: &At<'_>) {
        let Answer { said, receipt, is_error } = answer;
        let mut claim = Claim {
            at: at.to_string(),
            call: id.as_ref().and_then(Id::shown),
            receipt,
            tool: None,
            arguments: None,
            result: said,
            is_error,
        };
        let number = id.as_ref().and_then(|id| {
            let entry = self.entries.get_mut(id)?;
            let open = entry.open.pop().flatten();
            entry.open_calls -= usize::from(open.is_some());
            entry.answered = open.or(entry.answered);
            entry.answered
        });
        let Some(number) = number else {
            if let Some(id) = id {
                self.problem(at, Why::UnknownCall(id.quoted()));
            }
            self.claim(format, claim);
            return;
        };
        let called = &mut self.transcript.claims[number];
        claim.tool.clone_from(&called.tool);
        claim.arguments.clone_from(&called.arguments);
        if matches!(called.result, ClaimedResult::Nothing) {
            *called = claim;
            self.transcript.formats.insert(format);
        } else {
            self.problem(at, Why::AnsweredTwice);
            self.claim(format, claim);
        }
    }

    fn claim(&mut self, format: Format, claim: Claim) -> Option<usize> {
        self.overflow |= self.transcript.claims.len() >= MAX_CLAIMS;
        if self.overflow {
            return None;
        }
        self.transcript.formats.insert(format);
        self.transcript.claims.push(claim);
        Some(self.transcript.claims.len() - 1)
    }
}
