//! Tools that change, err, page or stand still: made-up traffic in which every result is genuine.
//!
//! A scenario is a tool and a change. Its first calls are the tool as it was; from `since = 0` on the change applies. The same
//! scenarios are replayed against the engine (`tests/changes.rs`) and can be replayed through a guard.

mod changes;
mod outside;
pub mod tools;

use std::sync::LazyLock;

use fastrand::Rng;
use serde_json::Value;

/// All of them.
pub static SCENARIOS: LazyLock<Vec<Scenario>> = LazyLock::new(|| [changes::SCENARIOS, outside::SCENARIOS].concat());

/// Calls before the change, and after it.
pub const BEFORE: usize = 300;
pub const AFTER: usize = 300;

/// One genuine call.
#[derive(Debug, Clone)]
pub struct Row {
    pub args: Value,
    pub result: Value,
    pub ms: Option<f64>,
    pub session: Option<String>,
    pub is_error: bool,
}

/// A tool as it was: makes the `n`th call.
pub type Tool = fn(&mut Rng, usize) -> Row;
/// What became of it: changes the call `since` calls after the change.
pub type Change = fn(&mut Row, &mut Rng, usize);

/// A tool and a change.
#[derive(Clone, Copy)]
pub struct Scenario {
    pub name: &'static str,
    pub tool: Tool,
    pub change: Change,
}

/// How calls are told apart by session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sessions {
    /// None is given.
    Without,
    /// A dozen calls each.
    Dozens,
    /// One for all.
    One,
}

impl Scenario {
    /// All calls of the scenario, in order; the change is before call [`BEFORE`].
    pub fn rows(&self, sessions: Sessions, seed: u64) -> Vec<Row> {
        let mut random = Rng::with_seed(seed ^ 0x5eed);
        let session = |n: usize| match sessions {
            Sessions::Without => None,
            Sessions::Dozens => Some(format!("session-{}", n / 12)),
            Sessions::One => Some("session".to_owned()),
        };
        (0..BEFORE + AFTER)
            .map(|n| {
                let mut row = (self.tool)(&mut random, n);
                if n >= BEFORE {
                    (self.change)(&mut row, &mut random, n - BEFORE);
                }
                Row { session: session(n), ..row }
            })
            .collect()
    }
}
