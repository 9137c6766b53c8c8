//! What one tool's results look like, learned from its own traffic: what is known, and what can be asked of it. How a result
//! is compared with it is in `judge`, how one is taken in in `learn`.

mod judge;
mod learn;

use std::{collections::VecDeque, hash::BuildHasherDefault};

use credence_protocol::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    ages::Ages,
    answers::Answers,
    counts::{Alarms, Categories, Novelty, Range, Stamp},
    echo::Echoes,
    lately::{Latelies, Lately},
    observation::SIZES,
    observe::NONE,
    oddities::Oddities,
    surprise::ASPECTS,
};
use crate::{Check, CheckResult, fields::PathId, state::Folded};

/// Results learned before anything is judged by them.
pub(crate) const LEAST_RESULTS: f32 = 4.0;
/// Results remembered to be known again when they come for other arguments.
const REMEMBERED: usize = 256;
/// In place of the arguments of a result that several gave.
const SHARED: u64 = 0;

const CHECKS: usize = Check::ALL.len();
/// P(a check of the table fires on a genuine result), before any was seen.
const ALARM_RATE: f64 = 0.05;
/// How many observations that is worth.
const ALARM_WEIGHT: f64 = 20.0;

/// The last result for some arguments.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Last {
    model: u64,
    result: u64,
    fields: Box<[(u32, u32)]>,
    /// The session that had a result that was learned in doubt: it takes another session to confirm that things changed.
    /// And what was surprising.
    unconfirmed: (u64, u32),
    /// When the arguments were answered last. Snapshots have it in a list of its own.
    #[serde(skip)]
    pub(crate) at: Option<Timestamp>,
}

impl Last {
    /// Whether a result was believed for the arguments.
    pub(crate) fn is_known(&self) -> bool {
        self.model != 0
    }

    /// Bytes of memory beside the struct itself.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.fields)
    }
}

/// What is known of one path.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Node {
    /// Results it occurred in, and how often it occurred.
    pub(super) results: Novelty,
    occurrences: f32,
    pub(super) kinds: Categories,
    pub(super) values: Categories,
    text: Option<Box<TextNode>>,
    pub(super) number: Option<Box<NumberNode>>,
    pub(super) lengths: Range,
    pub(super) object: Option<Box<ObjectNode>>,
    pub(super) echoes: Echoes,
    /// Results for equal arguments in which it could have changed, and in which it did.
    compared: f32,
    changed: f32,
}

#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
struct TextNode {
    /// Every class of characters that ever occurred, and how often one was new.
    known: u32,
    new_classes: Novelty,
    classes: Categories,
    lengths: Categories,
    words: Categories,
}

#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct NumberNode {
    forms: Categories,
    pub(super) range: Range,
}

#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ObjectNode {
    keysets: Categories,
    new_keys: Novelty,
    /// Objects seen, and keys in them.
    objects: f32,
    keys: f32,
    pub(super) children: Vec<(u32, Box<str>)>,
}

impl ObjectNode {
    /// Keys that keep changing are data, not structure.
    fn is_map(&self) -> bool {
        let kinds = self.children.len() as f32;
        kinds >= 8.0 && kinds > 0.5 * self.keys && kinds * self.objects > 3.0 * self.keys
    }
}

/// What one tool's results look like.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Model {
    /// Tells this model from a later one of the same tool.
    id: u64,
    pub(crate) results: f32,
    stamp: Stamp,
    pub(super) paths: std::collections::HashMap<PathId, u32, BuildHasherDefault<Folded>>,
    pub(super) nodes: Vec<Node>,
    pub(crate) alarms: [Alarms; ASPECTS],
    /// Where results that were not believed were surprising, and when, in results that were believed.
    recent_alarms: VecDeque<(u32, u32)>,
    believed: u32,
    /// Whether equal arguments gave another result.
    repeats: Novelty,
    /// And after how long. Snapshots have it in a list of its own.
    #[serde(skip)]
    pub(crate) ages: Ages,
    /// Whether new arguments gave a known result, by how much a result holds.
    borrowed: [Novelty; SIZES],
    known_results: VecDeque<(u64, u64)>,
    latency: Range,
    /// For each of the seed's checks: how often it was evaluated, and how often it fired.
    fired: [(f32, f32); CHECKS],
    /// What was odd, and comes again or not.
    pub(crate) oddities: Oddities,
    /// What people said of it.
    pub(crate) answers: Answers,
    /// Counted as it grows: walking all paths for each result would cost more than judging it.
    #[serde(skip)]
    memory: Bytes,
}

