//! The engine counts its own memory: as the allocator does, and in bounds.
#![allow(clippy::unwrap_used, missing_docs, reason = "helpers of tests: a failing unwrap is how a test says no")]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use credence_verify::{Call, Engine, Mode};
use serde_json::{Map, Value, json};

/// Results of all shapes: few fields and many, texts, numbers, lists, other arguments and sessions each time.
fn feed(engine: &Engine, calls: u32) {
    for n in 0..calls {
        let mut wide: Map<String, Value> =
            (0..n % 40).map(|key| (format!("key number {key}"), json!(format!("text {}", n * key)))).collect();
        wide.insert(
            "items".into(),
            (0..n % 7).map(|item| json!({ "price": f64::from(n + item) * 0.37, "ok": true })).collect(),
        );
        let (tool, session) = (format!("tool-{}", n % 97), format!("session-{}", n % 61));
        let (args, result) = (json!({ "n": n % 400, "q": "abc" }), Value::Object(wide));
        engine.verify(&Call::new(&tool, &result).args(&args).session(&session).execution_time_ms(5.0)).unwrap();
    }
}

#[test]
fn bytes_are_what_the_allocator_gave() {
    for mode in [Mode::Adaptive, Mode::Fixed] {
        let engine = Engine::builder().mode(mode).build();
        let took = allocation_counter::measure(|| feed(&engine, 6_000)).bytes_current as f64;
        let counted = engine.memory().bytes as f64;
        assert!((0.7..1.5).contains(&(counted / took)), "{mode:?}: counted {counted}, allocated {took}");
    }
}

#[test]
fn what_is_trimmed_is_the_oldest_and_no_more_than_needed() {
    let total: Arc<AtomicUsize> = Arc::default();
    let engine = Engine::builder().counted_in(Arc::clone(&total)).build();
    let other = Engine::builder().counted_in(Arc::clone(&total)).build();
    feed(&engine, 4_000);
    feed(&other, 500);
    let before = engine.memory();
    assert_eq!(total.load(Relaxed), before.bytes + other.memory().bytes, "both are counted in one place");
    let most = before.bytes / 2;
    let trimmed = engine.trim(most);
    let after = engine.memory();
    assert!(after.bytes <= most && after.bytes > most / 2, "{before:?} {after:?}");
    assert!(trimmed.histories > 0 && after.histories < before.histories);
    assert_eq!(after.evicted_histories - before.evicted_histories, trimmed.histories);
    assert_eq!((before.tools - after.tools) as u64, trimmed.tools);
    assert_eq!(total.load(Relaxed), after.bytes + other.memory().bytes);
    assert_eq!(engine.trim(most), Default::default(), "there was room");
    // What goes on is counted on.
    feed(&engine, 500);
    engine.trim(0);
    assert_eq!(engine.memory().bytes, 0);
    drop((engine, other));
    assert_eq!(total.load(Relaxed), 0);
}

#[test]
fn what_was_read_back_is_counted() {
    let engine = Engine::builder().build();
    feed(&engine, 3_000);
    let total: Arc<AtomicUsize> = Arc::default();
    let restored = Engine::builder().counted_in(Arc::clone(&total)).restore(&engine.snapshot().unwrap()).unwrap();
    let (before, after) = (engine.memory().bytes as f64, restored.memory().bytes as f64);
    assert!((0.6..1.1).contains(&(after / before)), "{before} {after}");
    assert_eq!(total.load(Relaxed), restored.memory().bytes);
}
