//! The rules for values, deviations and extractions of a source file.

use super::{
    ExtractKind, ExtractRule, IdentityRule, Reduce,
    check::{Checked, wrong},
    file,
};
use crate::{
    normalise::{StddevRule, ValueRule},
    pointer::Pointer,
    template::Template,
};

pub(super) const VALUE_RULES: [&str; 6] = ["linear", "log", "piecewise", "age", "beta", "checklist"];
pub(super) const STDDEV_RULES: [&str; 4] = ["constant", "number", "standard_error", "beta"];
const TYPES: [&str; 9] =
    ["number", "count", "percent", "age_days", "is_future", "boolean", "present", "length", "enum"];
const REDUCTIONS: [&str; 5] = ["sum", "mean", "min", "max", "count"];

fn needed<T>(at: &str, name: &str, rule: &str, value: Option<T>) -> Checked<T> {
    value.ok_or_else(|| wrong(at, format!("the rule '{rule}' needs '{name}'")))
}

fn positive(at: &str, name: &str, value: f64) -> Checked<f64> {
    if value.is_finite() && value > 0.0 {
        Ok(value)
    } else {
        Err(wrong(&format!("{at}.{name}"), format!("{name} is {value}: it has to be above 0")))
    }
}

pub(super) fn value(at: &str, given: file::Value) -> Checked<ValueRule> {
    let file::Value { rule, of, from, to, reference, points, scale_days, good, bad, items } = given;
    let unused = |names: &[(&str, bool)]| match names.iter().find(|(_, given)| *given) {
        Some((name, _)) => Err(wrong(&format!("{at}.{name}"), format!("the rule '{rule}' has no '{name}'"))),
        None => Ok(()),
    };
    let has = (
        ("from", from.is_some()),
        ("to", to.is_some()),
        ("reference", reference.is_some()),
        ("points", points.is_some()),
        ("scale_days", scale_days.is_some()),
        ("good", good.is_some()),
        ("bad", bad.is_some()),
        ("items", items.is_some()),
        ("of", of.is_some()),
    );
    match rule.as_str() {
        "linear" => {
            unused(&[has.2, has.3, has.4, has.5, has.6, has.7])?;
            let from = needed(at, "from", &rule, from)?;
            let to = needed(at, "to", &rule, to)?;
            if !from.iter().chain(&to).all(|x| x.is_finite()) || from[0] == from[1] {
                return Err(wrong(&format!("{at}.from"), "from has to be two different numbers"));
            }
            if !to.iter().all(|x| (0.0..=100.0).contains(x)) {
                return Err(wrong(&format!("{at}.to"), "to has to be within 0 and 100"));
            }
            Ok(ValueRule::Linear { of: needed(at, "of", &rule, of)?, from, to })
        }
        "log" => {
            unused(&[has.0, has.1, has.3, has.4, has.5, has.6, has.7])?;
            let reference = positive(at, "reference", needed(at, "reference", &rule, reference)?)?;
            Ok(ValueRule::Log { of: needed(at, "of", &rule, of)?, reference })
        }
        "piecewise" => {
            unused(&[has.0, has.1, has.2, has.4, has.5, has.6, has.7])?;
            let points = needed(at, "points", &rule, points)?;
            let rising = points.windows(2).all(|pair| pair[0][0] < pair[1][0]);
            let fits = points.iter().all(|[x, y]| x.is_finite() && (0.0..=100.0).contains(y));
            if points.len() < 2 || !rising || !fits {
                let why = "points are two or more pairs [x, y], x rising, y within 0 and 100";
                return Err(wrong(&format!("{at}.points"), why));
            }
            Ok(ValueRule::Piecewise { of: needed(at, "of", &rule, of)?, points })
        }
        "age" => {
            unused(&[has.0, has.1, has.2, has.3, has.5, has.6, has.7])?;
            let scale_days = positive(at, "scale_days", needed(at, "scale_days", &rule, scale_days)?)?;
            Ok(ValueRule::Age { of: needed(at, "of", &rule, of)?, scale_days })
        }
        "beta" => {
            unused(&[has.0, has.1, has.2, has.3, has.4, has.7, has.8])?;
            Ok(ValueRule::Beta { good: needed(at, "good", &rule, good)?, bad: needed(at, "bad", &rule, bad)? })
        }
        "checklist" => {
            unused(&[has.0, has.1, has.2, has.3, has.4, has.5, has.6, has.8])?;
            let items = needed(at, "items", &rule, items)?;
            if items.is_empty() || !items.values().all(|points| points.is_finite() && *points > 0.0) {
                return Err(wrong(&format!("{at}.items"), "a checklist has items, each with points above 0"));
            }
            Ok(ValueRule::Checklist { items })
        }
        _ => Err(wrong(&format!("{at}.rule"), unknown("normalisation", &rule, &VALUE_RULES))),
    }
}

