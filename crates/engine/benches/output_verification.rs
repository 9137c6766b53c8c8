//! HCS-25 output verification: the adapter on validated structs, and from JSON with validation.

use std::hint::black_box;

use credence_engine::hcs25::{
    Profile,
    output_verification::{Parameters, Report, Summary},
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const JSON: &[u8] = br#"{"allowRate":0.9,"blockRate":0.08,"uncertainRate":0.02,"avgConfidence":0.85,"totalChecks":240,"windowDays":7,
"updatedAt":"2026-01-14T00:00:00Z","stakeDistribution":{"low":{"checks":200,"allowRate":0.95,"avgConfidence":0.9},"high":{"checks":40,
"allowRate":0.7,"avgConfidence":0.75}},"providers":[{"id":"provider-a","methodologyUrl":"https://example.com/method","checksContributed":240}]}"#;

const PLAIN: &[u8] =
    br#"{"allowRate":0.9,"blockRate":0.1,"uncertainRate":0,"avgConfidence":0.8,"totalChecks":10,"windowDays":7,
"stakeDistribution":{"low":{"checks":8},"medium":{"checks":2}}}"#;

fn output_verification(c: &mut Criterion) {
    let parameters = Parameters::default();
    let Ok(Report::Applicable(summary)) = Summary::parse(JSON, 10) else { panic!("a valid summary") };
    let summaries: Vec<Summary> = (0..1000).map(|n| Summary { total_checks: 240 + n, ..summary.clone() }).collect();
    let mut group = c.benchmark_group("output verification");
    group.throughput(Throughput::Elements(1000));
    for (name, profile) in [("spec", Profile::Spec), ("reference", Profile::Reference)] {
        group.bench_function(format!("1000 structs, {name}"), |b| {
            b.iter(|| {
                summaries.iter().map(|summary| parameters.evaluate(black_box(summary), profile).total).sum::<f64>()
            })
        });
    }
    group.throughput(Throughput::Elements(1));
    for (name, json) in [("every field", JSON), ("required fields and stakes", PLAIN)] {
        group.bench_function(format!("from JSON with validation, {name}, {} bytes", json.len()), |b| {
            b.iter(|| match Summary::parse(black_box(json), 10) {
                Ok(Report::Applicable(summary)) => parameters.evaluate(&summary, Profile::Reference).total,
                _ => panic!("a valid summary"),
            })
        });
    }
    group.finish();
}

criterion_group!(benches, output_verification);
criterion_main!(benches);
