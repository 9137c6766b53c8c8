//! Laws that hold for any sequence of admissions, corrections and revocations.

use std::collections::BTreeMap;

use crate::common::{House, id, key, verifying_by};
use credence_engine::reputation::time::midnights;
use credence_pipeline::Error;
use credence_protocol::{SecretKey, SignalDraft, StatementKind, Timestamp};
use proptest::{prelude::*, test_runner::TestCaseError};

const TAGS: [&str; 3] = ["rel_uptime", "rel_error_rate", "user_feedback"];

#[derive(Debug, Clone)]
struct Measurement {
    source: usize,
    tags: Vec<&'static str>,
    value: u8,
    /// Minutes before now; few distinct ones, so that ties occur.
    age: i64,
}

fn measurement() -> impl Strategy<Value = Measurement> {
    (0usize..2, prop::sample::subsequence(TAGS.to_vec(), 1..=3), 0u8..=100, 0i64..6)
        .prop_map(|(source, tags, value, age)| Measurement { source, tags, value, age })
}

const SOURCES: [&str; 2] = ["lab", "rival"];

fn house() -> House {
    House::in_memory(&[("lab", 1.0), ("rival", 0.5)], &["bot"])
}

/// Whether a measurement is one of those that a slot (`bot/source/tag`) is filled from.
fn fills(draft: &SignalDraft, slot: &str) -> bool {
    draft.tags.iter().any(|tag| format!("bot/{}/{tag}", draft.source) == slot)
}

fn draft(house: &House, start: Timestamp, m: &Measurement) -> SignalDraft {
    let mut draft = house.draft("bot", SOURCES[m.source], &m.tags, f64::from(m.value));
    draft.observed_at = start.plus_seconds(-60 * m.age).into();
    draft
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Two orders of admission differ only where `observed_at` ties and `seq` decides.
    #[test]
    fn order_of_admission_matters_only_between_equal_times(
        list in prop::collection::vec(measurement(), 1..14),
        shuffle in prop::collection::vec(any::<prop::sample::Index>(), 14),
    ) {
        let (one, two) = (house(), house());
        let start = one.now();
        let drafts: Vec<SignalDraft> = list.iter().map(|m| draft(&one, start, m)).collect();
        let mut shuffled = drafts.clone();
        for (n, pick) in shuffle.iter().enumerate().take(drafts.len()) {
            let other = pick.index(drafts.len());
            shuffled.swap(n, other);
        }
        drafts.iter().for_each(|d| { one.admit(d.clone()); });
        shuffled.iter().for_each(|d| { two.admit(d.clone()); });
        let summary = |house: &House| house.current().into_iter().collect::<BTreeMap<_, _>>();
        let (first, second) = (summary(&one), summary(&two));
        prop_assert_eq!(first.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>());
        for (slot, row) in &first {
            prop_assert_eq!(row.observed_at, second[slot].observed_at);
            let tied = drafts.iter().filter(|d| fills(d, slot) && d.observed_at.at().micros() == row.observed_at).count();
            prop_assert!(tied >= 1, "{}: {:?} was never measured", slot, row);
            if tied == 1 {
                prop_assert_eq!(row.value, second[slot].value);
            }
        }
        // Between equal times the one admitted last counts, in whichever order they came.
        for (rows, order) in [(&first, &drafts), (&second, &shuffled)] {
            for (slot, row) in rows {
                let newest = order.iter().filter(|d| fills(d, slot)).max_by_key(|d| d.observed_at.at().micros()).unwrap();
                prop_assert_eq!((row.observed_at, row.value), (newest.observed_at.at().micros(), newest.value));
            }
        }
        one.assert_sound();
        two.assert_sound();
    }

    /// The incremental tables equal a naive reading of the whole history, with corrections and a revoked key.
    #[test]
    fn current_signals_equal_a_naive_reading(
        list in prop::collection::vec((measurement(), prop::option::of(any::<prop::sample::Index>()), any::<bool>()), 1..16),
        revoke_at in any::<prop::sample::Index>(),
    ) {
        let house = house();
        let start = house.now();
        let second = SecretKey::from_seed(&[77; 32]);
        let own_keys = SOURCES.map(key);
        house.authority.add_key(&second.public(), id("lab")).unwrap();
        let mut admitted: Vec<(SignalDraft, u64, bool)> = Vec::new();
        for (m, correct, with_second) in &list {
            let mut draft = draft(&house, start, m);
            let own: Vec<_> = admitted.iter().filter(|(d, ..)| d.source == draft.source).map(|(d, ..)| d.id).collect();
            draft.supersedes = correct.filter(|_| !own.is_empty()).map(|pick| own[pick.index(own.len())]);
            let with_second = *with_second && m.source == 0;
            let signal = draft.clone().sign(if with_second { &second } else { &own_keys[m.source] }).unwrap();
            let seq = house.send(&signal).unwrap().seq;
            admitted.push((draft, seq, with_second));
        }
        let from = admitted[revoke_at.index(admitted.len())].1;
        house.authority.revoke_key(second.public().id(), Some(from), None).unwrap();

        let counting: Vec<_> = admitted.iter().filter(|(_, seq, second)| !second || *seq < from).collect();
        let mut expected: BTreeMap<String, (i64, u64, f64)> = BTreeMap::new();
        for (draft, seq, _) in &counting {
            if counting.iter().any(|(other, ..)| other.supersedes == Some(draft.id)) {
                continue;
            }
            for tag in &draft.tags {
                let new = (draft.observed_at.at().micros(), *seq, draft.value);
                let slot = expected.entry(format!("bot/{}/{tag}", draft.source)).or_insert(new);
                if (new.0, new.1) > (slot.0, slot.1) {
                    *slot = new;
                }
            }
        }
        let rows = house.current().into_iter();
        let actual: BTreeMap<_, _> = rows.map(|(slot, row)| (slot, (row.observed_at, row.seq, row.value))).collect();
        prop_assert_eq!(actual, expected);
        house.assert_sound();
    }
}

