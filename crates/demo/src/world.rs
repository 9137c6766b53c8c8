//! The simulated world: who is there, their keys, and how they speak to the authority.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use credence_engine::probe::Estimate;
use credence_pipeline::{Authority, NewAgent, NewSource, credentials::Office};
use credence_protocol::{
    Alias, EntityId, Root, SecretKey, SignalDraft, Statement, StatementKind, Tag, Timestamp, strict::StrictValue,
};
use credence_server::App;
use credence_verify::{Stake, Verdict};
use fastrand::Rng;
use serde_json::{Value, json};

use crate::{
    Error,
    cast::{CAST, Character},
    clock::StoryClock,
    guard::{GUARDED, Guard},
    lies, probed,
    providers::Provider,
    reputation::Claims,
    sources::{CAREFUL, LENIENT, Measure, SOURCES, Source},
    tools::{Call, changed_upstream, normal, pick, round},
};

/// The registry of agents on chain that aliases name.
const REGISTRY_ON_CHAIN: &str = "eip155:8453:0x8004a818bfb912233c491871b3d84c89a494bd9e";
/// The share of results that have another form, once an upstream has changed.
const CHANGED: f64 = 0.6;
/// The day on which the providers begin to report: before, they learn.
pub(crate) const REPORTS_FROM: f64 = 3.0;

/// Everything that the simulation remembers.
pub struct World {
    pub(crate) app: Arc<App>,
    pub(crate) clock: StoryClock,
    pub(crate) office: Office,
    /// Where the service judges tool results.
    pub(crate) namespace: EntityId,
    pub(crate) rng: Rng,
    seed: u64,
    pub(crate) keys: BTreeMap<String, SecretKey>,
    pub(crate) providers: Vec<Provider>,
    pub(crate) guard: Guard,
    pub(crate) claims: Claims,
    /// Statements to publish at the end of the day.
    unpublished: Vec<Statement>,
    /// When each source looks at each agent next.
    pub(crate) looks: BTreeMap<(&'static str, &'static str), f64>,
    /// How far chance has carried each measurement of each agent.
    wander: BTreeMap<(&'static str, &'static str, &'static str), f64>,
}

/// A tool call of an agent, genuine or not.
pub(crate) struct AgentCall {
    pub agent: &'static str,
    pub call: Call,
    pub stake: Stake,
    pub genuine: bool,
}

impl World {
    pub(crate) fn new(
        app: Arc<App>,
        clock: StoryClock,
        office: Office,
        namespace: EntityId,
        folder: &Path,
        seed: u64,
    ) -> Result<Self, Error> {
        let mut keys = BTreeMap::new();
        for source in SOURCES {
            let new = NewSource {
                source: EntityId::new(source.id)?,
                weight: source.weight,
                description: Some(source.description.to_owned()),
                owner: Some(EntityId::new(source.owner)?),
                roots: source.roots.iter().map(|root| Root::new(root)).collect::<Result<_, _>>()?,
                methodology: source.methodology.map(str::to_owned),
                unbound: false,
            };
            app.authority().add_source(new)?;
            keys.insert(source.id.to_owned(), new_key(app.authority(), source.id)?);
        }
        let provider = |id: &str, canaries: bool, number: u64| -> Result<Provider, Error> {
            Provider::new(EntityId::new(id)?, keys[id].clone(), canaries, seed.wrapping_add(number))
        };
        let providers = vec![provider(CAREFUL, true, 1)?, provider(LENIENT, false, 2)?];
        let guard = Guard::new(&folder.join("guard"), EntityId::new(CAREFUL)?, &keys[CAREFUL], clock.clock())?;
        let rng = Rng::with_seed(seed);
        let (claims, unpublished, looks, wander) = (Claims::default(), Vec::new(), BTreeMap::new(), BTreeMap::new());
        Ok(Self {
            app,
            clock,
            office,
            namespace,
            rng,
            seed,
            keys,
            providers,
            guard,
            claims,
            unpublished,
            looks,
            wander,
        })
    }

