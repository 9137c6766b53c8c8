//! The seed's engine, seen from outside: its examples, its defaults, its learning.
#![allow(clippy::unwrap_used, missing_docs, reason = "helpers of tests: a failing unwrap is how a test says no")]

use credence_verify::{
    Calibration, Call, Check, Decision, Engine, Error, Limits, Mode, Stage, Stake, ToolProfile, Verdict,
};
use serde_json::{Value, json};

const QUICK_START: f64 = 0.127_097_102_186_070_15;

fn engine() -> Engine {
    Engine::builder().mode(Mode::Fixed).build()
}

fn weather() -> Engine {
    let engine = engine();
    let profile =
        ToolProfile::builder().expected_latency_ms(100.0, 5000.0).required_fields(["temperature", "humidity"]);
    engine.register("get_weather", profile.build().unwrap()).unwrap();
    engine
}

fn ask(engine: &Engine, result: &Value, ms: f64) -> Verdict {
    engine.verify(&Call::new("get_weather", result).args(&json!({"city": "London"})).execution_time_ms(ms)).unwrap()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-12
}

#[test]
fn quick_start() {
    let verdict = ask(&weather(), &json!({"temperature": 18, "humidity": 65}), 350.0);
    assert!(close(verdict.posterior, QUICK_START), "{}", verdict.posterior);
    assert_eq!((verdict.decision, verdict.stage, verdict.prior), (Decision::Accept, Stage::One, 0.15));
    let evaluated: Vec<_> = verdict.checks.iter().map(|s| s.check).collect();
    assert_eq!(evaluated, [Check::SchemaMismatch, Check::LatencyAnomaly], "what could not be evaluated is left out");
    assert!(!verdict.is_hallucinated());
}

#[test]
fn a_tool_without_a_profile_has_the_seeds_defaults() {
    let engine = engine();
    let result = json!({"x": 1});
    let ask = |ms| engine.verify(&Call::new("t", &result).execution_time_ms(ms).learn(false)).unwrap();
    assert!(!ask(2.0).fired(Check::LatencyAnomaly) && !ask(60_000.0).fired(Check::LatencyAnomaly));
    assert!(ask(90_000.0).fired(Check::LatencyAnomaly));
    assert!(!ask(70_000.0).fired(Check::LatencyAnomaly), "17 % above scores below 0.3");
    let impossible = ask(0.1);
    assert_eq!(impossible.check(Check::LatencyAnomaly).unwrap().likelihood_ratio, 50.0);
    assert_eq!((impossible.decision, impossible.stage), (Decision::Block, Stage::Zero));
    assert_eq!(ask(1.0).check(Check::LatencyAnomaly).unwrap().likelihood_ratio, 15.0);
    let nothing = engine.verify(&Call::new("t", &result).learn(false)).unwrap();
    assert!(nothing.checks.is_empty() && close(nothing.posterior, 0.15));
}

#[test]
fn local_tools_may_be_fast() {
    let engine = engine();
    let local = ToolProfile::builder().expected_latency_ms(0.1, 100.0).has_network_io(false).build().unwrap();
    engine.register("calculate", local).unwrap();
    let result = json!(4);
    let at = |ms| engine.verify(&Call::new("calculate", &result).execution_time_ms(ms).learn(false)).unwrap();
    assert!(!at(0.5).fired(Check::LatencyAnomaly));
    let slow = at(0.01).check(Check::LatencyAnomaly).unwrap().clone();
    assert!(slow.fired && close(slow.score, (1.0_f64 - 0.1).sqrt()) && slow.likelihood_ratio == 3.5);
}

