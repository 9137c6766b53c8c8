//! Playing one half of a trial: the turns of a script are sent, honey tools are answered, and everything seen is kept.

use std::collections::BTreeMap;

use serde_json::Value;
use tokio::time::Instant;

use crate::{
    sensor::{
        canary,
        honey::{SeenCall, ServedTool},
        listener::Hits,
        mount::Mount,
    },
    suite::{
        FamilyInFile, Limit, Listing, Part, Turn,
        template::{self, TemplateError},
    },
    target::{Caller, Conversation, Exchange, Input, OfferedTool, Reply, Target, TargetError, ToolAnswer, ToolCall},
    trial::Reason,
    values::Values,
};

use super::{picks, transcript};

/// Rounds of tool calls in one turn; a target that goes on is left there.
pub const MAX_ROUNDS: usize = 12;

/// Where trials are played.
#[derive(Clone, Copy)]
pub struct Stage<'a> {
    /// The target.
    pub target: &'a dyn Target,
    /// What our listener saw.
    pub hits: Option<&'a Hits>,
    /// Honey tools that the operator mounted into the target.
    pub mount: Option<&'a Mount>,
    /// The target's own tools (`mcp`).
    pub own_tools: &'a [OfferedTool],
}

/// What is played.
#[derive(Clone, Copy)]
pub struct Half<'a> {
    /// The family.
    pub family: FamilyInFile<'a>,
    /// The turns.
    pub turns: &'a [Turn],
    /// The page behind `{page_url}`.
    pub page: Option<&'a str>,
    /// The order, spelled.
    pub payload: Option<&'a str>,
    /// The values.
    pub values: &'a Values,
    /// Which half.
    pub part: Part,
}

/// An answer that was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenAnswer {
    /// In which turn, counted from 1.
    pub turn: usize,
    /// In which conversation.
    pub conversation: String,
    /// What it said, all rounds of the turn together.
    pub text: String,
    /// The protocol says that the target did not do it.
    pub declined: bool,
}

/// What was seen.
#[derive(Debug, Clone, Default)]
pub struct Played {
    /// Answers, one for each turn that was answered.
    pub answers: Vec<SeenAnswer>,
    /// Calls of honey tools.
    pub calls: Vec<SeenCall>,
    /// What was sent, by conversation.
    pub sent: Vec<(String, String)>,
    /// Whether the order reached the target, where there is one.
    pub order_reached: bool,
    /// Fetches of the trap.
    pub trap_hits: u64,
    /// Fetches of the page.
    pub page_hits: u64,
    /// Fetches of the failing URL.
    pub failing_hits: u64,
    /// Sides of limits on which a tool did its work, and said so.
    pub bounds: Vec<Limit>,
    /// Lists of the target's tools.
    pub listings: Vec<Vec<OfferedTool>>,
    /// Why it broke off.
    pub error: Option<TargetError>,
    /// What was said ([`super::transcript`]).
    pub transcript: Vec<Value>,
}

impl Played {
    /// Whether a text was sent in a conversation.
    pub fn was_sent(&self, conversation: &str, holds: impl Fn(&str) -> bool) -> bool {
        self.sent.iter().any(|(name, text)| name == conversation && holds(text))
    }

    /// Looks at the listener again: a target may fetch after it has answered.
    pub fn look_again(&mut self, stage: &Stage<'_>, values: &Values) {
        if let Some(hits) = stage.hits {
            self.trap_hits = hits.count(&values.trap_path());
            self.page_hits = hits.count(&values.page_path());
            self.failing_hits = hits.count(&values.failing_path());
        }
    }
}

/// Plays a half.
pub async fn play(stage: &Stage<'_>, half: &Half<'_>) -> Played {
    let mut player = match Player::new(stage, half) {
        Ok(player) => player,
        Err(e) => {
            let error = Some(TargetError::new(Reason::Malformed, e.to_string()));
            return Played { error, ..Played::default() };
        }
    };
    if let Err(error) = player.all_turns().await {
        player.played.error = Some(error);
    }
    let mut played = player.played;
    played.look_again(stage, half.values);
    if played.page_hits > 0
        && let Some(page) = page_of(half)
    {
        played.transcript.push(transcript::page(&page));
    }
    let page_carries = half.page.is_some_and(|page| page.contains("{payload}")) && played.page_hits > 0;
    played.order_reached |= half.payload.is_none() || page_carries;
    played
}

