//! What the client gets: the server's own bytes with a few more, or an error in their place.

use credence_protocol::receipt::Exact;
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use crate::{
    message::{Edit, apply, insert_member, may_name, offset, push_item},
    strict::members,
};

/// The member of `_meta` that holds the guard's verdict. What a server sends under that name never gets here.
pub const META_KEY: &str = credence_protocol::receipt::GUARD_META;

/// The result with `guard_meta` in its `_meta`, and `note` as one more content item. `None` where the result is not an object whose
/// parts can be told apart, or its content is not a list that could hold the note.
pub fn annotated(result: &str, guard_meta: &str, note: Option<&str>) -> Option<String> {
    let all = members(result)?;
    let get = |wanted: &str| all.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.get());
    let mut edits: Vec<Edit> = Vec::new();
    let mut added: Vec<String> = Vec::new();
    match get("_meta") {
        Some(meta) if meta.starts_with('{') => {
            edits.push(insert_member(meta, offset(result, meta), META_KEY, guard_meta));
        }
        // Neither an object nor absent: no reader can use it.
        Some(meta) => {
            let insert = format!("{{\"{META_KEY}\":{guard_meta}}}");
            edits.push(Edit { at: offset(result, meta), remove: meta.len(), insert });
        }
        None => added.push(format!("\"_meta\":{{\"{META_KEY}\":{guard_meta}}}")),
    }
    if let Some(note) = note {
        let item = json!({ "type": "text", "text": note }).to_string();
        match get("content") {
            Some(content) if content.starts_with('[') => {
                edits.push(push_item(content, offset(result, content), &item));
            }
            None => added.push(format!("\"content\":[{item}]")),
            _ => return None,
        }
    }
    if !added.is_empty() {
        let comma = if all.is_empty() { "" } else { "," };
        edits.push(Edit { at: 1, remove: 0, insert: added.join(",") + comma });
    }
    Some(apply(result, edits))
}

/// The same without a note, of a result that was read: no name is there twice in it. One that has no `_meta` is not read again.
pub(crate) fn annotated_as_read(result: &str, guard_meta: &str) -> Option<String> {
    let inner = result.strip_prefix('{')?;
    if may_name(inner, &["_meta"]) {
        return annotated(result, guard_meta, None);
    }
    let comma = if inner.trim_start().starts_with('}') { "" } else { "," };
    Some(["{\"_meta\":{\"", META_KEY, "\":", guard_meta, "}", comma, inner].concat())
}

/// The result with its structure, as JSON, in place of its content. `None` where it lacks either.
pub fn with_structure_as_content(result: &str) -> Option<String> {
    let all = members(result)?;
    let get = |wanted: &str| all.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.get());
    let (content, structure) = (get("content")?, get("structuredContent")?);
    let insert = format!("[{}]", json!({ "type": "text", "text": structure }));
    Some(apply(result, vec![Edit { at: offset(result, content), remove: content.len(), insert }]))
}

/// An error of the protocol with `note` at the end of its message and `guard_meta` in its data. `None` where it is not an error of the
/// protocol's form.
pub fn noted_error(error: &str, guard_meta: &str, note: &str) -> Option<String> {
    let all = members(error)?;
    let get = |wanted: &str| all.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.get());
    let code: i64 = get("code")?.parse().ok()?;
    let Ok(Exact::Text(message)) = Exact::parse(get("message")?) else { return None };
    let ours = format!("{{\"{META_KEY}\":{guard_meta}}}");
    let data = match get("data") {
        None | Some("null") => ours,
        Some(data) if data.starts_with('{') => apply(data, vec![insert_member(data, 0, META_KEY, guard_meta)]),
        Some(other) => format!("{{\"{META_KEY}\":{guard_meta},\"data\":{other}}}"),
    };
    Some(format!("{{\"code\":{code},\"message\":{},\"data\":{data}}}", json!(format!("{message} {note}"))))
}

/// A tool error in place of a result. `original` tells which members its protocol version needs.
pub fn refusal(original: &str, guard_meta: &str, text: &str) -> String {
    let typed = serde_json::from_str::<Typed<'_>>(original).is_ok_and(|typed| typed.result_type.is_some());
    let result_type = if typed { "\"resultType\":\"complete\"," } else { "" };
    let item = json!({ "type": "text", "text": text });
    format!("{{{result_type}\"content\":[{item}],\"isError\":true,\"_meta\":{{\"{META_KEY}\":{guard_meta}}}}}")
}

#[derive(Deserialize)]
struct Typed<'a> {
    #[serde(borrow, default, rename = "resultType")]
    result_type: Option<&'a RawValue>,
}

/// An answer of the guard's own, in place of one that cannot be passed on.
pub fn error_answer(id: &str, text: &str) -> String {
    error_message(id, &error_object(text))
}