#[test]
fn schema_violations_are_counted_and_paths_reach_inside() {
    let engine = engine();
    let profile = ToolProfile::builder()
        .required_fields(["rows", "rows[].id", "page.next"])
        .forbidden_fields(["error"])
        .build()
        .unwrap();
    engine.register("q", profile).unwrap();
    let score = |result: Value| {
        let verdict = engine.verify(&Call::new("q", &result).learn(false)).unwrap();
        verdict.check(Check::SchemaMismatch).unwrap().score
    };
    assert_eq!(score(json!({"rows": [{"id": 1}], "page": {"next": null}})), 0.0);
    assert_eq!(score(json!({"rows": [{"id": 1}, {}], "page": {"next": null}})), 0.25);
    assert_eq!(score(json!({"error": "x"})), 1.0);
    assert_eq!(score(json!("text")), 0.8);
    assert_eq!(score(json!([])), 0.8);
}

#[test]
fn an_output_schema_counts_as_schema_mismatch() {
    let engine = engine();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}, "required": ["n"]});
    engine.register("t", ToolProfile::builder().output_schema(schema).build().unwrap()).unwrap();
    let verdict = |result: Value| engine.verify(&Call::new("t", &result).learn(false)).unwrap();
    assert!(!verdict(json!({"n": 1})).fired(Check::SchemaMismatch));
    let broken = verdict(json!({"n": -1}));
    assert!(broken.check(Check::SchemaMismatch).unwrap().detail.as_ref().unwrap().contains("'n' is -1"), "{broken:?}");
}