    pub(crate) fn authority(&self) -> &Authority {
        self.app.authority()
    }

    pub(crate) fn agents(&self) -> usize {
        self.keys.len() - SOURCES.len()
    }

    /// Registers an agent, with a key of its own.
    pub(crate) fn join(&mut self, one: &Character) -> Result<(), Error> {
        let mut aliases = Vec::new();
        if let Some(host) = one.host {
            aliases.push(Alias::parse(&format!("https://{host}"))?);
            aliases.push(Alias::parse(&format!("did:web:{host}"))?);
        }
        if let Some(token) = one.token {
            aliases.push(Alias::parse(&format!("{REGISTRY_ON_CHAIN}/{token}"))?);
        }
        let owner = Some(EntityId::new(one.owner)?);
        let name = Some(one.name.to_owned());
        let new = NewAgent { agent: EntityId::new(one.id)?, name, aliases, owner, unbound: false };
        self.authority().add_agent(new)?;
        let key = new_key(self.authority(), one.id)?;
        self.keys.insert(one.id.to_owned(), key);
        Ok(())
    }

    pub(crate) fn has_joined(&self, agent: &str) -> bool {
        self.keys.contains_key(agent)
    }

    /// One measurement of `one` by `source` on a day of the story, signed.
    pub(crate) fn measured(
        &mut self,
        one: &'static Character,
        source: &'static Source,
        measure: &'static Measure,
        day: f64,
        at: Timestamp,
    ) -> Result<Option<Vec<u8>>, Error> {
        if measure.from_runs {
            // One run tells of all tags, so all of them rest on the same chance.
            let name = one.id.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
            let chance = Rng::with_seed((day * 1_000.0) as u64 ^ name ^ self.seed).f64();
            let told = probed::run_of(one, day, chance).and_then(|run| run.value(measure.tag));
            let signal = |estimate: Estimate| {
                self.signal(one.id, source.id, measure.tag, round(estimate.value, 2), round(estimate.stddev, 2), at)
            };
            return told.map(signal).transpose();
        }
        let wander = self.wander.entry((one.id, source.id, measure.tag)).or_default();
        *wander = 0.75 * *wander + 0.6 * normal(&mut self.rng);
        let merit = one.merit.at(day);
        let value = one.shown(measure.tag, measure.base + measure.gain * merit) + measure.stddev * *wander;
        let value = round(value.clamp(0.0, 100.0), 2);
        self.signal(one.id, source.id, measure.tag, value, measure.stddev, at).map(Some)
    }

    /// The authority's own run against `one`, as it was recorded.
    pub(crate) fn probe(&mut self, one: &'static Character, day: f64) -> Result<(), Error> {
        let chance = self.rng.f64();
        if let Some(run) = probed::run_of(one, day, chance) {
            self.authority().record_probe(run.record(EntityId::new(one.id)?, self.clock.now()))?;
        }
        Ok(())
    }

    /// A signal, signed by its source.
    pub(crate) fn signal(
        &self,
        agent: &str,
        source: &str,
        tag: &str,
        value: f64,
        stddev: f64,
        at: Timestamp,
    ) -> Result<Vec<u8>, Error> {
        let (agent, tags) = (EntityId::new(agent)?, vec![Tag::new(tag)?]);
        let draft = SignalDraft::new(agent, EntityId::new(source)?, tags, value, stddev, at);
        let draft = draft.to(self.authority().origin()?);
        Ok(draft.sign(&self.keys[source])?.canonical().as_bytes().to_vec())
    }

    /// Hands signals in, all at once.
    pub(crate) fn submit(&self, signals: Vec<Vec<u8>>) -> Result<(), Error> {
        let mut refused = None;
        self.authority().submit_all(signals, &mut |_, verdict| {
            if let Err(rejection) = verdict {
                refused.get_or_insert(rejection.to_string());
            }
        })?;
        refused.map_or(Ok(()), |why| Err(Error::Refused { what: "a signal".to_owned(), why }))
    }

