//! How often the answer to equal arguments changes, and after how long, is learned (docs/adr/0086).
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::time::Duration;

use credence_verify::{Call, Check, Decision, Engine, Timestamp, measure::auroc};
use fastrand::Rng;
use serde_json::{Value, json};

const CITIES: usize = 30;
const HOUR: u64 = 3_600;

/// A forecast that holds for an hour, of thirty cities. An agent asks for a city a few times within some minutes, and hours later again.
struct Forecast {
    random: Rng,
    now: Timestamp,
    /// When the city's forecast was made, and the forecast.
    cities: Vec<(u64, Value)>,
    city: usize,
    left: usize,
}

/// One question and its answer.
struct Asked {
    args: Value,
    result: Value,
    at: Timestamp,
    /// Whether it is the first of a few.
    first: bool,
}

fn start() -> Timestamp {
    "2026-11-02T08:00:00Z".parse().unwrap()
}

impl Forecast {
    fn new(seed: u64) -> Self {
        let cities = vec![(0, Value::Null); CITIES];
        Self { random: Rng::with_seed(seed), now: start(), cities, city: 0, left: 0 }
    }

    fn made(&mut self) -> Value {
        let conditions = ["sunny", "cloudy", "rain", "snow"];
        json!({
            "temperature": self.random.i32(-5..35), "condition": conditions[self.random.usize(..4)],
            "wind": self.random.u32(0..9) * 5,
        })
    }

    fn ask(&mut self) -> Asked {
        let first = self.left == 0;
        if first {
            self.city = self.random.usize(..CITIES);
            self.left = self.random.usize(2..5);
            self.now = self.now.plus(Duration::from_secs(self.random.u64(300..1_200)));
        } else {
            self.now = self.now.plus(Duration::from_secs(self.random.u64(5..60)));
        }
        self.left -= 1;
        let hour = 1 + self.now.micros() as u64 / 1_000_000 / HOUR;
        if self.cities[self.city].0 != hour {
            self.cities[self.city] = (hour, self.made());
        }
        let (args, result) = (json!({ "city": format!("city-{}", self.city) }), self.cities[self.city].1.clone());
        Asked { args, result, at: self.now, first }
    }
}

fn call(asked: &Asked, timed: bool) -> Call<'_> {
    let call = Call::new("forecast", &asked.result).args(&asked.args);
    if timed { call.at(asked.at) } else { call }
}

/// What was made of 600 calls after 400 that were learned: genuine results, and lies told a moment after a genuine one, by posterior; how many genuine ones
/// were not accepted, and those of a city that was not asked for in hours.
fn watched(timed: bool, seed: u64) -> (f64, usize, f64) {
    let (engine, mut forecast) = (Engine::builder().build(), Forecast::new(seed));
    let (mut genuine, mut lies, mut flagged, mut after_hours) = (Vec::new(), Vec::new(), 0, Vec::new());
    for n in 0..1_000 {
        let asked = forecast.ask();
        if n >= 400 && !asked.first {
            // Of the usual form, with usual values: nothing but the answer a moment ago speaks against it.
            let lie = Asked { result: forecast.made(), args: asked.args.clone(), ..asked };
            if lie.result != asked.result {
                lies.push(engine.verify(&call(&lie, timed).learn(false)).unwrap().posterior);
            }
        }
        let verdict = engine.verify(&call(&asked, timed)).unwrap();
        if n >= 400 {
            genuine.push(verdict.posterior);
            flagged += usize::from(verdict.decision != Decision::Accept);
            if asked.first {
                after_hours.push(verdict.posterior);
            }
        }
    }
    let after_hours = after_hours.iter().sum::<f64>() / after_hours.len() as f64;
    (auroc(&lies, &genuine), flagged, after_hours)
}

#[test]
fn after_how_long_an_answer_changes_is_learned() {
    for seed in 0..3 {
        let (timed, untimed) = (watched(true, seed), watched(false, seed));
        eprintln!("seed {seed}: with times {timed:?}, without {untimed:?}");
        assert!(timed.0 >= 0.95, "seed {seed}: AUROC {}", timed.0);
        assert!(timed.0 > untimed.0, "seed {seed}: AUROC {} with times, {} without", timed.0, untimed.0);
        assert!(timed.1 <= 18, "seed {seed}: {} of 600 genuine results are not accepted", timed.1);
        assert!(timed.2 <= untimed.2, "seed {seed}: what changed over hours is odd: {} and {}", timed.2, untimed.2);
    }
}

/// A service asked every ten seconds, whose answers stay; the values are usual ones for the tool, not for these arguments.
fn asked_every_ten_seconds() -> (Engine, Timestamp) {
    let (engine, mut now) = (Engine::builder().build(), start());
    for n in 0..400_usize {
        let service = n % 8;
        now = now.plus(Duration::from_secs(10));
        let (args, result) =
            (json!({ "service": service }), json!({ "leader": service % 4, "healthy": service % 3 != 0 }));
        engine.verify(&Call::new("leader", &result).args(&args).at(now)).unwrap();
    }
    (engine, now)
}

fn changed(engine: &Engine, at: Option<Timestamp>) -> credence_verify::Verdict {
    let (args, result) = (json!({ "service": 2 }), json!({ "leader": 1, "healthy": true }));
    let call = Call::new("leader", &result).args(&args).learn(false);
    engine.verify(&at.map_or(call, |at| call.at(at))).unwrap()
}