/// Bytes of memory. Two models that know the same are equal however their memory came about.
#[derive(Debug, Default, Clone, Copy)]
struct Bytes(usize);

impl PartialEq for Bytes {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A path in the index, with what a hash table leaves empty.
const INDEX_BYTES: usize = 2 * size_of::<(PathId, u32)>();
/// What an allocation costs beside its content.
const ALLOCATION: usize = 16;

impl Model {
    pub(crate) fn find(&self, path: PathId) -> u32 {
        self.paths.get(&path).copied().unwrap_or(NONE)
    }

    fn node(&self, node: u32) -> Option<&Node> {
        self.nodes.get(node as usize)
    }

    /// How many paths are known; those that become known later have greater numbers.
    pub(crate) fn known_paths(&self) -> u32 {
        self.nodes.len() as u32
    }

    pub(crate) fn is_map(&self, node: u32) -> bool {
        self.node(node).and_then(|node| node.object.as_ref()).is_some_and(|object| object.is_map())
    }

    /// By how much a check's ratio is off, given how often the check fires on this tool's own traffic.
    pub(crate) fn correction(&self, check: Check) -> f64 {
        let (seen, fired) = self.fired[check as usize];
        let rate = (f64::from(fired) + ALARM_WEIGHT * ALARM_RATE) / (f64::from(seen) + ALARM_WEIGHT);
        ALARM_RATE / rate
    }

    /// How often a check could be evaluated, and how often it fired.
    pub(crate) fn fired(&self, check: Check) -> (f32, f32) {
        self.fired[check as usize]
    }

    /// Counts false alarms: which checks of the table fired on a result that is learned.
    pub(crate) fn learn_checks(&mut self, checks: &[CheckResult]) {
        for result in checks {
            let (seen, fired) = &mut self.fired[result.check as usize];
            *seen += 1.0;
            *fired += f32::from(u8::from(result.fired));
        }
    }

    /// The name of a member that an object should have, and in how many of how many it was.
    pub(crate) fn member(&self, node: u32, nth: u32) -> Option<(&str, f32, f32)> {
        let object = self.node(node)?.object.as_ref()?;
        let (child, name) = object.children.get(nth as usize)?;
        Some((name, self.node(*child)?.occurrences.min(object.objects), object.objects))
    }

    /// The members that most objects at a path have.
    pub(crate) fn expected(&self, node: u32) -> impl Iterator<Item = (u32, &str)> {
        let object = self.node(node).and_then(|node| node.object.as_ref());
        object.into_iter().flat_map(move |object| {
            let most = 0.5 * object.objects;
            let usual = move |child: u32| self.node(child).is_some_and(|child| child.occurrences > most);
            object.children.iter().filter(move |(child, _)| usual(*child)).map(|(child, name)| (*child, &**name))
        })
    }

    /// What a path mostly is.
    pub(crate) fn usual_kind(&self, node: u32) -> Option<u32> {
        self.node(node)?.kinds.commonest()
    }

    /// In how many results a path was seen.
    pub(crate) fn seen(&self, node: u32) -> f32 {
        self.node(node).map_or(0.0, |node| node.results.seen())
    }

    /// How many values a closed set has.
    pub(crate) fn values(&self, node: u32) -> usize {
        self.node(node).map_or(0, |node| node.values.size().1)
    }

    /// The bounds of a number, or of a length.
    pub(crate) fn bounds(&self, node: u32, length: bool) -> Option<(f64, f64)> {
        let node = self.node(node)?;
        let range = if length { &node.lengths } else { &node.number.as_ref()?.range };
        let unscaled = |scaled: f64| libm::copysign(libm::expm1(scaled.abs()), scaled);
        let (low, high) = range.bounds();
        Some((unscaled(low), unscaled(high)))
    }

    /// The fastest and the slowest answer, in milliseconds.
    pub(crate) fn latencies(&self) -> (f64, f64) {
        let (low, high) = self.latency.bounds();
        (libm::exp(low), libm::exp(high))
    }

    /// Lets the past weigh less.
    pub(crate) fn age(&mut self, keep: f32) {
        self.results *= keep;
        self.nodes.iter_mut().for_each(|node| node.age(keep));
        self.alarms.iter_mut().for_each(|alarms| alarms.age(keep));
        self.repeats.age(keep);
        self.ages.age(keep);
        self.borrowed.iter_mut().for_each(|borrowed| borrowed.age(keep));
        self.latency.age(keep);
        for (seen, fired) in &mut self.fired {
            *seen *= keep;
            *fired *= keep;
        }
    }

