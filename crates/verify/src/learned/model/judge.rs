//! How surprising a result is to a model: each value by what its path held so far, the whole by what equal and other arguments
//! gave, the time by how long calls took.

use super::{LEAST_RESULTS, Last, Model, Node, ObjectNode, latency_scale};
use crate::learned::{
    observation::Observation,
    observe::{ObservedValue, ValueKind, number_form, scaled},
    oddities::OddityKey,
    surprise::{Aspect, Cause, Odd, Sink, Surprises},
};
use crate::{
    Origin,
    fields::PathId,
    learned::observe::{fold, mix},
};

/// Latencies learned before one is judged by them.
const LEAST_LATENCIES: f32 = 8.0;
/// What a change between equal calls is worth before any were compared.
const CHANGES_EXPECTED: f64 = 4.0;

/// The part of an object's relief for changing members that a member counts with that is new now.
const ANOTHER_MEMBER: f32 = 0.9;

impl Model {
    /// How surprising a result is.
    pub(crate) fn judge(&self, observation: &Observation<'_>, last: Option<&Last>, origin: Origin) -> Surprises {
        let mut surprises = Surprises::none();
        self.compare(observation, last, origin, &mut surprises);
        surprises
    }

    /// Everything odd in a result.
    pub(crate) fn odd(&self, observation: &Observation<'_>, last: Option<&Last>) -> Vec<OddityKey> {
        let mut odd = Odd::default();
        self.compare(observation, last, Origin::Reported, &mut odd);
        odd.0
    }

    fn compare(&self, observation: &Observation<'_>, last: Option<&Last>, origin: Origin, out: &mut impl Sink) {
        if self.results >= LEAST_RESULTS {
            for aspect in [Aspect::Structure, Aspect::Format, Aspect::Value, Aspect::Range] {
                out.judged(aspect);
            }
            for (place, seen) in observation.seen.iter().enumerate() {
                // What is new is its parent's news.
                if let Some(node) = self.node(seen.node) {
                    self.judge_value(node, seen, place, (observation, origin), out);
                }
            }
            self.judge_repetition(observation, last, origin, out);
        }
        self.judge_latency(observation, origin, out);
    }

    /// The key of an oddity, and by what share it weighs less for having been seen before.
    fn relief(&self, path: PathId, why: Cause, detail: u32, origin: Origin) -> (OddityKey, f32) {
        let key = fold(mix(path, why.code() | u64::from(detail) << 32));
        (key, if self.oddities.is_empty() { 0.0 } else { self.oddities.relief(key, origin) })
    }

