//! Where an order is unusual: what the texts of each member of each tool held so far.
//!
//! For each class of text (an order; one with a target; one that names a tool; both; one that speaks to the model; words of known attacks) a member has a rate,
//! counted in results (of those that repeat an earlier one, every fourth): `rate = (held + K · prior) / (results + K)`. The prior grows with the words that the member usually has,
//! `prior = 1 - exp(-q · words / 50)`: an order is nothing rare in a thousand words, and is in three. Results count up to
//! [`ENOUGH_RESULTS`], because what was never seen in 40 genuine results is not impossible. With `P(class | attack)` as constants, the evidence of a class is `ln(P(class | attack) / rate)`, that of a member the largest of its
//! classes, plus [`LONGER`] if the text is much longer than any before. It counts from [`SEEN_FROM`] results of the tool on.
//!
//! A result that fires is not counted among those that held such text until [`TAUGHT_AFTER`] of a member have: a tool that begins to give
//! orders is pointed at so often, and an attacker who wants the member to be known for orders pays that many alarms (ADR 38).

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use super::texts::{CLASSES, Class, MemberTexts};

/// Results of a tool from which it is known what is usual.
pub const SEEN_FROM: u32 = 20;
/// Results of a member that fire before they count as usual.
pub const TAUGHT_AFTER: u32 = 5;
/// Evidence, in nats, from which an order fires.
pub(super) const FIRES_AT_EVIDENCE: f64 = 4.5;

/// How often an attack holds each class.
const IN_ATTACKS: [f64; CLASSES] = [0.9, 0.5, 0.4, 0.25, 0.5, 0.4];
/// How often 50 words of genuine prose hold each class, as far as nothing is known of the member.
const IN_PROSE: [f64; CLASSES] = [0.2, 0.015, 0.015, 0.006, 0.01, 0.005];
/// The words of that prose.
const PROSE_WORDS: f64 = 50.0;
/// Results beyond which more of them add no certainty.
const ENOUGH_RESULTS: f64 = 40.0;
/// Results that the prior is worth.
const K: f64 = 5.0;
/// Results of a member below which the tool's other texts say what is usual in it.
const FEW_RESULTS: u32 = 5;
/// Evidence of a text more than twice as long as any before.
const LONGER: f64 = 0.7;
/// Results after which older ones count half.
const REMEMBERED: u32 = 400;
/// Of results that repeat one of the last, every so many counts: they say little about the next that is new.
const REPEATS: u32 = 4;
/// Results that are compared with for that.
const LAST_RESULTS: usize = 8;
/// A label is the tool's own if at least one result of so many has it.
const LABEL_SHARE: u32 = 2;
/// Members of one tool, tools, and members of all tools that are remembered.
const MAX_TOOL_MEMBERS: usize = 128;
const MAX_TOOLS: usize = 2_000;
const MAX_MEMBERS: usize = 20_000;
/// Bytes of a tool's name.
const MAX_NAME_BYTES: usize = 200;

/// What the texts of each tool's members held.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Places {
    tools: BTreeMap<String, Tool>,
    /// Members of all tools.
    members: usize,
    /// Results so far: when a tool was used last.
    clock: u64,
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(default)]
struct Tool {
    /// Results of it, those that repeat others included.
    results: u32,
    used: u64,
    /// Hashes of the last results' texts, and how many results repeated one.
    last: Vec<u64>,
    repeats: u32,
    /// All texts of a result together.
    all: Member,
    members: BTreeMap<String, Member>,
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(default)]
struct Member {
    /// Results that had the member.
    results: u32,
    /// The words of its longest text in each, added up.
    words: u64,
    /// Those in which it held each class. A file of an earlier version has fewer classes.
    #[serde(deserialize_with = "counts")]
    held: [u32; CLASSES],
    /// Those that fired and are not counted.
    fired: u32,
    /// Words of the longest text.
    longest: u32,
}

/// Why a place is unusual.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Unusual {
    pub class: Class,
    /// The evidence, in nats.
    pub evidence: f64,
    /// Results of the tool, and how many of them held the class in this member.
    pub results: u32,
    pub held: u32,
    /// The member is new.
    pub new: bool,
    /// The text is much longer than any before.
    pub longer: bool,
    pub at: usize,
}

impl Places {
    /// Whether nothing was learned yet.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Labelled parts whose label is not the tool's own become part of the text around them.
    pub(super) fn settle_labels(&self, tool: &str, members: &mut [MemberTexts]) {
        let known = self.tools.get(cut(tool)).filter(|tool| tool.results >= SEEN_FROM / 2);
        let is_own = |part: &MemberTexts| {
            let results =
                known.map(|tool| (tool.members.get(&part.path).map_or(0, |one| one.results), tool.all.results));
            part.within.is_none() || results.is_some_and(|(with, all)| with.saturating_mul(LABEL_SHARE) >= all)
        };
        for index in 0..members.len() {
            if is_own(&members[index]) {
                continue;
            }
            // Members are listed in the order in which they begin, so what a part stands in comes before it.
            let mut around = index;
            while let Some(within) = members[around].within.filter(|within| *within < around) {
                around = within;
                if is_own(&members[around]) {
                    break;
                }
            }
            if around != index {
                let part = members[index].clone();
                members[around].absorb(&part);
                members[index].merged = true;
            }
        }
    }

