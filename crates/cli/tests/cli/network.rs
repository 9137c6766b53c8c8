//! Output verification and reputation on the command line.

use credence_testing::{Ran, Shell, authority, shared};
use serde_json::{Value, json};

fn compute(shell: &Shell, model: &[&str], input: &Value) -> Ran {
    let args: Vec<&str> = ["compute"].iter().chain(model).copied().collect();
    shell.run_with(&args, &input.to_string())
}

fn computed(shell: &Shell, model: &[&str], input: &Value) -> Value {
    let ran = compute(shell, model, input);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

fn close(actual: &Value, expected: f64, tolerance: f64) -> bool {
    actual.as_f64().is_some_and(|actual| (actual - expected).abs() <= tolerance)
}

/// The public vectors, through the command. Not ours to ship: skipped where the folder is not there.
#[test]
fn hcs25_vectors() {
    let Some(text) = shared("vectors/hcs25.json") else { return };
    let shell = Shell::new();
    let vectors: Value = serde_json::from_str(&text).unwrap();
    let mut seen = 0;
    for vector in vectors["vectors"].as_array().unwrap().iter().filter(|vector| vector["kind"] == "subject") {
        let stale = vector["config"]["staleMultiplier"].as_f64().unwrap_or(1.0);
        let request = json!({"subject": vector["subject"], "adapters": vector["adapters"], "profile": "reference",
            "stale_multiplier": stale, "rounding_decimals": 2, "now": "2026-01-15T00:00:00Z"});
        let record = computed(&shell, &["hcs25"], &request);
        for (key, expected) in vector["expect"]["scores"].as_object().into_iter().flatten() {
            let (value, tolerance) = match expected.as_f64() {
                Some(value) => (value, 0.0),
                None => (
                    expected["approx"].as_f64().unwrap(),
                    0.5 * 10_f64.powi(-expected["places"].as_i64().unwrap() as i32),
                ),
            };
            assert!(close(&record["trustScores"][key], value, tolerance), "{}: {key} {record}", vector["id"]);
        }
        for key in vector["expect"]["absent"].as_array().into_iter().flatten() {
            assert!(record["trustScores"].get(key.as_str().unwrap()).is_none(), "{}: {key}", vector["id"]);
        }
        for (id, expected) in vector["expect"]["applicable"].as_object().into_iter().flatten() {
            let adapters = record["breakdown"]["adapters"].as_array().unwrap();
            let adapter = adapters.iter().find(|adapter| adapter["adapterId"] == *id).unwrap();
            assert_eq!(adapter["applicable"], *expected, "{}", vector["id"]);
        }
        seen += 1;
    }
    assert!(seen > 50);
}

#[test]
fn models_json() {
    let shell = Shell::new();
    let vectors: Value = serde_json::from_slice(&std::fs::read("../../testdata/models.json").unwrap()).unwrap();
    for (section, model) in [("output_verification_spec", "output-verification"), ("reputation", "reputation")] {
        for case in vectors[section].as_array().unwrap() {
            let actual = computed(&shell, &[model], &case["input"]);
            for (field, expected) in case["output"].as_object().unwrap() {
                match expected.as_f64() {
                    Some(expected) => assert!(close(&actual[field], expected, 1e-9), "{case}: {actual}"),
                    None => assert_eq!(actual[field], *expected, "{case}"),
                }
            }
        }
    }
}

#[test]
fn several_providers() {
    let shell = Shell::new();
    let provider = |id: &str, allow: f64, block: f64, checks: u64| {
        json!({"id": id, "allowRate": allow, "blockRate": block, "avgConfidence": 0.9, "totalChecks": checks,
            "windowDays": 7, "updatedAt": "2026-11-10T00:00:00Z"})
    };
    let request = json!({"providers": [provider("a", 0.95, 0.05, 900), provider("b", 0.4, 0.6, 900), provider("few", 1.0, 0.0, 5),
        provider("bot", 1.0, 0.0, 500)], "agent": "bot", "now": "2026-11-12T00:00:00Z"});
    let combined = computed(&shell, &["output-verification"], &request);
    assert!(close(&combined["combined"], 61.0, 1e-9) && close(&combined["disagreement"], 25.0, 1e-9), "{combined}");
    assert!(close(&combined["quality"], 36.0, 1e-9));
    assert_eq!((&combined["applicable"], &combined["coverage"]), (&json!(true), &json!(100.0)));
    let reasons: Vec<&str> =
        combined["providers"].as_array().unwrap().iter().filter_map(|p| p["reason"].as_str()).collect();
    assert!(reasons[0].starts_with("too few") && reasons[1].starts_with("self-reported"), "{reasons:?}");
    let later = json!({"providers": [provider("a", 0.95, 0.05, 900)], "now": "2026-12-12T00:00:00Z"});
    let stale = computed(&shell, &["output-verification", "--profile", "reference"], &later);
    assert!(stale["applicable"] == false && stale["reason"].as_str().unwrap().starts_with("stale"), "{stale}");
    let mut alone = provider("a", 0.95, 0.05, 900);
    alone["now"] = json!("2026-12-12T00:00:00Z");
    assert_eq!(computed(&shell, &["output-verification"], &alone)["applicable"], false);
    let itself = json!({"id": "a", "metadata": {"outputVerificationSummary": {"allowRate": 0.9, "blockRate": 0.1, "avgConfidence": 0.9,
        "totalChecks": 50, "providers": [{"id": "a"}]}}});
    let request = json!({"subject": itself, "adapters": [{"adapter": "output-verification"}]});
    assert_eq!(computed(&shell, &["hcs25"], &request)["breakdown"]["adapters"][0]["applicable"], false);
    let bounded = computed(&shell, &["reputation"], &json!({"c": 1, "t": 1, "p": 1, "v": 1, "q": 11}));
    assert!(close(&bounded["raw"], 100.0 / 3.0, 1e-9));
}

#[test]
fn bad_input_to_the_models_is_named() {
    let shell = Shell::new();
    let summary = |field: &str, value: Value| {
        let mut summary = json!({"allowRate": 0.9, "blockRate": 0.1, "avgConfidence": 0.8, "totalChecks": 100});
        summary[field] = value;
        summary
    };
    let twice = json!({"providers": [{"id": "a", "totalChecks": 5}, {"id": "a", "totalChecks": 5}]});
    let subject = |field: &str, value: Value| {
        let mut request = json!({"subject": {"id": "a"}, "adapters": [{"adapter": "availability"}]});
        request[field] = value;
        request
    };
    let factors = |field: &str, value: Value| {
        let mut request = json!({"c": 1, "t": 1, "p": 1, "v": 1, "q": 0});
        request[field] = value;
        request
    };
    let inside = json!({"id": "a", "metadata": {"outputVerificationSummary": summary("blockRate", json!(0.9))}});
    let mut inconsistent = subject("subject", inside);
    inconsistent["adapters"] = json!([{"adapter": "output-verification"}]);
    for (model, input, what) in [
        ("output-verification", summary("allowRate", json!(1.2)), "allowRate 1.2 is outside 0..=1"),
        ("output-verification", summary("blockRate", json!(0.3)), "add up to 1.2, more than 1 (tolerance 0.002)"),
        ("output-verification", summary("totalChecks", json!(-1)), "totalChecks -1 is not a count"),
        ("output-verification", summary("totalChecks", json!(20.5)), "totalChecks 20.5 is not a count"),
        (
            "output-verification",
            summary("stakeDistribution", json!({"low": {"checks": 200}})),
            "200 checks, more than totalChecks 100",
        ),
        ("output-verification", twice, "'a' is listed twice"),
        ("output-verification", json!({}), "neither an outputVerificationSummary"),
        ("output-verification", summary("stakeDistribution", json!([{"checks": 5}])), "expected an object"),
        ("hcs25", subject("subject", json!(["a"])), "expected an object"),
        ("reputation", json!([1, 1, 1, 1, 0]), "expected an object"),
        ("hcs25", inconsistent, "add up to 1.8"),
        ("hcs25", subject("adapters", json!([])), "at least one adapter"),
        ("hcs25", subject("adapters", json!([{"adapter": "availabilty"}])), "did you mean 'availability'?"),
        ("hcs25", subject("adapters", json!([{"adapter": "availability"}, {"adapter": "*"}])), "duplicate"),
        ("hcs25", subject("subject", json!({"id": ""})), "id is empty"),
        ("hcs25", subject("version", json!(-1)), "version -1"),
        ("hcs25", subject("stale_multiplier", json!(2)), "staleMultiplier 2"),
        ("hcs25", subject("rounding_decimals", json!(7)), "roundingDecimals 7"),
        ("hcs25", subject("snapshot", json!({"uptime": {"status": "ok"}})), "'uptime' is not a signal id"),
        ("hcs25", subject("profile", json!("strict")), "unknown variant"),
        ("reputation", factors("c", json!(1.5)), "c 1.5 is outside 0..=1"),
        ("reputation", factors("q", json!(-1)), "q -1"),
        ("reputation", factors("previous", json!(101)), "previous 101"),
        ("reputation", factors("alpha", json!(0.5)), "alpha 0.5"),
    ] {
        let ran = compute(&shell, &[model], &input);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{input}");
        assert!(ran.stderr.contains(what), "{input}: {}", ran.stderr);
    }
}

fn verdict_lines(agent: &str, n: usize, canaries: bool) -> String {
    let line = |k: usize| {
        let (verdict, posterior) = if k % 25 == 24 { ("flag", 0.6) } else { ("accept", 0.02) };
        let mut line =
            json!({"tool": "t", "verdict": verdict, "posterior": posterior, "agent": agent, "stake": "high"});
        if canaries {
            line["canary"] = json!({"fabrication": "renamed", "caught": !k.is_multiple_of(10)});
        }
        format!("{line}\n")
    };
    (0..n).map(line).collect()
}

#[test]
fn verdicts_become_signals() {
    let shell = authority(&["judge"], &["bot"]);
    shell.ok(&["source", "add", "lab", "--methodology", "https://example.org/how"]);
    shell.ok(&["keys", "generate", "lab"]);
    std::fs::write(shell.path("verdicts.jsonl"), verdict_lines("bot", 100, true)).unwrap();
    let rolled = shell.json(&["rollup", "verdicts.jsonl", "--provider", "lab"]);
    assert_eq!(rolled["summaries"].as_array().unwrap().len(), 3);
    let week = &rolled["summaries"][1];
    let summary = &week["summary"];
    assert_eq!(
        (&week["window"], &summary["totalChecks"], &summary["windowDays"]),
        (&json!("7d"), &json!(100), &json!(7.0))
    );
    assert!(close(&summary["allowRate"], 0.96, 1e-9) && close(&summary["uncertainRate"], 0.04, 1e-9));
    assert!(close(&summary["avgConfidence"], (96.0 * 0.98 + 4.0 * 0.6) / 100.0, 1e-9), "{summary}");
    assert_eq!(summary["stakeDistribution"]["high"]["checks"], 100);
    assert_eq!(summary["canaries"], json!({"checks": 100, "caught": 90}));
    // What comes out goes into the model as it is.
    let standard = computed(&shell, &["output-verification"], summary);
    assert_eq!(standard["quality"], 0.0, "the standard's number: nothing was blocked");
    let size = shell.size();
    let submitted = shell.json(&["rollup", "verdicts.jsonl", "--provider", "lab", "--submit"]);
    assert!(submitted["summaries"][2]["seq"].as_u64().unwrap() >= size);
    let stats = shell.json(&["stats", "bot", "--window", "7d"]);
    // output-verification/2: 4 of 100 not accepted, 90 of 100 canaries caught, no controls.
    let (seen, recall, false_alarms) = (4.5 / 101.0, 91.0 / 102.0, 1.0 / 50.0);
    let quality = 100.0 * (1.0 - (seen - false_alarms) / (recall - false_alarms));
    assert!(close(&stats["signal"]["quality"], quality, 1e-6), "{quality}: {stats}");
    assert_eq!(stats["summaries"][0]["provider"], "lab");
    let explained = shell.json(&["explain", "bot"]);
    let tags: Vec<&str> = explained["contributions"][0]["signals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["tag"].as_str().unwrap())
        .collect();
    assert_eq!(tags, ["output_coverage", "output_quality"]);
    assert!(shell.ok(&["stats", "bot"]).contains("signals  quality"));
    shell.audit_passes();
    // Again: the same window is not newer. Nothing is written.
    let size = shell.size();
    shell.fails(
        &["rollup", "verdicts.jsonl", "--provider", "lab", "--submit", "--end", "2026-01-01T00:00:00Z"],
        "no verdict lies in a window",
    );
    shell.fails(&["rollup", "verdicts.jsonl", "--provider", "lab", "--end", "2150-01-01T00:00:00Z"], "in the future");
    std::fs::write(
        shell.path("old.jsonl"),
        verdict_lines("bot", 20, false).replace("\"tool\"", "\"at\":\"2026-01-01T00:00:00Z\",\"tool\""),
    )
    .unwrap();
    let old = shell.run(&["rollup", "old.jsonl", "--provider", "lab", "--submit"]);
    assert!(old.code == Some(2) && old.stdout.contains("past"), "{old:?}");
    assert_eq!(shell.size(), size);
    shell.fails(&["stats", "bot", "--window", "7d", "--data", "elsewhere"], "no authority");
    assert_eq!(shell.run(&["stats", "bot", "--window", "2d"]).code, Some(64));
    shell.fails(&["stats", "nobody"], "no agent has the id");
}

#[test]
fn rollup_needs_no_authority_and_names_bad_lines() {
    let shell = Shell::new();
    let mut lines = verdict_lines("bot", 12, false);
    lines +=
        "{\"error\":\"bad trace\",\"line\":3}\nnot json\n{\"verdict\":\"maybe\",\"posterior\":0.1,\"agent\":\"bot\"}\n";
    lines +=
        "{\"verdict\":\"accept\",\"posterior\":1.5,\"agent\":\"bot\"}\n{\"verdict\":\"block\",\"posterior\":0.9}\n";
    lines += "{\"verdict\":\"block\",\"posterior\":0.9,\"agent\":\"bot\",\"at\":\"2150-01-01T00:00:00Z\"}\n";
    let ran = shell.run_with(&["rollup", "--provider", "lab", "--json"], &lines);
    let shown: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(ran.code, Some(2));
    assert_eq!(
        (&shown["verdicts"], &shown["unjudged"], &shown["others"], &shown["bad_lines"]),
        (&json!(12), &json!(1), &json!(1), &json!(4))
    );
    assert_eq!(shown["bad"][0]["line"], 14);
    let mine = shell.run_with(&["rollup", "--provider", "lab", "--agent", "bot", "--json"], &lines);
    let mine: Value = serde_json::from_str(&mine.stdout).unwrap();
    assert_eq!(mine["verdicts"], 13, "a verdict that names no agent is taken for that of the one named");
    let none = shell.run_with(&["rollup", "--provider", "lab"], "");
    assert!(none.code == Some(1) && none.stderr.contains("there are no verdicts"), "{none:?}");
    shell.ok(&["init", "--origin", "example.org/log"]);
    let refused = shell.run_with(&["rollup", "--provider", "credence", "--submit"], &lines);
    assert!(refused.code == Some(1) && refused.stderr.contains("Nothing was signed"), "{refused:?}");
}

/// A file a day adds up to a month, and a report can be signed far from the authority.
#[test]
fn rollups_go_on_where_they_left_off() {
    let shell = authority(&[], &["bot"]);
    shell.ok(&["agent", "add", "bot", "--alias", "did:web:bot.example"]);
    shell.ok(&["source", "add", "lab", "--methodology", "https://example.org/how"]);
    shell.ok(&["keys", "generate", "lab"]);
    for _ in 0..3 {
        shell.run_with(&["rollup", "--provider", "lab", "--state", "rollup.state"], &verdict_lines("bot", 40, true));
    }
    let signed = shell.run_with(
        &["rollup", "--provider", "lab", "--state", "rollup.state", "--sign-only"],
        &verdict_lines("bot", 1, true),
    );
    assert_eq!(signed.stdout.lines().count(), 3, "{signed:?}");
    let submitted = shell.run_with(&["statement", "submit"], &signed.stdout);
    assert_eq!(submitted.code, Some(0), "{submitted:?}");
    assert_eq!(shell.json(&["stats", "bot", "--window", "30d"])["summaries"][0]["summary"]["totalChecks"], 121);
    // One agent under two names is one agent.
    let both = verdict_lines("bot", 20, true) + &verdict_lines("did:web:bot.example", 30, true);
    let ran = shell.run_with(&["rollup", "--provider", "lab", "--submit", "--json"], &both);
    let shown: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &shown["summaries"][0]["summary"]["totalChecks"]), (Some(0), &json!(50)), "{shown}");
    shell.audit_passes();
}

