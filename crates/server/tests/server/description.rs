//! The OpenAPI description is complete and true.

use std::collections::BTreeSet;

use credence_testing::{Reply, Service, signed};
use serde_json::{Value, json};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Every operation that is described: method, path.
fn operations(doc: &Value) -> Vec<(String, String)> {
    let paths = doc["paths"].as_object().unwrap();
    let of = |(path, item): (&String, &Value)| {
        let there = METHODS.iter().filter(|method| item.get(**method).is_some());
        there.map(|method| (method.to_string(), path.clone())).collect::<Vec<_>>()
    };
    paths.iter().flat_map(of).collect()
}

#[test]
fn every_route_is_described_and_every_description_is_a_route() {
    let service = Service::fresh(&["requests_per_second=0"]);
    let doc = service.get("/openapi.json").ok();
    assert_eq!(doc["openapi"].as_str().unwrap().split('.').next(), Some("3"));
    let described = operations(&doc);
    let mut names = BTreeSet::new();
    assert!(described.len() > 45, "{}", described.len());
    for (method, path) in &described {
        assert!(
            names.insert(doc["paths"][path][method]["operationId"].as_str().unwrap().to_owned()),
            "{method} {path}"
        );
        let responses = doc["paths"][path][method]["responses"].as_object().unwrap();
        assert!(responses.values().all(|one| one["description"].as_str().is_some_and(|text| !text.is_empty())));
        let concrete = path.replace("{path}", "0%2F000.p%2F1").replace(['{', '}'], "");
        if path == "/v1/events" {
            continue;
        }
        let reply = service.request(&method.to_uppercase(), &concrete, "", "", "");
        assert_ne!(reply.status, 405, "{method} {path}");
        assert!(reply.status != 404 || reply.json()["code"] != "no_such_path", "{method} {path}");
        assert!(reply.status < 500, "{method} {path}");
        for other in METHODS {
            if !described.contains(&(other.to_owned(), path.clone())) {
                service
                    .request(&other.to_uppercase(), &concrete, &service.token, "", "")
                    .refused(405, "method_not_allowed");
            }
        }
    }
    // What is routed without being described is what cannot be: this list, by name.
    let source = include_str!("../../src/routes/mod.rs");
    let undescribed: Vec<&str> =
        source.split(".route(\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(undescribed, ["/openapi.json", "/log/tile/{level}/{*rest}", "/docs.html"]);
    let ids: BTreeSet<String> = described
        .iter()
        .map(|(method, path)| doc["paths"][path][method]["summary"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert!(!ids.contains(""), "every operation says what it does");
    assert!(service.get("/docs/").text().contains("swagger"));
}

/// Checks an answer against its description.
struct Doc(Value);

impl Doc {
    fn holds(&self, method: &str, path: &str, reply: &Reply) {
        let responses = &self.0["paths"][path][method]["responses"];
        let status = reply.status.to_string();
        let described = responses.get(&status).or_else(|| responses.get(format!("{}XX", &status[..1])));
        let described = described.unwrap_or_else(|| panic!("{method} {path}: {status} is not described"));
        let kind = reply.header("content-type").split(';').next().unwrap();
        let schema = &described["content"][kind]["schema"];
        assert!(schema.is_object(), "{method} {path} {status}: {kind} is not described");
        if !kind.ends_with("json") && !kind.ends_with("vc") {
            return;
        }
        let mut whole = schema.clone();
        whole["components"] = self.0["components"].clone();
        let validator = jsonschema::draft202012::new(&whole).unwrap();
        let body = reply.json();
        let errors: Vec<String> =
            validator.iter_errors(&body).map(|e| format!("{e} at {}", e.instance_path())).collect();
        assert!(errors.is_empty(), "{method} {path}: {errors:?}\n{body}");
        self.names_everything(schema, &body, &format!("{method} {path}"));
    }

    /// Every member of an object that a schema lists members for is among them.
    fn names_everything(&self, schema: &Value, value: &Value, place: &str) {
        let schema = match schema["$ref"].as_str() {
            Some(name) => &self.0["components"]["schemas"][name.rsplit('/').next().unwrap()],
            None => schema,
        };
        if let (Some(known), Some(members)) = (schema["properties"].as_object(), value.as_object()) {
            for (name, member) in members {
                let described = known.get(name).unwrap_or_else(|| panic!("{place}: {name} is not described"));
                self.names_everything(described, member, &format!("{place}.{name}"));
            }
        }
        if let Some(items) = value.as_array() {
            items.iter().for_each(|item| self.names_everything(&schema["items"], item, place));
        }
    }
}

#[test]
fn answers_are_as_described() {
    let service = Service::fresh(&["requests_per_second=0"]);
    let doc = Doc(service.get("/openapi.json").ok());
    service.add_shop();
    let verify = service.token("verify");
    for (path, concrete) in [
        ("/", "/"),
        ("/healthz", "/healthz"),
        ("/readyz", "/readyz"),
        ("/metrics", "/metrics"),
        ("/v1/agents", "/v1/agents?search=SHO&limit=1"),
        ("/v1/agents/{agent}", "/v1/agents/shop"),
        ("/v1/agents/{agent}", "/v1/agents/nobody"),
        ("/v1/agents/{agent}/score", "/v1/agents/shop/score"),
        ("/v1/agents/{agent}/score", "/v1/agents/credence/score"),
        ("/v1/agents/{agent}/score", "/v1/agents/shop/score?at=2999-01-01T00:00:00Z"),
        ("/v1/agents/{agent}/score", "/v1/agents/shop/score?weights=a:1,*:0.5"),
        ("/v1/agents/{agent}/explain", "/v1/agents/shop/explain"),
        ("/v1/agents/{agent}/history", "/v1/agents/shop/history"),
        ("/v1/agents/{agent}/reputation", "/v1/agents/shop/reputation"),
        ("/v1/agents/{agent}/contracts", "/v1/agents/shop/contracts"),
        ("/v1/agents/{agent}/reviews", "/v1/agents/shop/reviews"),
        ("/v1/agents/{agent}/credentials", "/v1/agents/shop/credentials"),
        ("/v1/agents/{agent}/badge.svg", "/v1/agents/shop/badge.svg"),
        ("/v1/stats/{agent}", "/v1/stats/shop?window=7d"),
        ("/v1/entities/{entity}/trust-signals", "/v1/entities/shop/trust-signals?url=https://shop.example/de"),
        ("/v1/sources", "/v1/sources"),
        ("/v1/keys", "/v1/keys?limit=1"),
        ("/v1/tags", "/v1/tags"),
        ("/v1/schemas/{name}", "/v1/schemas/contract"),
        ("/v1/calibration", "/v1/calibration"),
        ("/v1/status-lists/{list}", "/v1/status-lists/0"),
        ("/v1/suspension-lists/{list}", "/v1/suspension-lists/0"),
        ("/v1/log/entries/{seq}", "/v1/log/entries/0"),
        ("/v1/log/proofs/{seq}", "/v1/log/proofs/0"),
        ("/v1/log/consistency", "/v1/log/consistency?older=1"),
        ("/v1/contracts/{id}", "/v1/contracts/none"),
        ("/log/checkpoint", "/log/checkpoint"),
        ("/log/tile/{path}", "/log/tile/0%2F000.p%2F1"),
        ("/.well-known/jwks.json", "/.well-known/jwks.json"),
        ("/.well-known/did.json", "/.well-known/did.json"),
    ] {
        doc.holds("get", path, &service.get(concrete));
    }
    let signal = |value: f64| {
        serde_json::from_str::<Value>(signed("shop", "a", "rel_uptime", value).canonical().as_str()).unwrap()
    };
    for (token, path, body) in [
        (&service.token, "/v1/agents", json!({ "agent": "new", "name": "New", "owner": "someone" })),
        (&service.token, "/v1/agents", json!({ "agent": "a/b" })),
        (&service.token, "/v1/signals", signal(50.0)),
        (&service.token, "/v1/signals", json!([signal(51.0), { "id": 1 }])),
        (&service.token, "/v1/outcomes", json!({ "agent": "shop", "good": true })),
        (&service.token, "/v1/credentials", json!({ "agent": "shop" })),
        (
            &verify,
            "/v1/verify",
            json!({ "tool": "t", "result": { "a": 1 }, "id": "x", "agent": "shop", "stake": "high" }),
        ),
        (&verify, "/v1/verify/batch", json!({ "traces": [{ "tool": "t", "result": 1 }] })),
        (&verify, "/v1/feedback", json!({ "tool": "t", "posterior": 0.5, "fabricated": false })),
        (&service.token, "/v1/statements", json!({})),
        (&service.token, "/v1/guard-reviews", waiting_reviews()),
        (&service.token, "/v1/guard-reviews", json!({ "log": "", "reviews": [] })),
    ] {
        doc.holds("post", path, &service.post_as(token, path, &body));
    }
    reports_are_as_described(&service, &doc);
    let listed = service.get_with("/v1/guard-reviews", &[("authorization", &format!("Bearer {}", service.token))]);
    assert_eq!(listed.json()["guards"][0]["reviews"][0]["members"], json!(["items[].price"]));
    doc.holds("get", "/v1/guard-reviews", &listed);
    let profile = service.request("PUT", "/v1/tools/t/profile", &verify, "application/json", "{}");
    doc.holds("put", "/v1/tools/{tool}/profile", &profile);
}

fn reports_are_as_described(service: &Service, doc: &Doc) {
    let (review, other) = (service.token("review"), service.token("review"));
    let draft = service.post("/v1/reports", &json!({ "agent": "shop", "summary": "fine" }));
    doc.holds("post", "/v1/reports", &draft);
    let report = draft.json()["report"].as_str().unwrap().to_owned();
    let path = |of: &str| (format!("/v1/reports/{{report}}{of}"), format!("/v1/reports/{report}{of}"));
    for (of, body) in [
        ("/approval", json!({})),
        ("/publication", json!({})),
        ("/correction", json!({ "reason": "x" })),
        ("/correction", json!({ "reason": "x", "replaced_by": report })),
        ("/withdrawal", json!({ "reason": "x" })),
        ("/rejection", json!({ "reason": "x" })),
    ] {
        let (described, concrete) = path(of);
        doc.holds("post", &described, &service.post_as(&review, &concrete, &body));
    }
    for of in ["", "/markdown", "/document"] {
        let (described, concrete) = path(of);
        let reply = service.get(&concrete);
        assert_eq!(reply.status, 200, "{concrete}: {}", reply.text());
        doc.holds("get", &described, &reply);
    }
    service.post("/v1/reports", &json!({ "agent": "shop" })).created();
    let bearer = format!("Bearer {other}");
    let listed = service.get_with("/v1/reports?agent=shop&limit=10", &[("authorization", &bearer)]);
    assert_eq!(listed.json()["reports"].as_array().unwrap().len(), 2);
    doc.holds("get", "/v1/reports", &listed);
    doc.holds("get", "/v1/reports", &service.get("/v1/reports?limit=0"));
}

/// What a guard reports.
fn waiting_reviews() -> Value {
    json!({ "log": "lab/guard/fs/1", "reviews": [{
        "call": "01890a5d-ac96-774b-bcce-b302099a8057", "tool": "t", "at": "2026-11-18T12:00:00Z", "verdict": "flag", "withheld": false,
        "checks": ["structure_drift"], "members": ["items[].price"], "sealed": "AAAA",
    }] })
}