    /// A record of `author`, signed.
    pub(crate) fn sign_statement(&self, author: &str, kind: StatementKind, record: Value) -> Result<Statement, Error> {
        let key = if author == credence_protocol::AUTHORITY_SOURCE { &self.office.key } else { &self.keys[author] };
        let aud = Some(self.authority().origin()?);
        Ok(Statement::sign(EntityId::new(author)?, aud, kind, StrictValue(record), key)?)
    }

    /// Queues a statement, to be published with the others of the day.
    pub(crate) fn queue(&mut self, statement: Statement) {
        self.unpublished.push(statement);
    }

    /// Publishes the queued statements, in their order.
    pub(crate) fn publish(&mut self) -> Result<(), Error> {
        let unpublished = std::mem::take(&mut self.unpublished);
        let bytes: Vec<&[u8]> = unpublished.iter().map(|statement| statement.canonical().as_bytes()).collect();
        for (statement, published) in unpublished.iter().zip(self.authority().publish_all(&bytes)?) {
            let what = || format!("a statement ({})", statement.kind().key());
            published.map_err(|rejection| Error::Refused { what: what(), why: rejection.to_string() })?;
        }
        Ok(())
    }

    /// What `one` does next with one of its tools.
    pub(crate) fn act(&mut self, one: &'static Character, day: f64) -> AgentCall {
        let tool = pick(&mut self.rng, one.tools);
        let genuine = self.rng.f64() >= one.makes_up.at(day);
        let call = if genuine { tool.call(&mut self.rng) } else { lies::made_up(tool, &mut self.rng) };
        let changed = genuine && one.upstream_changes.is_some_and(|from| day >= from) && self.rng.f64() < CHANGED;
        let call = if changed { changed_upstream(call, &mut self.rng) } else { call };
        let stake = match self.rng.u32(..20) {
            0 => Stake::Critical,
            1..=4 => Stake::High,
            5..=11 => Stake::Medium,
            _ => Stake::Low,
        };
        AgentCall { agent: one.id, call, stake, genuine }
    }

    /// Has a call judged by the providers that look at its agent; gives what the careful one says.
    pub(crate) fn check(&mut self, made: &AgentCall, at: Timestamp) -> Result<Option<Verdict>, Error> {
        let watchers = character(made.agent).map_or(&[][..], |one| one.watched_by);
        let mut careful_verdict = None;
        for provider in self.providers.iter_mut().filter(|one| watchers.contains(&one.id.as_str())) {
            let verdict = provider.judge(made.agent, &made.call, made.stake, at)?;
            careful_verdict = if provider.careful { Some(verdict) } else { careful_verdict };
        }
        Ok(careful_verdict)
    }

    /// What really went through the guard gets its receipt.
    pub(crate) fn receipt(&mut self, made: &AgentCall, verdict: Option<&Verdict>, at: Timestamp) -> Result<(), Error> {
        match verdict.filter(|_| made.genuine && GUARDED.contains(&made.agent)) {
            Some(verdict) => self.guard.record(made, verdict, at),
            None => Ok(()),
        }
    }
}

impl AgentCall {
    /// As the service wants to have it.
    pub(crate) fn trace(&self) -> Value {
        let Call { tool, args, result, ms } = &self.call;
        json!({
            "tool": tool, "args": args, "result": result, "execution_time_ms": ms, "agent": self.agent,
            "session_id": self.agent, "stake": self.stake,
        })
    }
}

pub(crate) fn character(id: &str) -> Option<&'static Character> {
    CAST.iter().find(|one| one.id == id)
}

/// A fresh key, registered.
pub(crate) fn new_key(authority: &Authority, owner: &str) -> Result<SecretKey, Error> {
    let key = SecretKey::generate()?;
    authority.add_key(&key.public(), EntityId::new(owner)?)?;
    Ok(key)
}
