//! Benchmarks: what a target does when nobody attacks it.
//!
//! - [`reliability`]: calls spread over time (`rel_uptime`, `rel_latency_p95`, `rel_error_rate`);
//! - [`quality`]: tasks made from the seed, with answers that can be checked (`output_quality`).

pub mod quality;
pub mod reliability;

use std::collections::BTreeMap;

use credence_engine::probe::{self, Estimate, Latency, MIN_CALLS, NoSignal};

use crate::{
    report::{BenchmarkValue, Benchmarks},
    runner::journal::{Line, SampleRecord},
    target::Transport,
};

/// Requests that the benchmarks of a run take, about.
pub fn requests(transport: Transport) -> u64 {
    let quality = if transport.converses() { quality::requests(transport) } else { 0 };
    u64::from(reliability::CALLS) + quality
}

/// The benchmarks' values from a journal.
pub fn results(lines: &[Line]) -> Benchmarks {
    let of = |name: &str| -> Vec<&SampleRecord> {
        let mut found: BTreeMap<u32, &SampleRecord> = BTreeMap::new();
        for line in lines {
            if let Line::Sample(sample) = line
                && sample.benchmark == name
            {
                found.insert(sample.number, sample);
            }
        }
        found.into_values().collect()
    };
    let mut values = BTreeMap::new();
    let calls = of(reliability::NAME);
    if !calls.is_empty() {
        let unanswered =
            calls.iter().filter(|call| call.reason.is_some_and(crate::trial::Reason::is_no_answer)).count() as u64;
        let all = calls.len() as u64;
        let answered = all - unanswered;
        let errors = calls.iter().filter(|call| !call.passed).count() as u64 - unanswered;
        let detail = |pairs: &[(&str, u64)]| pairs.iter().map(|(name, n)| ((*name).to_owned(), *n as f64)).collect();
        let uptime = probe::share(unanswered, all, MIN_CALLS);
        values
            .insert("rel_uptime".to_owned(), value(uptime, all, detail(&[("calls", all), ("unanswered", unanswered)])));
        let rate = probe::share(errors, answered, MIN_CALLS);
        values.insert(
            "rel_error_rate".to_owned(),
            value(rate, answered, detail(&[("answered", answered), ("errors", errors)])),
        );
        let times: Vec<u64> = calls.iter().filter(|call| call.passed).map(|call| call.took_ms).collect();
        if let Some(latency) = Latency::of(&times) {
            let numbers = detail(&[("p95_ms", latency.p95_ms), ("bound_ms", latency.bound_ms)]);
            values.insert("rel_latency_p95".to_owned(), value(latency.estimate(), latency.samples, numbers));
        }
    }
    let tasks = of(quality::NAME);
    // No answer says nothing about the quality of answers; it is counted under reliability.
    let judged: Vec<_> =
        tasks.iter().filter(|task| !task.reason.is_some_and(crate::trial::Reason::is_outage)).collect();
    if !tasks.is_empty() {
        let (all, passed) = (judged.len() as u64, judged.iter().filter(|task| task.passed).count() as u64);
        let mut detail: BTreeMap<String, f64> =
            [("tasks".to_owned(), all as f64), ("passed".to_owned(), passed as f64)].into();
        for task in &judged {
            *detail.entry(format!("{}_tasks", task.task)).or_default() += 1.0;
            *detail.entry(format!("{}_passed", task.task)).or_default() += f64::from(u8::from(task.passed));
        }
        values.insert("output_quality".to_owned(), value(probe::quality(passed, all), all, detail));
    }
    Benchmarks { values }
}

fn value(estimate: Result<Estimate, NoSignal>, samples: u64, detail: BTreeMap<String, f64>) -> BenchmarkValue {
    match estimate {
        Ok(estimate) => BenchmarkValue {
            value: Some(estimate.value),
            stddev: Some(estimate.stddev),
            samples,
            detail,
            no_signal: None,
        },
        Err(none) => BenchmarkValue { value: None, stddev: None, samples, detail, no_signal: Some(none.to_string()) },
    }
}
