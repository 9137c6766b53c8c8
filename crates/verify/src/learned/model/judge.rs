//! How surprising a result is to a model: each value by what its path held so far, the whole by what equal and other arguments
//! gave, the time by how long calls took.

use super::{LEAST_RESULTS, Last, Model, Node, ObjectNode, SHARED, latency_scale};
use crate::{
    Origin,
    fields::PathId,
    learned::{
        ages::at_age,
        answers::{FactKey, fact},
        counts::{Categories, Range},
        echo::Repeated,
        observation::Observation,
        observe::{ObservedValue, ValueKind, fold, mix, number_form, scaled},
        oddities::OddityKey,
        surprise::{Aspect, Cause, Odd, Oddness, Sink, Surprise, Surprises},
    },
};

/// How many times faster than the fastest answer so far a call must be to say anything, and by how many milliseconds: caches, short
/// routes and idle machines make less of a difference every day.
const FAR_LESS: f64 = 3.0;
const LEAST_DIFFERENCE_MS: f64 = 1.0;
/// Latencies learned before one is judged by them.
const LEAST_LATENCIES: f32 = 8.0;
/// However likely it is that two results are equal by chance, an equal one is not less rare than this before the tool's own rate is known.
const MOST_CHANCE: f64 = 0.1;
/// What a change between equal calls is worth before any were compared.
const CHANGES_EXPECTED: f64 = 4.0;

/// The part of an object's relief for changing members that a member counts with that is new now.
const ANOTHER_MEMBER: f32 = 0.9;

/// Texts unlike those before, of any kind: tells their oddity from that of one kind.
const ANY_TEXT: u32 = 1;
/// The manners of one oddity, apart from [`ANY_TEXT`]: what was never there is not what is there now and then, and too little is not too
/// much.
const NEW: u32 = 2;
const RARE: u32 = 3;
const BELOW: u32 = 4;
const ABOVE: u32 = 5;

fn new_or_rare(known: &Categories, category: u32) -> u32 {
    if known.knows(category) { RARE } else { NEW }
}

fn side(range: &Range, value: f64) -> u32 {
    if value < range.bounds().0 { BELOW } else { ABOVE }
}

/// Texts from which on a tool is known to give another now and then.
const SOME_TEXTS: usize = 4;

/// What one doubtful result counts.
const ONE: f32 = 1.0;

impl Model {
    /// Whether a result is a text unlike those before, and two others were doubted for that, too: a tool whose results are texts gives
    /// others, such as errors, in many forms.
    pub(crate) fn is_one_of_unlike_texts(&self, observation: &Observation<'_>, surprise: Surprise) -> bool {
        let of_text = matches!(surprise.why, Cause::Characters | Cause::Shape | Cause::Value | Cause::Length);
        let Some(root) = observation.seen.first().filter(|_| surprise.place == 0 && !surprise.rejected) else {
            return false;
        };
        let is_text = matches!(root.what, ValueKind::Text { .. });
        of_text && is_text && self.oddities.sightings(oddity(root.path, Cause::Shape, ANY_TEXT)) > ONE
    }

    /// Whether a text is built in a new way where the same few were given again and again, each for a while: those say little of how others
    /// are built.
    pub(crate) fn is_one_of_few_texts(&self, observation: &Observation<'_>, surprise: Surprise) -> bool {
        let of_form = matches!(surprise.why, Cause::Characters | Cause::Shape | Cause::Length);
        let seen = observation.seen.get(surprise.place as usize).filter(|_| of_form && !surprise.rejected);
        let Some(node) = seen.and_then(|seen| self.node(seen.node)) else { return false };
        (SOME_TEXTS..).contains(&node.values.size().1) && node.values.are_repeated()
    }

    /// How surprising a result is, and the rejected fact that it shows.
    pub(crate) fn judge(
        &self,
        observation: &Observation<'_>,
        last: Option<&Last>,
        origin: Origin,
    ) -> (Surprises, Option<FactKey>) {
        let mut surprises = Surprises::none();
        self.compare(observation, last, origin, &mut surprises);
        let rejected = if self.answers.has_rejections() { self.rejected(observation) } else { None };
        if let Some((place, why, _)) = rejected {
            let path = observation.seen.get(place).map_or(0, |seen| seen.path);
            surprises.reject(place, why, oddity(path, why, 0));
        }
        (surprises, rejected.map(|(_, _, key)| key))
    }

