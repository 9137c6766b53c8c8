//! Canaries: variants of genuine results that the engine makes up and judges in shadow, to tell how much it catches.

use std::{collections::BTreeMap, sync::PoisonError};

use serde::Serialize;

use super::Engine;
use crate::{
    Call, Decision, Error, Verdict,
    call::Json,
    fabricate::{Fabrication, Genuine},
    fields::Fields,
};

/// A made-up result, and what the engine said of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Canary {
    /// What was made up.
    pub fabrication: Fabrication,
    /// The verdict.
    pub verdict: Verdict,
}

/// How many made-up results were caught.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Recall {
    /// How many there were.
    pub made: u64,
    /// How many were flagged or blocked.
    pub flagged: u64,
    /// How many were blocked.
    pub blocked: u64,
}

/// What became of the canaries so far.
#[derive(Default)]
pub(super) struct Canaries {
    made: u64,
    recall: BTreeMap<Fabrication, Recall>,
}

impl Engine {
    /// Makes up a variant of a genuine result and judges it in shadow: nothing is learned, and the caller's result is not
    /// touched. Called on a small sample of genuine results, it tells how much a running engine catches on the very tools it
    /// sees ([`Engine::recall`]). `None` when the result has nothing that could be made up.
    ///
    /// ```
    /// # use credence_verify::{Call, Engine};
    /// # use serde_json::json;
    /// let engine = Engine::builder().build();
    /// let result = json!({"temperature": 18, "humidity": 65});
    /// let call = Call::new("get_weather", &result);
    /// (0..50).for_each(|_| drop(engine.verify(&call)));
    /// let canary = engine.canary(&call)?.expect("an object can be made up");
    /// println!("{}: {}", canary.fabrication, canary.verdict.explanation());
    /// assert_eq!(engine.recall().values().map(|recall| recall.made).sum::<u64>(), 1);
    /// # Ok::<(), credence_verify::Error>(())
    /// ```
    pub fn canary(&self, call: &Call<'_>) -> Result<Option<Canary>, Error> {
        let result = self.parse(call.result, "result")?;
        let args = call.args.map(|args| self.parse(args, "arguments")).transpose()?;
        // What is too large to be judged is too large to be made up.
        Fields::of(&result, self.state.seed, self.state.limits.max_values)?;
        let genuine = Genuine {
            result: &result,
            args: args.as_deref(),
            execution_time_ms: call.execution_time_ms,
            other: None,
            foreign: None,
        };
        let turn = {
            let mut canaries = self.canaries.lock().unwrap_or_else(PoisonError::into_inner);
            canaries.made += 1;
            canaries.made
        };
        let mut random = fastrand::Rng::with_seed(self.state.seed ^ turn);
        // Each kind has its turn; one that cannot be made of this result leaves it to the next.
        let kinds = Fabrication::ALL.iter().cycle().skip(turn as usize % Fabrication::ALL.len());
        let made =
            kinds.take(Fabrication::ALL.len()).find_map(|kind| Some((*kind, kind.apply(&genuine, &mut random)?)));
        let Some((fabrication, made)) = made else { return Ok(None) };
        let shadow = Call { result: Json::Value(&made.result), execution_time_ms: made.execution_time_ms, ..*call };
        let verdict = self.verify(&shadow.learn(false))?;
        let mut canaries = self.canaries.lock().unwrap_or_else(PoisonError::into_inner);
        let recall = canaries.recall.entry(fabrication).or_default();
        recall.made += 1;
        recall.flagged += u64::from(verdict.decision != Decision::Accept);
        recall.blocked += u64::from(verdict.decision == Decision::Block);
        Ok(Some(Canary { fabrication, verdict }))
    }

    /// What became of the canaries so far, by kind.
    pub fn recall(&self) -> BTreeMap<Fabrication, Recall> {
        self.canaries.lock().unwrap_or_else(PoisonError::into_inner).recall.clone()
    }
}
