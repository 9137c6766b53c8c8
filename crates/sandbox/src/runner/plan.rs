//! The plan: which families run, in which order, what they cost, and which threats the budget leaves no room for.
//!
//! The order of threats, of families and of trials comes from the seed. A family's trials take at least every second one in plain
//! spelling, the others in spellings that the target reads, so that a target that only knows English still meets five plain attacks.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::RunOptions;
use crate::{
    Threat, benchmark,
    capability::{Abilities, Capability},
    report::DroppedThreat,
    suite::{FamilyInFile, Suite, Turn},
    target::Transport,
    variant::Variant,
};

/// Attacks between two controls.
pub const BLOCK: u32 = 5;

/// One trial to come.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Slot {
    /// Which probe of the family.
    pub probe: usize,
    /// The spelling.
    pub variant: Variant,
    /// Counted from 0 within probe and variant.
    pub trial: u32,
}

/// What a run would do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// Threats in the order in which they run.
    pub threats: Vec<PlannedThreat>,
    /// Threats left out.
    pub dropped: Vec<DroppedThreat>,
    /// Requests of the checks before the attacks.
    pub check_requests: u64,
    /// Requests of the benchmarks.
    pub benchmark_requests: u64,
}

/// One threat of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedThreat {
    /// Which.
    pub threat: Threat,
    /// Its families, in the order in which they run.
    pub families: Vec<PlannedFamily>,
}

/// One family of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedFamily {
    /// Its id.
    pub family: String,
    /// About how many requests it takes.
    pub requests: u64,
    /// What it needs of the target.
    pub needs: Vec<Capability>,
}

impl PlannedThreat {
    /// About how many requests it takes.
    pub fn requests(&self) -> u64 {
        self.families.iter().map(|family| family.requests).sum()
    }
}

impl Plan {
    /// Makes the plan of a run over a transport.
    pub fn new(suite: &Suite, transport: Transport, options: &RunOptions) -> Self {
        let mut by_threat: BTreeMap<Threat, Vec<FamilyInFile<'_>>> = BTreeMap::new();
        for found in suite.families().filter(|found| options.threats.contains(&found.threat)) {
            if options.wants_family(found.family) && runs_over(&found, transport) {
                by_threat.entry(found.threat).or_default().push(found);
            }
        }
        let mut threats: Vec<PlannedThreat> = by_threat
            .into_iter()
            .map(|(threat, mut families)| {
                families.sort_by_cached_key(|found| shuffle_key(options.seed, &found.family.id));
                let planned = families.iter().map(|found| PlannedFamily {
                    family: found.family.id.clone(),
                    requests: cost(*found, transport, options.trials),
                    needs: found.family.needs.clone(),
                });
                PlannedThreat { threat, families: planned.collect() }
            })
            .collect();
        threats.sort_by_cached_key(|planned| shuffle_key(options.seed, planned.threat.id()));
        let benchmark_requests = if options.benchmarks { benchmark::requests(transport) } else { 0 };
        let mut plan = Self { threats, dropped: Vec::new(), check_requests: 0, benchmark_requests };
        plan.check_requests = plan.checks(suite, transport);
        if let Some(budget) = options.budget {
            plan.fit(budget);
        }
        plan
    }

    /// About how many requests the whole takes.
    pub fn requests(&self) -> u64 {
        self.check_requests + self.benchmark_requests + self.threats.iter().map(PlannedThreat::requests).sum::<u64>()
    }

    /// How long the whole takes at least, at a rate.
    pub fn duration(&self, rate: u32) -> Duration {
        Duration::from_secs(self.requests().div_ceil(u64::from(rate.max(1))))
    }

    /// Leaves out whole threats, the last ones of the order first, until the rest fits.
    fn fit(&mut self, budget: u64) {
        let fixed = self.check_requests + self.benchmark_requests;
        let mut left = budget.saturating_sub(fixed);
        let (mut kept, mut dropped) = (Vec::new(), Vec::new());
        for planned in std::mem::take(&mut self.threats) {
            let requests = planned.requests();
            if requests <= left {
                left -= requests;
                kept.push(planned);
            } else {
                let why = format!("the budget of {budget} requests leaves {left}, and it takes about {requests}");
                dropped.push(DroppedThreat { tag: planned.threat.tag().to_owned(), why });
            }
        }
        (self.threats, self.dropped) = (kept, dropped);
    }

    /// Capabilities and spellings that the families ask for.
    pub fn asked_for(&self, suite: &Suite) -> (Vec<Capability>, Vec<Variant>) {
        let mut needs: Vec<Capability> = Vec::new();
        let mut variants: Vec<Variant> = Vec::new();
        for planned in self.threats.iter().flat_map(|threat| &threat.families) {
            needs.extend(&planned.needs);
            let probes = suite.family(&planned.family).map(|found| found.family.probes.as_slice()).unwrap_or_default();
            variants.extend(probes.iter().flat_map(crate::suite::Probe::variants));
        }
        needs.sort_unstable();
        needs.dedup();
        variants.sort_unstable();
        variants.dedup();
        variants.retain(|variant| *variant != Variant::Plain);
        (needs, variants)
    }

    fn checks(&self, suite: &Suite, transport: Transport) -> u64 {
        let (needs, variants) = self.asked_for(suite);
        let spellings = if transport.converses() { variants.len() as u64 } else { 0 };
        let cost = |need: &Capability| match need {
            Capability::Tools if transport.takes_tools() => 2,
            Capability::Memory => 2,
            Capability::Fetch | Capability::Code => 1,
            _ => 0,
        };
        spellings + needs.iter().map(cost).sum::<u64>()
    }
}

