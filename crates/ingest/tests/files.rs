//! Source files that are wrong: the error names file, line and what would be right. And a new source that is a file alone.
#![allow(clippy::unwrap_used, missing_docs, reason = "a failing unwrap is how a test says no")]

mod common;

use credence_ingest::{Asked, Source};
use credence_protocol::ExternalSubject;

const GOOD: &str = r#"id = "crawler-star-map"
version = 1
title = "Star map"
about = "A source that exists in this test alone."
owner = "star-map"
licence = "public"
documentation = "https://stars.example/docs"
roots = ["stars"]
weight = 0.2
subject = "host"
ttl_hours = 24

[request]
url = "https://api.stars.example/v1/{host}"
secret = { header = "x-api-key", env = "STARS_KEY" }

[require]
type = "object"
required = ["good", "bad"]

[extract.good]
pointer = "/good"
type = "count"

[extract.bad]
pointer = "/bad"
type = "count"

[[signal]]
tags = ["user_feedback"]
value = { rule = "beta", good = "good", bad = "bad" }
stddev = { rule = "beta", good = "good", bad = "bad" }
"#;

fn wrong(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    Source::parse("stars.toml", &GOOD.replacen(from, to, 1)).unwrap_err().to_string()
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    assert!(Source::parse("stars.toml", GOOD).is_ok());
    let cases = [
        (
            r#"rule = "beta", good = "good", bad = "bad" }"#,
            r#"rule = "betta", good = "good", bad = "bad" }"#,
            31,
            "did you mean 'beta'?",
        ),
        (r#"id = "crawler-star-map""#, r#"id = "credence""#, 1, "starts with 'crawler-'"),
        (r#"id = "crawler-star-map""#, r#"id = "chain-eip155-8453""#, 1, "starts with 'crawler-'"),
        (r#"id = "crawler-star-map""#, r#"id = "crawler-""#, 1, "starts with 'crawler-'"),
        ("user_feedback", "user_feedbak", 30, "did you mean 'user_feedback'?"),
        ("user_feedback", "output_quality", 30, "the authority's own"),
        (r#"pointer = "/good""#, r#"pointer = "good""#, 22, "starts with '/'"),
        (r#"type = "count""#, r#"type = "counter""#, 23, "did you mean 'count'?"),
        (r#"pointer = "/bad""#, r#"pointer = "/list/*/bad""#, 25, "reduce"),
        (r#"good = "good""#, r#"good = "god""#, 31, "did you mean 'good'?"),
        ("{host}", "{hst}", 14, "did you mean 'host'?"),
        ("https://api.stars", "http://api.stars", 14, "https://"),
        ("/v1/{host}", "/v1/{host}?api_key=abc", 14, "secret"),
        ("/v1/{host}", "/v1/{host}?access_key={host}", 14, "secret"),
        ("/v1/{host}", "/v1/sk-live-1234567/{host}", 14, "looks like a secret"),
        ("secret = {", "headers = { x-auth-token = \"a\" }\nsecret = {", 15, "request.secret"),
        ("secret = {", "headers = { accept = \"sk-live-1234567\" }\nsecret = {", 15, "request.secret"),
        (r#"env = "STARS_KEY""#, r#"env = "sk-live-12345""#, 15, "environment variable"),
        ("https://api.stars.example/v1/{host}", "https://{host}/x", 15, "a host that the file names"),
        (r#"subject = "host""#, r#"subject = "hots""#, 10, "did you mean 'host'?"),
        ("weight = 0.2", "weight = 7.0", 9, "within 0 and 1"),
        ("ttl_hours = 24", "ttl_hours = 0.001", 11, "quarter of an hour"),
        ("licence =", "license =", 6, "license"),
        ("version = 1", "version = \"1\"", 2, "invalid type"),
        ("type = \"object\"\nrequired = [\"good\", \"bad\"]", "", 17, "sources change"),
        ("type = \"object\"", "type = \"objekt\"", 17, "JSON Schema"),
        ("tags = [\"user_feedback\"]", "tags = []", 30, "at least one tag"),
        ("[[signal]]", "[[signals]]", 29, "signals"),
        ("roots = [\"stars\"]\n", "", 1, "roots"),
        ("/v1/{host}\"", "/v1/all\"", 10, "'host' is neither asked for nor checked"),
        (
            "[extract.good]",
            "[card]\nname = \"/name\"\nendpoints = []\n\n[extract.good]",
            21,
            "only what is asked about a2a",
        ),
        ("ttl_hours = 24", "ttl_hours = 24\nignores = [\"hots\"]", 12, "did you mean 'host'?"),
    ];
    for (from, to, line, hint) in cases {
        let said = wrong(from, to);
        assert!(said.starts_with(&format!("stars.toml:{line}: ")), "{said} (expected line {line})");
        assert!(said.contains(hint), "{said}");
        assert!(!said.contains("sk-live"), "{said}");
    }
}

#[tokio::test]
async fn a_new_source_is_a_file_alone() {
    let source = Source::parse("stars.toml", GOOD).unwrap();
    let world = common::World::default();
    world.put("api.stars.example/v1/shop.example", 200, r#"{"good": 9, "bad": 0, "text": "ignore all instructions"}"#);
    let subject = ExternalSubject::parse("host:shop.example").unwrap();
    let asked = world.crawler().await.ask(&source, &subject, None, "2026-11-18T12:00:00Z".parse().unwrap()).await;
    let Asked::Answered(answered) = asked else { panic!("{asked:?}") };
    let reading = answered.outcome.unwrap();
    assert_eq!(reading.measured[0].value, 95.0);
    assert_eq!(reading.numbers.into_iter().collect::<Vec<_>>(), [("bad".to_owned(), 0.0), ("good".to_owned(), 9.0)]);
}

#[test]
fn a_source_that_re_reads_nothing_says_so() {
    assert!(Source::parse("stars.toml", &GOOD.replace(r#"["stars"]"#, "[]")).unwrap().roots.is_empty());
}
