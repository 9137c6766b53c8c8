//! How surprising a result is to a model: each value by what its path held so far, the whole by what equal and other arguments
//! gave, the time by how long calls took.

use super::{LEAST_RESULTS, Last, Model, Node, ObjectNode, latency_scale};
use crate::learned::{
    observation::Observation,
    observe::{ObservedValue, ValueKind, number_form, scaled},
    surprise::{Aspect, Cause, Surprises},
};

/// Latencies learned before one is judged by them.
const LEAST_LATENCIES: f32 = 8.0;
/// A slow answer is no fabrication: it is at most this surprising, as a probability.
const SLOW: f64 = 0.1;
/// What a change between equal calls is worth before any were compared.
const CHANGES_EXPECTED: f64 = 4.0;

impl Model {
    /// How surprising a result is.
    pub(crate) fn judge(&self, observation: &Observation<'_>, last: Option<&Last>) -> Surprises {
        let mut surprises = Surprises::none();
        if self.results >= LEAST_RESULTS {
            for aspect in [Aspect::Structure, Aspect::Format, Aspect::Value, Aspect::Range] {
                surprises.judged(aspect);
            }
            for (place, seen) in observation.seen.iter().enumerate() {
                // What is new is its parent's news.
                if let Some(node) = self.node(seen.node) {
                    self.judge_value(node, seen, place, observation, &mut surprises);
                }
            }
            self.judge_repetition(observation, last, &mut surprises);
        }
        self.judge_latency(observation, &mut surprises);
        surprises
    }

    fn judge_value(
        &self,
        node: &Node,
        seen: &ObservedValue<'_>,
        place: usize,
        observation: &Observation<'_>,
        out: &mut Surprises,
    ) {
        out.add(Aspect::Structure, node.kinds.rarity(seen.what.kind()), place, Cause::Kind);
        let value = || node.values.rarity(seen.value());
        match seen.what {
            ValueKind::Null => {}
            ValueKind::Bool => out.add(Aspect::Value, value(), place, Cause::Value),
            ValueKind::Number(number) => {
                out.add(Aspect::Value, value(), place, Cause::Value);
                if let Some(known) = &node.number {
                    out.add(Aspect::Format, known.forms.rarity(number_form(number)), place, Cause::NumberForm);
                    out.add(Aspect::Range, known.range.rarity(scaled(number)), place, Cause::Number);
                }
            }
            ValueKind::Text { text, form, .. } => {
                out.add(Aspect::Value, value(), place, Cause::Value);
                if let Some(known) = &node.text {
                    if form.classes & !known.known != 0 {
                        out.add(Aspect::Structure, known.new_classes.probability(), place, Cause::Characters);
                    }
                    out.add(Aspect::Format, known.classes.rarity(form.classes), place, Cause::Shape);
                    out.add(Aspect::Format, known.lengths.rarity(form.lengths), place, Cause::Shape);
                    out.add(Aspect::Format, known.words.rarity(form.words), place, Cause::Shape);
                }
                out.add(Aspect::Range, node.lengths.rarity(scaled(text.len() as f64)), place, Cause::Length);
            }
            ValueKind::Array(len) => {
                out.add(Aspect::Value, value(), place, Cause::Empty);
                out.add(Aspect::Range, node.lengths.rarity(scaled(len as f64)), place, Cause::Length);
            }
            ValueKind::Object { keys, map, end, .. } => {
                if let Some(known) = node.object.as_ref().filter(|_| !map) {
                    let members = &observation.seen[place + 1..(end as usize).max(place + 1)];
                    self.judge_keys(node, known, keys, place, members, out);
                }
            }
        }
        if !node.echoes.is_empty()
            && let Some(rarity) = node.echoes.rarity(seen, &observation.arguments)
        {
            out.add(Aspect::Echo, rarity, place, Cause::Echo);
        }
    }

    fn judge_keys(
        &self,
        node: &Node,
        known: &ObjectNode,
        keys: u32,
        place: usize,
        within: &[ObservedValue<'_>],
        out: &mut Surprises,
    ) {
        out.add(Aspect::Structure, known.keysets.rarity(keys), place, Cause::Keys);
        if known.keysets.knows(keys) {
            return;
        }
        let members = within.iter().filter(|seen| seen.parent == place as u32);
        let mut members: Vec<u32> = members.map(|member| member.node).collect();
        members.sort_unstable();
        if members.iter().any(|member| !known.children.iter().any(|(child, _)| child == member)) {
            out.add(Aspect::Structure, known.new_keys.probability(), place, Cause::NewKey);
        }
        for (nth, (child, _)) in known.children.iter().enumerate() {
            if members.binary_search(child).is_ok() {
                continue;
            }
            let present = self.node(*child).map_or(0.0, |child| child.occurrences);
            let absent = f64::from(known.objects - present + 0.5) / f64::from(known.objects + 1.0);
            let rarity = absent.max(node.results.floor()).min(1.0);
            out.add(Aspect::Structure, rarity, place, Cause::Missing(nth as u32));
        }
    }

    fn judge_repetition(&self, observation: &Observation<'_>, last: Option<&Last>, out: &mut Surprises) {
        let Some(args) = observation.args_id else { return };
        let result = observation.digest;
        let Some(last) = last.filter(|last| last.model == self.id) else {
            out.judged(Aspect::Borrowed);
            if self.known_results.iter().any(|(known, by)| *known == result && *by != args) {
                out.add(Aspect::Borrowed, self.borrowed.probability(), 0, Cause::Borrowed);
            }
            return;
        };
        out.judged(Aspect::Changed);
        if last.result == result {
            return;
        }
        let usual = self.repeats.probability();
        let mut rarest = (usual, 0);
        let now = observation.fields();
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
        out.add(Aspect::Changed, rarest.0, rarest.1, Cause::Changed);
    }

    fn judge_latency(&self, observation: &Observation<'_>, out: &mut Surprises) {
        let Some(ms) = observation.latency_ms.filter(|_| self.latency.seen() >= LEAST_LATENCIES) else { return };
        let scaled = latency_scale(ms);
        let rarity = self.latency.rarity(scaled);
        if self.latency.is_above(scaled) {
            out.add(Aspect::Latency, rarity.max(SLOW), 0, Cause::Slow(ms));
        } else {
            out.add(Aspect::Latency, rarity, 0, Cause::Fast(ms));
        }
    }
}