pub(super) fn stddev(at: &str, given: file::Stddev) -> Checked<StddevRule> {
    let file::Stddev { rule, value, of, scale, least, good, bad } = given;
    match rule.as_str() {
        "constant" => {
            let value = needed(at, "value", &rule, value)?;
            if !(0.0..=50.0).contains(&value) {
                return Err(wrong(
                    &format!("{at}.value"),
                    format!("a stddev of {value}: it has to be within 0 and 50"),
                ));
            }
            Ok(StddevRule::Constant(value))
        }
        "number" => {
            let scale = positive(at, "scale", scale.unwrap_or(1.0))?;
            Ok(StddevRule::Number { of: needed(at, "of", &rule, of)?, scale })
        }
        "standard_error" => {
            let scale = positive(at, "scale", scale.unwrap_or(1.0))?;
            let least = least.unwrap_or(0.0).clamp(0.0, 50.0);
            Ok(StddevRule::StandardError { of: needed(at, "of", &rule, of)?, scale, least })
        }
        "beta" => Ok(StddevRule::Beta { good: needed(at, "good", &rule, good)?, bad: needed(at, "bad", &rule, bad)? }),
        _ => Err(wrong(&format!("{at}.rule"), unknown("stddev rule", &rule, &STDDEV_RULES))),
    }
}

pub(super) fn pointer(at: &str, text: &str) -> Checked<Pointer> {
    Pointer::parse(text).map_err(|why| wrong(at, why))
}

pub(super) fn identity(at: &str, given: &file::Identity) -> Checked<IdentityRule> {
    if given.pointers.is_empty() {
        return Err(wrong(at, "at least one pointer"));
    }
    let host = match given.take.as_str() {
        "text" => false,
        "host" => true,
        other => return Err(wrong(&format!("{at}.take"), unknown("way to take a text", other, &["text", "host"]))),
    };
    let pointers = given.pointers.iter().map(|text| pointer(&format!("{at}.pointers"), text));
    Ok(IdentityRule {
        pointers: pointers.collect::<Checked<_>>()?,
        host,
        equals: Template::new(&given.equals).map_err(|why| wrong(&format!("{at}.equals"), why))?,
        ignore_case: given.ignore_case,
    })
}

pub(super) fn extract(at: &str, given: file::Extract) -> Checked<ExtractRule> {
    let pointer = pointer(&format!("{at}.pointer"), &given.pointer)?;
    let kind = match given.kind.as_str() {
        "number" => ExtractKind::Number,
        "count" => ExtractKind::Count,
        "percent" => ExtractKind::Percent,
        "age_days" => ExtractKind::AgeDays,
        "is_future" => ExtractKind::IsFuture,
        "boolean" => ExtractKind::Boolean,
        "present" => ExtractKind::Present,
        "length" => ExtractKind::Length,
        "enum" => ExtractKind::Enum { values: given.values.clone(), otherwise: given.otherwise },
        other => return Err(wrong(&format!("{at}.type"), unknown("type", other, &TYPES))),
    };
    let is_enum = matches!(kind, ExtractKind::Enum { .. });
    if is_enum == given.values.is_empty() || !is_enum && given.otherwise.is_some() {
        return Err(wrong(&format!("{at}.type"), "an enum has 'values', and only an enum has"));
    }
    let reduce = match (pointer.is_many(), given.reduce.as_deref()) {
        (false, None) => Reduce::Only,
        (true, Some("sum")) => Reduce::Sum,
        (true, Some("mean")) => Reduce::Mean,
        (true, Some("min")) => Reduce::Min,
        (true, Some("max")) => Reduce::Max,
        (true, Some("count")) => Reduce::Count,
        (true, Some(other)) => return Err(wrong(&format!("{at}.reduce"), unknown("reduction", other, &REDUCTIONS))),
        (true, None) => return Err(wrong(at, "a pointer with '*' leads to many: say 'reduce'")),
        (false, Some(_)) => return Err(wrong(&format!("{at}.reduce"), "a pointer without '*' leads to one")),
    };
    let (min, max) = (given.min.unwrap_or(f64::NEG_INFINITY), given.max.unwrap_or(f64::INFINITY));
    let finite = given.missing.iter().chain(&given.default).chain(given.values.values()).all(|x| x.is_finite());
    if min.is_nan() || max.is_nan() || min > max || !finite {
        return Err(wrong(at, "bounds and values have to be numbers, min not above max"));
    }
    Ok(ExtractRule { pointer, kind, reduce, missing: given.missing, default: given.default, min, max })
}

pub(super) fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    let meant = credence_protocol::nearest(name, known.iter().copied());
    let hint =
        meant.map_or_else(|| format!("there are {}", known.join(", ")), |known| format!("did you mean '{known}'?"));
    format!("'{name}' is no {what}: {hint}")
}
