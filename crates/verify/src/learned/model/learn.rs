//! How a result is taken into a model.

use super::{
    INDEX_BYTES, Last, Model, NUMBER_BYTES, Node, OBJECT_BYTES, REMEMBERED, SHARED, TEXT_BYTES, child_bytes,
    latency_scale,
};
use crate::learned::{
    counts::Lesson,
    observation::Observation,
    observe::{NONE, ObservedValue, ValueKind, fold, mix, number_form, scaled},
    surprise::{Aspect, Surprise, Surprises},
};

/// Results after which everything counts half: a tool's past weighs less the longer ago it was.
const MEMORY: f32 = 1024.0;
/// Alarms remembered to be known again, and the least surprise of one, in nats.
const RECENT_ALARMS: usize = 32;
const LEVEL_OF_DOUBT: f64 = 2.0;
/// Results believed in between after which the same alarm is another one.
const ALARM_AGAIN: u32 = 16;
/// A doubtful result counts `DOUBTED · (1 − posterior)^DISTRUST`, at most 1: nearly in full up to a posterior of one half, and hardly at
/// all near 1.
const DOUBTED: f64 = 2.0;
const DISTRUST: f64 = 1.3;
const LEAST_WEIGHT: f64 = 0.02;
/// Values and answers change with the world that a tool reports on: how often they surprise is learned in full. The structure
/// of results is the tool's own.
const OF_THE_WORLD: [usize; 3] = [Aspect::Value as usize, Aspect::Range as usize, Aspect::Changed as usize];
/// Members of an object that are known by name.
const MAX_CHILDREN: usize = 256;
/// Bytes of a name that is kept.
const MAX_NAME_BYTES: usize = 48;

