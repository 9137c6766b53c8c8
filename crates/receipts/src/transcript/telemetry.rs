//! OpenTelemetry: spans of GenAI instrumentations, as SDKs write them (`attributes` an object) and as OTLP does in JSON (`attributes` a
//! list of keys and typed values, within `resourceSpans`).
//!
//! | attribute | what it tells |
//! |---|---|
//! | `gen_ai.tool.call.id`, `.arguments`, `.result`, `gen_ai.tool.name` | a call and its result |
//! | `gen_ai.input.messages`, `gen_ai.output.messages` | the conversation so far, with calls and results in it |
//!
//! A trace tells each result several times, once for every request that has it in its history: all of them have to be what the tool
//! gave. Spans may stand in any order, so only messages within one span have an order.

use std::borrow::Cow;

use serde_json::{Value, value::RawValue};

use super::{
    Format,
    json::{self, At, Node},
    pairing::{Call, Id, Pairing},
    wrapper::visit,
};

/// Attributes that hold messages, as lists or as JSON in a text.
const MESSAGES: &[&str] = &[
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "pydantic_ai.all_messages",
    "pydantic_ai.new_messages",
];
/// Attributes of a call and its result; the second name is that of earlier versions.
const CALL: &[&str] = &[
    "gen_ai.tool.call.id",
    "gen_ai.tool.name",
    "gen_ai.tool.call.arguments",
    "tool_arguments",
    "gen_ai.tool.call.result",
    "tool_response",
];
/// Attributes whose names sound like a result's and are a model's or a setting's; searched for results like any text.
const NOT_RESULTS: &[&str] = &[
    "final_result",
    "gen_ai.output.type",
    "gen_ai.response.finish_reasons",
    "gen_ai.response.id",
    "gen_ai.response.model",
    "http.response.status_code",
];
/// Members of a span that describe it.
const DESCRIPTION: &[&str] = &["context", "instrumentation_scope", "links", "resource", "scope", "status"];

/// Reads a span, or what lies around spans; `false` when it is neither.
pub(super) fn span(pairing: &mut Pairing, node: &Node<'_>, at: &At<'_>, wrappings: usize) -> bool {
    for name in ["resourceSpans", "scopeSpans", "spans"] {
        let Some((_, spans)) = node.members.iter().find(|(one, value)| one == name && json::is_list(value)) else {
            continue;
        };
        visit(pairing, spans, &at.member(name), wrappings);
        describe(pairing, node, &[name], at);
        return true;
    }
    let has = |names: &[&str]| node.members.iter().any(|(name, _)| names.contains(&&**name));
    let timed = has(&["start_time", "startTimeUnixNano", "startTime"]);
    let Some(raw) = node.attributes.filter(|_| node.name.is_some() && timed && node.role.is_none()) else {
        return false;
    };
    pairing.tells_again();
    pairing.next_conversation();
    attributes(pairing, raw, failed(node), &at.member("attributes"), wrappings);
    if let Some(events) = node.events {
        pairing.each(events, &at.member("events"), |pairing, raw, at| event(pairing, raw, at, wrappings));
    }
    describe(pairing, node, &["attributes", "events"], at);
    true
}

fn describe(pairing: &mut Pairing, node: &Node<'_>, known: &[&str], at: &At<'_>) {
    for (name, value) in node.rest(known) {
        let at = at.member(name);
        if DESCRIPTION.contains(&name) { pairing.search(value, &at, true) } else { pairing.leftover(name, value, &at) }
    }
}

/// Whether the span's status is that of an error: `ERROR`, or its number in OTLP.
fn failed(node: &Node<'_>) -> Option<bool> {
    let status = Node::read(node.status?).ok()?;
    let code = status.members.iter().find(|(name, _)| matches!(&**name, "status_code" | "code"))?.1.get();
    ["\"ERROR\"", "\"STATUS_CODE_ERROR\"", "2"].contains(&code).then_some(true)
}

fn event(pairing: &mut Pairing, raw: &RawValue, at: &At<'_>, wrappings: usize) {
    let Some(node) = pairing.node(raw, at) else { return };
    let name = node.name.and_then(json::text).unwrap_or_default();
    // Earlier conventions put a tool's words into events of their own.
    if name.starts_with("gen_ai.tool") {
        return pairing.unrecognised(raw, at, format!("an event '{name}', which can hold a result"));
    }
    if let Some(raw) = node.attributes {
        attributes(pairing, raw, None, &at.member("attributes"), wrappings);
    }
    pairing.rest(&node, &["attributes"], at);
}