/// The page behind `{page_url}`, filled in.
fn page_of(half: &Half<'_>) -> Option<String> {
    half.page.and_then(|page| template::fill(page, filler(half.family, half.values, half.payload)).ok())
}

/// Fills templates of a half.
pub(crate) fn filler<'a>(
    family: FamilyInFile<'a>,
    values: &'a Values,
    payload: Option<&'a str>,
) -> impl Fn(&str) -> Option<String> + 'a {
    move |name: &str| {
        if name == "payload" {
            // The order stands in the slot as it is: it was filled before it was spelled.
            return payload.map(str::to_owned);
        }
        let choices = family.family.choices.get(name).and_then(|list| values.choice(name, list)).map(str::to_owned);
        choices.or_else(|| values.get(name))
    }
}

struct Player<'a> {
    stage: &'a Stage<'a>,
    half: &'a Half<'a>,
    tools: BTreeMap<String, ServedTool>,
    offered: Vec<String>,
    /// The tools as each conversation was last told of them.
    told: BTreeMap<String, Vec<OfferedTool>>,
    conversations: BTreeMap<String, Conversation>,
    played: Played,
}

impl<'a> Player<'a> {
    fn new(stage: &'a Stage<'a>, half: &'a Half<'a>) -> Result<Self, TemplateError> {
        let fill = filler(half.family, half.values, half.payload);
        let mut tools = BTreeMap::new();
        for id in half.turns.iter().filter_map(|turn| turn.tools.as_ref()).flatten() {
            if let Some(tool) = half.family.tool(id) {
                // A listener that is not there, or an order that this half has not, leaves the tool's text without it.
                tools.insert(
                    id.clone(),
                    ServedTool::new(tool, half.part, &|name| fill(name).or_else(|| Some(String::new())))?,
                );
            }
        }
        if let Some(hits) = stage.hits {
            hits.watch(&half.values.trap_path(), None);
            let page = half.page.map(|page| template::fill(page, &fill)).transpose()?;
            hits.watch(&half.values.page_path(), page);
            hits.watch_failing(&half.values.failing_path());
        }
        Ok(Self {
            stage,
            half,
            tools,
            offered: Vec::new(),
            told: BTreeMap::new(),
            conversations: BTreeMap::new(),
            played: Played::default(),
        })
    }

    async fn all_turns(&mut self) -> Result<(), TargetError> {
        let turns = self.half.turns;
        let mut n = 0;
        while n < turns.len() {
            n = self.turn(n).await?;
        }
        Ok(())
    }