    fn judge_value(
        &self,
        node: &Node,
        seen: &ObservedValue<'_>,
        place: usize,
        (observation, origin): (&Observation<'_>, Origin),
        out: &mut impl Sink,
    ) {
        let kind = seen.what.kind();
        let odd = |why: Cause, detail: u32| move || self.relief(seen.path, why, detail, origin);
        out.add(Aspect::Structure, node.kinds.rarity(kind), place, Cause::Kind, odd(Cause::Kind, kind));
        let value = || node.values.rarity(seen.value());
        match seen.what {
            ValueKind::Null => {}
            ValueKind::Bool => out.add(Aspect::Value, value(), place, Cause::Value, odd(Cause::Value, 0)),
            ValueKind::Number(number) => {
                out.add(Aspect::Value, value(), place, Cause::Value, odd(Cause::Value, 0));
                if let Some(known) = &node.number {
                    out.add(
                        Aspect::Format,
                        known.forms.rarity(number_form(number)),
                        place,
                        Cause::NumberForm,
                        odd(Cause::NumberForm, 0),
                    );
                    out.add(
                        Aspect::Range,
                        known.range.rarity(scaled(number)),
                        place,
                        Cause::Number,
                        odd(Cause::Number, 0),
                    );
                }
            }
            ValueKind::Text { text, form, .. } => {
                out.add(Aspect::Value, value(), place, Cause::Value, odd(Cause::Value, 0));
                if let Some(known) = &node.text {
                    if form.classes & !known.known != 0 {
                        out.add(
                            Aspect::Structure,
                            known.new_classes.probability(),
                            place,
                            Cause::Characters,
                            odd(Cause::Characters, form.classes & !known.known),
                        );
                    }
                    out.add(
                        Aspect::Format,
                        known.classes.rarity(form.classes),
                        place,
                        Cause::Shape,
                        odd(Cause::Shape, 0),
                    );
                    out.add(
                        Aspect::Format,
                        known.lengths.rarity(form.lengths),
                        place,
                        Cause::Shape,
                        odd(Cause::Shape, 0),
                    );
                    out.add(Aspect::Format, known.words.rarity(form.words), place, Cause::Shape, odd(Cause::Shape, 0));
                }
                out.add(
                    Aspect::Range,
                    node.lengths.rarity(scaled(text.len() as f64)),
                    place,
                    Cause::Length,
                    odd(Cause::Length, 0),
                );
            }
            ValueKind::Array(len) => {
                out.add(Aspect::Value, value(), place, Cause::Empty, odd(Cause::Empty, u32::from(len == 0)));
                out.add(
                    Aspect::Range,
                    node.lengths.rarity(scaled(len as f64)),
                    place,
                    Cause::Length,
                    odd(Cause::Length, 0),
                );
            }
            ValueKind::Object { keys, map, end, .. } => {
                if let Some(known) = node.object.as_ref().filter(|_| !map) {
                    let members = &observation.seen[place + 1..(end as usize).max(place + 1)];
                    self.judge_keys((node, known), (seen.path, keys), place, (members, origin), out);
                }
            }
        }
        if !node.echoes.is_empty()
            && let Some(rarity) = node.echoes.rarity(seen, &observation.arguments)
        {
            out.add(Aspect::Echo, rarity, place, Cause::Echo, odd(Cause::Echo, 0));
        }
    }

    fn judge_keys(
        &self,
        (node, known): (&Node, &ObjectNode),
        (path, keys): (PathId, u32),
        place: usize,
        (within, origin): (&[ObservedValue<'_>], Origin),
        out: &mut impl Sink,
    ) {
        let odd = |why: Cause, path: PathId| move || self.relief(path, why, 0, origin);
        let rarity = known.keysets.rarity(keys);
        let any = || self.relief(path, Cause::Keys, 0, origin);
        let this = || {
            let (key, relief) = self.relief(path, Cause::Keys, keys, origin);
            (key, relief.max(any().1))
        };
        out.add(Aspect::Structure, rarity, place, Cause::Keys, this);
        // That the members change at all is an oddity, too.
        out.note(rarity, || any().0);
        if known.keysets.knows(keys) {
            return;
        }
        let members = within.iter().filter(|seen| seen.parent == place as u32);
        let mut members: Vec<(u32, PathId)> = members.map(|member| (member.node, member.path)).collect();
        members.sort_unstable();
        // Members that are new under other names are other oddities.
        for (_, new) in members.iter().filter(|(node, _)| !known.children.iter().any(|(child, _)| child == node)) {
            let odd = || {
                let (key, relief) = self.relief(*new, Cause::NewKey, 0, origin);
                let (_, others) = self.relief(path, Cause::Keys, 0, origin);
                (key, relief.max(ANOTHER_MEMBER * others))
            };
            out.add(Aspect::Structure, known.new_keys.probability(), place, Cause::NewKey, odd);
        }
        for (nth, (child, _)) in known.children.iter().enumerate() {
            if members.binary_search_by_key(child, |(node, _)| *node).is_ok() {
                continue;
            }
            let present = self.node(*child).map_or(0.0, |child| child.occurrences);
            let absent = f64::from(known.objects - present + 0.5) / f64::from(known.objects + 1.0);
            let rarity = absent.max(node.results.floor()).min(1.0);
            let why = Cause::Missing(nth as u32);
            out.add(Aspect::Structure, rarity, place, why, odd(why, path));
        }
    }

    fn judge_repetition(
        &self,
        observation: &Observation<'_>,
        last: Option<&Last>,
        origin: Origin,
        out: &mut impl Sink,
    ) {
        let Some(args) = observation.args_id else { return };
        let result = observation.digest;
        let Some(last) = last.filter(|last| last.model == self.id) else {
            out.judged(Aspect::Borrowed);
            if self.known_results.iter().any(|(known, by)| *known == result && *by != args) {
                let odd = || self.relief(0, Cause::Borrowed, 0, origin);
                out.add(Aspect::Borrowed, self.borrowed.probability(), 0, Cause::Borrowed, odd);
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
        let path = observation.seen.get(rarest.1).map_or(0, |seen| seen.path);
        let odd = || self.relief(path, Cause::Changed, 0, origin);
        out.add(Aspect::Changed, rarest.0, rarest.1, Cause::Changed, odd);
    }

    /// Fast answers can be made up; slow ones are no evidence.
    fn judge_latency(&self, observation: &Observation<'_>, origin: Origin, out: &mut impl Sink) {
        let Some(ms) = observation.latency_ms.filter(|_| self.latency.seen() >= LEAST_LATENCIES) else { return };
        let scaled = latency_scale(ms);
        out.judged(Aspect::Latency);
        if !self.latency.is_above(scaled) {
            let why = Cause::Fast(ms);
            out.add(Aspect::Latency, self.latency.rarity(scaled), 0, why, || self.relief(0, why, 0, origin));
        }
    }
}
