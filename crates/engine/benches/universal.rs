//! The universal score, one thread, signals in memory: the inner loop of a recompute.

use std::hint::black_box;

use credence_engine::universal::{self, DEFAULT_COVERAGE_FLOOR, Weighted};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// `signals` spread over eight sources, grouped by source as the ledger delivers them.
fn signals(signals: u32) -> Vec<Weighted<u32>> {
    let mut list: Vec<_> = (0..signals)
        .map(|n| Weighted { source: n % 8, value: f64::from(n * 37 % 101), stddev: f64::from(n % 7), weight: 1.0 })
        .collect();
    list.sort_by_key(|signal| signal.source);
    list
}

fn universal(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("universal score");
    for count in [2, 12, 256] {
        let signals = signals(count);
        group.throughput(Throughput::Elements(u64::from(count)));
        group.bench_function(format!("{count} signals"), |bencher| {
            bencher.iter(|| universal::score(black_box(&signals), DEFAULT_COVERAGE_FLOOR));
        });
    }
    group.finish();
}

criterion_group!(benches, universal);
criterion_main!(benches);
