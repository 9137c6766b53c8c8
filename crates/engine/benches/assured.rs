//! The assured score, one thread, signals in memory: the inner loop of a recompute, without and with fragility.

use std::hint::black_box;

use credence_engine::assured::{Dimension, Measurement, Model, Scratch};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// `count` signals of `voices` voices over all tags that count, grouped by voice as the ledger delivers them.
fn signals(model: &Model, count: usize, voices: usize) -> Vec<Measurement> {
    let tags: Vec<_> =
        Dimension::ALL.iter().flat_map(|d| model.tags_of(*d)).filter_map(|name| model.tag(name)).collect();
    let mut list: Vec<_> = (0..count)
        .map(|n| Measurement {
            tag: tags[n / voices * 7 % tags.len()],
            voice: (n % voices) as u32,
            value: (n * 37 % 101) as f64,
            stddev: (n % 7) as f64,
            weight: 1.0,
            age_days: (n * 13 % 40) as f64,
        })
        .collect();
    list.sort_by_key(|signal| signal.voice);
    list
}

fn assured(criterion: &mut Criterion) {
    let Ok(model) = Model::standard() else { return };
    let mut group = criterion.benchmark_group("assured score");
    for (count, voices) in [(12, 8), (256, 10), (256, 60)] {
        let signals = signals(model, count, voices);
        group.throughput(Throughput::Elements(count as u64));
        let mut scratch = Scratch::default();
        group.bench_function(format!("{count} signals of {voices} voices"), |bencher| {
            bencher.iter(|| model.numbers(black_box(&signals), &mut scratch));
        });
        group.bench_function(format!("{count} signals of {voices} voices, with fragility"), |bencher| {
            bencher.iter(|| {
                let numbers = model.numbers(black_box(&signals), &mut scratch)?;
                Ok::<_, credence_engine::Error>(model.fragility(&numbers, &mut scratch))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, assured);
criterion_main!(benches);