#[test]
fn over_a_night_the_world_may_have_changed() {
    let (engine, now) = asked_every_ten_seconds();
    let in_time = changed(&engine, Some(now.plus_seconds(10)));
    let untimed = changed(&engine, None);
    let next_day = changed(&engine, Some(now.plus_seconds(14 * 3_600)));
    assert!(in_time.posterior >= untimed.posterior * 0.9, "{} and {}", in_time.posterior, untimed.posterior);
    assert!(next_day.posterior < untimed.posterior, "{} and {}", next_day.posterior, untimed.posterior);
    assert_eq!(next_day.decision, Decision::Accept, "{}", next_day.explanation());
    assert!(in_time.explanation().contains("2 minutes ago") || in_time.explanation().contains("seconds ago"));
}

#[test]
fn a_clock_that_is_set_back_says_nothing() {
    let (engine, now) = asked_every_ten_seconds();
    let (untimed, back) = (changed(&engine, None), changed(&engine, Some(now.plus_seconds(-86_400))));
    assert_eq!(untimed.posterior, back.posterior);
}

#[test]
fn a_liar_who_waits_longer_than_anybody_did_is_still_judged_by_everything_else() {
    let (engine, now) = asked_every_ten_seconds();
    let args = json!({ "service": 2 });
    for lie in
        [json!({ "leader": "none", "healthy": true }), json!("all is well"), json!({ "leader": 2, "healthy": "yes" })]
    {
        let call = Call::new("leader", &lie).args(&args).learn(false).at(now.plus_seconds(365 * 86_400));
        assert_ne!(engine.verify(&call).unwrap().decision, Decision::Accept, "{lie}");
    }
}

#[test]
fn a_restart_forgets_no_times() {
    let (engine, now) = asked_every_ten_seconds();
    let restored = Engine::builder().restore(&engine.snapshot().unwrap()).unwrap();
    for after in [10, 600, 50_000] {
        let at = Some(now.plus_seconds(after));
        assert_eq!(changed(&restored, at), changed(&engine, at), "{after} s later");
    }
    assert_ne!(
        changed(&restored, Some(now.plus_seconds(10))).posterior,
        changed(&restored, Some(now.plus_seconds(50_000))).posterior
    );
}

/// Written by the version before ages were learned, after 120 calls of a health check for four services.
const VERSION_4: &[u8] = include_bytes!("snapshots/version-4.crdv");

#[test]
fn what_was_learned_before_there_were_ages_is_not_lost() {
    assert_eq!(VERSION_4[4], 4);
    let engine = Engine::builder().restore(VERSION_4).unwrap();
    assert_eq!((engine.memory().tools, engine.memory().histories), (1, 4));
    let judged = |queue: u64| {
        let (args, result) = (json!({ "service": 2 }), json!({ "status": "green", "queue": queue }));
        engine.verify(&Call::new("health", &result).args(&args).execution_time_ms(22.0).at(start())).unwrap()
    };
    assert_eq!(judged(14).decision, Decision::Accept);
    let changed = judged(7);
    assert!(changed.explanation().contains("the same arguments"), "{}", changed.explanation());
    assert_eq!(engine.snapshot().unwrap()[4], 6, "what is written is of this version");
}

/// Forty answers about four jobs, which took 800 to 839 ms.
const VERSION_5: &[u8] = include_bytes!("snapshots/version-5.crdv");

#[test]
fn what_was_learned_before_it_was_known_where_values_are_lately_is_not_lost() {
    assert_eq!(VERSION_5[4], 5);
    let engine = Engine::builder().restore(VERSION_5).unwrap();
    assert_eq!((engine.memory().tools, engine.memory().histories), (1, 4));
    let args = json!({ "job": 2 });
    let judged = |rows: u64, ms: f64| {
        let result = json!({ "state": "running", "rows": rows, "log": "started, then waited for a lock" });
        let at = start().plus(Duration::from_secs(3_600));
        engine.verify(&Call::new("job", &result).args(&args).execution_time_ms(ms).at(at)).unwrap()
    };
    assert_eq!(judged(9_022, 820.0).decision, Decision::Accept);
    let changed = judged(9_023, 2.0);
    assert!(
        changed.explanation().contains("2 ms is far less than the fastest answer so far (800 ms)"),
        "{}",
        changed.explanation()
    );
    assert!(!judged(9_022, 810.0).fired(Check::Determinism), "the answer is remembered");
    assert_eq!(engine.snapshot().unwrap()[4], 6, "what is written is of this version");
}

#[test]
fn where_answers_were_lately_outlives_a_restart() {
    let engine = Engine::builder().build();
    let result = json!({ "status": "ok" });
    let call = |n: usize| Call::new("ping", &result).execution_time_ms(if n < 100 { 10.0 } else { 5_000.0 } + n as f64);
    (0..200).for_each(|n| drop(engine.verify(&call(n)).unwrap()));
    let restored = Engine::builder().restore(&engine.snapshot().unwrap()).unwrap();
    for engine in [engine, restored] {
        let posterior = |ms: f64| engine.verify(&call(0).execution_time_ms(ms).learn(false)).unwrap().posterior;
        assert!(posterior(50.0) > 3.0 * posterior(5_100.0), "it once was as fast, and is not any more");
        assert_eq!(posterior(6_000.0), posterior(5_100.0), "slowness is no evidence");
    }
}