fn attributes(pairing: &mut Pairing, raw: &RawValue, failed: Option<bool>, at: &At<'_>, wrappings: usize) {
    let listed;
    let node = if json::is_list(raw) {
        listed = match from_otlp(raw) {
            Some(listed) => listed,
            None => return pairing.unrecognised(raw, at, "attributes that are not keys and typed values"),
        };
        pairing.node(&listed, at)
    } else {
        pairing.node(raw, at)
    };
    let Some(node) = node else { return };
    if repeats(&node) {
        return pairing.unrecognised(raw, at, "an attribute that is given twice");
    }
    let get = |name: &str| node.members.iter().find(|(one, _)| one == name).map(|(_, value)| *value);
    let either = |name: &str, before: &str| get(name).or_else(|| get(before));
    let (arguments, result) =
        (either("gen_ai.tool.call.arguments", "tool_arguments"), either("gen_ai.tool.call.result", "tool_response"));
    let given_twice = |one: &str, other: &str| get(one).is_some() && get(other).is_some();
    if given_twice("gen_ai.tool.call.result", "tool_response")
        || given_twice("gen_ai.tool.call.arguments", "tool_arguments")
    {
        return pairing.unrecognised(raw, at, "arguments or a result under an old and a new name");
    }
    if arguments.or(result).or(get("gen_ai.tool.call.id")).is_some() {
        let tool = pairing.name(get("gen_ai.tool.name"), at);
        let id = get("gen_ai.tool.call.id").and_then(json::text).map(|id| Id::Conversation(id.into_owned()));
        let arguments = pairing.written_arguments(arguments, at);
        // The conventions set `error.type` where an operation ended with an error.
        let failed = failed.or(get("error.type").map(|_| true));
        let answer = result.map(|result| pairing.answer(Some(result), failed, &at.member("gen_ai.tool.call.result")));
        let call = Call { id, tool, server: None, arguments };
        pairing.called_and_answered(Format::OpenTelemetry, call, answer, at);
    }
    for (name, value) in node.rest(CALL) {
        let at = at.member(name);
        if MESSAGES.contains(&name) {
            messages(pairing, value, &at, wrappings);
        } else if name == "logfire.json_schema" && is_schema(value) {
            // The types of the other attributes, by their names.
        } else if name.ends_with(".messages") || name.contains("tool.call") || name.contains("tool_call") {
            pairing.unrecognised(value, &at, "an attribute that can hold messages or results, and is not known");
        } else if NOT_RESULTS.contains(&name) || name.ends_with("tool.definitions") || is_list_of_texts(value) {
            if json::is_text(value) { pairing.prose(value, &at) } else { pairing.search(value, &at, true) }
        } else {
            pairing.leftover(name, value, &at);
        }
    }
}

/// Reads the messages of an attribute.
fn messages(pairing: &mut Pairing, value: &RawValue, at: &At<'_>, wrappings: usize) {
    pairing.next_conversation();
    if !json::is_text(value) {
        return visit(pairing, value, at, wrappings);
    }
    let text = json::text(value).unwrap_or_default();
    match serde_json::from_str::<&RawValue>(&text) {
        Ok(list) if json::is_list(list) => visit(pairing, list, at, wrappings),
        _ => pairing.unrecognised(value, at, "messages that are not a list in JSON"),
    }
}

/// Whether a text is a JSON Schema that says of each member what type it is, and nothing else.
fn is_schema(text: &RawValue) -> bool {
    fn of(schema: &Value) -> bool {
        let Value::Object(members) = schema else { return false };
        members.iter().all(|(name, value)| match (name.as_str(), value) {
            ("type", Value::String(kind)) => {
                ["array", "boolean", "integer", "null", "number", "object", "string"].contains(&kind.as_str())
            }
            ("properties", Value::Object(properties)) => properties.values().all(of),
            ("items", items) => of(items),
            _ => false,
        })
    }
    json::text(text).and_then(|text| serde_json::from_str(&text).ok()).is_some_and(|schema| of(&schema))
}

