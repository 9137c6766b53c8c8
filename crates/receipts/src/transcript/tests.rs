//! The whole of [`read`]: documents, lines, mixtures and damage.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::{testing::*, *};

const CALL: &str = r#"{"type":"tool_use","id":"t","name":"f","input":{}}"#;

#[test]
fn formats_may_be_mixed_in_one_file() {
    let transcript = clean(
        r#"{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}
           {"type":"function_call_output","call_id":"a","output":"x"}
           {"transcript":{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"b","name":"g","input":{}}]}]}}
           {"events":[{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"h"}}]}"#,
    );
    assert_eq!(transcript.formats.len(), 4);
    assert_eq!(
        told(&transcript),
        [
            "line 2 a f {} = text x",
            "line 3: transcript.messages[0].content[0] b g {} = nothing",
            "line 4: events[0] 7 h - = nothing",
        ]
    );
}

#[test]
fn receipts_in_texts_and_items_are_kept() {
    let transcript = clean(
        r#"[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"b","name":"f","input":{}},
            {"type":"tool_result","tool_use_id":"a","content":"{\"_meta\":{\"credence/guard\":{\"receipt\":\"r1\"}}}"},
            {"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"x","_meta":{"credence/guard":{"receipt":"r2"}}}]}]"#,
    );
    assert_eq!(transcript.claims[0].receipt.as_deref(), Some("r1"));
    assert_eq!(transcript.claims[1].receipt.as_deref(), Some("r2"));
}

#[test]
fn payloads_are_not_searched_for_calls() {
    let inner = r#"{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"y","input":{}}]}]}"#;
    let transcript = clean(&format!(
        r#"[{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"f","arguments":{inner}}}}},
            {{"jsonrpc":"2.0","id":1,"result":{inner}}}]"#
    ));
    assert_eq!(told(&transcript), [format!("[1] 1 f {inner} = json {inner}")]);
    let transcript = read_text(&format!(r#"{{"role":"user","content":"hi","data":{inner}}}"#));
    assert_eq!(unrecognised(&transcript), ["line 1, /data: the member 'data' is not known, and can be a result"]);
}

#[test]
fn what_lies_around_messages_may_have_members_of_messages() {
    let transcript = clean(&format!(
        r#"[{{"content":"log","payload":{CALL}}},{{"role":"agent","message":{{"content":[{{"type":"tool_result","tool_use_id":"t"}}]}}}},
            {{"id":1,"error":"none","msg":{{"id":1,"method":"tools/call","params":{{"name":"g"}}}}}},{{"id":1,"result":{{}}}}]"#
    ));
    assert_eq!(told(&transcript), ["[1].message.content[0] t f {} = text ", "[3] 1 g - = json {}"]);
}

#[test]
fn a_transcript_without_tools_is_read_and_has_no_claims() {
    for text in [r#"{"messages":[{"role":"user","content":"hi"}]}"#, "[]", "{}", r#"{"input":"hello"}"#] {
        let transcript = clean(text);
        assert!(transcript.claims.is_empty() && transcript.formats.is_empty(), "{text}");
    }
}

#[test]
fn nothing_at_all_is_an_error() {
    for text in ["", " \r\n\t", "\u{feff}", "\u{feff}\n"] {
        assert_eq!(read(text.as_bytes()).unwrap_err(), Error::Empty);
    }
    assert_eq!(clean(&format!("\u{feff}{CALL}")).claims.len(), 1);
}

#[test]
fn a_damaged_document_is_an_error_with_its_place() {
    let Error::NotJson { line, column, message } = read(b"{\"messages\": [\n  {\"role\": \"user\",}\n]}").unwrap_err()
    else {
        panic!("another error");
    };
    assert_eq!((line, column, message.as_str()), (2, 19, "key must be a string"));
    let error = read(format!("[{CALL}").as_bytes()).unwrap_err();
    assert!(matches!(error, Error::NotJson { line: 1, .. }), "{error}");
    assert!(matches!(read(b"hello\nworld").unwrap_err(), Error::NotJson { line: 1, column: 1, .. }));
}

#[test]
fn a_damaged_line_is_a_problem_and_the_others_are_read() {
    let mut bytes = format!("{{\"a\":\n{CALL}\n17\n{CALL}}}\n[]\n{{}}\n{{}}\n{{}}\n").into_bytes();
    bytes.extend(b"{\"a\":\"\xff\"}");
    let transcript = read(&bytes).unwrap();
    assert_eq!(told(&transcript), ["line 2 t f {} = nothing"]);
    assert_eq!(
        problems(&transcript),
        [
            "line 1: not JSON, column 5: EOF while parsing a value",
            "line 3: not a JSON object",
            "line 4: not JSON, column 51: trailing characters",
            "line 9: not UTF-8 text",
        ]
    );
}

#[test]
fn a_document_that_is_not_utf8_is_an_error_with_its_place() {
    assert_eq!(read(b"{\"a\":\"\xff\"}").unwrap_err(), Error::NotUtf8 { offset: 6 });
}

#[test]
fn too_large_is_an_error() {
    let bytes = vec![0; MAX_BYTES + 1];
    assert_eq!(read(&bytes).unwrap_err(), Error::TooLarge { bytes: MAX_BYTES + 1 });
}

#[test]
fn an_object_that_repeats_a_member_is_refused_wherever_it_stands() {
    for (text, at) in [
        (format!(r#"{{"messages":[{CALL}],"messages":[]}}"#), "document"),
        (r#"[{"role":"tool","role":"user","tool_call_id":"c","content":"x"}]"#.to_owned(), "[0]"),
        (r#"{"tool_calls":[{"id":"c","function":{"name":"f","name":"g"}}]}"#.to_owned(), "tool_calls[0].function"),
    ] {
        let transcript = read_text(&text);
        assert!(transcript.claims.is_empty());
        assert_eq!((transcript.problems.len(), transcript.problems[0].at.as_str()), (1, at));
        assert!(matches!(transcript.problems[0].why, Why::Repeated(_)));
    }
}

#[test]
fn deep_nesting_is_a_problem_and_the_text_is_kept() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let transcript = read_text(&format!(
        r#"[{{"type":"tool_use","id":"t","name":"f","input":{deep}}},
            {{"type":"tool_result","tool_use_id":"t","content":{{"a":{deep}}}}}]"#
    ));
    assert_eq!(problems(&transcript), ["[0]: nested deeper than 127 levels", "[1]: nested deeper than 127 levels"]);
    assert_eq!(transcript.claims[0].arguments.as_ref().unwrap().get(), deep);
    let transcript = read_text(&deep);
    assert_eq!(transcript.problems.len(), 1);
    assert_eq!(transcript.problems[0].why, Why::TooWrapped);
}

#[test]
fn half_a_surrogate_pair_is_a_problem_and_the_json_is_kept() {
    let transcript = read_text(r#"{"type":"tool_result","tool_use_id":"t","content":"\ud800"}"#);
    assert_eq!(told(&transcript), [r#"document t - - = json "\ud800""#]);
    assert_eq!(transcript.problems[0].why, Why::NotText);
}

#[test]
fn a_result_of_too_many_items_stays_whole() {
    for (count, whole) in [(MAX_ITEMS, false), (MAX_ITEMS + 1, true)] {
        let content = vec!["0"; count].join(",");
        let transcript = read_text(&format!(r#"{{"type":"tool_result","tool_use_id":"t","content":[{content}]}}"#));
        assert_eq!(matches!(transcript.claims[0].result, ClaimedResult::Json(_)), whole);
        assert_eq!(transcript.problems.iter().any(|problem| problem.why == Why::TooManyItems), whole);
    }
}

#[test]
fn problems_past_the_limit_are_counted() {
    let transcript = read_text(&format!("[{}]", vec!["0"; MAX_PROBLEMS + 5].join(",")));
    assert_eq!((transcript.problems.len(), transcript.problems_left_out), (MAX_PROBLEMS, 5));
}

#[test]
fn too_many_calls_are_an_error() {
    let text = format!("[{}]", vec![r#"{"type":"tool_use"}"#; MAX_CLAIMS + 1].join(","));
    assert_eq!(read(text.as_bytes()).unwrap_err(), Error::TooManyCalls);
}

/// One id for all, so that a scan over what is open would show.
#[test]
fn a_hundred_thousand_messages_take_little_time() {
    let started = Instant::now();
    for id in [|_: usize| 0, |n: usize| n / 2] {
        let message = |n: usize| match n % 2 {
            0 => format!(r#"{{"type":"function_call","call_id":"c{}","name":"f","arguments":"{{\"n\":{n}}}"}}"#, id(n)),
            _ => format!(r#"{{"type":"function_call_output","call_id":"c{}","output":"{n}"}}"#, id(n)),
        };
        let text = (0..100_000).map(message).collect::<Vec<_>>().join("\n");
        assert_eq!(read_text(&text).claims.len(), 50_000);
        let calls_first = (0..100_000).map(|n| message((2 * n) % 100_000 + n / 50_000)).collect::<Vec<_>>().join("\n");
        assert_eq!(read_text(&calls_first).claims.len(), 50_000);
    }
    // Takes a second or two: only a scan for each message takes so long, also unoptimised and on a busy machine.
    assert!(started.elapsed() < Duration::from_secs(120), "{:?}", started.elapsed());
}

/// Pieces that make up transcripts, and break them.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\n",
        "\"",
        "\\",
        "null",
        "true",
        "1e999",
        "-0",
        "\"\\ud800\"",
        "\"type\":",
        "\"id\":",
        "\"role\":",
        "\"content\":",
        "\"tool_use\"",
        "\"tool_result\"",
        "\"tool\"",
        "\"function_call\":",
        "\"messages\":",
        "\"tool_calls\":",
        "\"jsonrpc\":\"2.0\"",
        "\"method\":\"tools/call\"",
        "\"params\":",
        "\"result\":",
        "\"_meta\":",
        "{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"f\",\"input\":{}}",
        "{\"type\":\"tool_result\",\"tool_use_id\":\"a\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
        "{\"role\":\"function\",\"name\":\"f\"}",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Messages of all formats on few ids, in any order.
fn messages() -> impl Strategy<Value = Vec<String>> {
    let message = (0..9, 0..3).prop_map(|(kind, id)| match kind {
        0 => format!(r#"{{"type":"tool_use","id":"{id}","name":"f","input":{{}}}}"#),
        1 => format!(r#"{{"type":"tool_result","tool_use_id":"{id}","content":"x"}}"#),
        2 => format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"f"}}}}"#),
        3 => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[]}}}}"#),
        4 => format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#),
        5 => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"input_required"}}}}"#),
        6 => format!(r#"{{"type":"mcp_call","id":"{id}","name":"f","arguments":"{{}}","output":"x"}}"#),
        7 => r#"{"role":"assistant","function_call":{"name":"f","arguments":"{}"}}"#.to_owned(),
        _ => r#"{"role":"function","name":"f","content":"x"}"#.to_owned(),
    });
    prop::collection::vec(message, 1..30)
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(&bytes);
    }

    #[test]
    fn broken_transcripts_never_panic(text in pieces()) {
        let _ = read(text.as_bytes());
    }

    #[test]
    fn lines_and_lists_say_the_same(messages in messages()) {
        let said = |text: String| {
            let mut transcript = read_text(&text);
            transcript.claims.iter_mut().for_each(|claim| claim.at.clear());
            let problems = transcript.problems.iter().map(|problem| problem.why.clone()).collect::<Vec<_>>();
            (told(&transcript), problems)
        };
        // A blank object more, so that one message too is more than a line.
        prop_assert_eq!(said(format!("{}\n{{}}", messages.join("\n"))), said(format!("[{},{{}}]", messages.join(","))));
    }

    #[test]
    fn no_result_is_lost(messages in messages()) {
        let transcript = read_text(&format!("[{}]", messages.join(",")));
        let results = messages.iter().filter(|message| message.contains("\"x\"")).count();
        let claimed = transcript.claims.iter().filter(|claim| matches!(claim.result, ClaimedResult::Text(_))).count();
        prop_assert_eq!(claimed, results);
    }

    #[test]
    fn numbers_keep_their_digits(number in "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,40})?([eE][+-]?[0-9]{1,4})?") {
        let transcript = clean(&format!(
            r#"[{{"type":"function_call","call_id":"c","name":"f","arguments":"[{number}]"}},
                {{"type":"function_call_output","call_id":"c","output":[{number}]}},
                {{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"f","arguments":{{"n":{number}}}}}}},
                {{"jsonrpc":"2.0","id":1,"result":{{"n":{number}}}}}]"#
        ));
        prop_assert_eq!(
            told(&transcript),
            [format!("[1] c f [{number}] = items {number}"), format!(r#"[3] 1 f {{"n":{number}}} = json {{"n":{number}}}"#)]
        );
    }
}

/// A result that is said to be of another tool than its call: a reader takes it for that tool's.
#[test]
fn a_result_that_names_another_tool_than_its_call_does_not_pass() {
    let call = r#"{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"mcp__fs__read_file","arguments":"{}"}}]}"#;
    let openai = |name: &str| format!(r#"[{call},{{"role":"tool","tool_call_id":"a","name":"{name}","content":"x"}}]"#);
    let langchain = |name: &str| {
        format!(
            r#"[{{"type":"ai","content":"","tool_calls":[{{"name":"fs.read_file","args":{{}},"id":"a","type":"tool_call"}}]}},
            {{"type":"tool","content":"x","tool_call_id":"a","name":"{name}","status":"success"}}]"#
        )
    };
    let gemini = |name: &str| {
        format!(
            r#"{{"contents":[{{"role":"model","parts":[{{"functionCall":{{"id":"a","name":"read_file","args":{{}}}}}}]}},
            {{"role":"user","parts":[{{"functionResponse":{{"id":"a","name":"{name}","response":{{"result":"x"}}}}}}]}}]}}"#
        )
    };
    let vercel = |name: &str| {
        format!(
            r#"[{{"role":"assistant","content":[{{"type":"tool-call","toolCallId":"a","toolName":"read_file","input":{{}}}}]}},
            {{"role":"tool","content":[{{"type":"tool-result","toolCallId":"a","toolName":"{name}","output":{{"type":"text","value":"x"}}}}]}}]"#
        )
    };
    let of_page = |name: &str| {
        format!(
            r#"[{{"role":"assistant","parts":[{{"type":"tool-read_file","toolName":"{name}","toolCallId":"a","state":"output-available",
            "input":{{}},"output":"x"}}]}}]"#
        )
    };
    let pydantic = |name: &str| {
        format!(
            r#"[{{"kind":"response","parts":[{{"part_kind":"tool-call","tool_name":"read_file","args":{{}},"tool_call_id":"a"}}]}},
            {{"kind":"request","parts":[{{"part_kind":"tool-return","tool_name":"{name}","content":"x","tool_call_id":"a"}}]}}]"#
        )
    };
    let telemetry = |name: &str| {
        format!(
            r#"[{{"role":"assistant","parts":[{{"type":"tool_call","id":"a","name":"read_file","arguments":{{}}}}]}},
            {{"role":"tool","parts":[{{"type":"tool_call_response","id":"a","name":"{name}","response":"x"}}]}}]"#
        )
    };
    let forms: [&dyn Fn(&str) -> String; 7] = [&openai, &langchain, &gemini, &vercel, &of_page, &pydantic, &telemetry];
    for form in forms {
        for name in ["read_file", "read-file", "fs.read_file"] {
            let transcript = clean(&form(name));
            assert_eq!(transcript.claims.len(), 1, "{}", form(name));
        }
        for name in ["balance", "ad_file", "read_files"] {
            let transcript = read_text(&form(name));
            assert!(transcript.may_hide_claims(), "{}", form(name));
            let problems = problems(&transcript);
            assert!(
                problems[0]
                    .ends_with(&format!("the result is said to be of '{name}', and its call is of another tool")),
                "{problems:?}"
            );
        }
    }
}