#[test]
fn patterns_and_lengths_see_python_like_text() {
    let engine = engine();
    let profile = ToolProfile::builder()
        .response_patterns([r#""results"\s*:\s*\["#, "^OK$"])
        .min_response_length(10)
        .max_response_length(40)
        .build()
        .unwrap();
    engine.register("search", profile).unwrap();
    let verdict = |result: Value| engine.verify(&Call::new("search", &result).learn(false)).unwrap();
    let good = verdict(json!({"results": [1, 2]}));
    assert!(!good.fired(Check::PatternMismatch) && !good.fired(Check::LengthAnomaly));
    let short = verdict(json!("OK"));
    assert!(!short.fired(Check::PatternMismatch));
    assert!(close(short.check(Check::LengthAnomaly).unwrap().score, 0.5 * (1.0 - 2.0 / 10.0)));
    let other = verdict(json!({"items": "x".repeat(50)}));
    assert_eq!(other.check(Check::PatternMismatch).unwrap().score, 0.8);
    assert_eq!(other.check(Check::LengthAnomaly).unwrap().score, 0.2);
}

/// The seed's NVDA example.
#[test]
fn a_price_unlike_its_history_is_flagged_or_blocked() {
    let engine = engine();
    let args = json!({"ticker": "NVDA"});
    for n in 0..50 {
        let result = json!({"price": 650.0 + f64::from(n % 7), "currency": "USD"});
        let call = Call::new("get_stock_price", &result)
            .args(&args)
            .execution_time_ms(250.0 + f64::from(n % 5))
            .session("session-123");
        let verdict = engine.verify(&call).unwrap();
        assert_ne!(verdict.decision, Decision::Block, "{verdict:?}");
    }
    let result = json!({"price": 50.0, "currency": "USD"});
    let call = Call::new("get_stock_price", &result).args(&args).execution_time_ms(250.0).session("session-123");
    let verdict = engine.verify(&call).unwrap();
    let history = verdict.check(Check::HistoricalInconsistency).unwrap();
    assert!(history.fired && history.detail.as_ref().unwrap().starts_with("field 'price': 50"), "{history:?}");
    assert_ne!(verdict.decision, Decision::Accept, "{verdict:?}");
    assert!(!verdict.fired(Check::SessionInconsistency), "13 times is no 50-fold swing");
}

#[test]
fn a_fifty_fold_swing_within_a_session_is_noticed() {
    let engine = engine();
    let ask = |session: &str, price: f64| {
        let (args, result) = (json!({"n": price}), json!({"price": price}));
        engine.verify(&Call::new("t", &result).args(&args).session(session).learn(true)).unwrap()
    };
    ask("one", 10.0);
    assert!(ask("one", 501.0).fired(Check::SessionInconsistency));
    assert!(!ask("two", 5_000.0).fired(Check::SessionInconsistency), "another session");
    assert!(ask("one", 11.0).check(Check::SessionInconsistency).is_some());
}

#[test]
fn outliers_fire_spc_and_plausibility_from_eight_observations_on() {
    let engine = engine();
    let ask = |n: f64| {
        let (args, result) = (json!({"n": n}), json!({"load": n}));
        engine.verify(&Call::new("t", &result).args(&args).learn(n < 100.0)).unwrap()
    };
    for n in 0..8 {
        assert!(ask(10.0 + f64::from(n % 3)).check(Check::ValuePlausibility).is_none());
    }
    let outlier = ask(1_000.0);
    assert!(outlier.fired(Check::SpcAnomaly) && outlier.fired(Check::ValuePlausibility));
    assert!(close(outlier.check(Check::ValuePlausibility).unwrap().score, 0.3));
}

#[test]
fn blocked_results_are_not_learned() {
    let engine = weather();
    for _ in 0..200 {
        assert_eq!(ask(&engine, &json!("made up"), 0.01).decision, Decision::Block);
    }
    assert_eq!(engine.memory().tools, 0);
}

/// Keys permuted, `learn` flipped: the verdict is the same.
#[test]
fn neither_key_order_nor_learning_influences_a_verdict() {
    let engines = [weather(), weather()];
    let texts = [
        (
            r#"{"temperature": 18, "humidity": 65, "wind": {"speed": 3, "dir": "N"}}"#,
            r#"{"wind": {"dir": "N", "speed": 3}, "humidity": 65, "temperature": 18}"#,
        ),
        (
            r#"{"temperature": 1800, "humidity": 6, "wind": {"speed": 3, "dir": "N"}}"#,
            r#"{"humidity": 6, "wind": {"dir": "N", "speed": 3}, "temperature": 1800}"#,
        ),
    ];
    for n in 0..30 {
        let (one, two) = texts[usize::from(n % 10 == 9)];
        let (one, two): (Value, Value) = (serde_json::from_str(one).unwrap(), serde_json::from_str(two).unwrap());
        let call = |result| Call::new("get_weather", result).session("s").execution_time_ms(300.0 + f64::from(n));
        let probe = engines[0].verify(&call(&one).args(&json!({"a": 1, "b": 2})).learn(false)).unwrap();
        let first = engines[0].verify(&call(&one).args(&json!({"a": 1, "b": 2}))).unwrap();
        let second = engines[1].verify(&call(&two).args(&json!({"b": 2, "a": 1}))).unwrap();
        assert_eq!(probe, first);
        assert_eq!(first, second);
    }
}

#[test]
fn calibration_takes_effect_exactly_as_given() {
    let engine = weather();
    let result = json!({"temperature": 18, "humidity": 65});
    let ratios = [(Check::SchemaMismatch, 2.0)].into();
    engine
        .calibrate(None, Calibration { prior: Some(0.3), flag_threshold: Some(0.4), ..Calibration::default() })
        .unwrap();
    let verdict = ask(&engine, &result, 350.0);
    assert_eq!((verdict.prior, verdict.decision), (0.3, Decision::Accept));
    let own = Calibration { block_threshold: Some(0.05), likelihood_ratios: ratios, ..Calibration::default() };
    engine.calibrate(Some("get_weather"), own).unwrap();
    let verdict = ask(&engine, &result, 350.0);
    assert_eq!(verdict.prior, 0.3, "the global prior still holds");
    assert_eq!(verdict.check(Check::SchemaMismatch).unwrap().likelihood_ratio, 2.0);
    assert_eq!(verdict.decision, Decision::Flag, "past the threshold, but nothing fired: never blocked");
    assert_eq!(ask(&engine, &json!({"temperature": 18}), 350.0).decision, Decision::Block);
    for bad in [
        Calibration { prior: Some(0.0), ..Calibration::default() },
        Calibration { block_threshold: Some(1.5), ..Calibration::default() },
        Calibration { likelihood_ratios: [(Check::SpcAnomaly, f64::NAN)].into(), ..Calibration::default() },
    ] {
        assert!(engine.calibrate(None, bad).is_err());
    }
}

#[test]
fn feedback_moves_threshold_and_prior_continuously_both_ways() {
    let engine = engine();
    let mut last = engine.feedback("t").unwrap();
    assert_eq!((last.prior, last.block_threshold), (0.15, 0.5));
    for n in 1..=30 {
        engine.record_feedback("t", 0.35, true).unwrap();
        let now = engine.feedback("t").unwrap();
        assert!(now.block_threshold < last.block_threshold || now.block_threshold == 0.1, "{n}: {now:?}");
        assert!(now.rate > last.rate && now.rate - last.rate <= 0.1);
        assert_eq!(now.prior, if n < 5 { 0.15 } else { now.rate });
        last = now;
    }
    for _ in 0..60 {
        engine.record_feedback("t", 0.35, false).unwrap();
        let now = engine.feedback("t").unwrap();
        assert!(now.block_threshold >= last.block_threshold && now.prior < last.prior);
        last = now;
    }
    assert!(last.block_threshold > 0.75 && last.prior < 0.01, "{last:?}");
    assert!(engine.record_feedback("t", 1.5, true).is_err() && engine.record_feedback("", 0.5, true).is_err());
}

#[test]
fn whatever_feedback_did_a_result_on_which_nothing_fired_is_not_blocked() {
    let engine = weather();
    (0..100).for_each(|_| engine.record_feedback("get_weather", 0.9, true).unwrap());
    let verdict = ask(&engine, &json!({"temperature": 18, "humidity": 65}), 350.0);
    assert!(verdict.posterior > 0.9 && verdict.decision == Decision::Flag, "{verdict:?}");
}

#[test]
fn bad_calls_are_refused() {
    let engine = engine();
    let result = json!({});
    let verify = |call: Call<'_>| engine.verify(&call).unwrap_err();
    assert!(matches!(verify(Call::new("", &result)), Error::NoTool));
    assert!(matches!(verify(Call::new(&"x".repeat(10_000), &result)), Error::ToolName { .. }));
    for ms in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(verify(Call::new("t", &result).execution_time_ms(ms)), Error::ExecutionTime(_)));
    }
    let huge = json!(vec![0; 300_000]);
    assert!(matches!(verify(Call::new("t", &huge)), Error::TooLarge { what: "result", .. }));
    assert!(matches!(verify(Call::new("t", &result).args(&huge)), Error::TooLarge { what: "arguments", .. }));
    assert_eq!(engine.memory().tools, 0);
}

