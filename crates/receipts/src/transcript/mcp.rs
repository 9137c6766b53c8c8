//! MCP: JSON-RPC messages, `tools/call` requests and the responses of their ids. A new session may count its ids from the
//! start again, so a response belongs to the latest request of its id that has none. Other requests are followed too:
//! their responses are no results.

use serde_json::value::RawValue;

use super::{
    ClaimedResult, Format, Why,
    json::{self, At, Node},
    pairing::{Awaited, Call, Id, Pairing},
};

/// Whether the node is a JSON-RPC message; logs at times leave out `jsonrpc`.
pub(super) fn is_message(node: &Node<'_>) -> bool {
    let call = || node.method.and_then(json::text).is_some_and(|method| method == "tools/call");
    let answer = || node.id.is_some() && node.result.or(node.error).is_some_and(json::is_object);
    node.jsonrpc.is_some() || (node.kind.is_none() && node.role.is_none() && (call() || answer()))
}

/// Reads a JSON-RPC message.
pub(super) fn message(pairing: &mut Pairing, raw: &RawValue, node: &Node<'_>, at: &At<'_>) {
    pairing.next_message();
    pairing.rest(node, &["jsonrpc", "id", "method", "params", "result", "error"], at);
    let id = node.id.filter(|id| !json::is_object(id) && !json::is_list(id)).map(rpc_id);
    match node.method.map(json::text) {
        Some(Some(method)) if method == "tools/call" => request(pairing, node, id, at),
        Some(Some(method)) if method == "tasks/result" => task_result(pairing, node, id, at),
        Some(_) => {
            // A request of another kind may have anything in it, but no tool's result.
            if let Some(params) = node.params {
                pairing.search(params, &at.member("params"), false);
            }
            id.into_iter().for_each(|id| pairing.asked_otherwise(id));
        }
        None => return response(pairing, node, id, at),
    }
    if node.result.or(node.error).is_some() {
        pairing.unrecognised(raw, at, "a request and an answer in one message");
    }
}

/// A request for the result of a call that runs as a task: its answer is the call's.
fn task_result(pairing: &mut Pairing, node: &Node<'_>, id: Option<Id>, at: &At<'_>) {
    let Some(id) = id else { return pairing.problem(at, Why::NoId) };
    let params = node.params.and_then(|params| Node::read(params).ok()).unwrap_or_default();
    let task = params.task_id.and_then(json::text);
    if !task.is_some_and(|task| pairing.asked_for_task(&id, &task)) {
        pairing.called(Format::Mcp, Call { id: Some(id), tool: None, server: None, arguments: None }, at);
    }
}

/// Whether a result is one that tools give.
fn is_of_tool(result: &Node<'_>) -> bool {
    result.content.is_some_and(|content| json::is_list(content) && !json::is_empty(content))
        || result.structured_content.is_some()
        || result.is_error_mcp.is_some()
}

fn request(pairing: &mut Pairing, node: &Node<'_>, id: Option<Id>, at: &At<'_>) {
    if id.is_none() {
        pairing.problem(at, Why::NoId);
    }
    let params = node.params.and_then(|params| pairing.node(params, &at.member("params"))).unwrap_or_default();
    let tool = pairing.name(params.name, at);
    let arguments = pairing.arguments(params.arguments, at);
    pairing.called(Format::Mcp, Call { id, tool, server: None, arguments }, at);
}

