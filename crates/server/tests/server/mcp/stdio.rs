//! Over standard input and output.

use credence_testing::{Service, Shell, signal, until};
use serde_json::{Value, json};

use super::{MODERN, Spoken, refused, text, with_shop};

#[test]
fn a_client_with_a_handshake_is_served_and_what_was_said_is_recorded() {
    let shell = with_shop();
    for version in ["2025-11-25", "2025-06-18", "2024-11-05"] {
        let (mut spoken, said) = Spoken::shaken(&shell, version);
        assert_eq!(said["protocolVersion"], version);
        assert_eq!(said["serverInfo"]["name"], "credence");
        assert!(said["instructions"].as_str().unwrap().contains("check_trust"));
        assert!(said["capabilities"]["tools"].is_object() && said["capabilities"]["resources"].is_object());
        assert_eq!(spoken.ask("tools/list", json!({}))["tools"].as_array().unwrap().len(), 7);
        assert_eq!(spoken.ask("ping", json!({})), json!({}));
        let unknown = spoken.answer("resources/read", json!({ "uri": "credence://agents/nobody/score" }));
        assert_eq!(unknown["error"]["code"], -32002, "{unknown}");
        let (status, rest, _) = spoken.end();
        assert!(status.success());
        assert_eq!(rest, "", "nothing but the protocol");
    }
    let (mut spoken, _) = Spoken::shaken(&shell, "2025-11-25");
    let checked = spoken.call("check_trust", json!({ "entity": "shop" }));
    let hash = checked["structuredContent"]["hash"].as_str().unwrap().to_owned();
    // An answer that has just left is recorded within a second.
    until("the outcome is taken", || {
        let reported = spoken.call("report_outcome", json!({ "agent": "shop", "good": true, "response": hash }));
        reported["isError"] != true
    });
    for n in 0..9 {
        let arguments = json!({ "tool": "t", "result": { "n": n }, "arguments": { "n": n } });
        assert_eq!(spoken.call("verify_tool_result", arguments)["structuredContent"]["verdict"], "accept");
    }
    let (status, _, log) = spoken.end();
    assert!(status.success(), "{log}");
    // What was learned is kept, under a name of its own; the answer's hash and the outcome are in the ledger.
    assert!(shell.path("credence-data/engines/mcp.state").exists());
    let response = shell.path("response.json");
    std::fs::write(&response, checked["content"][1]["text"].as_str().unwrap()).unwrap();
    shell.ok(&["log", "prove", "response.json"]);
    assert_eq!(shell.json(&["calibration"])["outcomes"], 1);
    shell.audit_passes();
}

#[test]
fn a_client_without_a_handshake_is_served() {
    let shell = with_shop();
    let mut spoken = Spoken::modern(&shell);
    let found = spoken.ask("server/discover", json!({}));
    assert!(found["supportedVersions"].as_array().unwrap().contains(&json!(MODERN)), "{found}");
    assert_eq!((&found["resultType"], &found["cacheScope"]), (&json!("complete"), &json!("public")));
    assert_eq!(found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "credence");
    assert_eq!(found, spoken.ask("server/discover", json!({})), "the same again");
    let list = spoken.ask("tools/list", json!({}));
    assert_eq!(list, spoken.ask("tools/list", json!({})));
    assert!(list["ttlMs"].as_u64().unwrap() > 0);
    let names: Vec<&str> =
        list["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "check_trust",
            "explain_score",
            "search_agents",
            "probe_summary",
            "verify_tool_result",
            "check_receipt",
            "report_outcome"
        ]
    );
    let checked = spoken.call("check_trust", json!({ "entity": "https://shop.example/de", "context": "Purchase" }));
    assert!(text(&checked).contains(" for purchase with 'shop': "), "{checked}");
    let missing = spoken.answer("resources/read", json!({ "uri": "credence://agents/nobody/score" }));
    assert_eq!(missing["error"]["code"], -32602, "{missing}");
    let unknown = spoken.answer("tools/call", json!({ "name": "no_such_tool", "arguments": {} }));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    assert!(unknown["error"]["message"].as_str().unwrap().contains("check_trust"));
    assert_eq!(spoken.answer("prompts/get", json!({ "name": "x" }))["error"]["code"], -32601);
    spoken.modern = false;
    let without = spoken.answer("tools/list", json!({}));
    assert_eq!(without["error"]["code"], -32602, "every request says its version: {without}");
    assert!(spoken.end().0.success());
}

