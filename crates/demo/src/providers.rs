//! Verification providers: real engines that judge what agents got from their tools, and report it window by window.

use credence_engine::hcs25::output_verification::{Check, Limits, ProviderRef, Rollup, Stake, Verdict, Window};
use credence_protocol::{EntityId, SecretKey, Statement, StatementKind, Timestamp, strict::StrictValue};
use credence_verify::{
    Call as Asked, Decision, Engine,
    fabricate::{Fabrication, Genuine},
};
use fastrand::Rng;
use serde_json::json;

use crate::{Error, tools::Call};

/// The share of results that a canary is made of: a week must have fifty of them to show anything.
const CANARIES: f64 = 0.6;

/// A provider.
pub struct Provider {
    /// The source it reports as.
    pub id: EntityId,
    key: SecretKey,
    engine: Engine,
    rollup: Rollup,
    /// Whether it shows that it can tell good from bad.
    plants_canaries: bool,
    rng: Rng,
}

impl Provider {
    /// One that has judged nothing yet.
    pub fn new(id: EntityId, key: SecretKey, plants_canaries: bool, seed: u64) -> Self {
        Self {
            id,
            key,
            engine: Engine::builder().build(),
            rollup: Rollup::new(Limits::default()),
            plants_canaries,
            rng: Rng::with_seed(seed),
        }
    }

    /// Judges a result of `agent`, and counts it. Now and then one is made up of it and judged in shadow.
    pub fn judge(&mut self, agent: &str, call: &Call, stake: Stake, at: Timestamp) -> Result<Decision, Error> {
        let asked = Asked::new(call.tool, &call.result).args(&call.args).execution_time_ms(call.ms).agent(agent);
        let judged = self.engine.verify(&asked)?;
        let verdict = match judged.decision {
            Decision::Accept => Verdict::Allow,
            Decision::Flag => Verdict::Uncertain,
            Decision::Block => Verdict::Block,
        };
        let confidence = verdict.confidence(judged.posterior);
        self.rollup.add(agent, Check { verdict, confidence, stake: Some(stake), at });
        // Only of what it let through: a variant of a lie shows nothing.
        if self.plants_canaries && judged.decision == Decision::Accept && self.rng.f64() < CANARIES {
            self.plant(agent, call, at)?;
        }
        Ok(judged.decision)
    }

    /// As [`Engine::canary`] does it, with chance from the story's seed.
    fn plant(&mut self, agent: &str, call: &Call, at: Timestamp) -> Result<(), Error> {
        let genuine = Genuine {
            result: &call.result,
            args: Some(&call.args),
            execution_time_ms: Some(call.ms),
            other: None,
            foreign: None,
        };
        // One kind that cannot be made of this result leaves it to the next.
        let kinds = Fabrication::ALL.iter().cycle().skip(self.rng.usize(..Fabrication::ALL.len()));
        let made = kinds.take(Fabrication::ALL.len()).find_map(|kind| kind.apply(&genuine, &mut self.rng));
        let Some(made) = made else { return Ok(()) };
        let mut shadow = Asked::new(call.tool, &made.result).args(&call.args).agent(agent).learn(false);
        if let Some(ms) = made.execution_time_ms {
            shadow = shadow.execution_time_ms(ms);
        }
        let caught = self.engine.verify(&shadow)?.decision != Decision::Accept;
        self.rollup.add_canary(agent, caught, at);
        Ok(())
    }

    /// The agents it has something to say of.
    pub fn agents(&self) -> Vec<String> {
        self.rollup.agents().map(str::to_owned).collect()
    }

    /// What it reports on an agent's window that ends at `end`, signed.
    pub fn report(&self, agent: &str, window: Window, end: Timestamp) -> Result<Option<Statement>, Error> {
        let Some(mut up) = self.rollup.summary(agent, window, end) else { return Ok(None) };
        up.summary.providers = vec![ProviderRef {
            id: self.id.to_string(),
            signer_address: None,
            methodology_url: None,
            checks_contributed: Some(up.summary.total_checks),
        }];
        let record = json!({ "agent": agent, "window": up.window, "summary": up.summary });
        let statement = Statement::sign(self.id.clone(), StatementKind::Summary, StrictValue(record), &self.key)?;
        Ok(Some(statement))
    }
}
