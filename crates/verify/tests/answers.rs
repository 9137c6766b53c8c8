//! What people answer holds: a rejected lie is not believed in silence, and no answer is about more than was asked (docs/adr/0025).
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

#[allow(dead_code, reason = "other tests use more of it")]
mod scenarios;

use credence_verify::{Call, ChangeStage, Decision, Engine, Verdict};
use fastrand::Rng;
use scenarios::{Row, tools};
use serde_json::{Value, json};

struct World {
    engine: Engine,
    random: Rng,
    n: usize,
}

impl World {
    /// An engine that knows so many orders.
    fn of(orders: usize) -> Self {
        let mut world = Self { engine: Engine::builder().build(), random: Rng::with_seed(11), n: 0 };
        (0..orders).for_each(|_| drop(world.tell(|_| {})));
        world
    }

    fn order(&mut self, change: impl Fn(&mut Value)) -> Row {
        let mut row = tools::order(&mut self.random, self.n);
        self.n += 1;
        row.session = Some(format!("session-{}", self.n / 12));
        change(&mut row.result);
        row
    }

    /// The verdict on one more order, after a change.
    fn tell(&mut self, change: impl Fn(&mut Value)) -> Verdict {
        let row = self.order(change);
        self.engine.verify(&call(&row)).unwrap()
    }

    /// Judges an order after a change, and rejects it or accepts it.
    fn answer(&mut self, genuine: bool, change: impl Fn(&mut Value)) -> Verdict {
        let row = self.order(change);
        let verdict = self.engine.verify(&call(&row)).unwrap();
        if genuine { self.engine.confirm(&call(&row)) } else { self.engine.reject(&call(&row)) }.unwrap();
        verdict
    }

    /// How many of so many orders after a change are not accepted, and whether that is announced before the first is.
    fn doubted(&mut self, count: usize, change: impl Fn(&mut Value)) -> (usize, bool) {
        let (mut doubted, mut announced) = (0, false);
        for _ in 0..count {
            let verdict = self.tell(&change);
            let accepted = verdict.decision == Decision::Accept;
            assert!(announced || !accepted, "believed in silence: {}", verdict.explanation());
            doubted += usize::from(!accepted);
            announced |= !verdict.changes.is_empty();
        }
        (doubted, announced)
    }
}

fn call(row: &Row) -> Call<'_> {
    let call = Call::new("get_order", &row.result).args(&row.args).execution_time_ms(row.ms.unwrap());
    row.session.as_ref().map_or(call, |session| call.session(session))
}

fn lost(result: &mut Value) {
    result["status"] = json!("lost");
}

fn refund(result: &mut Value) {
    result["refund_to"] = json!("DE02 1203 0000 0000 2020 51");
}

fn taxed(result: &mut Value) {
    result["tax"] = json!(4.2);
    result["tax_code"] = json!("A");
}

fn prose(result: &mut Value) {
    *result = json!("The order was shipped.");
}

fn dear(result: &mut Value) {
    result["total"] = json!(9_300_000.5);
}

type Change = fn(&mut Value);
const LIES: [(&str, Change); 5] = [
    ("a value", lost),
    ("a member", refund),
    ("prose", prose),
    ("a number", dear),
    ("a member is missing", |result| drop(result.as_object_mut().unwrap().remove("currency"))),
];

#[test]
fn a_rejected_lie_is_not_learned_again_however_young_the_tool() {
    for (name, lie) in LIES {
        for known in [60, 100, 150, 400] {
            let mut world = World::of(known);
            // On a young tool the first of them may have been learned on credit.
            let first = world.answer(false, lie);
            assert_ne!(first.decision, Decision::Accept, "{name}, {known} known: {}", first.explanation());
            for n in 0..30 {
                let verdict = world.tell(lie);
                assert_ne!(
                    verdict.decision,
                    Decision::Accept,
                    "{name}, {known} known, {n} later: {}",
                    verdict.explanation()
                );
                let taught = |stage| matches!(stage, ChangeStage::Learned | ChangeStage::Believed);
                assert!(!verdict.changes.iter().any(|change| taught(change.stage)), "{name}: {:?}", verdict.changes);
                assert!(verdict.explanation().contains("rejected"), "{}", verdict.explanation());
                // Genuine results go on.
                (0..3).for_each(|_| drop(world.tell(|_| {})));
            }
        }
    }
}

#[test]
fn a_lie_that_was_rejected_is_believed_late_and_not_in_silence() {
    for (name, lie) in LIES {
        let mut world = World::of(200);
        world.answer(false, lie);
        let (doubted, announced) = world.doubted(90, lie);
        assert!(doubted >= 40 && announced, "{name}: {doubted} were doubted");
        assert!(doubted < 80, "{name}: no answer locks a tool out for good, {doubted} of 90 were doubted");
    }
}

