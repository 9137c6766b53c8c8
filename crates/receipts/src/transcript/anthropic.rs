//! Anthropic messages: `tool_use` blocks answered by `tool_result` blocks; the connector's `mcp_tool_use` and `mcp_tool_result`,
//! which name the server; and tools that Anthropic runs itself, `server_tool_use` answered by `web_search_tool_result` and its
//! kin. Those are claims too, although no guard can see them: a result is invented as easily in this form as in any other.

use super::{
    Format,
    json::{self, At, Node},
    pairing::{Call, Pairing},
};

/// Reads a content block; `false` when it is none that concerns tools.
pub(super) fn block(pairing: &mut Pairing, node: &Node<'_>, at: &At<'_>) -> bool {
    let kind = node.kind();
    if matches!(&*kind, "tool_use" | "mcp_tool_use" | "server_tool_use") {
        let id = pairing.id(node.id, at);
        let tool = pairing.name(node.name, at);
        let arguments = pairing.arguments(node.input, at);
        let server = node.server_name.and_then(json::text).map(Into::into);
        pairing.called(Format::Anthropic, Call { id, tool, server, arguments }, at);
        pairing.rest(node, &["type", "id", "name", "input", "server_name"], at);
    } else if kind.ends_with("tool_result") {
        let id = pairing.id(node.tool_use_id, at);
        // A result without content is allowed, and says nothing. Many clients leave the flag out, also of errors.
        let answer = pairing.answer(node.content, json::flag(node.is_error), at);
        pairing.answered(Format::Anthropic, id, answer, at);
        pairing.rest(node, &["type", "tool_use_id", "content", "is_error"], at);
    } else {
        return false;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;

    #[test]
    fn blocks_pair_by_tool_use_id() {
        let transcript = clean(
            r#"{"messages":[{"role":"user","content":"hi"},
                {"role":"assistant","content":[{"type":"text","text":"let me see"},
                    {"type":"tool_use","id":"t1","name":"weather","input":{"lat": 1.10, "lat": 2}},
                    {"type":"tool_use","id":"t2","name":"now","input":{}},
                    {"type":"server_tool_use","id":"s1","name":"web_search","input":{}}]},
                {"role":"user","content":["text",{"type":"tool_result","tool_use_id":"t1","content":"sunny"},
                    {"type":"tool_result","tool_use_id":"t2","is_error":true,"content":[{"type":"text","text":"no clock"}]}]}]}"#,
        );
        assert_eq!(formats(&transcript), [Format::Anthropic]);
        assert_eq!(
            told(&transcript),
            [
                r#"messages[2].content[1] t1 weather {"lat": 1.10, "lat": 2} = text sunny"#,
                r#"messages[2].content[2] t2 now {} = items {"type":"text","text":"no clock"} !"#,
                "messages[1].content[3] s1 web_search {} = nothing",
            ]
        );
    }

    #[test]
    fn a_whole_response_with_the_connector_s_blocks_is_read() {
        let transcript = clean(
            r#"{"id":"msg_1","type":"message","role":"assistant","content":[
                {"type":"mcp_tool_use","id":"m1","name":"echo","server_name":"s","input":{"a":1}},
                {"type":"mcp_tool_result","tool_use_id":"m1","is_error":false,"content":[]},
                {"type":"tool_use","id":"t1","name":"later","input":{}}]}"#,
        );
        assert_eq!(told(&transcript), [r#"content[1] m1 echo {"a":1} = items"#, "content[2] t1 later {} = nothing"]);
    }

    #[test]
    fn results_of_tools_that_the_provider_runs_are_claims() {
        let transcript = clean(
            r#"{"role":"assistant","content":[{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"q"}},
                {"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"web_search_result","title":"t","url":"u"}]},
                {"type":"server_tool_use","id":"s2","name":"bash_code_execution","input":{}},
                {"type":"bash_code_execution_tool_result","tool_use_id":"s2","content":{"stdout":"x"}}]}"#,
        );
        assert_eq!(
            told(&transcript),
            [
                r#"content[1] s1 web_search {"query":"q"} = items {"type":"web_search_result","title":"t","url":"u"}"#,
                r#"content[3] s2 bash_code_execution {} = json {"stdout":"x"}"#,
            ]
        );
    }

    #[test]
    fn session_lines_that_wrap_messages_are_read() {
        let transcript = clean(
            "{\"type\":\"summary\",\"summary\":\"s\"}\n\
             {\"type\":\"assistant\",\"uuid\":\"u\",\"message\":{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{}}]}}\r\n\n\
             {\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t\"}]}}\n",
        );
        assert_eq!(told(&transcript), ["line 4: message.content[0] t f {} = text "]);
    }

    #[test]
    fn an_id_used_twice_an_answer_given_twice_and_an_answer_to_nothing_are_problems() {
        let transcript = read_text(
            r#"[{"type":"tool_use","id":"t","name":"f","input":{"n":1}},
                {"type":"tool_use","id":"t","name":"g","input":{"n":2}},
                {"type":"tool_result","tool_use_id":"t","content":"a"},
                {"type":"tool_result","tool_use_id":"t","content":"b"},
                {"type":"tool_result","tool_use_id":"t","content":"c"},
                {"type":"tool_result","tool_use_id":"u","content":"d"}]"#,
        );
        assert_eq!(
            told(&transcript),
            [
                r#"[3] t f {"n":1} = text b"#,
                r#"[2] t g {"n":2} = text a"#,
                r#"[4] t f {"n":1} = text c"#,
                "[5] u - - = text d",
            ]
        );
        assert_eq!(
            problems(&transcript),
            [
                "[1]: another call has the id t",
                "[4]: the call was answered before (answered twice)",
                "[5]: no call in the transcript has the id u",
            ]
        );
    }

    #[test]
    fn an_id_of_a_conversation_is_not_used_again_even_once_answered() {
        let transcript = read_text(
            r#"[{"type":"tool_use","id":"t","name":"f","input":{}},{"type":"tool_result","tool_use_id":"t","content":"a"},
                {"type":"tool_use","id":"t","name":"g","input":{}},{"type":"tool_result","tool_use_id":"t","content":"b"}]"#,
        );
        assert_eq!(told(&transcript), ["[1] t f {} = text a", "[3] t g {} = text b"]);
        assert_eq!(problems(&transcript), ["[2]: another call has the id t"]);
    }

    #[test]
    fn a_block_that_repeats_a_member_is_refused_and_the_rest_is_read() {
        let transcript = read_text(
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","tool_use_id":"u","content":"a"},
                {"type":"tool_use","id":"v","name":"f","input":{}}]}"#,
        );
        assert_eq!(told(&transcript), ["content[1] v f {} = nothing"]);
        assert_eq!(
            problems(&transcript),
            ["content[0]: the member `tool_use_id` is there twice; the object is not read"]
        );
    }
}
