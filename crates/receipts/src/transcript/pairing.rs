//! Pairing: each result with its call as the transcript is read, once through.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use credence_protocol::receipt::Exact;
use serde_json::value::RawValue;

use super::{
    Claim, ClaimedResult, Error, Format, MAX_CLAIMS, MAX_DEPTH, MAX_ITEMS, MAX_NAME_BYTES, MAX_PROBLEMS, Order,
    Problem, Transcript, Why,
    json::{self, At, Node},
};

/// Characters of a name or an id that a message quotes.
const MAX_QUOTED: usize = 80;

/// Whether two names can be those of one tool: clients put a server in front, and replace characters.
fn are_alike(one: &str, other: &str) -> bool {
    let image = |name: &str| -> String {
        let plain = |c: char| if c.is_ascii() && !c.is_ascii_alphanumeric() { '_' } else { c.to_ascii_lowercase() };
        let mut image: Vec<char> = name.chars().map(plain).collect();
        // `mcp__fs__read_file` and `fs.read_file`.
        image.dedup_by(|one, before| *one == '_' && *before == '_');
        image.into_iter().collect()
    };
    let (one, other) = (image(one), image(other));
    let ends_with = |long: &str, short: &str| long.strip_suffix(short).is_some_and(|rest| rest.ends_with('_'));
    one == other || ends_with(&one, &other) || ends_with(&other, &one)
}

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

    /// The id as a message quotes it, cut where it is long.
    pub(super) fn quoted(&self) -> String {
        let (Id::Conversation(id) | Id::Function(id) | Id::Rpc(id)) = self;
        id.chars().take(MAX_QUOTED).collect()
    }
}

/// A call the transcript shows.
pub(super) struct Call {
    pub(super) id: Option<Id>,
    pub(super) tool: Option<String>,
    /// The server, where the call names it beside the tool.
    pub(super) server: Option<String>,
    pub(super) arguments: Option<Arc<RawValue>>,
}

/// A result the transcript shows.
pub(super) struct Answer {
    pub(super) said: ClaimedResult,
    pub(super) receipt: Option<String>,
    /// Whether the transcript calls it an error; `None` where it says neither.
    pub(super) error: Option<bool>,
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
    open: VecDeque<Option<usize>>,
    /// How many of them are tool calls.
    open_calls: usize,
    /// The claim of the tool call answered last.
    answered: Option<usize>,
}

#[derive(Default)]
pub(super) struct Pairing {
    pub(super) transcript: Transcript,
    /// Where what is unrecognised begins, as addresses.
    pub(super) places: Vec<usize>,
    /// Members that are no results, as the caller says.
    pub(super) ignored_members: Vec<String>,
    entries: HashMap<Id, Entry>,
    /// The claims of calls that run as tasks, by the task.
    tasks: HashMap<String, usize>,
    overflow: bool,
    conversation: usize,
    /// Calls and results so far.
    moment: usize,
    message: usize,
    /// The message of each claim's call.
    messages: Vec<usize>,
    /// The last message in which a model says something.
    last_spoken: usize,
    answers: usize,
    last_answered: Option<usize>,
    /// The transcript tells its conversation several times.
    retells: bool,
    /// The ids of calls by their tools, for formats whose results may name the tool alone.
    ids_by_tool: HashMap<String, VecDeque<Id>>,
}

impl Pairing {
    /// Members of these names are no results.
    pub(super) fn without(ignored_members: &[String]) -> Self {
        Self { ignored_members: ignored_members.to_vec(), ..Self::default() }
    }

    pub(super) fn close(mut self) -> Result<(Transcript, Vec<usize>), Error> {
        for (claim, message) in self.transcript.claims.iter_mut().zip(&self.messages) {
            claim.is_followed = matches!(claim.result, ClaimedResult::Nothing) && *message < self.last_spoken;
        }
        if self.overflow { Err(Error::TooManyCalls) } else { Ok((self.transcript, self.places)) }
    }

    /// A new message, or a part that stands for one.
    pub(super) fn next_message(&mut self) {
        self.message += 1;
    }

    /// A new conversation: its calls have no order with those of the one before.
    pub(super) fn next_conversation(&mut self) {
        self.conversation += 1;
    }

    /// From here on, calls and results that were told may be told again, as snapshots of a conversation do. All tellings of a result
    /// are compared with its receipt.
    pub(super) fn tells_again(&mut self) {
        self.retells = true;
    }

    /// Notes that a call with an id may be answered by the tool's name alone.
    pub(super) fn may_be_answered_by_name(&mut self, tool: &str, id: &Id) {
        self.ids_by_tool.entry(tool.to_owned()).or_default().push_back(id.clone());
    }