    /// Bytes of memory beside the struct itself.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.0
            + (self.known_results.capacity() + self.recent_alarms.capacity()) * size_of::<(u64, u64)>()
            + self.oddities.bytes()
            + self.answers.bytes()
    }

    /// Where lengths, numbers and latencies were lately, as snapshots list it; what says nothing is left out.
    pub(crate) fn latelies(&self) -> Latelies {
        let of_nodes = self.nodes.iter().flat_map(|node| [Some(&node.lengths), node.number.as_ref().map(|n| &n.range)]);
        let ranges = of_nodes.chain([Some(&self.latency)]).enumerate();
        let known = ranges.filter_map(|(nth, range)| Some((nth as u32, *range?.lately())));
        known.filter(|(_, lately)| *lately != Lately::default()).collect()
    }

    /// Takes back what [`latelies`](Self::latelies) listed.
    pub(crate) fn restore_latelies(&mut self, list: Latelies) {
        let latency = 2 * self.nodes.len() as u32;
        for (nth, lately) in list {
            let node = self.nodes.get_mut(nth as usize / 2);
            let range = match node {
                Some(node) if nth % 2 == 0 => Some(&mut node.lengths),
                Some(node) => node.number.as_mut().map(|number| &mut number.range),
                None => (nth == latency).then_some(&mut self.latency),
            };
            if let Some(range) = range {
                *range.lately_mut() = lately;
            }
        }
    }

    /// Counts the memory anew, after it was read back.
    pub(crate) fn recount(&mut self) {
        let nodes: usize = self.nodes.iter().map(Node::bytes).sum();
        self.memory = Bytes(self.nodes.capacity() * size_of::<Node>() + self.nodes.len() * INDEX_BYTES + nodes);
    }

    /// Whether what was read back can be what was written.
    pub(crate) fn is_sound(&self) -> bool {
        let nodes = self.nodes.len();
        self.paths.len() == nodes
            && self.paths.values().all(|node| (*node as usize) < nodes)
            && self.known_results.len() <= REMEMBERED
            && self.oddities.is_sound()
            && self.answers.is_sound()
    }
}

impl Node {
    /// Bytes outside the struct itself.
    fn bytes(&self) -> usize {
        let text = self
            .text
            .as_ref()
            .map_or(0, |text| TEXT_BYTES + text.classes.bytes() + text.lengths.bytes() + text.words.bytes());
        let number = self.number.as_ref().map_or(0, |number| NUMBER_BYTES + number.forms.bytes());
        let object = self.object.as_ref().map_or(0, |object| {
            let names: usize = object.children.iter().map(|(_, name)| child_bytes(name)).sum();
            OBJECT_BYTES + object.keysets.bytes() + names
        });
        self.kinds.bytes() + self.values.bytes() + text + number + object + self.echoes.bytes()
    }

    fn age(&mut self, keep: f32) {
        self.results.age(keep);
        self.occurrences *= keep;
        self.kinds.age(keep);
        self.values.age(keep);
        if let Some(text) = &mut self.text {
            text.new_classes.age(keep);
            text.classes.age(keep);
            text.lengths.age(keep);
            text.words.age(keep);
        }
        if let Some(number) = &mut self.number {
            number.forms.age(keep);
            number.range.age(keep);
        }
        self.lengths.age(keep);
        if let Some(object) = &mut self.object {
            object.keysets.age(keep);
            object.new_keys.age(keep);
            object.objects *= keep;
            object.keys *= keep;
        }
        self.echoes.age(keep);
        self.compared *= keep;
        self.changed *= keep;
    }
}

const TEXT_BYTES: usize = size_of::<TextNode>() + ALLOCATION;
const NUMBER_BYTES: usize = size_of::<NumberNode>() + ALLOCATION;
const OBJECT_BYTES: usize = size_of::<ObjectNode>() + ALLOCATION;

/// A member's name, with what a list leaves empty.
fn child_bytes(name: &str) -> usize {
    2 * size_of::<(u32, Box<str>)>() + name.len() + ALLOCATION
}

fn latency_scale(ms: f64) -> f64 {
    libm::log(ms.max(1e-3))
}
