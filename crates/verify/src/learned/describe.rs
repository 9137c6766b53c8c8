//! What was surprising, in words: the member, what it is now, what was usual.

use serde_json::Value;

use super::{
    ages::ago,
    model::Model,
    observation::Observation,
    observe::{NONE, ObservedValue, ValueKind, name},
    surprise::{Cause, Surprise},
};
use crate::readable::readable;

/// Bytes of a text that is shown.
const SHOWN: usize = 60;
/// Members that are named.
const NAMED: usize = 3;

/// What was surprising, in words.
pub(super) fn describe(surprise: Surprise, model: &Model, observation: &Observation<'_>, result: &Value) -> String {
    let Some(seen) = observation.seen.get(surprise.place as usize) else { return String::new() };
    let what = describe_cause(surprise, seen, (model, observation), result);
    if surprise.rejected { format!("{what}; a result with this was rejected") } else { what }
}

fn describe_cause(
    surprise: Surprise,
    seen: &ObservedValue<'_>,
    (model, observation): (&Model, &Observation<'_>),
    result: &Value,
) -> String {
    let place = surprise.place as usize;
    let field = || name(result, place);
    let before = results(model.seen(seen.node));
    match surprise.why {
        Cause::Nothing => String::new(),
        Cause::Kind => match model.usual_kind(seen.node) {
            Some(usual) => {
                format!("{} is {}; of {before} it mostly was {}", field(), value(seen), KINDS[usual as usize])
            }
            None => format!("{} is {}, unlike in {before}", field(), value(seen)),
        },
        Cause::Missing(nth) => match model.member(seen.node, nth) {
            Some((member, present, of)) => {
                format!("{} lacks '{member}', which {present:.0} of {of:.0} had", field())
            }
            None => format!("{} lacks a member", field()),
        },
        Cause::NewKey | Cause::Keys => match differences(seen, place, (model, observation)) {
            (new, missing) if new.is_empty() && missing.is_empty() => {
                format!("{} has its members in a combination that is rare over {before}", field())
            }
            (new, missing) if missing.is_empty() => format!("{} has {new}, which {before} did not have", field()),
            (new, missing) if new.is_empty() => format!("{} lacks {missing}, which most of {before} had", field()),
            (new, missing) => format!("{} has {new} and lacks {missing}, unlike most of {before}", field()),
        },
        Cause::Empty => {
            let state = if matches!(seen.what, ValueKind::Array(0)) { "empty" } else { "not empty" };
            format!("{} is {state}, unlike in nearly all of {before}", field())
        }
        Cause::Characters => {
            format!("{} is {}, with characters that {before} did not have there", field(), value(seen))
        }
        Cause::Shape => format!("{} is {}, which is built unlike in {before}", field(), value(seen)),
        Cause::NumberForm => format!("{} is {}, with a sign or a fraction unlike in {before}", field(), value(seen)),
        Cause::Value => {
            let values = match model.values(seen.node) {
                1 => "one value".to_owned(),
                values => format!("{values} values"),
            };
            format!("{} is {}, which is new or rare: {before} had {values} there", field(), value(seen))
        }
        Cause::Number => match model.bounds(seen.node, false) {
            Some((low, high)) => format!("{} is {}; in {before} it was {}", field(), value(seen), range(low, high)),
            None => format!("{} is {}, which is out of range", field(), value(seen)),
        },
        Cause::Length => {
            let length = match seen.what {
                ValueKind::Text { text, .. } => text.len(),
                ValueKind::Array(len) => len,
                _ => 0,
            };
            match model.bounds(seen.node, true) {
                Some((low, high)) => {
                    let usual = range(libm::round(low), libm::round(high));
                    format!("{} has length {length}; in {before} it was {usual}", field())
                }
                None => format!("{} has length {length}, which is unusual", field()),
            }
        }
        Cause::Echo => format!("{} is {}, and not the argument that it used to repeat", field(), value(seen)),
        Cause::Changed => {
            let is = if matches!(seen.what, ValueKind::Object { .. }) {
                String::new()
            } else {
                format!(" (now {})", value(seen))
            };
            let when = observation.age.map_or_else(|| "before".to_owned(), ago);
            format!("the same arguments gave another result {when}: {} differs{is}", field())
        }
        Cause::Borrowed => "this very result was given for other arguments".to_owned(),
        Cause::Fast(ms) => {
            let fastest = model.latencies().0;
            if ms < fastest {
                format!("{} ms is far less than the fastest answer so far ({} ms)", readable(ms), readable(fastest))
            } else {
                format!("{} ms is less than answers took lately", readable(ms))
            }
        }
    }
}

/// How many results, in words.
fn results(count: f32) -> String {
    match libm::roundf(count) as u32 {
        1 => "one result".to_owned(),
        count => format!("{count} results"),
    }
}

fn range(low: f64, high: f64) -> String {
    let (low, high) = (readable(low), readable(high));
    if low == high { format!("always {low}") } else { format!("between {low} and {high}") }
}

/// The members of an object that are new, and those that it lacks and most had.
fn differences(
    seen: &ObservedValue<'_>,
    place: usize,
    (model, observation): (&Model, &Observation<'_>),
) -> (String, String) {
    let members = || observation.seen.iter().filter(|member| member.parent == place as u32);
    let new = members().filter(|member| member.node == NONE).map(|member| member.key);
    let missing = model.expected(seen.node).filter(|(child, _)| !members().any(|member| member.node == *child));
    (listed(new), listed(missing.map(|(_, name)| name)))
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<String> = names.take(NAMED + 1).map(|name| format!("'{}'", excerpt(name))).collect();
    let more = names.len() > NAMED;
    names.truncate(NAMED);
    names.join(", ") + if more { " and others" } else { "" }
}

fn excerpt(text: &str) -> &str {
    let end = (0..=SHOWN.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    &text[..end]
}

fn value(seen: &ObservedValue<'_>) -> String {
    match seen.what {
        ValueKind::Number(number) => readable(number),
        ValueKind::Bool => if seen.is_true() { "true" } else { "false" }.to_owned(),
        ValueKind::Text { text, .. } if text.len() <= SHOWN => format!("{text:?}"),
        ValueKind::Text { text, .. } => format!("{:?}…", excerpt(text)),
        _ => KINDS[seen.what.kind() as usize].to_owned(),
    }
}

/// By the number of the kind.
const KINDS: [&str; 6] = ["null", "a boolean", "a number", "a text", "an array", "an object"];