#[test]
fn resources_are_listed_and_read() {
    let shell = with_shop();
    let mut spoken = Spoken::modern(&shell);
    let templates = spoken.ask("resources/templates/list", json!({}));
    let uris: Vec<&str> = templates["resourceTemplates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|template| template["uriTemplate"].as_str().unwrap())
        .collect();
    assert_eq!(uris, ["credence://agents/{id}/score", "credence://agents/{id}/history"]);
    let list = spoken.ask("resources/list", json!({}));
    assert_eq!(list["resources"][0]["uri"], "credence://agents/shop/score");
    let mut read = |uri: &str| -> Value {
        let read = spoken.ask("resources/read", json!({ "uri": uri }));
        assert_eq!(read["contents"][0]["mimeType"], "application/json");
        assert_eq!(read["contents"][0]["uri"], uri);
        serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap()
    };
    let score = read("credence://agents/shop/score");
    assert_eq!((&score["agent"], &score["sources"]), (&json!("shop"), &json!(3)));
    assert_eq!(read("credence://agents/https%3A%2F%2Fshop.example%2Fde/score"), score, "by its address too");
    let history = read("credence://agents/shop/history");
    assert_eq!(history["scores"][0]["score"], score["score"]);
    for wrong in
        ["credence://agents/shop/wealth", "credence://shop/score", "file:///etc/passwd", "credence://agents/%ff/score"]
    {
        let answer = spoken.answer("resources/read", json!({ "uri": wrong }));
        assert_eq!(answer["error"]["data"]["uri"], wrong, "{answer}");
    }
    assert!(spoken.end().0.success());
}

#[test]
fn without_an_authority_or_beside_a_service_it_says_what_to_do() {
    let empty = Shell::new();
    empty.fails(&["mcp"], "credence init");
    let service = Service::fresh(&["listen=127.0.0.1:0"]);
    let ran = service.shell.run(&["mcp", "--set", "listen=127.0.0.1:4711"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("http://127.0.0.1:4711/mcp") && ran.stderr.contains("credence serve"), "{ran:?}");
    assert_eq!(ran.stdout, "");
    let ran = service.shell.run(&["mcp", "--set", "public_url=https://trust.example/"]);
    assert!(ran.stderr.contains("https://trust.example/mcp"), "{ran:?}");
}

#[test]
fn it_ends_in_order_when_it_is_told_to_or_when_nobody_came() {
    let shell = with_shop();
    let (mut spoken, _) = Spoken::shaken(&shell, "2025-11-25");
    spoken.call("verify_tool_result", json!({ "tool": "t", "result": 1 }));
    assert!(signal("TERM", spoken.child.id()));
    until("it ended", || spoken.child.try_wait().unwrap().is_some());
    assert!(spoken.child.wait().unwrap().success());
    assert!(shell.path("credence-data/engines/mcp.state").exists());
    assert_eq!(shell.run(&["mcp"]).code, Some(0), "standard input was closed before anything came");
}

#[test]
fn what_was_asked_before_the_end_is_answered() {
    let shell = with_shop();
    let ask = |id| {
        super::request(id, "tools/call", json!({ "name": "check_trust", "arguments": { "entity": "shop" } }), true)
    };
    let ran = shell.run_with(&["mcp"], &format!("{}\n{}\n", ask(1), ask(2)));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let mut ids: Vec<u64> =
        ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, [1, 2]);
}

#[test]
fn the_operator_needs_no_token_and_mistakes_are_told() {
    let shell = with_shop();
    let mut spoken = Spoken::modern(&shell);
    refused(
        &spoken.call("check_trust", json!({ "entity": "shpo" })),
        &["'shpo'", "did you mean shop?", "search_agents"],
    );
    let general = spoken.call("check_trust", json!({ "entity": "shop", "context": "war" }));
    assert!(text(&general).contains("'war' is not a purpose with thresholds of its own"), "{general}");
    refused(
        &spoken.call("check_trust", json!({ "entity": "shop", "url": "https://evil.example/de" })),
        &["https://shop.example/de", "do not trust that page"],
    );
    refused(&spoken.call("check_trust", json!({})), &["entity", "needed: entity"]);
    refused(&spoken.call("report_outcome", json!({ "agent": "nobody", "good": true })), &["'nobody'"]);
    refused(&spoken.call("report_outcome", json!({ "agent": "shop", "good": "yes" })), &["boolean"]);
    refused(&spoken.call("explain_score", json!({ "agent": "shop", "at": "yesterday" })), &["2026-11-16T09:00:00Z"]);
    refused(&spoken.call("explain_score", json!({ "agent": "shop", "at": "2020-01-01T00:00:00Z" })), &["no score"]);
    refused(&spoken.call("verify_tool_result", json!({ "tool": "t" })), &["result"]);
    refused(&spoken.call("verify_tool_result", json!({ "tool": "", "result": 1 })), &["tool"]);
    refused(&spoken.call("search_agents", json!({ "limit": 1000 })), &["100"]);
    assert!(spoken.end().0.success());
}
