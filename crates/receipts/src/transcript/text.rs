//! JSON within a text: each object in it, whatever stands around it.

use serde_json::value::RawValue;

/// Names that occur in results, in any format. A text that has none of them, and no escape that may hide one, is not taken apart.
const MARKS: &[&str] = &[
    "_output",
    "call_id",
    "callId",
    "CallId",
    "functionResponse",
    "function_response",
    "isError",
    "is_error",
    "jsonrpc",
    "mcp_call",
    "role",
    "structuredContent",
    "tool",
    "Tool",
    "\\u",
];

/// Bytes that are looked through for the ends of objects, as a multiple of the text's length.
const MAX_PASSES: usize = 64;

/// Calls `each` with every outermost object in the text until it gives something. A text with so many unclosed objects that it
/// would have to be read over and over gives a reason, too.
pub(super) fn json_within(text: &str, mut each: impl FnMut(&RawValue) -> Option<String>) -> Option<String> {
    if !text.contains('{') || !MARKS.iter().any(|mark| text.contains(mark)) {
        return None;
    }
    let mut budget = text.len().saturating_mul(MAX_PASSES);
    let mut from = 0;
    while let Some(start) = text[from..].find('{').map(|at| from + at) {
        from = start + 1;
        if !text[from..].trim_start().starts_with('"') {
            continue;
        }
        let (end, looked_at) = end_of_object(&text.as_bytes()[start..]);
        budget = match budget.checked_sub(looked_at) {
            Some(left) => left,
            None => return Some("too many objects that do not end".to_owned()),
        };
        let Some(end) = end else { continue };
        if let Ok(object) = serde_json::from_str::<&RawValue>(&text[start..start + end]) {
            if let Some(found) = each(object) {
                return Some(found);
            }
            from = start + end;
        }
    }
    None
}

/// Where the object at the beginning of `bytes` ends, and how many bytes were looked at.
fn end_of_object(bytes: &[u8]) -> (Option<usize>, usize) {
    let (mut depth, mut in_text, mut escaped) = (0usize, false, false);
    for (at, byte) in bytes.iter().enumerate() {
        if in_text {
            in_text = escaped || *byte != b'"';
            escaped = !escaped && *byte == b'\\';
            continue;
        }
        match byte {
            b'"' => in_text = true,
            b'{' => depth += 1,
            b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return (Some(at + 1), at + 1);
                }
            }
            _ => {}
        }
    }
    (None, bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        json_within(text, |object| {
            found.push(object.get().to_owned());
            None
        });
        found
    }

    #[test]
    fn objects_are_found_wherever_they_stand() {
        let one = r#"{"role":"tool","content":"a } b"}"#;
        for text in
            [one.to_owned(), format!("it said: {one}."), format!("```json\n[{one}]\n```"), format!("{{ {{x {one}")]
        {
            assert_eq!(objects(&text), [one], "{text}");
        }
        assert_eq!(objects(&format!("{one}\n{one}")).len(), 2);
        assert!(objects("a {set} of \"tools\" {").is_empty() && objects("{\"plain\": 1}").is_empty());
    }

    #[test]
    fn objects_that_do_not_end_are_not_read_over_and_over() {
        let text = r#"{"role": "#.repeat(20_000);
        assert!(json_within(&text, |_| None).is_some_and(|why| why.contains("do not end")));
    }
}
