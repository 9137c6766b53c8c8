//! Echoes: values of a result that repeat an argument, as ids and names often do.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::observe::{ObservedValue, Paths, ValueKind, mix};
use crate::fields::{MAX_DEPTH, PathId};

/// Arguments that are compared.
const MAX_ARGUMENTS: usize = 32;
/// Echoes kept for one path.
const MAX_ECHOES: usize = 3;
/// Results of a path in which echoes are looked for.
const DISCOVERY: f32 = 4.0;
/// An argument shorter than this is not looked for inside a text.
const LEAST_CONTAINED: usize = 3;
/// A text longer than this is not searched.
const MOST_SEARCHED: usize = 4096;
/// From so many results and such a rate on, an echo is expected.
const LEAST_SEEN: f32 = 4.0;
const LEAST_RATE: f32 = 0.8;
/// An echo below this rate is forgotten.
const HOPELESS: f32 = 0.5;

/// A scalar argument.
pub(crate) struct Argument<'a> {
    path: PathId,
    hash: u64,
    text: Option<&'a str>,
}

/// The scalar arguments of a call.
pub(crate) fn arguments<'a>(args: Option<&'a Value>, paths: Paths) -> Vec<Argument<'a>> {
    fn walk<'a>(value: &'a Value, path: PathId, paths: Paths, depth: usize, out: &mut Vec<Argument<'a>>) {
        if out.len() >= MAX_ARGUMENTS || depth > MAX_DEPTH {
            return;
        }
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                let number = number.as_f64().unwrap_or_default() + 0.0;
                out.push(Argument { path, hash: paths.number(number), text: None });
            }
            Value::String(text) => out.push(Argument { path, hash: paths.text(text), text: Some(text) }),
            Value::Array(items) => items.iter().for_each(|item| walk(item, mix(path, 1), paths, depth + 1, out)),
            Value::Object(members) => {
                for (key, member) in members {
                    walk(member, mix(path, paths.text(key)), paths, depth + 1, out);
                }
            }
        }
    }
    let mut out = Vec::new();
    if let Some(args) = args {
        walk(args, 0, paths, 0, &mut out);
    }
    // In the order of their paths: the order of keys must not matter.
    out.sort_by_key(|argument| argument.path);
    out
}

/// A path that repeats an argument.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Echo {
    argument: PathId,
    /// The argument is a part of the text, not all of it.
    part: bool,
    seen: f32,
    hits: f32,
}

impl Echo {
    fn is_expected(&self) -> bool {
        self.seen >= LEAST_SEEN && self.hits >= self.seen * LEAST_RATE
    }

    /// Whether a value repeats the argument; `None` when there is no such argument.
    fn holds(&self, value: &ObservedValue<'_>, arguments: &[Argument<'_>]) -> Option<bool> {
        let mut known = false;
        for argument in arguments.iter().filter(|argument| argument.path == self.argument) {
            known = true;
            if if self.part { contains(&value.what, argument) } else { argument.hash == value.hash } {
                return Some(true);
            }
        }
        known.then_some(false)
    }
}

fn contains(value: &ValueKind<'_>, argument: &Argument<'_>) -> bool {
    match (value, argument.text) {
        (ValueKind::Text { text, .. }, Some(part)) => {
            part.len() >= LEAST_CONTAINED
                && text.len() <= MOST_SEARCHED
                && text.len() > part.len()
                && text.contains(part)
        }
        _ => false,
    }
}

fn is_scalar(value: &ObservedValue<'_>) -> bool {
    matches!(value.what, ValueKind::Number(_) | ValueKind::Text { .. })
}

/// How much of an argument and a value are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Repeated {
    /// The argument is a part of the value.
    InPart,
    /// The value is the argument.
    Whole,
}

/// The echoes of one path.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Echoes(Vec<Echo>);

impl Echoes {
    /// Bytes outside the struct itself.
    pub(crate) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Echo>()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// P(a genuine value breaks its echo), where one was expected: 1 when it holds.
    pub(crate) fn rarity(&self, value: &ObservedValue<'_>, arguments: &[Argument<'_>]) -> Option<f64> {
        if !is_scalar(value) {
            return None;
        }
        let mut rarity: Option<f64> = None;
        for echo in self.0.iter().filter(|echo| echo.is_expected()) {
            let Some(holds) = echo.holds(value, arguments) else { continue };
            let broken = f64::from(echo.seen - echo.hits + 0.5) / f64::from(echo.seen + 1.0);
            rarity = Some(rarity.unwrap_or(1.0).min(if holds { 1.0 } else { broken }));
        }
        rarity
    }

    /// Whether a value is what it is because it repeats an argument, as a whole or in part: then its length and form are the argument's.
    pub(crate) fn explain(&self, value: &ObservedValue<'_>, arguments: &[Argument<'_>]) -> Option<Repeated> {
        let holding = self.0.iter().filter(|echo| echo.is_expected() && echo.holds(value, arguments) == Some(true));
        holding.map(|echo| if echo.part { Repeated::InPart } else { Repeated::Whole }).max()
    }

    /// Learns from a value that occurred in `results` results before.
    pub(crate) fn learn(&mut self, results: f32, value: &ObservedValue<'_>, arguments: &[Argument<'_>]) {
        if self.0.is_empty() && results >= DISCOVERY {
            return;
        }
        if !is_scalar(value) {
            return;
        }
        for echo in &mut self.0 {
            if let Some(holds) = echo.holds(value, arguments) {
                echo.seen += 1.0;
                echo.hits += f32::from(u8::from(holds));
            }
        }
        if results < DISCOVERY {
            for argument in arguments {
                let part = argument.hash != value.hash;
                let known = self.0.iter().any(|echo| echo.argument == argument.path && echo.part == part);
                if !known && self.0.len() < MAX_ECHOES && (!part || contains(&value.what, argument)) {
                    self.0.push(Echo { argument: argument.path, part, seen: results + 1.0, hits: 1.0 });
                }
            }
        } else {
            self.0.retain(|echo| echo.seen < 2.0 * LEAST_SEEN || echo.hits >= echo.seen * HOPELESS);
        }
    }

    pub(crate) fn age(&mut self, keep: f32) {
        for echo in &mut self.0 {
            echo.seen *= keep;
            echo.hits *= keep;
        }
    }
}