fn is_list_of_texts(value: &RawValue) -> bool {
    let mut texts = true;
    json::is_list(value)
        && json::items(value, |_, item| {
            texts = json::is_text(item) && json::text(item).is_some_and(|text| !text.contains('{'));
            texts
        })
        .is_ok_and(|()| texts)
}

/// Whether a name stands there twice: which of the two counts is anybody's guess.
fn repeats(node: &Node<'_>) -> bool {
    let mut names: Vec<&str> = node.members.iter().map(|(name, _)| &**name).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}

/// The attributes of OTLP as an object; `None` where they are not of its form.
fn from_otlp(list: &RawValue) -> Option<Box<RawValue>> {
    let mut members = Vec::new();
    let mut fits = true;
    json::items(list, |_, item| {
        fits = member(item, &mut members).is_some();
        fits
    })
    .ok()?;
    if !fits {
        return None;
    }
    RawValue::from_string(format!("{{{}}}", members.join(","))).ok()
}

fn member(item: &RawValue, members: &mut Vec<String>) -> Option<()> {
    let node = Node::read(item).ok()?;
    let [(one, _), (other, _)] = node.members.as_slice() else { return None };
    let key = node.members.iter().find(|(name, _)| name == "key")?.1;
    if !json::is_text(key) || one == other {
        return None;
    }
    members.push(format!("{}:{}", key.get(), plain(node.value?)?));
    Some(())
}

