//! What one tool's results look like, learned from its own traffic.

use std::{collections::VecDeque, hash::BuildHasherDefault};

use serde::{Deserialize, Serialize};

use super::{
    counts::{Alarms, Categories, Novelty, Range, Stamp},
    echo::Echoes,
    observe::{NONE, Seen, What, fold, mix, number_form, scaled},
    scene::Scene,
    surprise::{ASPECTS, Aspect, Surprise, Surprises, Why},
};
use crate::{Signal, SignalResult, fields::PathId, state::Folded};

/// Results after which everything counts half: a tool's past weighs less the longer ago it was.
const MEMORY: f32 = 1024.0;
/// Results learned before anything is judged by them.
pub(crate) const LEAST_RESULTS: f32 = 4.0;
/// Latencies learned before one is judged by them.
const LEAST_LATENCIES: f32 = 8.0;
/// A slow answer is no fabrication: it is at most this surprising, as a probability.
const SLOW: f64 = 0.1;
/// Results remembered to be known again when they come for other arguments.
const REMEMBERED: usize = 256;
/// Alarms remembered to be known again, and the least surprise of one, in nats.
const RECENT_ALARMS: usize = 32;
const LEVEL_OF_DOUBT: f64 = 2.0;
/// Results believed in between after which the same alarm is another one.
const ALARM_AGAIN: u32 = 16;
/// Members of an object that are known by name.
const MAX_CHILDREN: usize = 256;
/// What a change between equal calls is worth before any were compared.
const CHANGES_EXPECTED: f64 = 4.0;

const SIGNALS: usize = Signal::ALL.len();
/// P(a signal of the table fires on a genuine result), before any was seen.
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
    /// Whether new arguments gave a known result.
    borrowed: Novelty,
    known_results: VecDeque<(u64, u64)>,
    latency: Range,
    /// For each of the seed's signals: how often it was evaluated, and how often it fired.
    fired: [(f32, f32); SIGNALS],
}

impl Model {
    pub(crate) fn find(&self, path: PathId) -> u32 {
        self.paths.get(&path).copied().unwrap_or(NONE)
    }

    fn node(&self, node: u32) -> Option<&Node> {
        self.nodes.get(node as usize)
    }

    pub(crate) fn is_map(&self, node: u32) -> bool {
        self.node(node).and_then(|node| node.object.as_ref()).is_some_and(|object| object.is_map())
    }

    /// How surprising a result is.
    pub(crate) fn judge(&self, scene: &Scene<'_>, last: Option<&Last>) -> Surprises {
        let mut surprises = Surprises::none();
        if self.results >= LEAST_RESULTS {
            for aspect in [Aspect::Structure, Aspect::Format, Aspect::Value, Aspect::Range] {
                surprises.judged(aspect);
            }
            for (place, seen) in scene.seen.iter().enumerate() {
                // What is new is its parent's news.
                if let Some(node) = self.node(seen.node) {
                    self.judge_value(node, seen, place, scene, &mut surprises);
                }
            }
            self.judge_repetition(scene, last, &mut surprises);
        }
        self.judge_latency(scene, &mut surprises);
        surprises
    }

    fn judge_value(&self, node: &Node, seen: &Seen<'_>, place: usize, scene: &Scene<'_>, out: &mut Surprises) {
        out.add(Aspect::Structure, node.kinds.rarity(seen.what.kind()), place, Why::Kind);
        let value = || node.values.rarity(seen.value());
        match seen.what {
            What::Null => {}
            What::Bool => out.add(Aspect::Value, value(), place, Why::Value),
            What::Number(number) => {
                out.add(Aspect::Value, value(), place, Why::Value);
                if let Some(known) = &node.number {
                    out.add(Aspect::Format, known.forms.rarity(number_form(number)), place, Why::NumberForm);
                    out.add(Aspect::Range, known.range.rarity(scaled(number)), place, Why::Number);
                }
            }
            What::Text { text, form, .. } => {
                out.add(Aspect::Value, value(), place, Why::Value);
                if let Some(known) = &node.text {
                    if form.classes & !known.known != 0 {
                        out.add(Aspect::Structure, known.new_classes.probability(), place, Why::Characters);
                    }
                    out.add(Aspect::Format, known.classes.rarity(form.classes), place, Why::Shape);
                    out.add(Aspect::Format, known.lengths.rarity(form.lengths), place, Why::Shape);
                    out.add(Aspect::Format, known.words.rarity(form.words), place, Why::Shape);
                }
                out.add(Aspect::Range, node.lengths.rarity(scaled(text.len() as f64)), place, Why::Length);
            }
            What::Array(len) => {
                out.add(Aspect::Value, value(), place, Why::Empty);
                out.add(Aspect::Range, node.lengths.rarity(scaled(len as f64)), place, Why::Length);
            }
            What::Object { keys, map, end, .. } => {
                if let Some(known) = node.object.as_ref().filter(|_| !map) {
                    let members = &scene.seen[place + 1..(end as usize).max(place + 1)];
                    self.judge_keys(node, known, keys, place, members, out);
                }
            }
        }
        if !node.echoes.is_empty()
            && let Some(rarity) = node.echoes.rarity(seen, &scene.arguments)
        {
            out.add(Aspect::Echo, rarity, place, Why::Echo);
        }
    }