#[test]
fn a_million_tools_and_sessions_stay_within_limits() {
    let limits = Limits { max_tools: 500, max_sessions: 500, max_histories: 500, ..Limits::default() };
    let engine = Engine::builder().mode(Mode::Fixed).limits(limits).build();
    let result = json!({"n": 1});
    for n in 0..50_000 {
        let (name, args) = (format!("tool-{n}"), json!({ "n": n }));
        engine.verify(&Call::new(&name, &result).args(&args).session(&name)).unwrap();
    }
    let memory = engine.memory();
    assert!(memory.tools <= 564 && memory.sessions <= 564 && memory.histories <= 564, "{memory:?}");
    assert!(memory.evicted_tools > 49_000, "{memory:?}");
}

#[test]
fn verdicts_carry_agent_and_stake_and_explain_themselves() {
    let engine = weather();
    let result = json!({"temperature": 18});
    let call = Call::new("get_weather", &result).execution_time_ms(1.0).agent("bot").stake(Stake::High);
    let verdict = engine.verify(&call).unwrap();
    let json = serde_json::to_value(&verdict).unwrap();
    assert_eq!(
        (&json["agent"], &json["stake"], &json["verdict"], &json["tier"]),
        (&json!("bot"), &json!("high"), &json!("block"), &json!(0))
    );
    assert!(json["signals"]["latency_anomaly"]["fired"].as_bool().unwrap());
    assert!(
        verdict.explanation().contains("impossibly fast") && verdict.explanation().contains("one other check"),
        "{}",
        verdict.explanation()
    );
}