    /// Everything odd in a result.
    pub(crate) fn odd(&self, observation: &Observation<'_>, last: Option<&Last>) -> Odd {
        let mut odd = Odd::default();
        self.compare(observation, last, Origin::Reported, &mut odd);
        odd
    }

    /// A fact of a result that someone rejected, with its place and cause.
    pub(crate) fn rejected(&self, observation: &Observation<'_>) -> Option<(usize, Cause, FactKey)> {
        let seen = &observation.seen;
        let args = observation.args_id.unwrap_or_default();
        let at = |place: usize, path: PathId, why: Cause, what: u32| {
            let key = fact(path, why, what);
            self.answers.is_rejected(key).then_some((place, why, key))
        };
        for (place, value) in seen.iter().enumerate() {
            let found = whats(value).into_iter().flatten().find_map(|(why, what)| at(place, value.path, why, what));
            let changed = || at(place, value.path, Cause::Changed, changed_to(args, value));
            // A new member is what was rejected only if nothing else in its object has become known since.
            let member = || {
                let key = fact(value.path, Cause::NewKey, 0);
                let paths = self.answers.rejected_when(key)?;
                let since = seen.iter().filter(|other| other.parent == value.parent && other.node >= paths);
                let others = since.filter(|other| !self.answers.is_rejected(fact(other.path, Cause::NewKey, 0)));
                (others.count() == 0).then_some((value.parent as usize, Cause::NewKey, key))
            };
            if let Some(found) = found.or_else(changed).or_else(member) {
                return Some(found);
            }
        }
        at(0, 0, Cause::Borrowed, observation.both())
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

    /// What is known of something odd. `detail` tells oddities of one place and cause apart, `what` the facts.
    fn oddness(&self, path: PathId, why: Cause, (detail, what): (u32, u32), origin: Origin) -> Oddness {
        let key = oddity(path, why, detail);
        let fact = fact(path, why, what);
        let confirmed = self.answers.is_confirmed(fact);
        let relief = if self.oddities.is_empty() { 0.0 } else { self.oddities.relief(key, origin) };
        Oddness { key, fact, manner: key, relief: if confirmed { 1.0 } else { relief }, confirmed }
    }

    /// The same of an oddity that has several manners, which are announced apart.
    fn in_manner(&self, odd: Oddness, path: PathId, why: Cause, manner: u32) -> Oddness {
        Oddness { manner: oddity(path, why, manner), ..odd }
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
        let odd = |why: Cause, detail: u32| {
            move || {
                let what =
                    whats(seen).into_iter().flatten().find(|(cause, _)| *cause == why).map_or(0, |(_, what)| what);
                self.oddness(seen.path, why, (detail, what), origin)
            }
        };
        out.add(Aspect::Structure, node.kinds.rarity(kind), place, Cause::Kind, odd(Cause::Kind, kind));
        let in_manner = |why: Cause, manner: u32| self.in_manner(odd(why, 0)(), seen.path, why, manner);
        let value = || node.values.rarity(seen.value());
        let odd_value = || in_manner(Cause::Value, new_or_rare(&node.values, seen.value()));
        let repeated = if node.echoes.is_empty() { None } else { node.echoes.explain(seen, &observation.arguments) };
        match seen.what {
            // It is as the caller wrote it.
            _ if repeated == Some(Repeated::Whole) => {}
            ValueKind::Null => {}
            ValueKind::Bool => out.add(Aspect::Value, value(), place, Cause::Value, odd_value),
            ValueKind::Number(number) => {
                out.add(Aspect::Value, value(), place, Cause::Value, odd_value);
                if let Some(known) = &node.number {
                    let (form, scaled) = (number_form(number), seen.scaled);
                    let why = Cause::NumberForm;
                    let odd_form = || in_manner(why, new_or_rare(&known.forms, form));
                    out.add(Aspect::Format, known.forms.rarity(form), place, why, odd_form);
                    let outside = || in_manner(Cause::Number, side(&known.range, scaled));
                    out.add(Aspect::Range, known.range.rarity(scaled), place, Cause::Number, outside);
                }
            }
            ValueKind::Text { text, form, .. } => {
                out.add(Aspect::Value, value(), place, Cause::Value, odd_value);
                // It was a number before.
                if let Some(known) = node.number.as_ref().filter(|_| !seen.scaled.is_nan()) {
                    let outside = || in_manner(Cause::Number, side(&known.range, seen.scaled));
                    out.add(Aspect::Range, known.range.rarity(seen.scaled), place, Cause::Number, outside);
                }
                let mut rarest = 1.0_f64;
                if let Some(known) = &node.text {
                    if form.classes & !known.known != 0 {
                        rarest = known.new_classes.probability();
                        out.add(
                            Aspect::Structure,
                            rarest,
                            place,
                            Cause::Characters,
                            odd(Cause::Characters, form.classes & !known.known),
                        );
                    }
                    let classes = known.classes.rarity(form.classes);
                    let odd_classes = || in_manner(Cause::Shape, new_or_rare(&known.classes, form.classes));
                    out.add(Aspect::Format, classes, place, Cause::Shape, odd_classes);
                    if repeated.is_none() {
                        let odd_lengths = || in_manner(Cause::Shape, new_or_rare(&known.lengths, form.lengths));
                        out.add(Aspect::Format, known.lengths.rarity(form.lengths), place, Cause::Shape, odd_lengths);
                    }
                    let words = known.words.rarity(form.words);
                    let odd_words = || in_manner(Cause::Shape, new_or_rare(&known.words, form.words));
                    out.add(Aspect::Format, words, place, Cause::Shape, odd_words);
                    rarest = rarest.min(classes).min(words);
                }
                if repeated.is_none() {
                    let scaled = scaled(text.len() as f64);
                    let length = node.lengths.rarity(scaled);
                    let outside = || in_manner(Cause::Length, side(&node.lengths, scaled));
                    out.add(Aspect::Range, length, place, Cause::Length, outside);
                    rarest = rarest.min(length);
                }
                if place == 0 {
                    // That the texts differ at all is an oddity, too.
                    out.note(rarest, odd(Cause::Shape, ANY_TEXT));
                }
            }
            ValueKind::Array(len) => {
                out.add(Aspect::Value, value(), place, Cause::Empty, odd(Cause::Empty, u32::from(len == 0)));
                let scaled = scaled(len as f64);
                let outside = || in_manner(Cause::Length, side(&node.lengths, scaled));
                out.add(Aspect::Range, node.lengths.rarity(scaled), place, Cause::Length, outside);
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
        let odd = |why: Cause, path: PathId| move || self.oddness(path, why, (0, 0), origin);
        let rarity = known.keysets.rarity(keys);
        let any = || self.oddness(path, Cause::Keys, (0, keys), origin);
        let this = || {
            let known = self.oddness(path, Cause::Keys, (keys, keys), origin);
            Oddness { relief: known.relief.max(any().relief), ..known }
        };
        out.add(Aspect::Structure, rarity, place, Cause::Keys, this);
        // That the members change at all is an oddity, too.
        out.note(rarity, any);
        if known.keysets.knows(keys) {
            return;
        }
        let members = within.iter().filter(|seen| seen.parent == place as u32);
        let mut members: Vec<(u32, PathId)> = members.map(|member| (member.node, member.path)).collect();
        members.sort_unstable();
        // Members that are new under other names are other oddities.
        for (_, new) in members.iter().filter(|(node, _)| !known.children.iter().any(|(child, _)| child == node)) {
            let odd = || {
                let known = self.oddness(*new, Cause::NewKey, (0, 0), origin);
                Oddness { relief: known.relief.max(ANOTHER_MEMBER * any().relief), ..known }
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
        let borrowed = |out: &mut _| self.judge_borrowed(observation, args, origin, out);
        let Some(last) = last.filter(|last| last.model == self.id) else {
            out.judged(Aspect::Borrowed);
            borrowed(out);
            return;
        };
        out.judged(Aspect::Changed);
        if last.result == result {
            return;
        }
        // Where answers change all the time, one of other arguments is odd nevertheless.
        borrowed(out);
        let usual = self.repeats.probability();
        // At this age of the answer.
        let likelier = observation.age.map_or(1.0, |age| self.ages.likelier(age));
        let at_this_age = |rarity: f64| if likelier == 1.0 { rarity } else { at_age(rarity, likelier) };
        let mut rarest = (at_this_age(usual), 0);
        let now = observation.fields();
        let mut changed = |node: u32, place: usize| {
            let Some(node) = self.node(node) else { return };
            let (compared, changed) = (f64::from(node.compared), f64::from(node.changed));
            let rarity = (changed + CHANGES_EXPECTED * usual) / (compared + CHANGES_EXPECTED);
            let rarity = at_this_age(rarity.max(0.5 / (compared + 2.0)));
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
        let place = observation.seen.get(rarest.1);
        let (path, what) = place.map_or((0, 0), |seen| (seen.path, changed_to(args, seen)));
        let odd = || self.oddness(path, Cause::Changed, (0, what), origin);
        out.add(Aspect::Changed, rarest.0, rarest.1, Cause::Changed, odd);
    }

    /// Whether other arguments gave the same result.
    fn judge_borrowed(&self, observation: &Observation<'_>, args: u64, origin: Origin, out: &mut impl Sink) {
        let known = self.known_results.iter().find(|(known, by)| *known == observation.digest && *by != args);
        let Some((_, by)) = known else { return };
        let rate = self.borrowed[observation.class()].probability();
        let chance = if *by == SHARED { 1.0 } else { self.coincidence(observation) };
        let odd = || self.oddness(0, Cause::Borrowed, (0, observation.both()), origin);
        out.add(Aspect::Borrowed, rate.max(chance.min(MOST_CHANCE)), 0, Cause::Borrowed, odd);
    }

    /// P(two results of one shape are equal by chance): the shares that the values have at their paths, multiplied. Short, empty
    /// and acknowledging results are equal all the time.
    fn coincidence(&self, observation: &Observation<'_>) -> f64 {
        let mut chance = 1.0;
        for seen in &observation.seen {
            let Some(node) = self.node(seen.node) else { return 0.0 };
            chance *= match seen.what {
                ValueKind::Null | ValueKind::Object { .. } | ValueKind::Array(0) => 1.0,
                ValueKind::Array(len) => 1.0 / (1.0 + len as f64),
                ValueKind::Bool | ValueKind::Number(_) | ValueKind::Text { .. } => node.values.share(seen.value()),
            };
            if chance < 1e-3 {
                return 0.0;
            }
        }
        chance
    }

    /// Fast answers can be made up; slow ones are no evidence.
    fn judge_latency(&self, observation: &Observation<'_>, origin: Origin, out: &mut impl Sink) {
        let Some(ms) = observation.latency_ms.filter(|_| self.latency.seen() >= LEAST_LATENCIES) else { return };
        let scaled = latency_scale(ms);
        out.judged(Aspect::Latency);
        let fastest = self.latencies().0;
        let lately = self.latency.lately().rarity_below(latency_scale((ms * FAR_LESS).max(ms + LEAST_DIFFERENCE_MS)));
        let is_far = ms * FAR_LESS < fastest && ms + LEAST_DIFFERENCE_MS < fastest;
        let rarity = if is_far { lately.min(self.latency.rarity(scaled)) } else { lately };
        let why = Cause::Fast(ms);
        out.add(Aspect::Latency, rarity, 0, why, || self.oddness(0, why, (0, 0), origin));
    }
}

/// The key of a place and a cause.
fn oddity(path: PathId, why: Cause, detail: u32) -> OddityKey {
    fold(mix(path, why.code() | u64::from(detail) << 32))
}

/// What an answer to these arguments has become at a place.
fn changed_to(args: u64, value: &ObservedValue<'_>) -> u32 {
    fold(mix(args, u64::from(value.digest())))
}

/// What is found at a place, by the cause for which it may be odd. Values that are never the same twice are told apart by how they are built and by their
/// order of magnitude.
fn whats(value: &ObservedValue<'_>) -> [Option<(Cause, u32)>; 6] {
    let kind = Some((Cause::Kind, value.what.kind()));
    let echo = Some((Cause::Echo, value.what.kind()));
    let same = Some((Cause::Value, value.value()));
    match value.what {
        ValueKind::Null => [kind, None, None, None, None, None],
        ValueKind::Bool => [kind, same, None, None, None, None],
        ValueKind::Number(number) => {
            let magnitude = libm::floor(value.scaled / core::f64::consts::LN_10) as i32;
            let form = Some((Cause::NumberForm, number_form(number)));
            [kind, same, form, Some((Cause::Number, magnitude as u32)), echo, None]
        }
        ValueKind::Text { text, form } => {
            let length = Some((Cause::Length, doublings(text.len())));
            let (characters, shape) = (Some((Cause::Characters, form.classes)), Some((Cause::Shape, form.words)));
            [kind, same, characters, shape, length, echo]
        }
        ValueKind::Array(len) => {
            let empty = Some((Cause::Empty, u32::from(len == 0)));
            [kind, empty, Some((Cause::Length, doublings(len))), None, None, None]
        }
        ValueKind::Object { keys, .. } => [kind, Some((Cause::Keys, keys)), None, None, None, None],
    }
}

/// How often 1 has to be doubled to be as long.
fn doublings(length: usize) -> u32 {
    usize::BITS - length.leading_zeros()
}
