//! Over HTTP, as a route of the service.

use credence_testing::Service;
use serde_json::{Value, json};

use super::{MODERN, call, initialize, modern, post, refused, request, text};

#[test]
fn both_kinds_of_clients_are_served_without_a_session() {
    let service = Service::fresh(&["requests_per_second=0"]);
    service.add_shop();
    let hello = post(&service, "", &request(1, "initialize", initialize("2025-11-25"), false), &[]);
    assert_eq!(hello.header("mcp-session-id"), "", "nothing is kept between requests");
    assert_eq!(hello.header("content-type"), "application/json");
    assert_eq!(hello.ok()["result"]["protocolVersion"], "2025-11-25");
    let version = [("mcp-protocol-version", "2025-11-25")];
    let ready = post(&service, "", &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }), &version);
    assert_eq!(ready.status, 202);
    let old = post(&service, "", &request(2, "tools/list", json!({}), false), &version).ok();
    let new = modern(&service, "", "tools/list", json!({})).ok();
    assert_eq!(old["result"]["tools"], new["result"]["tools"]);
    assert_eq!((&old["result"]["resultType"], &new["result"]["resultType"]), (&Value::Null, &json!("complete")));
    let found = modern(&service, "", "server/discover", json!({})).ok();
    assert!(found["result"]["supportedVersions"].as_array().unwrap().contains(&json!(MODERN)));
    // The same answer, byte for byte, as over REST: made once, recorded once.
    let rest = service.get("/v1/entities/shop/trust-signals?url=https://shop.example/de&context=purchase");
    let checked = call(&service, "", "check_trust", json!({ "entity": "shop", "context": "purchase" }));
    assert_eq!(checked["content"][1]["text"], rest.text());
    assert_eq!(checked["structuredContent"]["response"], rest.json());
    assert_eq!(rest.header("etag").trim_matches('"'), checked["structuredContent"]["hash"]);
    assert!(service.get("/metrics").text().contains(r#"route="/mcp""#));
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let service = Service::fresh(&["requests_per_second=0"]);
    let list = request(1, "tools/list", json!({}), true);
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "tools/list")];
    assert_eq!(post(&service, "", &list, &headers).status, 200);
    let mismatch = post(&service, "", &list, &[("mcp-protocol-version", MODERN), ("mcp-method", "tools/call")]);
    assert_eq!((mismatch.status, mismatch.json()["error"]["code"].clone()), (400, json!(-32020)));
    let future = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2030-01-01", "io.modelcontextprotocol/clientCapabilities": {} } } });
    let reply = post(&service, "", &future, &[("mcp-protocol-version", "2030-01-01"), ("mcp-method", "tools/list")]);
    assert_eq!((reply.status, reply.json()["error"]["code"].clone()), (400, json!(-32022)));
    assert_eq!(modern(&service, "", "credence/unknown", json!({})).status, 404);
    for method in ["GET", "DELETE", "PUT"] {
        let reply = service.request(method, "/mcp", &service.token, "", "");
        assert_eq!((reply.status, reply.header("allow")), (405, "POST"), "{method}");
    }
    // A page elsewhere, or a name that leads here and is not ours.
    for origin in ["https://evil.example", "null", "http://127.0.0.1:1"] {
        let with: Vec<_> = headers.into_iter().chain([("origin", origin)]).collect();
        assert_eq!(post(&service, "", &list, &with).status, 403, "{origin}");
    }
    let with: Vec<_> = headers.into_iter().chain([("origin", service.url.as_str())]).collect();
    assert_eq!(post(&service, "", &list, &with).status, 200);
    let with: Vec<_> = headers.into_iter().chain([("host", "evil.example")]).collect();
    assert_eq!(post(&service, "", &list, &with).status, 403);
    let large = request(1, "tools/list", json!({ "x": "y".repeat(20_000) }), true);
    post(&service, "", &large, &headers).refused(413, "body_too_large");
    assert_eq!(post(&service, &service.token, &large, &headers).status, 200);
    post(&service, "crd_000000000000_x", &list, &headers).refused(401, "unauthorized");
    assert!(post(&service, "", &json!("hello"), &headers).status >= 400);
    let garbled = service.request("POST", "/mcp", &service.token, "application/json", "{garbled");
    assert_eq!((garbled.status, garbled.json()["error"]["code"].clone()), (400, json!(-32700)));
}

#[test]
fn tokens_and_rates_are_those_of_the_service() {
    let service = Service::fresh(&["requests_per_second=0"]);
    service.add_shop();
    let (verify, ingest) = (service.token("verify"), service.token("ingest"));
    let trace = json!({ "tool": "t", "result": { "a": 1 } });
    refused(&call(&service, "", "verify_tool_result", trace.clone()), &["scope 'verify'", "Bearer"]);
    refused(
        &call(&service, &ingest, "verify_tool_result", trace.clone()),
        &["scope 'verify'", "credence token create"],
    );
    let judged = call(&service, &verify, "verify_tool_result", trace);
    assert!(text(&judged).starts_with("ACCEPT: "), "{judged}");
    let outcome = json!({ "agent": "shop", "good": false, "id": "01932c07-8f4b-7cc3-8a5e-0242ac120002" });
    refused(&call(&service, "", "report_outcome", outcome.clone()), &["scope 'ingest'"]);
    refused(&call(&service, &verify, "report_outcome", outcome.clone()), &["scope 'ingest'"]);
    let first = call(&service, &ingest, "report_outcome", outcome.clone());
    assert_eq!(first["structuredContent"]["known"], false, "{first}");
    let again = call(&service, &ingest, "report_outcome", outcome);
    assert_eq!(again["structuredContent"]["seq"], first["structuredContent"]["seq"]);
    assert!(text(&again).contains("recorded before"));
    let shell = service.stop();
    let service = Service::start(shell, &["requests_per_second=1"]);
    let replies: Vec<u16> = (0..20).map(|_| modern(&service, "", "tools/list", json!({})).status).collect();
    assert!(replies.contains(&200) && replies.contains(&429), "{replies:?}");
    assert_eq!(modern(&service, &service.token, "tools/list", json!({})).status, 200);
}