#[test]
fn many_threads_share_one_engine() {
    let engine = weather();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let engine = &engine;
            scope.spawn(move || {
                let (tool, result) = (format!("tool-{thread}"), json!({"n": thread}));
                (0..2_000).for_each(|_| drop(engine.verify(&Call::new(&tool, &result)).unwrap()));
            });
        }
    });
    assert_eq!(engine.memory().tools, 4);
}

/// Feeds `n` calls with a little of everything.
fn busy(engine: &Engine, n: usize) -> Vec<Verdict> {
    (0..n)
        .map(|n| {
            let (tool, session) = (format!("tool-{}", n % 3), format!("session-{}", n % 5));
            let (args, result) =
                (json!({"n": n % 7}), json!({"price": (n * 37 % 100) as f64, "items": [{"q": n % 4}]}));
            let call =
                Call::new(&tool, &result).args(&args).session(&session).execution_time_ms(100.0 + (n % 9) as f64);
            engine.verify(&call).unwrap()
        })
        .collect()
}

#[test]
fn a_restored_engine_goes_on_as_if_nothing_had_happened() {
    let engine = engine();
    busy(&engine, 400);
    engine.record_feedback("tool-1", 0.4, true).unwrap();
    let restored = Engine::builder().mode(Mode::Fixed).restore(&engine.snapshot().unwrap()).unwrap();
    assert_eq!(restored.memory().tools, engine.memory().tools);
    assert_eq!(restored.feedback("tool-1").unwrap(), engine.feedback("tool-1").unwrap());
    assert_eq!(busy(&restored, 200), busy(&engine, 200));
    assert_eq!(restored.snapshot().unwrap().len(), engine.snapshot().unwrap().len());
}

#[test]
fn a_smaller_engine_takes_what_fits() {
    let engine = engine();
    for n in 0..500 {
        let (name, result) = (format!("tool-{n}"), json!({"n": n}));
        engine.verify(&Call::new(&name, &result)).unwrap();
    }
    let limits = Limits { max_tools: 100, ..Limits::default() };
    let restored = Engine::builder().mode(Mode::Fixed).limits(limits).restore(&engine.snapshot().unwrap()).unwrap();
    assert!(restored.memory().tools <= 164, "{:?}", restored.memory());
}

#[test]
fn what_is_no_snapshot_is_refused() {
    let engine = engine();
    busy(&engine, 50);
    let good = engine.snapshot().unwrap();
    let restore = |bytes: &[u8]| Engine::builder().mode(Mode::Fixed).restore(bytes).map(|_| ());
    restore(&good).unwrap();
    let mut newer = good.clone();
    newer[4] = 9;
    assert!(matches!(restore(&newer), Err(Error::NewerSnapshot { found: 9, known: 6 })));
    for length in [0, 3, 5, 6, 7, good.len() / 2, good.len() - 1] {
        assert!(matches!(restore(&good[..length]), Err(Error::Snapshot(_))), "{length} bytes");
    }
    assert!(restore(&[good.as_slice(), b"x"].concat()).is_err());
    // Any damage is refused or harmless, never a panic.
    for at in 0..good.len().min(4_000) {
        let mut damaged = good.clone();
        damaged[at] ^= 0x55;
        if let Ok(restored) = Engine::builder().mode(Mode::Fixed).restore(&damaged) {
            busy(&restored, 5);
        }
    }
}
