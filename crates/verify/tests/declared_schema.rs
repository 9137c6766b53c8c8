//! A server whose genuine results break the output schema that it declares is not locked out: the results are flagged, announced and
//! then believed, and a person's answer counts at once (docs/adr/0024, rule 9).
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

#[allow(dead_code, reason = "other tests use more of it")]
mod scenarios;

use credence_verify::{Call, ChangeStage, Decision, Engine, Mode, Origin, ToolProfile, Verdict};
use fastrand::Rng;
use scenarios::{Row, Sessions, Tool, tools};
use serde_json::{Value, json};

/// Of 300 calls, as for any change of a tool.
const CALLS: usize = 300;
const MAX_BLOCKED: usize = 3;
const MAX_DOUBTED: usize = 24;
const ACCEPTED_WITHIN: usize = 20;

struct World {
    engine: Engine,
    random: Rng,
    tool: Tool,
    sessions: Sessions,
    origin: Origin,
    n: usize,
}

impl World {
    fn new(mode: Mode, tool: Tool, schema: Value, sessions: Sessions, origin: Origin) -> Self {
        let engine = Engine::builder().mode(mode).build();
        // As a guard does: nothing is assumed of how long the tool takes.
        let profile = ToolProfile::builder().expected_latency_ms(0.0, 1e9).has_network_io(false).output_schema(schema);
        let profile = profile.schema_may_err(true);
        engine.register("tool", profile.build().unwrap()).unwrap();
        Self { engine, random: Rng::with_seed(5), tool, sessions, origin, n: 0 }
    }

    /// Orders whose total is a number, as their schema says.
    fn orders(sessions: Sessions, origin: Origin) -> Self {
        let schema = json!({"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]});
        Self::new(Mode::Adaptive, tools::order, schema, sessions, origin)
    }

    fn row(&mut self, breaks: bool) -> Row {
        let mut row = (self.tool)(&mut self.random, self.n);
        row.session = match self.sessions {
            Sessions::Without => None,
            Sessions::Dozens => Some(format!("session-{}", self.n / 12)),
            Sessions::One => Some("session".to_owned()),
        };
        self.n += 1;
        if breaks {
            row.result["total"] = json!(format!("{:.2} EUR", row.result["total"].as_f64().unwrap_or_default()));
        }
        row
    }

    fn call<'a>(&self, row: &'a Row) -> Call<'a> {
        let call = Call::new("tool", &row.result).args(&row.args).origin(self.origin);
        row.session.as_ref().map_or(call, |session| call.session(session))
    }

    fn verify(&mut self, breaks: bool) -> Verdict {
        let row = self.row(breaks);
        self.engine.verify(&self.call(&row)).unwrap()
    }
}

/// Every way in which calls are told apart, and who reports them.
fn everyone() -> impl Iterator<Item = (Sessions, Origin)> {
    [Sessions::Without, Sessions::Dozens, Sessions::One]
        .into_iter()
        .flat_map(|sessions| [Origin::Reported, Origin::Upstream].map(|origin| (sessions, origin)))
}

/// What becomes of results that break the schema: in bounds, and nothing is believed before it was announced.
fn stays_usable(mut world: World, what: &str) {
    let verdicts: Vec<Verdict> = (0..CALLS).map(|_| world.verify(true)).collect();
    let count = |decision: Decision| verdicts.iter().filter(|verdict| verdict.decision == decision).count();
    let (blocked, flagged) = (count(Decision::Block), count(Decision::Flag));
    let accepted = verdicts.iter().position(|verdict| verdict.decision == Decision::Accept).unwrap_or(CALLS);
    let announced = verdicts.iter().position(|verdict| !verdict.changes.is_empty()).unwrap_or(CALLS);
    let believed = |verdict: &Verdict| verdict.changes.iter().any(|change| change.stage == ChangeStage::Believed);
    println!("{what}: blocked {blocked}, flagged {flagged}, announced at {announced}, accepted at {accepted}");
    assert!(blocked <= MAX_BLOCKED && blocked + flagged <= MAX_DOUBTED, "{what}: {blocked} blocked, {flagged} flagged");
    assert!(announced < accepted && accepted < ACCEPTED_WITHIN, "{what}: {announced}, {accepted}");
    assert!(verdicts.iter().any(believed), "{what}: that it is believed is said");
    assert!(verdicts[0].decision != Decision::Accept, "{what}: {}", verdicts[0].explanation());
}

