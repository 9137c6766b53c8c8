//! One verification in each mode, one thread, warm, parsed input; allocations per verification; and two threads on different
//! tools against one.
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark")]

use std::{hint::black_box, time::Instant};

use credence_verify::{Call, Engine, Mode};
use criterion::Criterion;
use serde_json::{Map, Value, json};

/// A result with `fields` numbers, a third of them nested.
fn result(fields: usize, n: usize) -> Value {
    let number = |f: usize| json!((100 + f * 7 + n % 13) as f64 + 0.5);
    let flat: Map<String, Value> = (0..fields - fields / 3).map(|f| (format!("field_{f}"), number(f))).collect();
    let mut result = Value::Object(flat);
    if fields / 3 > 0 {
        let nested: Map<String, Value> = (0..fields / 3).map(|f| (format!("inner_{f}"), number(f))).collect();
        result["nested"] = Value::Object(nested);
    }
    result
}

fn warm(mode: Mode, tool: &str, fields: usize) -> (Engine, Vec<Value>, Vec<Value>) {
    let engine = Engine::builder().mode(mode).build();
    let results: Vec<Value> = (0..64).map(|n| result(fields, n)).collect();
    let args: Vec<Value> = (0..64).map(|n| json!({"city": format!("city-{}", n % 16)})).collect();
    for n in 0..1_000 {
        engine.verify(&call(tool, &results[n % 64], &args[n % 64])).unwrap();
    }
    (engine, results, args)
}

fn call<'a>(tool: &'a str, result: &'a Value, args: &'a Value) -> Call<'a> {
    Call::new(tool, result).args(args).execution_time_ms(250.0).session("session")
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    for (mode, name) in [(Mode::Fixed, "fixed"), (Mode::Adaptive, "adaptive")] {
        let mut group = criterion.benchmark_group(name);
        for fields in [2, 10, 50] {
            let (engine, results, args) = warm(mode, "tool", fields);
            let mut n = 0;
            group.bench_function(format!("{fields} fields"), |bencher| {
                bencher.iter(|| {
                    n += 1;
                    engine.verify(black_box(&call("tool", &results[n % 64], &args[n % 64])))
                });
            });
            let allocations = allocation_counter::measure(|| {
                for n in 0..1_000 {
                    drop(black_box(engine.verify(&call("tool", &results[n % 64], &args[n % 64]))));
                }
            });
            println!("{name}, {fields} fields: {:.1} allocations a call\n", allocations.count_total as f64 / 1e3);
        }
        group.finish();
        threads(mode, name);
    }
}

/// One thread against two on different tools, in turn.
fn threads(mode: Mode, name: &str) {
    let (engine, results, args) = warm(mode, "tool-0", 10);
    let run = |threads: usize| {
        const CALLS: usize = 100_000;
        let began = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (engine, results, args) = (&engine, &results, &args);
                scope.spawn(move || {
                    let tool = format!("tool-{thread}");
                    for n in 0..CALLS {
                        black_box(engine.verify(&call(&tool, &results[n % 64], &args[n % 64]))).unwrap();
                    }
                });
            }
        });
        (threads * CALLS) as f64 / began.elapsed().as_secs_f64()
    };
    run(2);
    let mut ratios: Vec<f64> = (0..7)
        .map(|_| {
            let one = run(1);
            run(2) / one
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    println!(
        "{name}, 10 fields: two threads on different tools do {:.2} times what one does (median of 7)\n",
        ratios[3]
    );
}