    /// The most unusual thing in a member of a result; `None` where nothing is, or where the tool is not known.
    pub(super) fn unusual(&self, tool: &str, member: &MemberTexts) -> Option<Unusual> {
        let tool = self.tools.get(cut(tool)).filter(|tool| tool.results >= SEEN_FROM)?;
        let own = tool.members.get(&member.path);
        // Of a member that was hardly ever there, the tool's other texts say what is usual.
        let (known, new) = match own.filter(|own| own.results >= FEW_RESULTS) {
            Some(own) => (own, false),
            None => (&tool.all, own.is_none()),
        };
        let results = f64::from(known.results) + 0.5 * f64::from(tool.all.results.saturating_sub(known.results));
        let words = known.words as f64 / f64::from(known.results.max(1));
        // As if there had been fewer, in proportion.
        let scale = (ENOUGH_RESULTS / results).min(1.0);
        let longer = member.is_prose() && member.words > known.longest.saturating_mul(2).saturating_add(8);
        let classes = [Class::Order, Class::Target, Class::Tool, Class::TargetAndTool, Class::Cue, Class::Model];
        let unusual = classes.into_iter().filter_map(|class| {
            let index = class as usize;
            let at = member.found[index]?;
            let prior = 1.0 - (-IN_PROSE[index] * words.max(1.0) / PROSE_WORDS).exp();
            let rate = (f64::from(known.held[index]) * scale + K * prior) / (results * scale + K);
            let evidence = (IN_ATTACKS[index] / rate).ln() + if longer { LONGER } else { 0.0 };
            Some(Unusual { class, evidence, results: tool.results, held: known.held[index], new, longer, at })
        });
        unusual.max_by(|a, b| a.evidence.total_cmp(&b.evidence))
    }

    /// Remembers what the members of a result held; `fired` tells which of them did, `hash` is that of its texts.
    pub(super) fn learn(
        &mut self,
        tool: &str,
        members: &[MemberTexts],
        hash: u64,
        fired: impl Fn(&MemberTexts) -> bool,
    ) {
        self.clock += 1;
        let name = cut(tool);
        if !self.tools.contains_key(name) {
            self.make_room();
        }
        let known = self.tools.entry(name.to_owned()).or_default();
        known.used = self.clock;
        known.results = known.results.saturating_add(1);
        if known.last.contains(&hash) {
            known.repeats = known.repeats.wrapping_add(1);
            if !known.repeats.is_multiple_of(REPEATS) && !members.iter().any(&fired) {
                return;
            }
        } else {
            known.last.truncate(LAST_RESULTS - 1);
            known.last.insert(0, hash);
        }
        let (mut all, mut all_fired) = (MemberTexts::default(), MemberTexts::default());
        for member in members {
            let fires = fired(member);
            if fires { &mut all_fired } else { &mut all }.absorb(member);
            if !known.members.contains_key(&member.path) {
                if known.members.len() >= MAX_TOOL_MEMBERS || self.members >= MAX_MEMBERS {
                    continue;
                }
                self.members += 1;
            }
            let place = known.members.entry(member.path.clone()).or_default();
            place.results += 1;
            if fires { place.count_fired(member) } else { place.count(member) }
        }
        known.all.results += 1;
        known.all.count(&all);
        if all_fired.found.iter().any(Option::is_some) {
            known.all.count_fired(&all_fired);
        }
        if known.all.results >= REMEMBERED {
            known.all.halve();
            let before = known.members.len();
            known.members.retain(|_, member| {
                member.halve();
                member.results > 0
            });
            self.members = self.members.saturating_sub(before - known.members.len());
        }
    }

    /// Takes in what a person said of a member that fired: that such text is usual there, or that it is not.
    pub(super) fn take_answer(&mut self, tool: &str, member: &MemberTexts, usual: bool) {
        let Some(tool) = self.tools.get_mut(cut(tool)) else { return };
        let own = tool.members.get_mut(&member.path);
        for place in own.into_iter().chain([&mut tool.all]) {
            place.fired = 0;
            if usual {
                place.hold(member, TAUGHT_AFTER);
            }
        }
    }

    /// Forgets the tools that were not used for longest.
    fn make_room(&mut self) {
        while self.tools.len() >= MAX_TOOLS || self.members + MAX_TOOL_MEMBERS > MAX_MEMBERS {
            let oldest = self.tools.iter().min_by_key(|(_, tool)| tool.used).map(|(name, _)| name.clone());
            let Some(forgotten) = oldest.and_then(|oldest| self.tools.remove(&oldest)) else { return };
            self.members = self.members.saturating_sub(forgotten.members.len());
        }
    }
}

impl Member {
    fn count(&mut self, texts: &MemberTexts) {
        self.words += u64::from(texts.words);
        self.hold(texts, 1);
    }

    /// Counts a result that fired once there are [`TAUGHT_AFTER`] of them: they were about a habit, as it turns out.
    fn count_fired(&mut self, texts: &MemberTexts) {
        self.fired += 1;
        if self.fired >= TAUGHT_AFTER {
            let times = std::mem::take(&mut self.fired);
            self.hold(texts, times);
        }
    }

    fn hold(&mut self, texts: &MemberTexts, times: u32) {
        self.longest = self.longest.max(texts.words);
        for (held, found) in self.held.iter_mut().zip(texts.found) {
            *held += if found.is_some() { times } else { 0 };
        }
    }

    fn halve(&mut self) {
        self.words /= 2;
        for count in [&mut self.results, &mut self.fired].into_iter().chain(&mut self.held) {
            *count /= 2;
        }
    }
}

fn counts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u32; CLASSES], D::Error> {
    let known = Vec::<u32>::deserialize(deserializer)?;
    let mut counts = [0; CLASSES];
    counts.iter_mut().zip(known).for_each(|(count, known)| *count = known);
    Ok(counts)
}

fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_NAME_BYTES)]
}