#[test]
fn results_that_begin_to_break_the_schema_are_believed_in_the_end() {
    for (sessions, origin) in everyone() {
        let mut world = World::orders(sessions, origin);
        (0..CALLS).for_each(|_| drop(world.verify(false)));
        stays_usable(world, &format!("{sessions:?} {origin:?}"));
    }
}

#[test]
fn results_that_always_broke_the_schema_are_believed_in_the_end() {
    for (sessions, origin) in everyone() {
        stays_usable(World::orders(sessions, origin), &format!("orders {sessions:?} {origin:?}"));
        // The same arguments and the same answer, each time.
        let schema = json!({"type": "object", "required": ["state"]});
        stays_usable(
            World::new(Mode::Adaptive, tools::health, schema, sessions, origin),
            &format!("health {sessions:?} {origin:?}"),
        );
    }
}

#[test]
fn a_lie_that_breaks_the_schema_is_announced_before_it_is_believed() {
    for (sessions, origin) in everyone() {
        let mut world = World::orders(sessions, origin);
        (0..CALLS).for_each(|_| drop(world.verify(false)));
        let mut announced = false;
        for n in 0..40 * 20 {
            let verdict = world.verify(n % 20 == 0);
            if n % 20 == 0 {
                assert!(announced || verdict.decision != Decision::Accept, "{n}: {}", verdict.explanation());
                announced |= !verdict.changes.is_empty();
            }
        }
        assert!(announced);
    }
}

#[test]
fn an_answer_about_a_broken_schema_counts() {
    for genuine in [true, false] {
        let mut world = World::orders(Sessions::Without, Origin::Upstream);
        (0..CALLS).for_each(|_| drop(world.verify(false)));
        let row = world.row(true);
        let verdict = world.engine.verify(&world.call(&row)).unwrap();
        assert_ne!(verdict.decision, Decision::Accept);
        let call = world.call(&row);
        if genuine { world.engine.confirm(&call) } else { world.engine.reject(&call) }.unwrap();
        let after: Vec<Verdict> = (0..30).map(|_| world.verify(true)).collect();
        let accepted = after.iter().filter(|verdict| verdict.decision == Decision::Accept).count();
        if genuine {
            assert!(after.iter().all(|verdict| verdict.decision != Decision::Block));
            assert!(after[0].decision == Decision::Accept && accepted >= 28, "{accepted}: {}", after[0].explanation());
        } else {
            assert_eq!(accepted, 0);
            assert!(
                after.iter().any(|verdict| !verdict.changes.is_empty()),
                "what was rejected and comes again is told"
            );
        }
    }
}

#[test]
fn a_broken_schema_is_explained_by_member_value_and_what_was_usual() {
    let mut world = World::orders(Sessions::Without, Origin::Reported);
    (0..50).for_each(|_| drop(world.verify(false)));
    let verdict = world.verify(true);
    let detail = verdict.check(credence_verify::Check::SchemaMismatch).unwrap().detail.clone().unwrap();
    for part in ["'total'", "EUR\"", "is not of type \"number\"", "50 of 50 results before kept to it"] {
        assert!(detail.contains(part), "{part}: {detail}");
    }
}

/// The seed's engine, and what the operator states, know no door.
#[test]
fn neither_the_seeds_mode_nor_an_operators_profile_gives_way() {
    let schema = json!({"type": "object", "required": ["state"]});
    let mut fixed = World::new(Mode::Fixed, tools::health, schema, Sessions::Without, Origin::Upstream);
    assert!((0..50).all(|_| fixed.verify(false).decision == Decision::Block));
    let engine = Engine::builder().build();
    let profile = ToolProfile::builder().expected_latency_ms(0.0, 1e9).has_network_io(false).required_fields(["state"]);
    engine.register("tool", profile.build().unwrap()).unwrap();
    let result = json!({"status": "green"});
    for _ in 0..50 {
        assert_eq!(engine.verify(&Call::new("tool", &result)).unwrap().decision, Decision::Block);
    }
}