/// What is taken is the next entry; what is refused leaves no trace.
fn taken_or_refused(house: &House, act: impl FnOnce() -> Result<u64, String>) -> Result<(), TestCaseError> {
    // Nothing else is due, so that nobody writes beside it.
    house.authority.score_now().unwrap();
    let before = house.size();
    match act() {
        Ok(seq) => prop_assert_eq!(seq, before),
        Err(why) => prop_assert_eq!(house.size(), before, "{}", why),
    }
    Ok(())
}

/// What agents may do to each other, chosen at random; what is refused is refused.
fn deal(house: &House, n: usize, (what, who, whom, number): (u8, usize, usize, f64)) -> Result<(), TestCaseError> {
    let agents = ["alice", "bob", "carol", "dave"];
    let (who, whom) = (agents[who], agents[whom]);
    let contract = format!("{whom}-{}", (number * 3.0) as usize);
    let say = |author: &str, kind, record| {
        taken_or_refused(house, || match house.say(author, kind, record) {
            Ok(done) if done.known => Err("said before".to_owned()),
            done => done.map(|done| done.seq).map_err(|e| e.to_string()),
        })
    };
    if what >= 8 {
        // Keys are revoked from some entry on, sources silenced and heard again, providers dismissed.
        let from = (number * house.size() as f64) as u64;
        taken_or_refused(house, || {
            let done = match what {
                8 if n.is_multiple_of(3) => house.authority.revoke_key(key(who).public().id(), Some(from), None),
                8 => house.authority.change_source(id("judge"), verifying_by("")),
                9 => house.authority.change_source(id("judge"), verifying_by("https://example.org/how")),
                _ => house.authority.set_weight(id("judge"), if number < 0.5 { 0.0 } else { 1.0 }),
            };
            // Only what was said before, or comes too late, is refused; the ledger itself does not fail.
            assert!(
                matches!(
                    done,
                    Ok(_) | Err(Error::AlreadyRevoked { .. } | Error::SameWeight { .. } | Error::NothingNew(_))
                ),
                "{done:?}"
            );
            done.map_err(|e| e.to_string())
        })?;
        say("judge", StatementKind::Summary, house.summary(who, number, 1.0 - number, 100))?;
        house.authority.score_now().unwrap();
        return Ok(());
    }
    match what {
        0 | 1 => {
            let mut record = house.contract_record(who, &format!("{who}-{n}"));
            record["confidence_metrics"]["probability"] = serde_json::json!(number);
            let refs: Vec<String> = (0..6).map(|n| format!("{whom}-{n}")).collect();
            record["source_refs"] = serde_json::json!(refs);
            say(who, StatementKind::Contract, record)?;
        }
        2 | 3 => {
            let record = house.verification_record(&contract, 2.0 * number - 1.0);
            say("judge", StatementKind::Verification, record)?;
        }
        4 => say(who, StatementKind::Challenge, house.challenge_record(who, &contract, &format!("ch-{n}")))?,
        5 => {
            let outcome = ["successful", "failed", "inconclusive"][(number * 2.9) as usize];
            let record = house.resolution_record(&format!("ch-{}", n.saturating_sub(1)), outcome);
            say("credence", StatementKind::Resolution, record)?;
        }
        6 => say(who, StatementKind::Review, house.review_record(who, whom, &contract, number))?,
        _ => {
            let method = if number < 0.5 { "sharpe" } else { "calibration" };
            say(who, StatementKind::Identity, house.identity_record(who, &format!("v{}", n / 9), method))?;
        }
    }
    house.advance((number * 400_000.0) as i64);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn whatever_agents_do_reputations_stay_in_bounds_move_by_steps_and_replay(
        deals in proptest::collection::vec((0..11_u8, 0..4_usize, 0..4_usize, 0.0..=1.0_f64), 1..60)
    ) {
        let house = House::network_in_memory(&["alice", "bob", "carol", "dave"]);
        for agent in ["alice", "bob", "carol", "dave"] {
            house.establish(agent, 6);
        }
        for (n, one) in deals.into_iter().enumerate() {
            deal(&house, n, one)?;
        }
        house.authority.score_now().unwrap();
        let histories = || {
            let view = house.authority.ledger().view().unwrap();
            let of = |agent| credence_pipeline::reputation::history(&*view, &id(agent), usize::MAX).unwrap();
            ["alice", "bob", "carol", "dave"].map(of)
        };
        let before = histories();
        for rows in &before {
            prop_assert!(!rows.is_empty(), "every agent was established");
            for pair in rows.windows(2) {
                // A step at the event, and one at every midnight since the one before.
                let steps = 1 + midnights(pair[1].at, pair[0].at).count();
                prop_assert!((pair[0].score - pair[1].score).abs() <= 8.0 * steps as f64 + 1e-9);
                prop_assert!((0..=1).contains(&(pair[0].events - pair[1].events)) && pair[0].seq > pair[1].seq);
            }
            for row in rows {
                prop_assert!((0.0..=100.0).contains(&row.score) && row.factors.check().is_ok() && row.factors.q <= 2.0);
            }
        }
        house.assert_sound();
        let size = house.size();
        credence_pipeline::replay::rebuild(house.authority.ledger()).unwrap();
        house.assert_sound();
        prop_assert_eq!(house.size(), size, "a rebuild adds nothing");
        prop_assert_eq!(histories(), before, "a rebuild gives the same reputations");
    }
}
