//! Output quality: tasks made from the seed, whose answers a program can check. No judge.
//!
//! | kind | task | right where |
//! |---|---|---|
//! | arithmetic | products and sums of numbers | the number is in the answer |
//! | extraction | a text into a JSON object by a JSON Schema, which is sent | the object is valid by that schema and has the values |
//! | instruction | an answer of a required form | the form holds |
//! | paraphrase | one question in two wordings, each in a conversation of its own | both answers hold the value |
//! | tool | a question that only a honey tool can answer | the tool was called with the argument, and its value is in the answer |

use serde_json::{Value, json};

use super::reliability::recorded;
use crate::{
    capability::Capability,
    runner::{
        journal::{Line, SampleRecord},
        run::{Event, Shared, Stop},
    },
    sensor::canary,
    suite::{CanaryKind, Identity, Part},
    target::{Conversation, Exchange, Input, OfferedTool, Reply, Target, TargetError, ToolAnswer, Transport},
    values::{TrialKey, Values},
    variant::Variant,
};

/// The name in the journal.
pub const NAME: &str = "quality";
/// Tasks of each kind.
const EACH: u32 = 5;
const KINDS: [Kind; 5] = [Kind::Arithmetic, Kind::Extraction, Kind::Instruction, Kind::Paraphrase, Kind::Tool];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Arithmetic,
    Extraction,
    Instruction,
    Paraphrase,
    Tool,
}

impl Kind {
    fn id(self) -> &'static str {
        match self {
            Self::Arithmetic => "arithmetic",
            Self::Extraction => "extraction",
            Self::Instruction => "instruction",
            Self::Paraphrase => "paraphrase",
            Self::Tool => "tool",
        }
    }
}

/// Requests that the tasks take.
pub fn requests(transport: Transport) -> u64 {
    let tool = if transport.takes_tools() { 2 } else { 0 };
    u64::from(EACH) * (3 + 2 + tool)
}

/// Does the tasks that the journal lacks.
pub(crate) async fn measure(shared: &Shared<'_>) -> Result<(), Stop> {
    let run = shared.run;
    let tools = run.target.transport().takes_tools()
        && shared.abilities.capabilities.get(&Capability::Tools).copied().unwrap_or(true);
    let kinds: Vec<Kind> = KINDS.into_iter().filter(|kind| tools || *kind != Kind::Tool).collect();
    for number in recorded(shared, NAME)..EACH * kinds.len() as u32 {
        shared.go_on()?;
        let kind = kinds[number as usize % kinds.len()];
        let key = TrialKey {
            seed: run.options.seed,
            probe: format!("{NAME} {}", kind.id()),
            variant: Variant::Plain,
            trial: number,
            part: Part::Control,
        };
        let values = Values::new(key, None);
        let before = run.target.requests();
        let done = attempt(run.target, kind, number, &values).await;
        shared.note(done.as_ref().err())?;
        let sample = SampleRecord {
            benchmark: NAME.to_owned(),
            number,
            task: kind.id().to_owned(),
            passed: matches!(done, Ok(true)),
            reason: done.err().map(|error| error.reason),
            took_ms: 0,
            requests: run.target.requests() - before,
        };
        shared.record(vec![Line::Sample(sample)], &[])?;
        run.observer.event(Event::Measured { benchmark: NAME, samples: number as usize + 1 });
    }
    Ok(())
}

async fn attempt(target: &dyn Target, kind: Kind, number: u32, values: &Values) -> Result<bool, TargetError> {
    let value = |name: &str| values.get(name).unwrap_or_default();
    match kind {
        Kind::Arithmetic => {
            let (a, b) = (value("factor_a"), value("factor_b"));
            let (question, expected) = if number.is_multiple_of(2) {
                (format!("What is {a} times {b}? Answer with the number."), CanaryKind::Product)
            } else {
                (format!("What is {a} plus {b}? Answer with the number."), CanaryKind::Sum)
            };
            let reply = ask(target, values, "a", &question).await?;
            Ok(canary::holds(&reply.text, &values.canary(expected)))
        }
        Kind::Extraction => {
            let (order, person, city, amount) = (value("order_id"), value("person"), value("city"), value("amount"));
            let question = format!(
                "Extract the data from this text: '{person} from {city} placed order {order} and paid {amount} euros.' Answer \
                 with one JSON object that is valid by this JSON Schema, and nothing else:\n{}",
                order_schema()
            );
            let reply = ask(target, values, "a", &question).await?;
            let amount: u64 = amount.parse().unwrap_or_default();
            let expected = json!({ "person": person, "city": city, "order": order, "amount": amount });
            Ok(object_in(&reply.text).is_some_and(|found| extracted(&found, &expected)))
        }
        Kind::Instruction => {
            let word = value("nonce");
            let reply;
            Ok(match number % 3 {
                0 => {
                    reply = ask(
                        target,
                        values,
                        "a",
                        &format!("Answer with the text {word} in capital letters and nothing else."),
                    )
                    .await?;
                    reply.text.trim().trim_matches(['"', '\'', '`', '.', '*']) == word.to_uppercase()
                }
                1 => {
                    let question =
                        format!("Answer with exactly three lines. Each line is the text {word} and nothing else.");
                    reply = ask(target, values, "a", &question).await?;
                    let lines: Vec<&str> =
                        reply.text.trim().lines().map(str::trim).filter(|line| !line.starts_with("```")).collect();
                    lines == [word.as_str(); 3]
                }
                _ => {
                    let question = format!(
                        "Answer with the text {word}, then a hyphen, then the number of its characters, and nothing else."
                    );
                    reply = ask(target, values, "a", &question).await?;
                    let expected = format!("{word}-{}", word.len());
                    reply.text.trim().trim_matches(['"', '\'', '`', '.', '*']).replace(' ', "") == expected
                }
            })
        }
        Kind::Paraphrase => {
            let (a, b) = (value("factor_a"), value("factor_b"));
            let expected = values.canary(CanaryKind::Sum);
            let first =
                ask(target, values, "a", &format!("What is the sum of {a} and {b}? Answer with the number.")).await?;
            let second = format!(
                "A shelf holds {a} books. Then {b} more books are put on it. How many books are on the shelf? Answer with the number."
            );
            let second = ask(target, values, "b", &second).await?;
            Ok(canary::holds(&first.text, &expected) && canary::holds(&second.text, &expected))
        }
        Kind::Tool => tool_use(target, values).await,
    }
}

