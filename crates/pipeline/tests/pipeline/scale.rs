//! 100,000 signals over 1,000 agents: every score event replays byte for byte.

use crate::common::{House, key, tag};
use credence_protocol::SecretKey;
use rayon::prelude::*;

const SIGNALS: usize = 100_000;
const AGENTS: usize = 1_000;
const SOURCES: usize = 8;

#[test]
fn a_hundred_thousand_signals_replay_to_the_same_bytes() {
    let agents: Vec<String> = (0..AGENTS).map(|n| format!("agent-{n}")).collect();
    let sources: Vec<String> = (0..SOURCES).map(|n| format!("source-{n}")).collect();
    let keys: Vec<SecretKey> = sources.iter().map(|source| key(source)).collect();
    let house = House::new(
        &sources.iter().map(|s| (s.as_str(), 1.0)).collect::<Vec<_>>(),
        &agents.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let tags = ["rel_uptime", "rel_error_rate", "user_feedback"].map(tag);
    let lines: Vec<Vec<u8>> = (0..SIGNALS)
        .into_par_iter()
        .map(|n| {
            let source = n * 7 % SOURCES;
            let mut draft = house.draft(&agents[n % AGENTS], &sources[source], &["rel_uptime"], (n * 13 % 101) as f64);
            draft.tags = vec![tags[n % 3].clone()];
            draft.sign(&keys[source]).unwrap().canonical().as_bytes().to_vec()
        })
        .collect();
    let mut admitted = 0;
    house.authority.submit_all(lines, &mut |_, verdict| admitted += usize::from(verdict.is_ok())).unwrap();
    assert_eq!(admitted, SIGNALS);
    house.authority.score_now().unwrap();
    let replayed = house.replay();
    assert_eq!(replayed.differences.count, 0, "{:#?}", replayed.differences);
    assert!(replayed.score_events >= AGENTS as u64);
}