    fn judge_keys(
        &self,
        node: &Node,
        known: &ObjectNode,
        keys: u32,
        place: usize,
        within: &[Seen<'_>],
        out: &mut Surprises,
    ) {
        out.add(Aspect::Structure, known.keysets.rarity(keys), place, Why::Keys);
        if known.keysets.knows(keys) {
            return;
        }
        let members = within.iter().filter(|seen| seen.parent == place as u32);
        let mut members: Vec<u32> = members.map(|member| member.node).collect();
        members.sort_unstable();
        if members.iter().any(|member| !known.children.iter().any(|(child, _)| child == member)) {
            out.add(Aspect::Structure, known.new_keys.probability(), place, Why::NewKey);
        }
        for (nth, (child, _)) in known.children.iter().enumerate() {
            if members.binary_search(child).is_ok() {
                continue;
            }
            let present = self.node(*child).map_or(0.0, |child| child.occurrences);
            let absent = f64::from(known.objects - present + 0.5) / f64::from(known.objects + 1.0);
            let rarity = absent.max(node.results.floor()).min(1.0);
            out.add(Aspect::Structure, rarity, place, Why::Missing(nth as u32));
        }
    }

    fn judge_repetition(&self, scene: &Scene<'_>, last: Option<&Last>, out: &mut Surprises) {
        let Some(args) = scene.args_id else { return };
        let result = scene.digest;
        let Some(last) = last.filter(|last| last.model == self.id) else {
            out.judged(Aspect::Borrowed);
            if self.known_results.iter().any(|(known, by)| *known == result && *by != args) {
                out.add(Aspect::Borrowed, self.borrowed.probability(), 0, Why::Borrowed);
            }
            return;
        };
        out.judged(Aspect::Changed);
        if last.result == result {
            return;
        }
        let usual = self.repeats.probability();
        let mut rarest = (usual, 0);
        let now = scene.fields();
        let mut changed = |node: u32, place: usize| {
            let Some(node) = self.node(node) else { return };
            let (compared, changed) = (f64::from(node.compared), f64::from(node.changed));
            let rarity = (changed + CHANGES_EXPECTED * usual) / (compared + CHANGES_EXPECTED);
            let rarity = rarity.max(0.5 / (compared + 2.0));
            if rarity < rarest.0 {
                rarest = (rarity, place);
            }
        };
        for (node, digest) in &last.fields {
            if now.binary_search_by_key(node, |(node, _, _)| *node).map_or(true, |at| now[at].1 != *digest) {
                let place = now.binary_search_by_key(node, |(node, _, _)| *node).map_or(0, |at| now[at].2);
                changed(*node, place);
            }
        }
        for (node, _, place) in now {
            if last.fields.binary_search_by_key(node, |(node, _)| *node).is_err() {
                changed(*node, *place);
            }
        }
        out.add(Aspect::Changed, rarest.0, rarest.1, Why::Changed);
    }

    fn judge_latency(&self, scene: &Scene<'_>, out: &mut Surprises) {
        let Some(ms) = scene.latency_ms.filter(|_| self.latency.seen() >= LEAST_LATENCIES) else { return };
        let scaled = latency_scale(ms);
        let rarity = self.latency.rarity(scaled);
        if self.latency.is_above(scaled) {
            out.add(Aspect::Latency, rarity.max(SLOW), 0, Why::Slow(ms));
        } else {
            out.add(Aspect::Latency, rarity, 0, Why::Fast(ms));
        }
    }

    /// Learns a result; `surprises` are what it was judged by, `believed` whether it was accepted. At most `limit` paths are kept; says how many were not.
    pub(crate) fn learn(
        &mut self,
        scene: &mut Scene<'_>,
        surprises: &Surprises,
        last: Option<&mut Last>,
        believed: bool,
        limit: usize,
    ) -> u64 {
        self.stamp = self.stamp.wrapping_add(1);
        self.believed = self.believed.wrapping_add(u32::from(believed));
        let stamp = self.stamp;
        if self.id == 0 {
            // Of its own, also where a forgotten tool comes again with the very same result.
            self.id = fastrand::u64(1..);
        }
        for (aspect, surprise) in surprises.0.iter().enumerate() {
            if let Some(surprise) = surprise {
                let nats = surprise.nats();
                // The same alarm again and again is one change, not many false alarms.
                if believed || nats < LEVEL_OF_DOUBT || self.is_new_alarm(aspect, surprise, scene) {
                    self.alarms[aspect].learn(nats);
                }
            }
        }
        self.results += 1.0;
        if self.results > MEMORY {
            self.age(0.5);
        }
        if let Some(ms) = scene.latency_ms {
            self.latency.learn(latency_scale(ms), stamp);
        }
        let mut dropped = 0;
        for place in 0..scene.seen.len() {
            let mut seen = scene.seen[place];
            if seen.node == NONE {
                // An earlier item of the same result may have made it.
                seen.node = self.find(seen.path);
            }
            if seen.node == NONE {
                if self.nodes.len() >= limit {
                    dropped += 1;
                    continue;
                }
                seen.node = self.nodes.len() as u32;
                self.nodes.push(Node::default());
                self.paths.insert(seen.path, seen.node);
                self.adopt(scene, place, seen.node, stamp);
            }
            if scene.seen[place].node != seen.node {
                scene.seen[place].node = seen.node;
                // There is more to list than there was.
                scene.fields.take();
            }
            self.learn_value(&seen, scene, stamp);
        }
        let strongest = surprises.0.iter().flatten().min_by(|a, b| a.rarity.total_cmp(&b.rarity));
        let doubt =
            strongest.and_then(|surprise| scene.seen.get(surprise.place as usize)).map_or(0, |seen| fold(seen.path));
        self.learn_repetition(scene, last, (believed, doubt), stamp);
        dropped
    }

    fn is_new_alarm(&mut self, aspect: usize, surprise: &Surprise, scene: &Scene<'_>) -> bool {
        let path = scene.seen.get(surprise.place as usize).map_or(0, |seen| seen.path);
        let alarm = fold(mix(path, aspect as u64));
        if let Some((_, when)) = self.recent_alarms.iter_mut().find(|(known, _)| *known == alarm) {
            let again = self.believed.wrapping_sub(*when) >= ALARM_AGAIN;
            *when = if again { self.believed } else { *when };
            return again;
        }
        if self.recent_alarms.len() >= RECENT_ALARMS {
            self.recent_alarms.pop_front();
        }
        self.recent_alarms.push_back((alarm, self.believed));
        true
    }

    /// Tells the parent of its new member.
    fn adopt(&mut self, scene: &Scene<'_>, place: usize, child: u32, stamp: Stamp) {
        let seen = &scene.seen[place];
        let Some(parent) = scene.seen.get(seen.parent as usize) else { return };
        let Some(object) = self.nodes.get_mut(parent.node as usize).and_then(|parent| parent.object.as_mut()) else {
            return;
        };
        object.new_keys.learn(true, stamp);
        if object.children.len() < MAX_CHILDREN {
            object.children.push((child, short(seen.key)));
        }
    }

    fn learn_value(&mut self, seen: &Seen<'_>, scene: &Scene<'_>, stamp: Stamp) {
        let node = &mut self.nodes[seen.node as usize];
        let before = node.results.seen();
        node.results.learn(false, stamp);
        node.occurrences += 1.0;
        node.kinds.learn(seen.what.kind(), stamp);
        match seen.what {
            What::Null => {}
            What::Bool => node.values.learn(seen.value(), stamp),
            What::Number(number) => {
                node.values.learn(seen.value(), stamp);
                let known = node.number.get_or_insert_default();
                known.forms.learn(number_form(number), stamp);
                known.range.learn(scaled(number), stamp);
            }
            What::Text { text, form, .. } => {
                node.values.learn(seen.value(), stamp);
                let known = node.text.get_or_insert_default();
                known.new_classes.learn(form.classes & !known.known != 0, stamp);
                known.known |= form.classes;
                known.classes.learn(form.classes, stamp);
                known.lengths.learn(form.lengths, stamp);
                known.words.learn(form.words, stamp);
                node.lengths.learn(scaled(text.len() as f64), stamp);
            }
            What::Array(len) => {
                node.values.learn(seen.value(), stamp);
                node.lengths.learn(scaled(len as f64), stamp);
            }
            What::Object { keys, len, .. } => {
                let known = node.object.get_or_insert_default();
                known.keysets.learn(keys, stamp);
                known.new_keys.learn(false, stamp);
                known.objects += 1.0;
                known.keys += len as f32;
            }
        }
        if !scene.arguments.is_empty() {
            node.echoes.learn(before, seen, &scene.arguments);
        }
    }

    fn learn_repetition(
        &mut self,
        scene: &Scene<'_>,
        last: Option<&mut Last>,
        (believed, doubt): (bool, u32),
        stamp: Stamp,
    ) {
        let (Some(args), Some(last)) = (scene.args_id, last) else { return };
        let result = scene.digest;
        let known = last.model == self.id;
        if known && last.result == result {
            self.repeats.learn(false, stamp);
            for (node, _) in &last.fields {
                self.compared(*node, false);
            }
            return;
        }
        let now = scene.fields();
        if known {
            // Unlike elsewhere, a first change is news.
            self.repeats.learn(false, stamp);
            self.repeats.learn(true, stamp);
            for (node, digest, _) in now {
                let before = last.fields.binary_search_by_key(node, |(node, _)| *node).map(|at| last.fields[at].1);
                self.compared(*node, before != Ok(*digest));
            }
            for (node, _) in &last.fields {
                if now.binary_search_by_key(node, |(node, _, _)| *node).is_err() {
                    self.compared(*node, true);
                }
            }
        } else {
            let borrowed = self.known_results.iter().any(|(known, by)| *known == result && *by != args);
            self.borrowed.learn(borrowed, stamp);
        }
        if !believed {
            let (by, was) = std::mem::replace(&mut last.unconfirmed, (scene.session, doubt));
            if by == scene.session || by == 0 || scene.session == 0 || (!known && was != doubt) {
                return;
            }
        }
        match self.known_results.iter_mut().find(|(known, _)| *known == result) {
            Some((_, by)) => *by = args,
            None => {
                if self.known_results.len() >= REMEMBERED {
                    self.known_results.pop_front();
                }
                self.known_results.push_back((result, args));
            }
        }
        if last.fields.len() == now.len() {
            // Mostly the same fields again: no need for another list.
            for (old, (node, digest, _)) in last.fields.iter_mut().zip(now) {
                *old = (*node, *digest);
            }
        } else {
            last.fields = now.iter().map(|(node, digest, _)| (*node, *digest)).collect();
        }
        (last.model, last.result) = (self.id, result);
    }

    /// Counts a path that could have changed between equal calls.
    fn compared(&mut self, node: u32, changed: bool) {
        if let Some(node) = self.nodes.get_mut(node as usize) {
            node.compared += 1.0;
            node.changed += f32::from(u8::from(changed));
        }
    }

    /// By how much a signal's ratio is off, given how often the signal fires on this tool's own traffic.
    pub(crate) fn correction(&self, signal: Signal) -> f64 {
        let (seen, fired) = self.fired[signal as usize];
        let rate = (f64::from(fired) + ALARM_WEIGHT * ALARM_RATE) / (f64::from(seen) + ALARM_WEIGHT);
        ALARM_RATE / rate
    }

    /// Counts false alarms: which signals of the table fired on a result that is learned.
    /// How often a signal could be evaluated, and how often it fired.
    pub(crate) fn fired(&self, signal: Signal) -> (f32, f32) {
        self.fired[signal as usize]
    }

    pub(crate) fn learn_signals(&mut self, signals: &[SignalResult]) {
        for result in signals {
            let (seen, fired) = &mut self.fired[result.signal as usize];
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
        self.borrowed.age(keep);
        self.latency.age(keep);
        for (seen, fired) in &mut self.fired {
            *seen *= keep;
            *fired *= keep;
        }
    }

    /// Whether what was read back can be what was written.
    pub(crate) fn is_sound(&self) -> bool {
        let nodes = self.nodes.len();
        self.paths.len() == nodes
            && self.paths.values().all(|node| (*node as usize) < nodes)
            && self.known_results.len() <= REMEMBERED
    }
}

impl Node {
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

fn latency_scale(ms: f64) -> f64 {
    libm::log(ms.max(1e-3))
}

fn short(key: &str) -> Box<str> {
    let end = key.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= 48).last().unwrap_or(0);
    key[..end].into()
}