#[test]
fn canaries_are_spread_over_accepted_results() {
    let shell = Shell::new();
    let traces: String = (0..200)
        .map(|n| format!("{}\n", json!({"tool": "t", "args": {"id": n}, "result": {"id": n, "status": "paid", "total": n % 7}, "agent": "bot"})))
        .collect();
    let ran = shell.run_with(&["verify", "--canaries", "0.5"], &traces);
    let canaries = ran.stdout.lines().filter(|line| line.contains("\"canary\":{")).count();
    assert!((90..=100).contains(&canaries), "{canaries}");
    let rolled = shell.run_with(&["rollup", "--provider", "lab", "--json"], &ran.stdout);
    let rolled: Value = serde_json::from_str(&rolled.stdout).unwrap();
    assert_eq!(rolled["summaries"][0]["summary"]["canaries"]["checks"], canaries);
}

#[test]
fn a_life_of_contracts_challenges_and_reviews() {
    let shell = authority(&[], &["alice", "bob"]);
    for who in ["alice", "bob"] {
        shell.ok(&["keys", "generate", who]);
    }
    shell.ok(&["source", "add", "judge", "--methodology", "https://example.org/how"]);
    shell.ok(&["keys", "generate", "judge"]);
    assert!(shell.ok(&["reputation", "alice"]).contains("new: nothing is known"));
    shell.fails(&["contract", "publish", "--agent", "alice", "--risk", "low"], "has not said who it is");
    shell.ok(&["agent", "identify", "alice", "--model", "llm+tools", "--version-hash", "v1", "--rap-method", "sharpe"]);
    let publish = |name: &str| {
        shell.ok(&[
            "contract",
            "publish",
            "--agent",
            "alice",
            "--id",
            name,
            "--risk",
            "low",
            "--probability",
            "0.9",
            "--context-hash",
            "sha256:1",
            "--verification-hash",
            "sha256:2",
            "--reason",
            "radar",
            "--ref",
            "https://example.org",
        ]);
    };
    publish("rain");
    let new = shell.ok(&["reputation", "alice"]);
    assert!(new.contains("alice  8.0 (new: 0 of 10 events; a low score means unknown, not bad)"), "{new}");
    shell.ok(&["contract", "verify", "rain", "--outcome", "1", "--by", "judge"]);
    shell.ok(&["challenge", "open", "rain", "--by", "bob", "--claim", "{\"rain\":false}", "--id", "ch"]);
    shell.fails(
        &["challenge", "open", "rain", "--by", "alice", "--claim", "{\"rain\":false}"],
        "cannot challenge its own contract",
    );
    let resolved = shell.ok(&["challenge", "resolve", "ch"]);
    assert!(resolved.starts_with("Challenge ch failed: alice has "), "{resolved}");
    shell.fails(&["challenge", "resolve", "ch"], "settled already: failed");
    shell.fails(&["challenge", "resolve", "nowhere"], "no challenge 'nowhere'");
    publish("snow");
    shell.ok(&["challenge", "open", "snow", "--by", "bob", "--claim", "{\"snow\":false}", "--id", "ch2"]);
    shell.fails(&["challenge", "resolve", "ch2"], "no final verification yet");
    shell.fails(&["challenge", "resolve", "ch2", "--outcome", "inconclusive"], "say why with --reason");
    shell.ok(&["challenge", "resolve", "ch2", "--outcome", "inconclusive", "--reason", "the sensor broke"]);
    let reviewed = shell.ok(&["review", "add", "alice", "--by", "bob", "--rating", "1", "--contract", "rain"]);
    assert!(reviewed.contains("weighs nothing"), "{reviewed}");
    shell.fails(
        &["review", "add", "alice", "--by", "alice", "--rating", "1", "--contract", "rain"],
        "cannot review itself",
    );
    shell
        .fails(&["review", "add", "alice", "--by", "bob", "--rating", "1", "--contract", "hail"], "no contract 'hail'");
    shell.fails(&["review", "add", "alice", "--by", "bob", "--rating", "2", "--contract", "rain"], "at /rating");
    for n in 0..4 {
        publish(&format!("c{n}"));
        shell.ok(&["contract", "verify", &format!("c{n}"), "--outcome", "1", "--by", "judge"]);
    }
    let schema: Value = shell.json(&["schema", "reputation-score"]);
    let conforms = |record: &Value| jsonschema::validator_for(&schema).unwrap().is_valid(record);
    let new = shell.json(&["reputation", "alice"]);
    assert!(new["standing"] == "new" && conforms(&new["reputation"]), "{new}");
    assert!(new["reputation"]["notes"].as_str().unwrap().starts_with("new: "));
    for n in 4..9 {
        publish(&format!("c{n}"));
        shell.ok(&["contract", "verify", &format!("c{n}"), "--outcome", "1", "--by", "judge"]);
    }
    let reputation = shell.json(&["reputation", "alice"]);
    assert_eq!((&reputation["standing"], &reputation["reputation"]["tier"]), (&json!("established"), &json!("D")));
    assert!(conforms(&reputation["reputation"]) && !conforms(&reputation), "{reputation}");
    let list = shell.json(&["contract", "list", "alice", "--limit", "3"]);
    assert_eq!(list.as_array().unwrap().len(), 3);
    let shown = shell.json(&["challenge", "show", "ch2"]);
    assert_eq!((&shown["state"], &shown["resolution"]["reason"]), (&json!("inconclusive"), &json!("the sensor broke")));
    assert_eq!(shell.json(&["contract", "show", "rain"])["record"]["verification_hash"], "sha256:2");
    assert!(shell.ok(&["contract", "show", "rain"]).contains("outcome      1 by verification-"));
    assert!(shell.ok(&["challenge", "list", "bob"]).contains("inconclusive"));
    let explained = shell.json(&["explain", "alice"]);
    assert_eq!(explained["contributions"][0]["signals"][0]["tag"], "peer_reputation");
    shell.audit_passes();
}