impl Model {
    /// Learns a result; `surprises` are what it was judged by, `believed` whether it was accepted and `doubt`
    /// its posterior. What is new at the places `held` does not become usual. At most `limit` paths are kept; says how many were not.
    pub(crate) fn learn(
        &mut self,
        observation: &mut Observation<'_>,
        surprises: &Surprises,
        last: Option<&mut Last>,
        (believed, doubt): (bool, f64),
        held: &[u32],
        limit: usize,
    ) -> u64 {
        self.stamp = self.stamp.wrapping_add(1);
        self.believed = self.believed.wrapping_add(u32::from(believed));
        let weight =
            if believed { 1.0 } else { (DOUBTED * libm::pow(1.0 - doubt, DISTRUST)).clamp(LEAST_WEIGHT, 1.0) as f32 };
        let lesson = Lesson { stamp: self.stamp, weight, held: false };
        if self.id == 0 {
            // Of its own, also where a forgotten tool comes again with the very same result.
            self.id = fastrand::u64(1..);
        }
        for (aspect, surprise) in surprises.0.iter().enumerate() {
            if let Some(surprise) = surprise {
                // What is odd and comes again is a change, not a false alarm.
                let nats = surprise.nats() * f64::from(1.0 - surprise.relief);
                // The same alarm again and again is one change, not many false alarms.
                if believed || nats < LEVEL_OF_DOUBT || self.is_new_alarm(aspect, surprise, observation) {
                    let weight = if OF_THE_WORLD.contains(&aspect) { 1.0 } else { weight };
                    self.alarms[aspect].learn(nats, weight);
                }
            }
        }
        self.results += weight;
        if self.results > MEMORY {
            self.age(0.5);
        }
        // One answer that came too fast to be believed does not make the next one usual.
        let fast = surprises.get(Aspect::Latency).is_some_and(|surprise| surprise.nats() >= LEVEL_OF_DOUBT);
        if let Some(ms) = observation.latency_ms.filter(|_| believed || !fast) {
            self.latency.learn(latency_scale(ms), lesson);
        }
        let mut dropped = 0;
        for place in 0..observation.seen.len() {
            let mut seen = observation.seen[place];
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
                let before = self.nodes.capacity();
                self.nodes.push(Node::default());
                self.memory.0 += (self.nodes.capacity() - before) * size_of::<Node>() + INDEX_BYTES;
                self.paths.insert(seen.path, seen.node);
                self.adopt(observation, place, seen.node, lesson);
            }
            if observation.seen[place].node != seen.node {
                observation.seen[place].node = seen.node;
                // There is more to list than there was.
                observation.fields.take();
            }
            let held = !held.is_empty() && held.contains(&(place as u32));
            self.learn_value(&seen, observation, Lesson { held, ..lesson });
        }
        let strongest = surprises.0.iter().flatten().min_by(|a, b| a.rarity.total_cmp(&b.rarity));
        let doubt = strongest
            .and_then(|surprise| observation.seen.get(surprise.place as usize))
            .map_or(0, |seen| fold(seen.path));
        self.learn_repetition(observation, last, (believed, doubt), lesson);
        dropped
    }

    fn is_new_alarm(&mut self, aspect: usize, surprise: &Surprise, observation: &Observation<'_>) -> bool {
        let path = observation.seen.get(surprise.place as usize).map_or(0, |seen| seen.path);
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
    fn adopt(&mut self, observation: &Observation<'_>, place: usize, child: u32, lesson: Lesson) {
        let seen = &observation.seen[place];
        let Some(parent) = observation.seen.get(seen.parent as usize) else { return };
        let Some(object) = self.nodes.get_mut(parent.node as usize).and_then(|parent| parent.object.as_mut()) else {
            return;
        };
        object.new_keys.learn(true, lesson);
        if object.children.len() < MAX_CHILDREN {
            let name = short(seen.key);
            self.memory.0 += child_bytes(&name);
            object.children.push((child, name));
        }
    }

    fn learn_value(&mut self, seen: &ObservedValue<'_>, observation: &Observation<'_>, lesson: Lesson) {
        let node = &mut self.nodes[seen.node as usize];
        let before = node.results.seen();
        let mut grown = 0;
        node.results.learn(false, lesson);
        node.occurrences += lesson.weight;
        grown += node.kinds.learn(seen.what.kind(), lesson);
        match seen.what {
            ValueKind::Null => {}
            ValueKind::Bool => grown += node.values.learn(seen.value(), lesson),
            ValueKind::Number(number) => {
                grown += node.values.learn(seen.value(), lesson);
                grown += if node.number.is_none() { NUMBER_BYTES } else { 0 };
                let known = node.number.get_or_insert_default();
                grown += known.forms.learn(number_form(number), lesson);
                known.range.learn(seen.scaled, lesson);
            }
            ValueKind::Text { text, form, .. } => {
                grown += node.values.learn(seen.value(), lesson);
                grown += if node.text.is_none() { TEXT_BYTES } else { 0 };
                let known = node.text.get_or_insert_default();
                known.new_classes.learn(form.classes & !known.known != 0 && !lesson.held, lesson);
                known.known |= if lesson.held { 0 } else { form.classes };
                grown += known.classes.learn(form.classes, lesson);
                grown += known.lengths.learn(form.lengths, lesson);
                grown += known.words.learn(form.words, lesson);
                node.lengths.learn(scaled(text.len() as f64), lesson);
                // A number that is written as a text now.
                if let Some(known) = node.number.as_mut().filter(|_| !seen.scaled.is_nan()) {
                    known.range.learn(seen.scaled, lesson);
                }
            }
            ValueKind::Array(len) => {
                grown += node.values.learn(seen.value(), lesson);
                node.lengths.learn(scaled(len as f64), lesson);
            }
            ValueKind::Object { keys, len, .. } => {
                grown += if node.object.is_none() { OBJECT_BYTES } else { 0 };
                let known = node.object.get_or_insert_default();
                grown += known.keysets.learn(keys, lesson);
                known.new_keys.learn(false, lesson);
                known.objects += lesson.weight;
                known.keys += lesson.weight * len as f32;
            }
        }
        if !observation.arguments.is_empty() {
            let echoes = node.echoes.bytes();
            node.echoes.learn(before, seen, &observation.arguments);
            grown += node.echoes.bytes() - echoes;
        }
        self.memory.0 += grown;
    }

    fn learn_repetition(
        &mut self,
        observation: &Observation<'_>,
        last: Option<&mut Last>,
        (believed, doubt): (bool, u32),
        lesson: Lesson,
    ) {
        let (Some(args), Some(last)) = (observation.args_id, last) else { return };
        let result = observation.digest;
        let known = last.model == self.id;
        if known && let Some(age) = observation.age {
            self.ages.learn(age, last.result != result, lesson.weight);
        }
        if known && last.result == result {
            last.at = observation.at.or(last.at);
            self.repeats.learn(false, lesson);
            for (node, _) in &last.fields {
                self.compared(*node, false);
            }
            return;
        }
        let now = observation.fields();
        if known {
            // Unlike elsewhere, a first change is news.
            self.repeats.learn(false, lesson);
            self.repeats.learn(true, lesson);
            for (node, digest, _) in now {
                let before = last.fields.binary_search_by_key(node, |(node, _)| *node).map(|at| last.fields[at].1);
                self.compared(*node, before != Ok(*digest));
            }
            for (node, _) in &last.fields {
                if now.binary_search_by_key(node, |(node, _, _)| *node).is_err() {
                    self.compared(*node, true);
                }
            }
        }
        let borrowed = self.known_results.iter().any(|(known, by)| *known == result && *by != args);
        self.borrowed[observation.class()].learn(borrowed, lesson);
        if !believed {
            let (by, was) = std::mem::replace(&mut last.unconfirmed, (observation.session, doubt));
            if by == observation.session || by == 0 || observation.session == 0 || (!known && was != doubt) {
                return;
            }
        }
        match self.known_results.iter_mut().find(|(known, _)| *known == result) {
            Some((_, by)) if *by != args => *by = SHARED,
            Some(_) => {}
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
        (last.model, last.result, last.at) = (self.id, result, observation.at);
    }

    /// Counts a path that could have changed between equal calls.
    fn compared(&mut self, node: u32, changed: bool) {
        if let Some(node) = self.nodes.get_mut(node as usize) {
            node.compared += 1.0;
            node.changed += f32::from(u8::from(changed));
        }
    }
}

fn short(key: &str) -> Box<str> {
    let end = key
        .char_indices()
        .map(|(at, c)| at + c.len_utf8())
        .take_while(|end| *end <= MAX_NAME_BYTES)
        .last()
        .unwrap_or(0);
    key[..end].into()
}
