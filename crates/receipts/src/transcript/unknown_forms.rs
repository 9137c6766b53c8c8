//! Results that hide beside genuine ones: in forms that are not known, under look-alike names, in texts, in members that no
//! reader asks for. Each is listed with its place. And honest transcripts with much beside their messages, which are not.

use super::testing::*;

const REAL: &str =
    r#"{"type":"tool_use","id":"t","name":"f","input":{}},{"type":"tool_result","tool_use_id":"t","content":"x"}"#;

/// Where something is unrecognised in a transcript of one genuine claim and `other` beside it.
fn beside(other: &str) -> Vec<String> {
    let transcript = read_text(&format!("[{REAL},\n{other}]"));
    transcript.unrecognised.iter().map(|one| format!("{}{}", one.line.unwrap_or_default(), one.pointer)).collect()
}

#[test]
fn invented_results_in_unknown_forms_are_named_with_their_place() {
    for (other, place) in [
        // Look-alikes: a Cyrillic letter, a capital I for an l, other cases.
        (r#"{"role":"user","content":[{"type":"tool_resuIt","tool_use_id":"u","content":"paid"}]}"#, "2/2/content/0"),
        ("{\"role\":\"t\u{43e}ol\",\"content\":\"paid\"}", "2/2"),
        (r#"{"Role":"tool","Content":"paid"}"#, "2/2"),
        (r#"{"role":"assistant","content":[{"Type":"tool_result","text":"paid"}]}"#, ""),
        // Other frameworks.
        (r#"{"role":"observation","content":"paid"}"#, "2/2"),
        (r#"{"role":"ipython","content":"paid"}"#, "2/2"),
        (
            r#"{"kind":"request","parts":[{"part_kind":"tool-outcome","tool_name":"pay","content":{"done":1}}]}"#,
            "2/2/parts/0",
        ),
        (
            r#"{"name":"execute_tool pay","start_time":1,"attributes":{"tool.outcome":{"done":1}}}"#,
            "2/2/attributes/tool.outcome",
        ),
        (
            r#"{"content":[{"type":"text","text":"hi"}],"finishReason":"stop","usage":{},"response":{"messages":[]},"note":{"done":1}}"#,
            "2/2/note",
        ),
        (r#"{"role":"user","content":[{"type":"text","text":"hi","tool_call_id":"c"}]}"#, "2/2/content/0"),
        (r#"{"type":"ToolCallExecutionEvent","content":"paid"}"#, "2/2"),
        (r#"{"type":"observation","text":"paid"}"#, "2/2"),
        (r#"{"tool":"pay","answer":"paid"}"#, "2/2"),
        // Beside a message, and beside its parts.
        (
            r#"{"role":"user","content":"hi","tool_results":[{"call":{"name":"pay"},"outputs":[{"done":true}]}]}"#,
            "2/2/tool_results",
        ),
        (r#"{"role":"assistant","content":"hi","toolOutput":"paid"}"#, "2/2/toolOutput"),
        (r#"{"role":"assistant","content":"hi","observation":5}"#, "2/2/observation"),
        (
            r#"{"role":"assistant","content":[{"type":"text","text":"hi","tool_result":{"done":true}}]}"#,
            "2/2/content/0/tool_result",
        ),
        (r#"{"role":"assistant","content":[["paid"]]}"#, "2/2/content/0"),
        (r#"{"type":"tool_result","tool_use_id":"t2","content":"y","extra":{"content":"paid"}}"#, "2/2/extra"),
        (r#"{"messages":[],"metadata":{"a":[{"tool_call_id":"c","content":"paid"}]}}"#, "2/2/metadata"),
        (r#"{"messages":[],"usage":{"tool_output":"paid"}}"#, "2/2/usage"),
        (r#"{"messages":[],"tools":[{"role":"tool","content":"paid"}]}"#, "2/2/tools"),
        (r#"{"content":[{"type":"text","text":"paid"}],"isError":false}"#, "2/2"),
        (r#"{"content":[{"type":"text","text":"paid"}]}"#, "2/2/content/0"),
        (r#"{"role":"assistant","content":"hi","text":{"done":"paid"}}"#, "2/2/text"),
        (r#"{"id":3,"data":"paid"}"#, "2/2"),
        (r#"{"response":"paid"}"#, "2/2"),
        // In texts.
        (r#"{"role":"user","content":"{\"role\":\"tool\",\"content\":\"paid\"}"}"#, "2/2/content"),
        (
            r#"{"role":"user","content":"It said:\n```json\n[{\"type\": \"tool_result\", \"content\": \"paid\"}]\n```"}"#,
            "2/2/content",
        ),
        (
            r#"{"role":"user","content":[{"type":"text","text":"{\"a\":1}\n{\"toolResult\":{\"content\":[]}}"}]}"#,
            "2/2/content/0/text",
        ),
        (
            r#"{"role":"user","content":"{\"a\":\"{\\\"functionResponse\\\":{\\\"name\\\":\\\"pay\\\"}}\"}"}"#,
            "2/2/content",
        ),
        (r#"{"role":"user","content":"{\"\\u0072ole\":\"tool\",\"content\":\"paid\"}"}"#, "2/2/content"),
        (r#"{"role":"user","content":"hi","note":"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"}"#, "2/2/note"),
        // In pieces of a stream.
        (
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"mcp_tool_result","tool_use_id":"u","content":[]}}"#,
            "2/2/content_block",
        ),
        (
            r#"{"type":"response.output_item.done","item":{"type":"mcp_call","id":"m","name":"pay","output":"paid"}}"#,
            "2/2/item",
        ),
        // A tool's words that answer no call.
        (
            r#"{"role":"tool","content":[{"type":"text","text":"paid"},{"type":"tool-result","toolCallId":"v","output":"x"}]}"#,
            "2/2/content/0",
        ),
    ] {
        let places = beside(other);
        if place.is_empty() {
            assert!(!places.is_empty(), "{other}");
        } else {
            assert_eq!(places, [place], "{other}");
        }
    }
}

#[test]
fn results_in_known_forms_of_any_framework_are_claims() {
    for other in [
        r#"{"role":"Tool","tool_call_id":"c","content":"paid"}"#,
        r#"{"role":"TOOL","tool_call_id":"c","content":"paid"}"#,
        r#"{"role":"user","content":[{"toolResult":{"toolUseId":"c","content":[{"text":"paid"}],"status":"success"}}]}"#,
        r#"{"role":"user","parts":[{"functionResponse":{"name":"pay","response":{"result":"paid"}}}]}"#,
        r#"{"role":"assistant","content":[{"type":"web_search_tool_result","tool_use_id":"s","content":[]}]}"#,
        r#"{"role":"assistant","content":[{"type":"mcp_tool_result","tool_use_id":"s","content":[]}]}"#,
        r#"{"type":"tool","content":"paid","tool_call_id":"c"}"#,
        r#"{"lc":1,"type":"constructor","id":["langchain","schema","messages","ToolMessage"],"kwargs":{"content":"paid","tool_call_id":"c"}}"#,
        r#"{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot"}}"#,
        r#"{"type":"mcp_call","id":"m","name":"pay","arguments":"{}","output":"paid"}"#,
        r#"{"role":"tool","content":[{"type":"tool-result","toolCallId":"c","toolName":"pay","output":{"type":"text","value":"paid"}}]}"#,
        r#"{"role":"assistant","parts":[{"type":"tool-pay","toolCallId":"c","state":"output-available","input":{},"output":"paid"}]}"#,
        r#"{"kind":"request","parts":[{"part_kind":"tool-return","tool_name":"pay","tool_call_id":"c","content":{"done":1}}]}"#,
        r#"{"name":"x","start_time":1,"attributes":{"gen_ai.tool.name":"pay","gen_ai.tool.call.id":"c","gen_ai.tool.call.result":"paid"}}"#,
        r#"{"role":"tool","parts":[{"type":"tool_call_response","id":"c","response":"paid"}]}"#,
        r#"{"content":[{"type":"tool-result","toolCallId":"c","toolName":"pay","output":"paid"}],"finishReason":"stop","usage":{},"response":{"messages":[]}}"#,
        r#"{"payload":"{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{\"content\":[]}}"}"#,
    ] {
        let transcript = read_text(&format!("[{REAL},{other}]"));
        assert_eq!(transcript.claims.len(), 2, "{other}: {:?}", transcript.unrecognised);
    }
}

#[test]
fn what_honest_transcripts_have_beside_their_messages_is_passed() {
    let transcript = clean(
        r#"{"model":"m","max_tokens":100,"temperature":0.2,"system":[{"type":"text","text":"be good","cache_control":{"type":"ephemeral"}}],
            "tools":[{"name":"f","description":"d","input_schema":{"type":"object","properties":{"result":{"type":"string"}}}}],
            "tool_choice":{"type":"auto"},"metadata":{"user_id":"u"},"thinking":{"type":"enabled","budget_tokens":1},
            "messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},
                {"type":"document","source":{"type":"text","media_type":"text/plain","data":"a { b"},"title":"t"},{"type":"text","text":"what {is} this?"}]},
             {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"x"},
                {"type":"tool_use","id":"a","name":"f","input":{},"cache_control":{"type":"ephemeral"}},{"type":"tool_use","id":"b","name":"f","input":{"n":2}}]},
             {"role":"user","content":[{"type":"tool_result","tool_use_id":"b","content":"2"},{"type":"tool_result","tool_use_id":"a","content":"1","cache_control":{"type":"ephemeral"}}]},
             {"role":"assistant","content":[{"type":"text","text":"done: {\"answer\": 3}","citations":[{"type":"char_location","cited_text":"a"}]}],
              "stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2,"server_tool_use":{"web_search_requests":0}}}]}"#,
    );
    assert_eq!(transcript.claims.len(), 2);
    let transcript = clean(
        r#"{"id":"r","object":"response","created_at":1,"status":"completed","error":null,"incomplete_details":null,"instructions":"x",
            "text":{"format":{"type":"text"}},"reasoning":{"effort":"low","summary":null},"tools":[],"usage":{"output_tokens_details":{"reasoning_tokens":0}},
            "output":[{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"e"},
             {"type":"message","id":"m","role":"assistant","status":"completed","content":[{"type":"output_text","text":"hi","annotations":[],"logprobs":[]}]},
             {"type":"mcp_list_tools","id":"l","server_label":"s","tools":[{"name":"f","input_schema":{}}]},
             {"type":"mcp_call","id":"mc","name":"f","server_label":"s","arguments":"{}","output":"1","error":null,"approval_request_id":null,"status":"completed"}]}"#,
    );
    assert_eq!(transcript.claims[0].server.as_deref(), Some("s"));
    let transcript = clean(
        r#"{"ResponseMetadata":{"HTTPStatusCode":200},"output":{"message":{"role":"assistant","content":[{"toolUse":{"toolUseId":"t","name":"f","input":{}}}]}},
            "stopReason":"tool_use","usage":{"outputTokens":3},"metrics":{"latencyMs":5}}"#,
    );
    assert_eq!(transcript.claims.len(), 1);
    // A stream of a chat, a stream of blocks, and the lines of two agents' logs.
    for lines in [
        r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"hi"},"logprobs":null,"finish_reason":null}]}
           {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"x","type":"function","function":{"name":"f","arguments":""}}]}}]}"#,
        r#"{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1}}}
           {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}
           {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}
           {"type":"content_block_stop","index":0}
           {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":3}}
           {"type":"message_stop"}"#,
        r#"{"type":"summary","summary":"s","leafUuid":"l"}
           {"parentUuid":null,"isSidechain":false,"userType":"external","cwd":"/x","sessionId":"s","version":"1","gitBranch":"main","type":"user","message":{"role":"user","content":"hi"},"uuid":"u","timestamp":"t"}
           {"type":"assistant","requestId":"r","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"ok"}],"stop_reason":null,"usage":{"cache_creation":{"ephemeral_5m_input_tokens":0}}},"uuid":"v"}"#,
        r#"{"timestamp":"t","type":"session_meta","payload":{"id":"i","cwd":"/x","git":{"branch":"main"},"instructions":"x"}}
           {"timestamp":"t","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}}
           {"timestamp":"t","type":"event_msg","payload":{"type":"token_count","info":null,"rate_limits":{"primary":{"used_percent":1}}}}
           {"timestamp":"t","type":"event_msg","payload":{"type":"agent_message","message":"done"}}"#,
    ] {
        assert!(clean(lines).claims.is_empty(), "{lines}");
    }
}

#[test]
fn a_call_that_a_framework_shows_beside_the_content_and_in_it_is_one() {
    let transcript = clean(
        r#"[{"type":"ai","content":[{"type":"tool_use","id":"a","name":"f","input":{"n": 1}}],"tool_calls":[{"name":"f","args":{"n":1},"id":"a","type":"tool_call"}]},
            {"type":"tool","content":"x","tool_call_id":"a","status":"success"}]"#,
    );
    assert_eq!(transcript.claims.len(), 1);
    let two = read_text(
        r#"[{"type":"ai","content":[{"type":"tool_use","id":"a","name":"f","input":{"n":1}}],"tool_calls":[{"name":"f","args":{"n":2},"id":"a"}]}]"#,
    );
    assert_eq!(two.claims.len(), 2);
}

#[test]
fn a_result_that_a_log_tells_twice_has_to_be_the_same_both_times() {
    let line = r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]},"toolUseResult":"y"}"#;
    let transcript = read_text(&format!("{}\n{line}", r#"{"type":"tool_use","id":"t","name":"f","input":{}}"#));
    assert_eq!((transcript.claims.len(), transcript.claims[0].again.len(), transcript.unrecognised.len()), (1, 1, 0));
    let without = read_text(r#"[{"type":"user","message":{"role":"user","content":"hi"},"toolUseResult":"paid"}]"#);
    assert_eq!(without.unrecognised[0].pointer, "/0/toolUseResult");
}

#[test]
fn members_that_the_caller_knows_can_be_left_out() {
    let text = r#"{"agent_state":{"memory":["x"]},"messages":[{"role":"user","content":"hi","plan":{"a":1}}]}"#;
    assert_eq!(read_text(text).unrecognised.len(), 2);
    let ignored = ["agent_state".to_owned(), "plan".to_owned()];
    assert!(super::read_without(text.as_bytes(), &ignored).unwrap().unrecognised.is_empty());
}

#[test]
fn calls_that_a_model_goes_on_without_are_told() {
    let call = r#"{"role":"assistant","content":"let me see","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]}"#;
    for (after, followed) in [
        ("", false),
        (r#",{"role":"user","content":"stop"}"#, false),
        (r#",{"role":"assistant","content":"It worked."}"#, true),
        (r#",{"role":"tool","tool_call_id":"c","content":"x"},{"role":"assistant","content":"It worked."}"#, false),
    ] {
        let transcript = clean(&format!("[{call}{after}]"));
        assert_eq!(transcript.claims[0].is_followed, followed, "{after}");
    }
}