fn response(pairing: &mut Pairing, node: &Node<'_>, id: Option<Id>, at: &At<'_>) {
    let Some(id) = id else { return pairing.problem(at, Why::NoId) };
    let awaited = pairing.awaited(&id);
    if awaited == Awaited::Other {
        if let Some(result) = node.result
            // What a model says, when a server asks for it, is no tool's.
            && Node::read(result).map_or(true, |read| is_of_tool(&read) && read.role.is_none())
        {
            let what = "a tool's result as the answer to a request that calls no tool";
            pairing.unrecognised(result, &at.member("result"), what);
        }
        return pairing.answered_otherwise(&id);
    }
    let answer = match (node.result, node.error) {
        (Some(result), error) => {
            let read = Node::read(result);
            let looks_like_a_tool_s =
                read.as_ref().is_ok_and(|read| is_of_tool(read) || read.content.is_some_and(json::is_list));
            if awaited == Awaited::Nothing && !looks_like_a_tool_s {
                return pairing.problem(at, Why::UnknownCall(id.quoted()));
            }
            let read = read.unwrap_or_else(|why| {
                pairing.problem(&at.member("result"), why);
                Node::default()
            });
            // Only what asks for input is no result yet; anything else that stands there, a reader may take for one.
            let asks = |kind: &RawValue| json::text(kind).is_some_and(|kind| kind == "input_required");
            let bare = !result.get().contains("\"content\"") && !result.get().contains("\"structuredContent\"");
            if read.result_type.is_some_and(asks) && bare {
                return pairing.answered_otherwise(&id);
            }
            // A call that runs as a task has its result later.
            let task = read.task.and_then(|task| Node::read(task).ok()).and_then(|task| json::text(task.task_id?));
            if let Some(task) = task.filter(|_| bare) {
                return pairing.became_task(&id, &task);
            }
            if error.is_some() {
                pairing.problem(at, Why::ResultAndError);
            }
            // Without the flag a result is a success.
            let is_error = error.is_some() || json::flag(read.is_error_mcp) == Some(true);
            pairing.whole(result, ClaimedResult::Json, Some(is_error), at)
        }
        (None, Some(_)) if awaited == Awaited::Nothing => return pairing.problem(at, Why::UnknownCall(id.quoted())),
        (None, Some(error)) => pairing.whole(error, ClaimedResult::Error, Some(true), at),
        (None, None) => return pairing.problem(at, Why::NoResult),
    };
    pairing.answered(Format::Mcp, Some(id), answer, at);
}