#[test]
fn statements_signed_elsewhere_are_submitted_as_they_are() {
    let shell = authority(&[], &["alice"]);
    shell.ok(&["keys", "generate", "alice"]);
    shell.ok(&["agent", "identify", "alice", "--model", "llm", "--version-hash", "v1"]);
    let record = json!({"signal_id": "c", "origin_agent": "alice", "confidence_metrics": {}, "risk_band": "low"});
    std::fs::write(shell.path("contract.json"), record.to_string()).unwrap();
    let signed = shell.ok(&["contract", "publish", "contract.json", "--sign-only"]);
    std::fs::write(shell.path("signed.json"), &signed).unwrap();
    let size = shell.size();
    std::fs::write(shell.path("polished.json"), signed.replace("low", "high")).unwrap();
    shell.fails(&["contract", "publish", "polished.json"], "bad signature");
    shell.fails(&["review", "add", "signed.json"], "a signed statement of kind \"contract\", not review");
    assert_eq!(shell.size(), size);
    assert!(shell.ok(&["contract", "publish", "signed.json"]).contains(&format!("entry {size}")));
    assert!(shell.ok(&["contract", "publish", "signed.json"]).contains("known already"));
    assert!(shell.ok(&["statement", "submit", "signed.json"]).contains(&format!("entry {size}")));
    let both = format!("{}\n{}", signed.trim(), signed.trim().replace("low", "high"));
    let ran = shell.run_with(&["statement", "submit"], &both);
    assert!(ran.code == Some(2) && ran.stdout.contains("bad signature"), "{ran:?}");
    let away = Shell::new();
    std::fs::copy(shell.path("credence-data/keys/alice.jwk"), away.path("alice.jwk")).unwrap();
    let verify = ["contract", "verify", "c", "--outcome", "1", "--by", "alice", "--key", "alice.jwk", "--sign-only"];
    let anywhere = away.run(&verify);
    assert!(anywhere.code == Some(0) && anywhere.stderr.contains("--aud"), "{anywhere:?}");
    let refused = shell.run_with(&["statement", "submit"], &anywhere.stdout);
    assert!(refused.code == Some(2) && refused.stdout.contains("aud is missing"), "{refused:?}");
    let verified = away.ok(&[&verify[..], &["--aud", credence_testing::ORIGIN]].concat());
    let refused = shell.run_with(&["statement", "submit"], &verified);
    assert!(refused.code == Some(2) && refused.stdout.contains("cannot verify this contract"), "{refused:?}");
    let keys = shell.json(&["keys", "list"]);
    let of_alice = keys.as_array().unwrap().iter().find(|row| row["source"] == "alice").unwrap();
    let checked = shell.ok(&["check", "signed.json", "--key", of_alice["did"].as_str().unwrap()]);
    assert!(checked.starts_with("valid statement: alice says"), "{checked}");
    assert_eq!(shell.run(&["check", "polished.json", "--key", of_alice["did"].as_str().unwrap()]).code, Some(2));
    shell.audit_passes();
}

/// A ledger from before these tables existed gets them by itself.
#[test]
fn missing_tables_are_built_from_the_entries() {
    let shell = authority(&["lab"], &["bot"]);
    let database = rusqlite::Connection::open(shell.path("credence-data/ledger.db")).unwrap();
    database.execute_batch("DROP TABLE p_contracts; DROP TABLE p_bearings").unwrap();
    drop(database);
    let ran = shell.run(&["reputation", "bot"]);
    assert!(ran.code == Some(0) && ran.stderr.contains("lacked tables"), "{ran:?}");
    assert_eq!(shell.run(&["agent", "list"]).stderr, "");
    shell.audit_passes();
}