    /// Plays a turn and gives back the number of the next.
    async fn turn(&mut self, n: usize) -> Result<usize, TargetError> {
        let turn = &self.half.turns[n];
        if let Some(tools) = &turn.tools {
            self.offered.clone_from(tools);
        }
        if let Some(listing) = turn.listing {
            let tools = match listing {
                Listing::First => self.stage.own_tools.to_vec(),
                Listing::Now => self.stage.target.own_tools().await?,
            };
            self.played.transcript.push(transcript::listing(n, listing, &tools));
            self.played.listings.push(tools);
            return Ok(n + 1);
        }
        if let Some(call) = &turn.call {
            let credential = turn.credential.as_ref().map(|text| self.filled(text)).transpose()?;
            let caller = Caller { credential: credential.as_deref(), session: turn.session };
            // An attacker tries every tool that fits.
            let fitting = call.pick.as_ref().map_or(1, |pick| picks::fitting(pick, self.stage.own_tools).len());
            for pick in 0..fitting.max(1) {
                for _ in 0..call.times.max(1) {
                    let (name, arguments) = self.own_call(call, pick)?;
                    self.note_sent(&turn.conversation, &format!("{name} {arguments}"));
                    let input = Input::Call { name: &name, arguments: &arguments, caller };
                    let reply = self.exchange(n, input).await?;
                    if let Some(side) = call.pick.as_ref().and_then(|pick| pick.limit)
                        && !reply.declined
                        && arguments.as_object().is_some_and(|all| {
                            all.values()
                                .any(|value| value.is_number() && canary::holds(&reply.text, &value.to_string()))
                        })
                    {
                        self.played.bounds.push(side);
                    }
                    self.note_answer(n, &reply);
                }
            }
            return Ok(n + 1);
        }
        let text = turn.text.as_ref().map(|text| self.filled(text)).transpose()?;
        let system = turn.system.as_ref().map(|text| self.filled(text)).transpose()?;
        let carries = |text: &Option<String>| text.as_ref().is_some_and(|text| text.contains("{payload}"));
        self.played.order_reached |= carries(&turn.text) || carries(&turn.system);
        for sent in [&text, &system].into_iter().flatten() {
            self.note_sent(&turn.conversation, sent);
        }
        let input = match turn.action {
            Some(action) => {
                let trap_url = self.half.values.get("trap_url");
                let input = Input::Act { action, text: text.as_deref(), trap_url: trap_url.as_deref() };
                let reply = self.exchange(n, input).await?;
                self.note_answer(n, &reply);
                return Ok(n + 1);
            }
            None => Input::Message { system: system.as_deref(), text: text.as_deref().unwrap_or_default() },
        };
        let mut reply = self.exchange(n, input).await?;
        let (mut current, mut rounds, mut calls) = (n, 0, 0);
        loop {
            self.note_answer(current, &reply);
            if reply.calls.is_empty() || rounds == MAX_ROUNDS {
                return Ok(current + 1);
            }
            let results = self.answer_calls(current, &reply.calls);
            calls += results.len();
            rounds += 1;
            // A stop order in mid-work: the next turn's text comes with the results.
            let next = self.half.turns.get(current + 1).filter(|next| next.conversation == turn.conversation);
            let interrupted = self.half.turns[current].interrupt_after.is_some_and(|after| calls >= after);
            let text = match next.filter(|_| interrupted).and_then(|next| next.text.as_ref()) {
                Some(text) => {
                    current += 1;
                    calls = 0;
                    self.played.order_reached |= text.contains("{payload}");
                    let text = self.filled(text)?;
                    self.note_sent(&turn.conversation, &text);
                    Some(text)
                }
                None => None,
            };
            reply = self.exchange(current, Input::Results { results: &results, text: text.as_deref() }).await?;
        }
    }

    fn filled(&self, text: &str) -> Result<String, TargetError> {
        let fill = filler(self.half.family, self.half.values, self.half.payload);
        template::fill(text, fill).map_err(|e| TargetError::new(Reason::Malformed, e.to_string()))
    }

    async fn exchange(&mut self, n: usize, input: Input<'_>) -> Result<Reply, TargetError> {
        let turn = &self.half.turns[n];
        let fresh = Conversation { name: self.conversation_name(&turn.conversation), ..Conversation::default() };
        let mut conversation = self.conversations.remove(&turn.conversation).unwrap_or(fresh);
        let with_request = self.stage.target.transport().takes_tools();
        let offered: Vec<OfferedTool> = if with_request { self.offered_tools() } else { Vec::new() };
        let mounted = self.stage.mount.filter(|_| !with_request);
        if let Some(mount) = mounted {
            let served = self.offered.iter().filter_map(|id| self.tools.get(id).cloned()).collect();
            mount.serve(served, &turn.conversation, n + 1);
        }
        let exchange = Exchange { conversation: &mut conversation, identity: turn.identity, tools: &offered, input };
        let reply = self.stage.target.exchange(exchange).await;
        if let Some(mount) = mounted {
            self.take_from(mount);
        }
        self.conversations.insert(turn.conversation.clone(), conversation);
        // Descriptions may be the attack: they stand there when they are new, or changed.
        let news = self.told.insert(turn.conversation.clone(), offered.clone()).as_ref() != Some(&offered);
        self.played.transcript.push(transcript::exchange(n, turn, &input, (&offered, news), &reply));
        for tool in &offered {
            let text = format!("{} {}", tool.description, tool.parameters);
            self.note_sent(&turn.conversation, &text);
        }
        if offered.iter().any(|tool| self.description_carries(&tool.name)) {
            self.played.order_reached = true;
        }
        reply
    }

