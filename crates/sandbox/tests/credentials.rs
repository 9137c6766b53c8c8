//! Tokens that a target repeats do not leave the run: not in its journal, its transcript, its result or its report.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests: a failing unwrap is how a test says no")]

mod support;

use axum::{http::StatusCode, response::IntoResponse};
use credence_sandbox::{report::Report, runner::journal::transcript_path, target::wire::Credential};
use serde_json::{Value, json};
use support::{Manners, Server, completion, decide, world::World};

const TOKENS: [&str; 2] = ["tk-first-9f8e7d6c5b", "tk-second-1a2b3c4d5e"];

/// Base64 as a target might print it.
const FIRST_IN_BASE64: &str = "dGstZmlyc3QtOWY4ZTdkNmM1Yg";

#[tokio::test]
async fn a_target_that_repeats_its_headers_gets_no_token_into_any_file() {
    // It obeys documents, adds the headers to every answer, puts them into arguments of calls, and into errors.
    let server = Server::start(|number, headers, body| {
        let header = headers.get("authorization").map_or("none", |value| value.to_str().unwrap()).to_owned();
        if number % 5 == 3 {
            return (StatusCode::BAD_REQUEST, format!("bad request with {header}")).into_response();
        }
        let manners = Manners { gullible: true, ..Manners::default() };
        let mut said = decide(manners, &Default::default(), "", body["messages"].as_array().unwrap());
        if let Some(text) = said["content"].as_str() {
            said["content"] = json!(format!("{text} (authorization: {header}, {FIRST_IN_BASE64})"));
        }
        if let Some(arguments) = said.pointer_mut("/tool_calls/0/function/arguments") {
            let mut given: Value = serde_json::from_str(arguments.as_str().unwrap()).unwrap();
            given["token"] = json!(header);
            *arguments = json!(given.to_string());
        }
        completion(said)
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("run.jsonl");
    let mut world = World::chat(&server.url());
    world.settings.credentials = TOKENS.map(|token| Some(Credential::bearer(token).unwrap()));
    world.options.benchmarks = true;
    world.journal = Some(journal.clone());
    let output = world.run().await;
    let transcript = std::fs::read_to_string(transcript_path(&journal)).unwrap();
    let transcripts: Vec<Value> = transcript.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let report = Report {
        result: &output.result,
        suite: &world.suite,
        trials: &output.trials,
        transcripts: &transcripts,
        agent: None,
        made_at: "now",
        command: "credence probe",
        judged: None,
    };
    let kept = [
        std::fs::read_to_string(&journal).unwrap(),
        transcript.clone(),
        serde_json::to_string(&output.result).unwrap(),
        report.page(),
    ];
    for (n, text) in kept.iter().enumerate() {
        for secret in [TOKENS[0], TOKENS[1], FIRST_IN_BASE64] {
            assert!(!text.contains(secret), "{secret} is in file {n}");
        }
    }
    assert!(transcript.contains("authorization: Bearer [credential]"), "it did repeat them");
    assert!(transcript.contains("bad request with Bearer [credential]"), "in errors too");
    let in_calls = |said: &Value| said.to_string().contains(r#""token":"Bearer [credential]""#);
    assert!(transcripts.iter().any(in_calls), "and in arguments");
    // The findings stand: taking tokens out changes nothing else.
    let effected: u64 =
        output.result.threats.iter().flat_map(|threat| &threat.families).map(|family| family.effected).sum();
    assert!(effected > 0, "{:?}", output.result);
}