/// A typed value of OTLP as JSON.
fn plain(value: &RawValue) -> Option<Cow<'_, str>> {
    let node = Node::read(value).ok()?;
    let [(kind, value)] = node.members.as_slice() else { return None };
    Some(match &**kind {
        "stringValue" | "bytesValue" if json::is_text(value) => value.get().into(),
        "boolValue" | "doubleValue" if !json::is_object(value) && !json::is_list(value) => value.get().into(),
        // 64 bits are written as a text.
        "intValue" => {
            let text = json::text(value).unwrap_or_else(|| value.get().into());
            matches!(serde_json::from_str::<Value>(&text), Ok(Value::Number(_))).then(|| text.into_owned())?.into()
        }
        "arrayValue" | "kvlistValue" => {
            let inner = Node::read(value).ok()?;
            let values = inner.members.iter().find(|(name, _)| name == "values").map(|(_, values)| *values);
            if inner.members.len() > usize::from(values.is_some()) {
                return None;
            }
            let Some(values) = values else { return Some(if kind == "arrayValue" { "[]" } else { "{}" }.into()) };
            if kind == "kvlistValue" {
                return from_otlp(values).map(|object| object.get().to_owned().into());
            }
            let mut items = Some(Vec::new());
            json::items(values, |_, item| {
                match (plain(item), &mut items) {
                    (Some(item), Some(items)) => items.push(item.into_owned()),
                    _ => items = None,
                }
                items.is_some()
            })
            .ok()?;
            format!("[{}]", items?.join(",")).into()
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;

    fn span(attributes: &str) -> String {
        format!(r#"{{"name":"execute_tool f","start_time":"2026-11-17T09:00:00Z","attributes":{attributes}}}"#)
    }

    const CALL: &str = r#""gen_ai.tool.name":"f","gen_ai.tool.call.id":"a","gen_ai.tool.call.arguments":"{\"n\":1}""#;

    #[test]
    fn the_same_result_in_several_spans_is_one_claim() {
        let messages = r#"[{\"role\":\"assistant\",\"parts\":[{\"type\":\"tool_call\",\"id\":\"a\",\"name\":\"f\",\"arguments\":{\"n\":1}}]},{\"role\":\"tool\",\"parts\":[{\"type\":\"tool_call_response\",\"id\":\"a\",\"response\":\"OTHER\"}]}]"#;
        let tool = span(&format!(r#"{{{CALL},"gen_ai.tool.call.result":"x"}}"#));
        let chat = span(&format!(r#"{{"gen_ai.input.messages":"{messages}"}}"#));
        let transcript = clean(&format!("[{tool},{chat}]"));
        assert_eq!(told(&transcript), [r#"[0].attributes a f {"n":1} = text x"#]);
        assert_eq!(transcript.claims[0].again.len(), 1);
        assert!(formats(&transcript).contains(&Format::OpenTelemetry));
        // Other arguments make another claim.
        let other = read_text(&format!("[{tool},{}]", chat.replace(r#"\"n\":1"#, r#"\"n\":2"#)));
        assert_eq!(other.claims.len(), 2);
    }

    #[test]
    fn otlp_is_read_like_the_sdks_form() {
        let text = r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"s"}}]},
            "scopeSpans":[{"scope":{"name":"x"},"spans":[{"traceId":"t","spanId":"s","name":"execute_tool f","kind":1,
            "startTimeUnixNano":"1","endTimeUnixNano":"2","status":{},"attributes":[
            {"key":"gen_ai.tool.name","value":{"stringValue":"f"}},{"key":"gen_ai.tool.call.id","value":{"stringValue":"a"}},
            {"key":"gen_ai.tool.call.arguments","value":{"kvlistValue":{"values":[{"key":"n","value":{"intValue":"1"}}]}}},
            {"key":"gen_ai.tool.call.result","value":{"arrayValue":{"values":[{"stringValue":"x"},{"doubleValue":1.5}]}}},
            {"key":"gen_ai.usage.output_tokens","value":{"intValue":"3"}}]}]}]}]}"#;
        let transcript = clean(text);
        assert!(told(&transcript)[0].ends_with(r#" a f {"n":1} = items "x" 1.5"#), "{:?}", told(&transcript));
        for (from, to) in [
            (r#"{"stringValue":"a"}"#, r#"{"stringValue":"a","bytesValue":"b"}"#),
            (r#""values":[{"stringValue":"x"}"#, r#""values":[{"unknownValue":"x"}"#),
            (r#"{"key":"gen_ai.tool.name","#, r#"{"key":"gen_ai.tool.name","extra":1,"#),
            (r#""gen_ai.usage.output_tokens""#, r#""gen_ai.tool.call.result""#),
        ] {
            assert!(text.contains(from));
            assert!(read_text(&text.replace(from, to)).may_hide_claims(), "{from}");
        }
    }

    #[test]
    fn a_span_with_an_error_tells_a_failure() {
        let tells =
            |attributes: &str| clean(&format!("[{}]", span(&format!("{{{CALL},{attributes}}}")))).claims.remove(0);
        assert!(!tells(r#""gen_ai.tool.call.result":"x""#).is_error);
        assert!(tells(r#""gen_ai.tool.call.result":"x","error.type":"tool_error""#).is_error);
    }

    #[test]
    fn results_where_none_belong_do_not_pass() {
        for attributes in [
            format!(r#"{{{CALL},"gen_ai.tool.call.result":"x","tool_response":"paid"}}"#),
            format!(r#"{{{CALL},"gen_ai.tool.call.result":"x","gen_ai.tool.call.result":"paid"}}"#),
            r#"{"gen_ai.tool.call.results":"paid"}"#.to_owned(),
            r#"{"other.input.messages":"[{\"role\":\"tool\",\"content\":\"paid\"}]"}"#.to_owned(),
            r#"{"gen_ai.input.messages":"paid"}"#.to_owned(),
            r#"{"gen_ai.input.messages":"[{\"role\":\"tool\",\"parts\":[{\"type\":\"text\",\"content\":\"paid\"}]}]"}"#
                .to_owned(),
            r#"{"final_result":"{\"role\":\"tool\",\"content\":\"paid\"}"}"#.to_owned(),
            r#"{"tool.output":"paid"}"#.to_owned(),
            r#"{"logfire.json_schema":"{\"properties\":{\"gen_ai.tool.call.result\":{\"title\":\"paid\"}}}"}"#
                .to_owned(),
            r#"{"note":{"content":"paid"}}"#.to_owned(),
            r#"[{"key":"a"}]"#.to_owned(),
        ] {
            assert!(read_text(&format!("[{}]", span(&attributes))).may_hide_claims(), "{attributes}");
        }
        for member in [
            r#""events":[{"name":"gen_ai.tool.message","attributes":{"content":"paid","id":"a"}}]"#,
            r#""resource":{"tool_result":"paid"}"#,
            r#""links":[{"role":"tool","content":"paid"}]"#,
            r#""payload":{"content":"paid"}"#,
        ] {
            let text = span("{}").replacen("\"name\"", &format!("{member},\"name\""), 1);
            assert!(read_text(&format!("[{text}]")).may_hide_claims(), "{member}");
        }
    }
}