/// Two texts are one id however they are escaped; numbers are kept digit for digit.
fn rpc_id(raw: &RawValue) -> Id {
    let text = json::text(raw).and_then(|text| serde_json::to_string(&text).ok());
    Id::Rpc(text.unwrap_or_else(|| raw.get().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;

    #[test]
    fn requests_meet_their_responses_and_other_requests_are_left_out() {
        let transcript = clean(
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}
               {"jsonrpc":"2.0","id":0,"result":{"content":[],"protocolVersion":"2025-06-18"}}
               {"jsonrpc":"2.0","method":"notifications/initialized"}
               {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"f","arguments":{"a": 1.00}}}
               {"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"g"}}
               {"jsonrpc":"2.0","id":"1","error":{"code":-32602,"message":"no"}}
               {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"x"}],"isError":true,"_meta":{"credence/guard":{"receipt":"r-9"}}}}"#,
        );
        assert_eq!(formats(&transcript), [Format::Mcp]);
        assert_eq!(
            told(&transcript),
            [
                r#"line 7 1 f {"a": 1.00} = json {"content":[{"type":"text","text":"x"}],"isError":true,"_meta":{"credence/guard":{"receipt":"r-9"}}} ! r-9"#,
                r#"line 6 1 g - = error {"code":-32602,"message":"no"} !"#,
            ]
        );
    }

    #[test]
    fn wrapped_batched_and_quoted_messages_are_read() {
        let transcript = clean(
            r#"{"direction":"out","ts":1,"message":[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"f","arguments":{}}},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"g","arguments":{}}}]}
               {"from":"server","payload":{"jsonrpc":"2.0","id":2,"result":{"content":[]}}}
               {"dir":"in","data":"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"n\":1.0}}"}"#,
        );
        assert_eq!(
            told(&transcript),
            [r#"line 3: data 1 f {} = json {"n":1.0}"#, r#"line 2: payload 2 g {} = json {"content":[]}"#]
        );
    }

    #[test]
    fn ids_may_be_used_again_once_answered() {
        let transcript = clean(
            r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"f"}},
                {"jsonrpc":"2.0","id":1,"result":{"content":[1]}},
                {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"g"}},
                {"jsonrpc":"2.0","id":1,"result":{"content":[2]}}]"#,
        );
        assert_eq!(told(&transcript), [r#"[1] 1 f - = json {"content":[1]}"#, r#"[3] 1 g - = json {"content":[2]}"#]);
    }

    #[test]
    fn a_server_s_own_request_of_the_same_id_does_not_take_the_result() {
        let transcript = clean(
            r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"f"}},
                {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}},
                {"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{}}},
                {"jsonrpc":"2.0","id":1,"result":{"content":[]}}]"#,
        );
        assert_eq!(told(&transcript), [r#"[3] 1 f - = json {"content":[]}"#]);
    }

    #[test]
    fn a_result_that_is_not_complete_is_none() {
        let transcript = clean(
            r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"f"}},
                {"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{}}},
                {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"f","inputResponses":{}}},
                {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","content":[]}}]"#,
        );
        assert_eq!(
            told(&transcript),
            ["[0] 1 f - = nothing", r#"[3] 2 f - = json {"resultType":"complete","content":[]}"#]
        );
    }

    #[test]
    fn a_task_has_its_result_when_it_is_asked_for() {
        let transcript = clean(
            r#"[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"f","task":{"ttl":1}}},
                {"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t","status":"working"}}},
                {"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"t"}},
                {"jsonrpc":"2.0","id":2,"result":{"content":[]}}]"#,
        );
        assert_eq!(told(&transcript), [r#"[3] 2 f - = json {"content":[]}"#]);
        let transcript = read_text(
            r#"[{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"u"}},{"jsonrpc":"2.0","id":2,"result":{"content":[]}}]"#,
        );
        assert_eq!(told(&transcript), [r#"[1] 2 - - = json {"content":[]}"#]);
    }

    #[test]
    fn a_tool_s_result_does_not_pass_for_another_answer() {
        let transcript = read_text(
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"paid"}]}},
                {"jsonrpc":"2.0","id":2,"method":"logging/x","params":{"messages":[{"role":"tool","content":"paid"}]}}]"#,
        );
        assert!(transcript.claims.is_empty());
        assert_eq!(
            unrecognised(&transcript),
            [
                "line 1, /1/result: a tool's result as the answer to a request that calls no tool",
                "line 2, /2/params: a message of role 'tool' where no result belongs",
            ]
        );
    }

    #[test]
    fn a_second_response_to_another_request_answers_no_call() {
        let transcript = read_text(
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"result":{}},
                {"jsonrpc":"2.0","id":1,"result":{"content":[]}}]"#,
        );
        assert_eq!(told(&transcript), [r#"[2] 1 - - = json {"content":[]}"#]);
        assert_eq!(problems(&transcript), ["[2]: no call in the transcript has the id 1"]);
    }

    #[test]
    fn responses_to_nothing_are_problems_and_claims_when_they_look_like_a_tool_s() {
        let transcript = read_text(
            r#"[{"jsonrpc":"2.0","id":1,"result":{"content":[]}},
                {"jsonrpc":"2.0","id":2,"result":{"tools":[]}},
                {"jsonrpc":"2.0","id":"3","error":{"code":1}},
                {"jsonrpc":"2.0","id":null,"error":{"code":1}},
                {"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"arguments":{}}},
                {"jsonrpc":"2.0","id":4,"result":null},
                {"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"f","name":"g"}},
                {"jsonrpc":"2.0","id":4,"result":{},"error":{}},
                {"jsonrpc":"2.0","id":4,"error":{}},
                {"jsonrpc":"2.0","id":4,"error":{}}]"#,
        );
        assert_eq!(
            told(&transcript),
            [
                r#"[0] 1 - - = json {"content":[]}"#,
                "[8] 4 - {} = error {} !",
                "[7] 4 - - = json {} !",
                "[9] 4 - {} = error {} !"
            ]
        );
        assert_eq!(
            problems(&transcript),
            [
                "[0]: no call in the transcript has the id 1",
                "[1]: no call in the transcript has the id 2",
                "[2]: no call in the transcript has the id \"3\"",
                "[3]: no id says which call this is",
                "[4]: the call names no tool",
                "[5]: the tool's answer has no content",
                "[6].params: the member `name` is there twice; the object is not read",
                "[6]: the call names no tool",
                "[6]: another call has the id 4",
                "[7]: both a result and an error; the result is read",
                "[9]: the call was answered before (answered twice)",
            ]
        );
    }
}
