//! What the tools say: true to their schemas, and checkable without us.

use std::{collections::BTreeMap, fs};

use credence_testing::{Service, now, until};
use serde_json::{Value, json};

use super::{call, modern, receipts::Proof, text};

/// Tools and their output schemas.
struct Tools(BTreeMap<String, Value>);

impl Tools {
    fn of(service: &Service) -> Self {
        let list = modern(service, "", "tools/list", json!({})).ok();
        let tools = list["result"]["tools"].as_array().unwrap();
        for tool in tools {
            jsonschema::meta::validate(&tool["inputSchema"]).unwrap();
            jsonschema::meta::validate(&tool["outputSchema"]).unwrap();
        }
        Self(tools.iter().map(|tool| (tool["name"].as_str().unwrap().to_owned(), tool.clone())).collect())
    }

    /// Calls with arguments that the tool's own schema takes, and holds what comes back against it.
    fn call(&self, service: &Service, tool: &str, arguments: Value) -> Value {
        let about = &self.0[tool];
        jsonschema::validate(&about["inputSchema"], &arguments).unwrap_or_else(|e| panic!("{tool} {arguments}: {e}"));
        let result = call(service, &service.token, tool, arguments);
        assert_ne!(result["isError"], true, "{tool}: {result}");
        let structured = &result["structuredContent"];
        jsonschema::validate(&about["outputSchema"], structured)
            .unwrap_or_else(|e| panic!("{tool}: {e} at {}\n{structured:#}", e.instance_path()));
        assert!(!structured.as_object().unwrap().is_empty() && text(&result).len() > 10, "{result}");
        result
    }
}