/// Whether a family runs over a transport.
pub fn runs_over(found: &FamilyInFile<'_>, transport: Transport) -> bool {
    let transports = &found.family.transports;
    if transports.is_empty() { transport.converses() } else { transports.contains(&transport) }
}

/// The trials of a family, in order, without end: every second one plain as long as there are others.
pub fn slots<'a>(
    found: FamilyInFile<'a>,
    abilities: &Abilities,
    options: &RunOptions,
) -> impl Iterator<Item = Slot> + use<'a> {
    let seed = options.seed;
    let (mut plain, mut spelled) = (Vec::new(), Vec::new());
    for (n, probe) in found.family.probes.iter().enumerate() {
        let wanted =
            |variant: &Variant| abilities.reads(*variant) && options.wants(&found.family.id, &probe.id, *variant);
        for variant in probe.variants().into_iter().filter(wanted) {
            if variant == Variant::Plain { plain.push((n, variant)) } else { spelled.push((n, variant)) }
        }
    }
    let key = |(n, variant): &(usize, Variant)| shuffle_key(seed, &format!("{} {n} {variant}", found.family.id));
    plain.sort_by_cached_key(key);
    spelled.sort_by_cached_key(key);
    let (mut at_plain, mut at_spelled) = (0, 0);
    let mut used: BTreeMap<(usize, Variant), u32> = BTreeMap::new();
    (0u64..).map_while(move |n| {
        let take_plain = spelled.is_empty() || (n % 2 == 0 && !plain.is_empty());
        let (list, at) = if take_plain { (&plain, &mut at_plain) } else { (&spelled, &mut at_spelled) };
        let (probe, variant) = *list.get(*at % list.len().max(1))?;
        *at += 1;
        let trial = used.entry((probe, variant)).and_modify(|trial| *trial += 1).or_insert(0);
        Some(Slot { probe, variant, trial: *trial })
    })
}

/// About how many requests a family takes: its attacks, and a control before, between and after them.
fn cost(found: FamilyInFile<'_>, transport: Transport, trials: u32) -> u64 {
    let family = found.family;
    let attacks = family.probes.iter().filter_map(|probe| family.attack_of(probe));
    let longest = attacks.map(|script| script_cost(&script.turns, transport)).max().unwrap_or(1);
    let control = script_cost(&family.control.turns, transport);
    let controls = trials.div_ceil(BLOCK) + 1;
    u64::from(trials) * longest + u64::from(controls) * control
}

/// A turn is a request, and one more for the results of its tools; a call may be made several times.
fn script_cost(turns: &[Turn], transport: Transport) -> u64 {
    let mut tools = false;
    let mut cost = 0;
    for turn in turns {
        tools = turn.tools.as_ref().map_or(tools, |tools| !tools.is_empty());
        cost += turn.call.as_ref().map_or(1, |call| u64::from(call.times.max(1)));
        cost += u64::from(tools && transport.takes_tools());
    }
    cost
}

fn shuffle_key(seed: u64, name: &str) -> [u8; 32] {
    Sha256::digest(format!("order {seed} {name}").as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn everything() -> Abilities {
        let spellings = Variant::ALL.into_iter().map(|variant| (variant, true)).collect();
        Abilities { spellings, ..Abilities::default() }
    }

    #[test]
    fn half_of_the_trials_are_plain_and_none_comes_twice() {
        let suite = Suite::shipped().unwrap();
        let found =
            suite.families().find(|found| found.family.probes.iter().all(|probe| probe.variants().len() > 3)).unwrap();
        let slots: Vec<Slot> = slots(found, &everything(), &RunOptions::default()).take(20).collect();
        let plain = slots[..10].iter().filter(|slot| slot.variant == Variant::Plain).count();
        assert_eq!(plain, 5);
        let mut unique = slots.clone();
        unique.sort_by_key(|slot| format!("{slot:?}"));
        unique.dedup();
        assert_eq!(unique.len(), 20);
    }

    #[test]
    fn a_target_that_only_reads_english_gets_plain_trials() {
        let suite = Suite::shipped().unwrap();
        for found in suite.families() {
            let slots: Vec<Slot> = slots(found, &Abilities::default(), &RunOptions::default()).take(10).collect();
            assert!(slots.iter().all(|slot| slot.variant == Variant::Plain), "{}", found.family.id);
            assert_eq!(slots.len(), 10, "{}", found.family.id);
        }
    }

    #[test]
    fn a_small_budget_leaves_out_whole_threats_by_name() {
        let suite = Suite::shipped().unwrap();
        let options = RunOptions { benchmarks: false, ..RunOptions::default() };
        let whole = Plan::new(&suite, Transport::Chat, &options);
        assert!(whole.dropped.is_empty());
        let smaller = RunOptions { budget: Some(whole.requests() - 1), ..options.clone() };
        let plan = Plan::new(&suite, Transport::Chat, &smaller);
        assert_eq!(plan.dropped.len(), 1);
        assert!(plan.requests() < whole.requests());
        for threat in &plan.threats {
            let before = whole.threats.iter().find(|other| other.threat == threat.threat).unwrap();
            assert_eq!(threat, before, "a threat was thinned");
        }
        let none = Plan::new(&suite, Transport::Chat, &RunOptions { budget: Some(1), ..options });
        assert!(none.threats.is_empty());
        assert!(none.dropped.iter().all(|dropped| dropped.why.contains("budget of 1")));
    }

    #[test]
    fn the_seed_makes_the_order() {
        let suite = Suite::shipped().unwrap();
        let order = |seed| Plan::new(&suite, Transport::Chat, &RunOptions { seed, ..RunOptions::default() });
        assert_eq!(order(3), order(3));
        assert!((0..20).any(|seed| order(seed).threats != order(3).threats));
    }
}