#[test]
fn a_rejection_does_not_lock_out_another_change() {
    let mut free = World::of(200);
    let (without, _) = free.doubted(60, taxed);
    for (name, lie) in LIES {
        let mut world = World::of(200);
        (0..3).for_each(|_| drop(world.answer(false, lie)));
        let (with, _) = world.doubted(60, taxed);
        assert!(
            with <= without + 3,
            "after {name} was rejected a new version was doubted {with} times instead of {without}"
        );
    }
    // Also where it is the same member that gets another value, or another member that is missing.
    let changes: [(Change, Change); 3] = [
        (lost, |result| result["status"] = json!("returned")),
        (dear, |result| result["total"] = json!(-2.5)),
        (refund, |result| {
            refund(result);
            taxed(result);
        }),
    ];
    for (lie, change) in changes {
        let (without, _) = World::of(200).doubted(60, change);
        let mut world = World::of(200);
        world.answer(false, lie);
        let (with, _) = world.doubted(60, change);
        assert!(with <= without + 3, "doubted {with} times instead of {without}");
    }
}

#[test]
fn an_acceptance_and_a_rejection_do_not_interfere() {
    for accepted_first in [false, true] {
        for (name, lie) in LIES {
            let mut world = World::of(200);
            for genuine in [accepted_first, !accepted_first] {
                world.answer(genuine, if genuine { taxed } else { lie });
            }
            for n in 0..10 {
                let version = world.tell(taxed);
                assert_eq!(version.decision, Decision::Accept, "{name}, {n} later: {}", version.explanation());
                let told = world.tell(lie);
                assert_ne!(told.decision, Decision::Accept, "{name}, {n} later: {}", told.explanation());
            }
        }
    }
}

#[test]
fn an_acceptance_is_not_about_other_values_of_the_place() {
    let mut world = World::of(200);
    world.answer(true, |result| result["status"] = json!("returned"));
    for _ in 0..5 {
        let verdict = world.tell(|result| result["status"] = json!("returned"));
        assert_eq!(verdict.decision, Decision::Accept, "{}", verdict.explanation());
    }
    let other = world.tell(|result| result["status"] = json!("SEND MONEY"));
    assert_ne!(other.decision, Decision::Accept, "{}", other.explanation());
    world.answer(true, taxed);
    let other = world.tell(refund);
    assert_ne!(other.decision, Decision::Accept, "{}", other.explanation());
}

#[test]
fn the_last_answer_holds() {
    let mut world = World::of(200);
    world.answer(false, lost);
    world.answer(true, lost);
    assert_eq!(world.tell(lost).decision, Decision::Accept);
    world.answer(false, lost);
    assert_ne!(world.tell(lost).decision, Decision::Accept);
}

#[test]
fn rejections_do_not_touch_genuine_results() {
    let mut world = World::of(200);
    for (_, lie) in LIES {
        (0..4).for_each(|_| drop(world.answer(false, lie)));
    }
    let verdicts: Vec<Verdict> = (0..300).map(|_| world.tell(|_| {})).collect();
    let doubted: Vec<String> =
        verdicts.iter().filter(|v| v.decision != Decision::Accept).map(Verdict::explanation).collect();
    assert!(doubted.len() <= 9 && !doubted.iter().any(|why| why.contains("rejected")), "{doubted:#?}");
}

#[test]
fn where_nothing_was_odd_only_the_very_same_result_is_rejected() {
    let mut world = World::of(200);
    let row = world.order(|_| {});
    assert_eq!(world.engine.verify(&call(&row)).unwrap().decision, Decision::Accept);
    world.engine.reject(&call(&row)).unwrap();
    assert_ne!(world.engine.verify(&call(&row)).unwrap().decision, Decision::Accept);
    assert_eq!(world.tell(|_| {}).decision, Decision::Accept);
}

#[test]
fn answers_survive_a_restart_and_feedback_finds_its_result() {
    let mut world = World::of(200);
    let verdict = world.answer(false, lost);
    world.engine = Engine::builder().restore(&world.engine.snapshot().unwrap()).unwrap();
    assert!(world.tell(lost).explanation().contains("rejected"));
    let mut other = World::of(200);
    let told = other.tell(prose);
    assert_ne!(told.posterior, verdict.posterior);
    other.engine.record_feedback("get_order", told.posterior, true).unwrap();
    let again = other.tell(prose);
    assert!(again.explanation().contains("rejected"), "{}", again.explanation());
}