#[test]
fn every_answer_is_what_its_schema_says() {
    let service = Service::fresh(&["requests_per_second=0"]);
    service.add_shop();
    service.add_agent("nameless", &[]);
    service.add_agent("did", &["did:web:did.example:bots:one"]);
    let tools = Tools::of(&service);
    for context in [None, Some("purchase"), Some("inquiry"), Some("high-value")] {
        let mut arguments = json!({ "entity": "shop", "url": "https://shop.example/de/cart" });
        if let Some(context) = context {
            arguments["context"] = context.into();
        }
        let checked = tools.call(&service, "check_trust", arguments);
        let assessment = &checked["structuredContent"]["assessment"];
        let action = assessment["action"].as_str().unwrap().to_uppercase();
        assert!(text(&checked).starts_with(&action), "{}", text(&checked));
        assert!(text(&checked).contains(assessment["reasoning"].as_str().unwrap()));
        assert!(text(&checked).contains("3 independent sources"), "{}", text(&checked));
    }
    // A context that is not known is a general question, as over REST.
    let page = "https://shop.example/de/cart";
    let house = json!({ "entity": "shop", "url": page, "context": "buy a house" });
    let general = tools.call(&service, "check_trust", house);
    let rest = service.get(&format!("/v1/entities/shop/trust-signals?url={page}&context=buy%20a%20house")).ok();
    assert_eq!(general["structuredContent"]["response"], rest);
    assert_eq!(rest["assessment"]["extensions"]["assessedFor"]["value"], "generic");
    // What report_outcome needs is in the text, for clients that show a model nothing else.
    let hash = general["structuredContent"]["hash"].as_str().unwrap();
    assert!(text(&general).contains(hash), "{}", text(&general));
    let first = text(&general).lines().next().unwrap().to_owned();
    assert!(!first.contains("house") && text(&general).contains("general assessment"), "{}", text(&general));

    let unrated = tools.call(&service, "check_trust", json!({ "entity": "did" }));
    assert_eq!(unrated["structuredContent"]["response"]["meta"]["url"], "https://did.example/bots/one");
    assert!(text(&unrated).contains("No published score"), "{}", text(&unrated));
    super::refused(
        &call(&service, "", "check_trust", json!({ "entity": "nameless" })),
        &["no registered address", "explain_score"],
    );

    let explained = tools.call(&service, "explain_score", json!({ "agent": "shop" }));
    let rest = service.get("/v1/agents/shop/explain").ok();
    assert_eq!(explained["structuredContent"]["explanation"], rest);
    assert!(text(&explained).contains("- a: ") && text(&explained).contains("rel_uptime"), "{}", text(&explained));
    let then = tools.call(&service, "explain_score", json!({ "agent": "shop", "at": now() }));
    assert_eq!(then["structuredContent"]["recorded"]["event"]["score"], rest["score"]);
    tools.call(&service, "explain_score", json!({ "agent": "nameless" }));

    let found = tools.call(&service, "search_agents", json!({ "query": "SHOP" }));
    assert_eq!(found["structuredContent"]["agents"][0]["agent"], "shop");
    let all = tools.call(&service, "search_agents", json!({ "limit": 2 }));
    let next = all["structuredContent"]["next"].as_str().unwrap();
    let rest = tools.call(&service, "search_agents", json!({ "limit": 2, "cursor": next }));
    let ids = |found: &Value| -> Vec<String> {
        let agents = found["structuredContent"]["agents"].as_array().unwrap();
        agents.iter().map(|agent| agent["agent"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!([ids(&all), ids(&rest)].concat(), ["did", "nameless", "shop"]);
    assert!(rest["structuredContent"]["next"].is_null());
    let score = found["structuredContent"]["agents"][0]["score"].clone();
    let assured = found["structuredContent"]["agents"][0]["assured"].clone();
    for (arguments, expected) in [
        (json!({ "min_score": assured["score"] }), vec!["shop"]),
        (json!({ "min_score": assured["score"].as_u64().unwrap() + 1 }), vec![]),
        (json!({ "min_known": assured["known"] }), vec!["shop"]),
        (json!({ "min_known": 0.99 }), vec![]),
        (json!({ "tier": score["tier"] }), vec!["shop"]),
        (json!({ "tier": "unrated" }), vec!["did", "nameless"]),
        (json!({ "tier": "unrated", "limit": 1 }), vec!["did"]),
    ] {
        let found = call(&service, "", "search_agents", arguments.clone());
        jsonschema::validate(&tools.0["search_agents"]["outputSchema"], &found["structuredContent"]).unwrap();
        assert_eq!(ids(&found), expected, "{arguments}");
    }

    for (result, stake) in
        [(json!({ "a": 1 }), "low"), (json!("text"), "critical"), (json!(null), "high"), (json!([1.5]), "medium")]
    {
        let trace = json!({ "tool": "t", "result": result, "arguments": { "q": 1 }, "execution_time_ms": 12.5,
            "session_id": "s", "agent": "shop", "stake": stake });
        let judged = tools.call(&service, "verify_tool_result", trace);
        assert_eq!(judged["structuredContent"]["stake"], stake);
    }
    tools.call(&service, "report_outcome", json!({ "agent": "shop", "good": true, "relied_at": now() }));

    let proof = Proof::new();
    for (arguments, status) in proof.claims() {
        let checked = tools.call(&service, "check_receipt", arguments);
        assert_eq!(checked["structuredContent"]["status"], status, "{checked}");
    }
    service.stop().audit_passes();
}

#[test]
fn the_signed_answer_inside_can_be_checked_by_anyone() {
    let service = Service::fresh(&[]);
    service.add_shop();
    let checked = call(&service, "", "check_trust", json!({ "entity": "shop" }));
    let key = service.authority_key();
    let file = service.shell.path("answer.json");
    for document in [
        checked["content"][1]["text"].as_str().unwrap().to_owned(),
        checked["structuredContent"]["response"].to_string(),
    ] {
        fs::write(&file, &document).unwrap();
        let said = service.shell.ok(&["check", "answer.json", "--key", &key]);
        assert!(said.contains("valid trust-signals response"), "{said}");
        fs::write(&file, document.replace("\"proceed\"", "\"decline\"").replace("\"caution\"", "\"proceed\"")).unwrap();
        assert_eq!(service.shell.run(&["check", "answer.json", "--key", &key]).code, Some(2), "changed");
    }
    let hash = checked["structuredContent"]["hash"].as_str().unwrap();
    until("the answer is in the log", || service.get(&format!("/v1/log/responses/{hash}")).status == 200);
}
