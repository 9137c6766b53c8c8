//! Signed ingest, end to end and durable, beside the Ed25519 verification rate of all cores in the same run.
//!
//! End to end: bytes of JSON in; strict parsing, canonical form, strict signature, admission, an fsynced transaction with
//! projections, Merkle tiles and a signed checkpoint, and the score events of every affected agent; acknowledgements out.
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark")]

mod support;

use std::{
    cell::{Cell, RefCell},
    time::{Duration, Instant},
};

use credence_pipeline::{NewAgent, NewSource};
use credence_protocol::{Audience, SecretKey, Signal, SignalDraft, Tag};
use criterion::{Criterion, Throughput};
use rayon::prelude::*;
use support::{House, house, id, now};

const AGENTS: usize = 1_000;
const SOURCES: usize = 8;
const SIGNALS: usize = 60_000;
const SAMPLES: usize = 10;

fn source(n: usize) -> String {
    format!("source-{n}")
}

fn key(n: usize) -> SecretKey {
    SecretKey::from_seed(&[n as u8 + 1; 32])
}

fn prepared() -> House {
    let house = house();
    for n in 0..SOURCES {
        house.authority.add_source(NewSource::new(id(&source(n)), 1.0)).unwrap();
        house.authority.add_key(&key(n).public(), id(&source(n))).unwrap();
    }
    for n in 0..AGENTS {
        house.authority.add_agent(NewAgent::new(id(&format!("agent-{n}")))).unwrap();
    }
    house
}

fn signals() -> Vec<Vec<u8>> {
    let tags = ["rel_uptime", "rel_error_rate", "user_feedback"];
    (0..SIGNALS)
        .into_par_iter()
        .map(|n| {
            let (agent, from) = (format!("agent-{}", n * 7 % AGENTS), n / AGENTS % SOURCES);
            let tag = Tag::new(tags[n / AGENTS / SOURCES % 3]).unwrap();
            let draft = SignalDraft::new(id(&agent), id(&source(from)), vec![tag], (n * 13 % 101) as f64, 1.5, now());
            let draft = draft.to(Audience::new("example.org/bench").unwrap());
            draft.sign(&key(from)).unwrap().canonical().as_bytes().to_vec()
        })
        .collect()
}

fn main() {
    let lines = signals();
    let bytes: usize = lines.iter().map(Vec::len).sum();
    let keys: Vec<_> = (0..SOURCES).map(|n| key(n).public()).collect();
    let parsed: Vec<(Vec<u8>, credence_protocol::Signature, usize)> = lines
        .par_iter()
        .map(|line| {
            let signal = Signal::parse(line).unwrap();
            let signature = serde_json::from_slice::<serde_json::Value>(line).unwrap()["signature"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap();
            let signer = keys.iter().position(|key| key.id() == signal.key_id()).unwrap();
            (signal.signed_bytes(), signature, signer)
        })
        .collect();

    let mut criterion =
        Criterion::default().sample_size(SAMPLES).warm_up_time(Duration::from_millis(1)).configure_from_args();
    let (verifying, ingesting) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
    let stored = Cell::new(0);
    let mut group = criterion.benchmark_group("signed ingest");
    group.throughput(Throughput::Elements(SIGNALS as u64)).measurement_time(Duration::from_secs(1));
    group.bench_function("Ed25519 verify_strict alone, all cores", |bencher| {
        bencher.iter_custom(|rounds| {
            (0..rounds)
                .map(|_| {
                    let began = Instant::now();
                    parsed
                        .par_iter()
                        .for_each(|(message, signature, signer)| keys[*signer].verify(message, signature).unwrap());
                    let took = began.elapsed();
                    verifying.borrow_mut().push(took);
                    took
                })
                .sum()
        });
    });
    group.bench_function("end to end and durable, 1,000 agents", |bencher| {
        bencher.iter_custom(|rounds| {
            (0..rounds)
                .map(|_| {
                    let house = prepared();
                    let lines = lines.clone();
                    let began = Instant::now();
                    let mut admitted = 0;
                    house
                        .authority
                        .submit_all(lines, &mut |_, verdict| admitted += usize::from(verdict.is_ok()))
                        .unwrap();
                    house.authority.score_now().unwrap();
                    let took = began.elapsed();
                    assert_eq!(admitted, SIGNALS);
                    ingesting.borrow_mut().push(took);
                    let House { folder, authority } = house;
                    drop(authority);
                    stored.set(std::fs::metadata(folder.path().join("ledger.db")).unwrap().len());
                    took
                })
                .sum()
        });
    });
    group.finish();

    let rate = |times: &RefCell<Vec<Duration>>| {
        let mut times = times.borrow().clone();
        times.sort();
        times.get(times.len() / 2).map(|median| SIGNALS as f64 / median.as_secs_f64())
    };
    if let (Some(verify), Some(ingest)) = (rate(&verifying), rate(&ingesting)) {
        println!("\n{SIGNALS} signals of {} bytes, {} cores, medians:", bytes / SIGNALS, rayon::current_num_threads());
        println!("  verify_strict alone   {verify:>8.0} /s");
        println!("  signed ingest         {ingest:>8.0} /s");
        println!(
            "  on disk               {:>8} bytes per signal, scores and proofs included",
            stored.get() / SIGNALS as u64
        );
        println!("  ratio                 {:>8.2}   (at least 0.40 wanted)", ingest / verify);
    }
}
