//! How a simulated agent makes a tool result up: it never called the tool, and says what the tool might have said.

use fastrand::Rng;
use serde_json::{Value, json};

use crate::tools::{Call, Tool, round};

/// What gives a made-up result away, if anything does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// Numbers that could be, and are not.
    WrongNumbers,
    /// A good guess, sooner than any tool answers.
    TooFast,
    /// A form that the tool does not have.
    WrongForm,
    /// The answer to another question.
    OtherQuestion,
    /// A sentence in place of a result.
    Prose,
}

/// All of them.
pub const ALL: [Lie; 5] = [Lie::WrongNumbers, Lie::TooFast, Lie::WrongForm, Lie::OtherQuestion, Lie::Prose];

/// A result that never came from `tool`.
pub fn made_up(tool: Tool, rng: &mut Rng) -> Call {
    told(ALL[rng.usize(..ALL.len())], tool, rng)
}

/// The same in one way.
pub fn told(lie: Lie, tool: Tool, rng: &mut Rng) -> Call {
    // It knows what such results look like: that is why it can make them up.
    let mut call = tool.call(rng);
    match lie {
        Lie::WrongNumbers => {
            let factor = if rng.bool() { 6.0 + 30.0 * rng.f64() } else { 0.02 + 0.1 * rng.f64() };
            rescale(&mut call.result, factor);
        }
        Lie::TooFast => call.ms = round(0.2 + 0.7 * rng.f64(), 2),
        Lie::WrongForm => {
            if let Some(members) = call.result.as_object_mut() {
                let key = members.keys().nth(rng.usize(..members.len().max(1))).cloned().unwrap_or_default();
                let value = members.remove(&key).unwrap_or_default();
                members.insert(format!("{key}_estimate"), value);
                members.insert("confidence".to_owned(), json!("high"));
            }
        }
        Lie::OtherQuestion => {
            let other = (0..8).map(|_| tool.call(rng)).find(|other| other.args != call.args);
            call.result = other.map_or(call.result, |other| other.result);
        }
        Lie::Prose => call.result = json!(format!("I checked {} and everything looks fine.", tool.name())),
    }
    call
}

fn rescale(value: &mut Value, factor: f64) {
    match value {
        Value::Number(number) => {
            if let Some(number) = number.as_f64() {
                *value = json!(round(number * factor, 3));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rescale(item, factor)),
        Value::Object(members) => members.values_mut().for_each(|member| rescale(member, factor)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use credence_verify::{Call as Asked, Decision, Engine};

    #[test]
    fn an_engine_that_learned_the_tools_tells_most_lies() {
        let (engine, mut rng) = (Engine::builder().build(), Rng::with_seed(1));
        let judge = |call: &Call, learn| {
            let asked = Asked::new(call.tool, &call.result).args(&call.args).execution_time_ms(call.ms).learn(learn);
            engine.verify(&asked).unwrap().decision
        };
        for _ in 0..400 {
            for tool in Tool::ALL {
                judge(&tool.call(&mut rng), true);
            }
        }
        let mut share = |make: &dyn Fn(Tool, &mut Rng) -> Call| {
            let caught = Tool::ALL.iter().flat_map(|tool| (0..100).map(|_| *tool).collect::<Vec<_>>());
            let caught = caught.filter(|tool| judge(&make(*tool, &mut rng), false) != Decision::Accept);
            caught.count() as f64 / 600.0
        };
        let (told, false_alarms) = (share(&made_up), share(&|tool, rng| tool.call(rng)));
        assert!(told > 0.6, "{told}");
        assert!(false_alarms < 0.05, "{false_alarms}");
    }
}