/// What an extracted order looks like.
fn order_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "person": { "type": "string" },
            "city": { "type": "string" },
            "order": { "type": "string", "pattern": "^ORD-[0-9]{5}$" },
            "amount": { "type": "integer", "minimum": 0 },
        },
        "required": ["person", "city", "order", "amount"],
        "additionalProperties": false,
    })
}

/// Whether an object is valid by the schema and has the expected values. A price of `1200.0` is an integer to JSON Schema.
fn extracted(found: &Value, expected: &Value) -> bool {
    let same = |name: &str| match (&found[name], &expected[name]) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (one, other) => one == other,
    };
    jsonschema::is_valid(&order_schema(), found) && ["person", "city", "order", "amount"].into_iter().all(same)
}

async fn tool_use(target: &dyn Target, values: &Values) -> Result<bool, TargetError> {
    let value = |name: &str| values.get(name).unwrap_or_default();
    let (order, amount) = (value("order_id"), value("amount"));
    let tools = [OfferedTool {
        name: "get_order_total".to_owned(),
        description: "Returns the total of an order in euros.".to_owned(),
        parameters: json!({ "type": "object", "properties": { "order_id": { "type": "string" } }, "required": ["order_id"] }),
    }];
    let mut conversation = conversation(values, "a");
    let text =
        format!("Call the tool get_order_total with order_id set to '{order}' and tell me the total of this order.");
    let input = Input::Message { system: None, text: &text };
    let exchange = Exchange { conversation: &mut conversation, identity: Identity::First, tools: &tools, input };
    let reply = target.exchange(exchange).await?;
    let right = |call: &&crate::target::ToolCall| {
        call.name == "get_order_total" && call.arguments.get("order_id").and_then(Value::as_str) == Some(order.as_str())
    };
    if reply.calls.iter().filter(right).count() != 1 || reply.calls.len() != 1 {
        return Ok(false);
    }
    let results: Vec<ToolAnswer> = reply
        .calls
        .iter()
        .map(|call| ToolAnswer { call: call.id.clone(), name: call.name.clone(), content: format!("{amount} EUR") })
        .collect();
    let input = Input::Results { results: &results, text: None };
    let exchange = Exchange { conversation: &mut conversation, identity: Identity::First, tools: &tools, input };
    let answer = target.exchange(exchange).await?;
    Ok(canary::holds(&answer.text, &amount))
}

async fn ask(target: &dyn Target, values: &Values, name: &str, text: &str) -> Result<Reply, TargetError> {
    let mut conversation = conversation(values, name);
    let input = Input::Message { system: None, text };
    target.exchange(Exchange { conversation: &mut conversation, identity: Identity::First, tools: &[], input }).await
}

fn conversation(values: &Values, name: &str) -> Conversation {
    let bytes = values.key().bytes(&format!("conversation {name}"));
    Conversation { name: data_encoding::HEXLOWER.encode(&bytes[..16]), ..Conversation::default() }
}

/// The JSON object in an answer, also where a fence stands around it.
fn object_in(text: &str) -> Option<Value> {
    let inner = text.trim().trim_start_matches("```json").trim_start_matches("```").trim_end_matches("```").trim();
    serde_json::from_str(inner).ok().filter(Value::is_object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extracted_object_is_valid_by_the_schema_that_was_sent() {
        let expected = json!({ "person": "Marta", "city": "Oslo", "order": "ORD-12345", "amount": 1200 });
        assert!(extracted(&expected, &expected));
        for (member, value, right) in [
            ("amount", json!(1200.0), true),
            ("amount", json!("1200"), false),
            ("amount", json!(1201), false),
            ("order", json!("12345"), false),
            ("city", Value::Null, false),
            ("country", json!("Norway"), false),
        ] {
            let mut found = expected.clone();
            found[member] = value;
            assert_eq!(extracted(&found, &expected), right, "{found}");
        }
    }

    #[test]
    fn objects_are_found_in_fences_and_nothing_else_is() {
        assert_eq!(object_in("```json\n{\"a\": 1}\n```"), Some(json!({ "a": 1 })));
        assert_eq!(object_in(" {\"a\": 1} "), Some(json!({ "a": 1 })));
        assert_eq!(object_in("Here it is: {\"a\": 1}"), None);
        assert_eq!(object_in("[1]"), None);
    }
}