    /// The id of the first call of a tool that has no result.
    pub(super) fn first_open(&mut self, tool: &str) -> Option<Id> {
        let ids = self.ids_by_tool.get_mut(tool)?;
        while let Some(id) = ids.pop_front() {
            if self.entries.get(&id).is_some_and(|entry| entry.open_calls > 0) {
                return Some(id);
            }
        }
        None
    }

    /// The model says something in this message.
    pub(super) fn spoke(&mut self) {
        self.last_spoken = self.message;
    }

    /// Results so far.
    pub(super) fn answers(&self) -> usize {
        self.answers
    }

    /// Enters what a line tells of its result once more; `false` unless one result came since `answers_before`.
    pub(super) fn answered_again(&mut self, answers_before: usize, raw: &RawValue) -> bool {
        let Some(number) = self.last_answered.filter(|_| self.answers == answers_before + 1) else { return false };
        let Answer { said, .. } = self.answer(Some(raw), None, &At::Document);
        self.transcript.claims[number].again.push(said);
        true
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
    pub(super) fn answer(&mut self, raw: Option<&RawValue>, error: Option<bool>, at: &At<'_>) -> Answer {
        let Some(raw) = raw else {
            return Answer { said: ClaimedResult::Text(String::new()), receipt: None, error };
        };
        let error = error.or_else(|| json::result_flag(raw));
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
        Answer { said, receipt: json::receipt(raw), error }
    }

    /// A result kept as one piece of JSON.
    pub(super) fn whole(
        &mut self,
        raw: &RawValue,
        said: fn(Box<RawValue>) -> ClaimedResult,
        error: Option<bool>,
        at: &At<'_>,
    ) -> Answer {
        self.check_depth(raw, at);
        Answer { said: said(raw.to_owned()), receipt: json::receipt(raw), error }
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

    /// Enters a call unless the same call is known and told again where its result stands.
    pub(super) fn called_if_new(&mut self, format: Format, call: Call, at: &At<'_>) {
        let retells = std::mem::replace(&mut self.retells, true);
        let known = self.told_before(&call).is_some();
        self.retells = retells;
        if !known {
            self.called(format, call, at);
        }
    }

    /// Enters a call together with its result, where one object has both.
    pub(super) fn called_and_answered(&mut self, format: Format, call: Call, answer: Option<Answer>, at: &At<'_>) {
        let waits = answer.is_none();
        if let Some(number) = self.told_before(&call) {
            if self.retells {
                let called = self.tick();
                let order = &mut self.transcript.claims[number].order;
                (order.conversation, order.called) = (self.conversation, called);
            }
            if let Some(answer) = answer {
                self.answered(format, call.id, answer, at);
            }
            return;
        }
        let Answer { said, receipt, error } =
            answer.unwrap_or(Answer { said: ClaimedResult::Nothing, receipt: None, error: None });
        let mut claim = self.new_claim(call.id.as_ref(), said, receipt, error, at);
        (claim.tool, claim.server, claim.arguments) = (call.tool, call.server, call.arguments);
        claim.order.called = self.tick();
        if !waits {
            claim.order.answered = self.tick();
        }
        let Some(number) = self.claim(format, claim) else { return };
        if !waits {
            self.note_answer(number);
        }
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
            entry.open.push_back(Some(number));
            entry.open_calls += 1;
        } else {
            entry.answered = Some(number);
        }
        if repeated {
            self.problem(at, Why::SameId(shown));
        }
    }

    /// The claim of the same call, where it is told a second time: beside the content and in it, as some frameworks do, or in a
    /// transcript that [tells again](Self::tells_again).
    fn told_before(&self, call: &Call) -> Option<usize> {
        let Some(id @ Id::Conversation(_)) = &call.id else { return None };
        let entry = self.entries.get(id)?;
        let answered = entry.answered.filter(|_| self.retells);
        let number = entry.open.back().copied().flatten().or(answered)?;
        let form = |arguments: &Option<Arc<RawValue>>| {
            let exact = Exact::of(arguments.as_deref()?).ok()?;
            Some(exact.canonical())
        };
        let first = &self.transcript.claims[number];
        let same = (self.retells || self.messages[number] == self.message)
            && first.tool == call.tool
            && form(&first.arguments) == form(&call.arguments);
        same.then_some(number)
    }

    /// Enters a request that is no tool call, so that its response is not taken for a result.
    pub(super) fn asked_otherwise(&mut self, id: Id) {
        self.entries.entry(id).or_default().open.push_back(None);
    }

    /// What a response with this id answers.
    pub(super) fn awaited(&self, id: &Id) -> Awaited {
        match self.entries.get(id).map(|entry| (entry.open.back(), entry.answered)) {
            Some((Some(None), _)) => Awaited::Other,
            Some((Some(Some(_)), _) | (None, Some(_))) => Awaited::Tool,
            _ => Awaited::Nothing,
        }
    }

    /// Enters a response that is no result: to another request, or one that asks for more first.
    pub(super) fn answered_otherwise(&mut self, id: &Id) {
        if let Some(entry) = self.entries.get_mut(id)
            && let Some(Some(number)) = entry.open.pop_back()
        {
            entry.open_calls -= 1;
            entry.answered = Some(number);
        }
    }

    /// Enters a response by which a call goes on as a task.
    pub(super) fn became_task(&mut self, id: &Id, task: &str) {
        if let Some(entry) = self.entries.get_mut(id)
            && let Some(Some(number)) = entry.open.pop_back()
        {
            entry.open_calls -= 1;
            self.tasks.insert(task.to_owned(), number);
        }
    }

    /// Enters a request for the result of a task; `false` where no call became that task.
    pub(super) fn asked_for_task(&mut self, id: &Id, task: &str) -> bool {
        let Some(number) = self.tasks.get(task) else { return false };
        let entry = self.entries.entry(id.clone()).or_default();
        entry.open.push_back(Some(*number));
        entry.open_calls += 1;
        true
    }

    /// Enters a result: of the latest call of this id that has none; of calls that are known by their function alone, of the first.
    pub(super) fn answered(&mut self, format: Format, id: Option<Id>, answer: Answer, at: &At<'_>) {
        let Answer { said, receipt, error } = answer;
        let mut claim = self.new_claim(id.as_ref(), said, receipt, error, at);
        let moment = self.tick();
        (claim.order.called, claim.order.answered) = (moment, moment);
        let number = id.as_ref().and_then(|id| {
            let entry = self.entries.get_mut(id)?;
            let first = matches!(id, Id::Function(_));
            let open = if first { entry.open.pop_front() } else { entry.open.pop_back() }.flatten();
            entry.open_calls -= usize::from(open.is_some());
            entry.answered = open.or(entry.answered);
            entry.answered
        });
        let Some(number) = number else {
            if let Some(id) = id {
                self.problem(at, Why::UnknownCall(id.quoted()));
            }
            if let Some(number) = self.claim(format, claim) {
                self.note_answer(number);
            }
            return;
        };
        let called = &mut self.transcript.claims[number];
        claim.tool.clone_from(&called.tool);
        claim.server.clone_from(&called.server);
        claim.arguments.clone_from(&called.arguments);
        claim.order.called = called.order.called;
        claim.order.conversation = called.order.conversation;
        if matches!(called.result, ClaimedResult::Nothing) {
            *called = claim;
            self.note_answer(number);
            self.transcript.formats.insert(format);
        } else if self.retells && matches!(id, Some(Id::Conversation(_))) && !called.contradicts(&claim) {
            called.again.push(claim.result);
            called.is_error |= claim.is_error;
            called.is_success |= claim.is_success;
            (called.order.conversation, called.order.answered) = (self.conversation, moment);
            called.receipt = called.receipt.take().or(claim.receipt);
            self.note_answer(number);
        } else {
            self.problem(at, Why::AnsweredTwice);
            if let Some(number) = self.claim(format, claim) {
                self.note_answer(number);
            }
        }
    }

    /// A result with this id names the tool that gave it: another than its call's is a problem.
    pub(super) fn given_by(&mut self, id: Option<&Id>, name: Option<&RawValue>, at: &At<'_>) {
        let (Some(id @ Id::Conversation(_)), Some(name)) = (id, name.and_then(json::text)) else { return };
        let Some(entry) = self.entries.get(id) else { return };
        let Some(number) = entry.open.back().copied().flatten().or(entry.answered) else { return };
        let called = self.transcript.claims[number].tool.as_deref();
        if called.is_some_and(|called| !are_alike(called, &name)) {
            self.problem(at, Why::OtherTool(name.chars().take(MAX_QUOTED).collect()));
        }
    }

    fn note_answer(&mut self, number: usize) {
        self.answers += 1;
        self.last_answered = Some(number);
    }

    fn tick(&mut self) -> usize {
        self.moment += 1;
        self.moment
    }

    fn new_claim(
        &self,
        id: Option<&Id>,
        result: ClaimedResult,
        receipt: Option<String>,
        error: Option<bool>,
        at: &At<'_>,
    ) -> Claim {
        Claim {
            at: at.to_string(),
            call: id.and_then(Id::shown),
            receipt,
            tool: None,
            server: None,
            arguments: None,
            result,
            again: Vec::new(),
            is_error: error == Some(true),
            is_success: error == Some(false),
            order: Order { conversation: self.conversation, ..Order::default() },
            is_followed: false,
        }
    }

    fn claim(&mut self, format: Format, claim: Claim) -> Option<usize> {
        self.overflow |= self.transcript.claims.len() >= MAX_CLAIMS;
        if self.overflow {
            return None;
        }
        self.transcript.formats.insert(format);
        self.transcript.claims.push(claim);
        self.messages.push(self.message);
        Some(self.transcript.claims.len() - 1)
    }
}
