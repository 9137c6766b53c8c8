//! Verification providers: real engines that judge what agents got from their tools, and report it window by window.
//!
//! The careful one knows the tools from calls of its own, does not learn from what it judges, and plants canaries. The lenient one
//! learns from everything that it sees and shows nothing.

use credence_engine::hcs25::output_verification::{CheckedOutput, Limits, Rollup, Window};
use credence_protocol::{Audience, EntityId, SecretKey, Statement, Timestamp};
use credence_verify::{
    Call as Asked, Decision, Engine, Stake, ToolProfile, Verdict,
    fabricate::{Fabrication, Genuine},
};
use fastrand::Rng;

use crate::{
    Error,
    tools::{Call, Tool},
};

/// The share of results that a canary is made of: a week must have fifty of them to show anything.
const CANARIES: f64 = 0.7;

/// Calls of its own that a provider makes of each tool before the story begins, to know what the tool gives.
const REFERENCE_CALLS: u32 = 150;
/// Nothing that goes over a network is faster, and nothing that anyone waits for is slower, in milliseconds.
pub(crate) const LATENCY_MS: (f64, f64) = (10.0, 30_000.0);

/// A provider.
pub struct Provider {
    /// The source it reports as.
    pub id: EntityId,
    key: SecretKey,
    engine: Engine,
    rollup: Rollup,
    /// Whether it shows that it can tell good from bad, and learns from its own calls alone.
    pub careful: bool,
    rng: Rng,
}

impl Provider {
    /// One that knows the tools and has judged no agent yet.
    pub fn new(id: EntityId, key: SecretKey, careful: bool, seed: u64) -> Result<Self, Error> {
        let (engine, rng) = (Engine::builder().build(), Rng::with_seed(seed));
        for tool in Tool::ALL {
            let (least, most) = LATENCY_MS;
            engine.register(tool.name(), ToolProfile::builder().expected_latency_ms(least, most).build()?)?;
        }
        let mut this = Self { id, key, engine, rollup: Rollup::new(Limits::default()), careful, rng };
        (0..REFERENCE_CALLS).try_for_each(|_| this.call_itself())?;
        Ok(this)
    }

    /// Calls every tool itself, and learns what comes back.
    pub fn call_itself(&mut self) -> Result<(), Error> {
        for tool in Tool::ALL {
            let Call { tool, args, result, ms } = tool.call(&mut self.rng);
            self.engine.verify(&Asked::new(tool, &result).args(&args).execution_time_ms(ms))?;
        }
        Ok(())
    }

    /// Judges a result of `agent`, and counts it. Now and then one is made up of it and judged in shadow.
    pub fn judge(&mut self, agent: &str, call: &Call, stake: Stake, at: Timestamp) -> Result<Verdict, Error> {
        // Who learns from what it judges learns from lies, too, and in the end takes them for the tool's.
        let asked = Asked::new(call.tool, &call.result).args(&call.args).execution_time_ms(call.ms).agent(agent);
        let asked = asked.learn(!self.careful);
        let verdict = self.engine.verify(&asked)?;
        self.rollup.add(agent, CheckedOutput::new(verdict.decision, verdict.posterior, Some(stake), at));
        // Only of what it let through: a variant of a lie shows nothing.
        if self.careful && verdict.decision == Decision::Accept && self.rng.f64() < CANARIES {
            self.plant(agent, call, at)?;
            self.control(agent, call.tool, at)?;
        }
        Ok(verdict)
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

    /// Judges what a call of its own gave, which is genuine.
    fn control(&mut self, agent: &str, tool: &str, at: Timestamp) -> Result<(), Error> {
        let Some(tool) = Tool::ALL.into_iter().find(|one| one.name() == tool) else { return Ok(()) };
        let Call { tool, args, result, ms } = tool.call(&mut self.rng);
        let shadow = Asked::new(tool, &result).args(&args).execution_time_ms(ms).learn(false);
        let rejected = self.engine.verify(&shadow)?.decision != Decision::Accept;
        self.rollup.add_control(agent, rejected, at);
        Ok(())
    }

    /// The agents it has something to say of.
    pub fn agents(&self) -> Vec<String> {
        self.rollup.agents().map(str::to_owned).collect()
    }

    /// What it reports to the authority `aud` on an agent's window that ends at `end`, signed.
    pub fn report(
        &self,
        aud: &Audience,
        agent: &str,
        window: Window,
        end: Timestamp,
    ) -> Result<Option<Statement>, Error> {
        let Some(up) = self.rollup.summary(agent, window, end) else { return Ok(None) };
        Ok(Some(up.statement(&self.id, Some(aud.clone()), &EntityId::new(agent)?, None, &self.key)?))
    }
}