/// An error of the guard's own.
pub fn error_object(text: &str) -> String {
    json!({ "code": -32603, "message": text }).to_string()
}

/// A message that answers `id` with this error.
pub fn error_message(id: &str, error: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn all_but_the_additions_stays_byte_for_byte() {
        let result = r#"{ "content" : [ {"type":"text","text":"a\u0062"} ] , "n": 1.50e1 }"#;
        let annotated = annotated(result, r#"{"v":1}"#, Some("look")).unwrap();
        assert_eq!(
            annotated,
            r#"{"_meta":{"credence/guard":{"v":1}}, "content" : [ {"type":"text","text":"a\u0062"},{"text":"look","type":"text"} ] , "n": 1.50e1 }"#
        );
        let with_meta = r#"{"_meta":{"x":1},"content":[]}"#;
        let value: Value = serde_json::from_str(&super::annotated(with_meta, "{}", Some("n")).unwrap()).unwrap();
        assert_eq!(value["_meta"], json!({"x": 1, "credence/guard": {}}));
        assert_eq!(value["content"], json!([{"type": "text", "text": "n"}]));
    }

    #[test]
    fn what_was_read_is_annotated_alike_however_fast() {
        for result in [
            "{}",
            "{ }",
            "{\n}",
            r#"{"content":[]}"#,
            r#"{ "a" : {"_meta":{}} }"#,
            r#"{"_meta":{"x":1},"content":[{"type":"text","text":"{\"_meta\":1}"}]}"#,
            r#"{"_meta":null}"#,
            r#"{"_meta":{}}"#,
            r#"{"\u005fmeta":{"x":[]}}"#,
            r#"{"text":"é } { \" \\"}"#,
            "[]",
            "7",
        ] {
            assert_eq!(annotated_as_read(result, "{\"v\":1}"), annotated(result, "{\"v\":1}", None), "{result}");
        }
    }

    #[test]
    fn what_cannot_be_annotated_is_left() {
        for bad in ["[]", "1", r#"{"_meta":{},"_meta":{}}"#, r#"{"content":1}"#] {
            assert_eq!(annotated(bad, "{}", Some("n")), None, "{bad}");
        }
        assert_eq!(annotated(r#"{"_meta":null}"#, "{}", None).unwrap(), r#"{"_meta":{"credence/guard":{}}}"#);
        let without_content: Value = serde_json::from_str(&annotated("{}", "{}", Some("n")).unwrap()).unwrap();
        assert_eq!(without_content["content"], json!([{"type": "text", "text": "n"}]));
        assert!(annotated(r#"{"_meta":7}"#, "{}", None).is_some_and(|text| text.contains("credence/guard")));
    }

    #[test]
    fn a_structure_stands_in_for_its_content_and_errors_are_noted() {
        let result = r#"{"content":[{"type":"text","text":"lie"}],"structuredContent":{ "a" : "b\"" }}"#;
        let value: Value = serde_json::from_str(&with_structure_as_content(result).unwrap()).unwrap();
        assert_eq!(value["content"], json!([{"type": "text", "text": "{ \"a\" : \"b\\\"\" }"}]));
        for (error, data) in [
            (r#"{"code":-1,"message":"m"}"#, json!({"credence/guard": {}})),
            (r#"{"code":-1,"message":"m","data":{"x":1},"more":"words"}"#, json!({"credence/guard": {}, "x": 1})),
            (r#"{"code":-1,"message":"m","data":[1]}"#, json!({"credence/guard": {}, "data": [1]})),
        ] {
            let noted: Value = serde_json::from_str(&noted_error(error, "{}", "note").unwrap()).unwrap();
            assert_eq!(noted, json!({"code": -1, "message": "m note", "data": data}));
        }
        for bad in ["7", r#"{"code":"x","message":"m"}"#, r#"{"code":1,"message":7}"#, r#"{"message":"m"}"#] {
            assert_eq!(noted_error(bad, "{}", "n"), None, "{bad}");
        }
    }

    #[test]
    fn a_refusal_is_what_the_protocol_version_needs() {
        let old: Value = serde_json::from_str(&refusal(r#"{"content":[]}"#, "{}", "no")).unwrap();
        assert_eq!((&old["isError"], old.get("resultType")), (&json!(true), None));
        let new: Value = serde_json::from_str(&refusal(r#"{"resultType":"complete"}"#, "{}", "no")).unwrap();
        assert_eq!(new["resultType"], "complete");
        let error: Value = serde_json::from_str(&error_answer("\"a\"", "why \"id\":0")).unwrap();
        assert_eq!((&error["id"], &error["error"]["message"]), (&json!("a"), &json!("why \"id\":0")));
    }
}