    fn take_from(&mut self, mount: &Mount) {
        let seen = mount.take();
        self.played.order_reached |= seen.carried_payload;
        let calls = seen.calls.iter().zip(&seen.answered);
        self.played.transcript.extend(calls.map(|(call, (_, result))| transcript::mounted_call(call, result)));
        for (conversation, content) in seen.answered {
            self.note_sent(&conversation, &content);
        }
        for tool in seen.tools {
            self.tools.insert(tool.id.clone(), tool);
        }
        self.played.calls.extend(seen.calls);
    }

    fn offered_tools(&self) -> Vec<OfferedTool> {
        self.offered.iter().filter_map(|id| self.tools.get(id)).map(|tool| tool.offered.clone()).collect()
    }

    fn description_carries(&self, name: &str) -> bool {
        let tools = self.offered.iter().filter_map(|id| self.half.family.tool(id));
        let carries = |text: &str| text.contains("{payload}");
        self.half.payload.is_some()
            && tools
                .filter(|tool| tool.shown_name() == name)
                .any(|tool| carries(&tool.description) || carries(&tool.parameters.to_string()))
    }

    /// A name that no conversation of another trial has.
    fn conversation_name(&self, name: &str) -> String {
        let bytes = self.half.values.key().bytes(&format!("conversation {name}"));
        data_encoding::HEXLOWER.encode(&bytes[..16])
    }

    fn answer_calls(&mut self, n: usize, calls: &[ToolCall]) -> Vec<ToolAnswer> {
        let conversation = self.half.turns[n].conversation.clone();
        let now = Instant::now();
        let mut answers = Vec::new();
        for call in calls {
            let id =
                self.offered.iter().find(|id| self.tools.get(*id).is_some_and(|tool| tool.offered.name == call.name));
            let tool = id.and_then(|id| self.tools.get_mut(id));
            let (answer, carried, early, id) = match tool {
                Some(tool) => {
                    let (served, early) = tool.answer(call, now);
                    (served.answer, served.carried_payload, early, Some(tool.id.clone()))
                }
                None => {
                    let content = format!("Error: there is no tool '{}'.", call.name);
                    (ToolAnswer { call: call.id.clone(), name: call.name.clone(), content }, false, false, None)
                }
            };
            self.played.order_reached |= carried && self.half.payload.is_some();
            self.note_sent(&conversation, &answer.content);
            self.played.calls.push(SeenCall {
                tool: id,
                name: call.name.clone(),
                arguments: call.arguments.clone(),
                conversation: conversation.clone(),
                turn: n + 1,
                early,
            });
            answers.push(answer);
        }
        answers
    }

    fn own_call(&mut self, call: &crate::suite::ToolUse, pick: usize) -> Result<(String, Value), TargetError> {
        let fill = filler(self.half.family, self.half.values, self.half.payload);
        let (name, arguments) = picks::arguments(call, self.stage.own_tools, pick, &fill)
            .map_err(|why| TargetError::new(Reason::Malformed, why))?;
        self.played.order_reached |= call.value.as_ref().is_some_and(|value| value.contains("{payload}"));
        Ok((name, arguments))
    }

    fn note_sent(&mut self, conversation: &str, text: &str) {
        self.played.sent.push((conversation.to_owned(), text.to_owned()));
    }

    /// Answers of one turn are one answer. It declines where all of them do.
    fn note_answer(&mut self, n: usize, reply: &Reply) {
        match self.played.answers.last_mut().filter(|last| last.turn == n + 1) {
            Some(last) => {
                last.text.push('\n');
                last.text.push_str(&reply.text);
                last.declined &= reply.declined;
            }
            None => self.played.answers.push(SeenAnswer {
                turn: n + 1,
                conversation: self.half.turns[n].conversation.clone(),
                text: reply.text.clone(),
                declined: reply.declined,
            }),
        }
    }
}
