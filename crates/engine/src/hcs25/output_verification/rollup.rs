//! The provider's side: a stream of verdicts rolled up per agent and window, an hour at a time and in bounded memory.
//!
//! `accept → allow`, `block → block`, `flag → uncertain`. The confidence of a verdict is the probability that it is right:
//! `1 − p` when the output was let through, `p` when it was blocked, and of an uncertain one the larger of both, where `p`
//! is the calibrated probability that the output is bad.
//!
//! Where some checks of a window have a stake and others not, the others count as medium: a few that are called critical
//! must not speak for all.

use std::collections::{BTreeMap, BTreeSet};

use credence_protocol::{Decision, Stake, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Canaries, Controls, StakeDistribution, StakeLevel, Summary};

/// Hours in a day, seconds in an hour.
const DAY_HOURS: i64 = 24;
const HOUR_MICROS: i64 = 3_600_000_000;

/// Over what time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Window {
    /// One day.
    #[serde(rename = "1d")]
    Day,
    /// Seven days.
    #[serde(rename = "7d")]
    Week,
    /// Thirty days.
    #[serde(rename = "30d")]
    Month,
}

impl Window {
    /// From the shortest to the longest.
    pub const ALL: [Window; 3] = [Window::Day, Window::Week, Window::Month];

    /// How many days.
    pub fn days(self) -> i64 {
        match self {
            Window::Day => 1,
            Window::Week => 7,
            Window::Month => 30,
        }
    }

    /// As in JSON: `7d`.
    pub fn key(self) -> &'static str {
        match self {
            Window::Day => "1d",
            Window::Week => "7d",
            Window::Month => "30d",
        }
    }

    /// The window with this key.
    pub fn parse(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|window| window.key() == key)
    }
}

/// One checked output.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CheckedOutput {
    /// What was decided.
    pub decision: Decision,
    /// The probability that this is right.
    pub confidence: f64,
    /// What depended on it, if anybody said.
    pub stake: Option<Stake>,
    /// When.
    pub at: Timestamp,
}

impl CheckedOutput {
    /// One on which `decision` was made, when `bad` is the calibrated probability that it is bad.
    pub fn new(decision: Decision, bad: f64, stake: Option<Stake>, at: Timestamp) -> Self {
        Self { decision, confidence: confidence(decision, bad), stake, at }
    }
}

/// The probability that a decision is right, when `bad` is the calibrated probability that the output is bad.
fn confidence(decision: Decision, bad: f64) -> f64 {
    match decision {
        Decision::Accept => 1.0 - bad,
        Decision::Block => bad,
        Decision::Flag => bad.max(1.0 - bad),
    }
}

/// Bounds of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Hours kept over all agents, at about 150 bytes each. Beyond it the agent that was silent the longest is forgotten.
    pub max_hours: usize,
    /// Agents kept, at about 300 bytes each and their name twice.
    pub max_agents: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_hours: 1_000_000, max_agents: 200_000 }
    }
}

/// Verdicts of the last thirty days, by agent and hour. Can be kept between runs: it is serialisable.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Rollup {
    #[serde(skip)]
    limits: Limits,
    agents: BTreeMap<String, Agent>,
    /// Agents by the time they were last seen; rebuilt when restored.
    #[serde(skip)]
    by_age: BTreeSet<(Timestamp, String)>,
    #[serde(skip)]
    hours: usize,
    newest: Option<Timestamp>,
    forgotten: u64,
    late: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Agent {
    seen: Timestamp,
    /// In order; a list takes a tenth of a map's memory where an agent has few.
    hours: Vec<Hour>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Hour {
    /// Since 1970.
    hour: i64,
    /// By stake, low to critical, and without one.
    cells: [Cell; 5],
    /// Made up, and caught.
    canaries: (u32, u32),
    /// Known to be genuine, and rejected.
    #[serde(default)]
    controls: (u32, u32),
}

#[derive(Debug, Default, Clone, Copy, Serialize, Deserialize)]
struct Cell {
    checks: u32,
    allowed: u32,
    blocked: u32,
    confidence: f64,
}

impl Cell {
    fn join(self, other: Cell) -> Cell {
        Cell {
            checks: self.checks.saturating_add(other.checks),
            allowed: self.allowed.saturating_add(other.allowed),
            blocked: self.blocked.saturating_add(other.blocked),
            confidence: self.confidence + other.confidence,
        }
    }

    fn share(self, part: u32) -> f64 {
        f64::from(part) / f64::from(self.checks.max(1))
    }

    fn level(self) -> Option<StakeLevel> {
        (self.checks > 0).then(|| StakeLevel {
            checks: self.checks.into(),
            allow_rate: Some(self.share(self.allowed)),
            avg_confidence: Some(self.mean_confidence()),
        })
    }

    fn mean_confidence(self) -> f64 {
        (self.confidence / f64::from(self.checks.max(1))).clamp(0.0, 1.0)
    }
}

/// What an agent's window came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RolledUp {
    /// The agent.
    pub agent: String,
    /// Over what time.
    pub window: Window,
    /// The summary.
    pub summary: Summary,
}

impl Rollup {
    /// An empty one.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Takes one checked output of `agent` in. One older than every window is counted and left out.
    pub fn add(&mut self, agent: &str, output: CheckedOutput) {
        let CheckedOutput { decision, confidence, stake, at } = output;
        let Some(hour) = self.hour(agent, at) else { return };
        let cell = &mut hour.cells[stake.map_or(4, |stake| stake as usize)];
        cell.checks = cell.checks.saturating_add(1);
        cell.allowed += u32::from(decision == Decision::Accept);
        cell.blocked += u32::from(decision == Decision::Block);
        cell.confidence += confidence;
        self.bound();
    }

    /// Takes in what became of an output of `agent` that the provider made up itself.
    pub fn add_canary(&mut self, agent: &str, caught: bool, at: Timestamp) {
        let Some(hour) = self.hour(agent, at) else { return };
        hour.canaries.0 = hour.canaries.0.saturating_add(1);
        hour.canaries.1 += u32::from(caught);
        self.bound();
    }

    /// Takes in what became of a result of `agent` that is known to be genuine.
    pub fn add_control(&mut self, agent: &str, rejected: bool, at: Timestamp) {
        let Some(hour) = self.hour(agent, at) else { return };
        hour.controls.0 = hour.controls.0.saturating_add(1);
        hour.controls.1 += u32::from(rejected);
        self.bound();
    }

    /// Adds what another has counted: several that verify under one name report together.
    pub fn absorb(&mut self, other: &Rollup) {
        for (agent, counted) in &other.agents {
            for theirs in &counted.hours {
                let Ok(at) = Timestamp::from_micros(theirs.hour.saturating_mul(HOUR_MICROS)) else { continue };
                let Some(hour) = self.hour(agent, at) else { continue };
                for (cell, more) in hour.cells.iter_mut().zip(theirs.cells) {
                    *cell = cell.join(more);
                }
                hour.canaries.0 = hour.canaries.0.saturating_add(theirs.canaries.0);
                hour.canaries.1 = hour.canaries.1.saturating_add(theirs.canaries.1);
                hour.controls.0 = hour.controls.0.saturating_add(theirs.controls.0);
                hour.controls.1 = hour.controls.1.saturating_add(theirs.controls.1);
            }
        }
        self.bound();
    }

    fn hour(&mut self, agent: &str, at: Timestamp) -> Option<&mut Hour> {
        let newest = self.newest.map_or(at, |newest| newest.max(at));
        self.newest = Some(newest);
        let oldest = hour_of(newest) - Window::Month.days() * DAY_HOURS;
        if hour_of(at) <= oldest {
            self.late += 1;
            return None;
        }
        if !self.agents.contains_key(agent) {
            self.agents.insert(agent.to_owned(), Agent { seen: at, hours: Vec::new() });
            self.by_age.insert((at, agent.to_owned()));
        }
        let known = self.agents.get_mut(agent)?;
        if at > known.seen {
            self.by_age.remove(&(known.seen, agent.to_owned()));
            self.by_age.insert((at, agent.to_owned()));
            known.seen = at;
        }
        // What no window reaches any more goes as new hours come.
        let passed = known.hours.partition_point(|hour| hour.hour <= oldest);
        known.hours.drain(..passed);
        self.hours -= passed;
        let place = known.hours.partition_point(|hour| hour.hour < hour_of(at));
        if known.hours.get(place).is_none_or(|hour| hour.hour != hour_of(at)) {
            if known.hours.capacity() == known.hours.len() {
                // By an eighth, not by half: most agents have few.
                known.hours.reserve_exact(known.hours.len() / 8 + 1);
            }
            known.hours.insert(place, Hour { hour: hour_of(at), ..Hour::default() });
            self.hours += 1;
        }
        known.hours.get_mut(place)
    }

    /// Goes on from what was kept, within `limits`.
    pub fn restored(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self.by_age = self.agents.iter().map(|(name, agent)| (agent.seen, name.clone())).collect();
        for agent in self.agents.values_mut() {
            agent.hours.sort_by_key(|hour| hour.hour);
        }
        self.hours = self.agents.values().map(|agent| agent.hours.len()).sum();
        self.bound();
        self
    }

    fn bound(&mut self) {
        while (self.hours > self.limits.max_hours || self.agents.len() > self.limits.max_agents)
            && self.agents.len() > 1
        {
            let Some((_, agent)) = self.by_age.pop_first() else { return };
            self.hours -= self.agents.remove(&agent).map_or(0, |agent| agent.hours.len());
            self.forgotten += 1;
        }
    }

    /// The agents that are remembered, in order.
    pub fn agents(&self) -> impl Iterator<Item = &str> {
        self.agents.keys().map(String::as_str)
    }

    /// The time of the newest check.
    pub fn newest(&self) -> Option<Timestamp> {
        self.newest
    }

    /// Agents that were forgotten to stay within the limit.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Checks that came after every window had passed them.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The summary of `agent` over the window that ends with the hour of `end`; none without a check in it.
    pub fn summary(&self, agent: &str, window: Window, end: Timestamp) -> Option<RolledUp> {
        let last = hour_of(end);
        let first = last - window.days() * DAY_HOURS + 1;
        let mut cells = [Cell::default(); 5];
        let (mut canaries, mut controls) = (Canaries::default(), Controls::default());
        for hour in self.agents.get(agent)?.hours.iter().filter(|hour| (first..=last).contains(&hour.hour)) {
            for (sum, cell) in cells.iter_mut().zip(hour.cells) {
                *sum = sum.join(cell);
            }
            canaries.checks += u64::from(hour.canaries.0);
            canaries.caught += u64::from(hour.canaries.1);
            controls.checks += u64::from(hour.controls.0);
            controls.rejected += u64::from(hour.controls.1);
        }
        let [low, medium, high, critical, unknown] = cells;
        let all = cells.into_iter().fold(Cell::default(), Cell::join);
        if all.checks == 0 {
            return None;
        }
        let said = all.checks > unknown.checks;
        let stakes = said.then(|| StakeDistribution {
            low: low.level(),
            medium: medium.join(unknown).level(),
            high: high.level(),
            critical: critical.level(),
        });
        let uncertain = all.checks - all.allowed - all.blocked;
        let summary = Summary {
            allow_rate: all.share(all.allowed),
            block_rate: all.share(all.blocked),
            uncertain_rate: Some(all.share(uncertain)),
            avg_confidence: all.mean_confidence(),
            total_checks: all.checks.into(),
            stake_distribution: stakes,
            window_days: Some(window.days() as f64),
            providers: Vec::new(),
            canaries: (canaries.checks > 0).then_some(canaries),
            controls: (controls.checks > 0).then_some(controls),
            updated_at: Some(end),
        };
        Some(RolledUp { agent: agent.to_owned(), window, summary })
    }
}

fn hour_of(at: Timestamp) -> i64 {
    at.micros().div_euclid(HOUR_MICROS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_micros(1_700_000_000_000_000 + hours * HOUR_MICROS).unwrap()
    }

    fn check(decision: Decision, bad: f64, stake: Option<Stake>, hours: i64) -> CheckedOutput {
        CheckedOutput::new(decision, bad, stake, at(hours))
    }

    #[test]
    fn windows_end_with_the_hour_asked_for() {
        let mut rollup = Rollup::default();
        for hour in 0..24 * 40 {
            rollup.add("a", check(if hour % 10 == 0 { Decision::Block } else { Decision::Accept }, 0.1, None, hour));
        }
        let end = at(24 * 40 - 1);
        for (window, checks) in [(Window::Day, 24), (Window::Week, 168), (Window::Month, 720)] {
            let summary = rollup.summary("a", window, end).unwrap().summary;
            assert_eq!(summary.total_checks, checks);
            assert_eq!(summary.window_days, Some(window.days() as f64));
            assert!(summary.stake_distribution.is_none());
        }
        assert_eq!(rollup.hours, 720, "older hours are gone");
        assert!(rollup.summary("a", Window::Day, at(24 * 60)).is_none());
        assert!(rollup.summary("b", Window::Day, end).is_none());
        rollup.add("a", check(Decision::Accept, 0.1, None, 0));
        assert_eq!(rollup.late(), 1);
    }

    #[test]
    fn rates_and_confidence_are_those_of_the_verdicts() {
        let mut rollup = Rollup::default();
        rollup.add("a", check(Decision::Accept, 0.1, Some(Stake::High), 0));
        rollup.add("a", check(Decision::Block, 0.8, None, 0));
        rollup.add("a", check(Decision::Flag, 0.4, Some(Stake::High), 1));
        rollup.add("a", check(Decision::Accept, 0.3, None, 2));
        rollup.add_canary("a", true, at(2));
        rollup.add_canary("a", false, at(2));
        rollup.add_control("a", false, at(2));
        rollup.add_control("a", true, at(1));
        rollup.add_control("a", false, at(1));
        let summary = rollup.summary("a", Window::Day, at(2)).unwrap().summary;
        assert_eq!((summary.allow_rate, summary.block_rate, summary.uncertain_rate), (0.5, 0.25, Some(0.25)));
        assert!((summary.avg_confidence - (0.9 + 0.8 + 0.6 + 0.7) / 4.0).abs() < 1e-12);
        assert_eq!(summary.canaries, Some(Canaries { checks: 2, caught: 1 }));
        assert_eq!(summary.controls, Some(Controls { checks: 3, rejected: 1 }));
        let stakes = summary.stake_distribution.unwrap();
        assert_eq!((stakes.counts(), stakes.low), ((4, 2), None));
        assert_eq!(stakes.high.unwrap().allow_rate, Some(0.5));
        assert_eq!(stakes.medium.unwrap().checks, 2, "those without a stake");
    }

    #[test]
    fn several_count_as_one() {
        let (mut whole, mut one, mut other) = (Rollup::default(), Rollup::default(), Rollup::default());
        for n in 0..40 {
            let check = check(if n % 5 == 0 { Decision::Block } else { Decision::Accept }, 0.2, None, n);
            whole.add("a", check);
            if n % 2 == 0 { one.add("a", check) } else { other.add("a", check) }
        }
        other.add_canary("a", true, at(3));
        whole.add_canary("a", true, at(3));
        other.add_control("a", true, at(3));
        whole.add_control("a", true, at(3));
        one.absorb(&other);
        let (one, whole) = (
            one.summary("a", Window::Week, at(39)).unwrap().summary,
            whole.summary("a", Window::Week, at(39)).unwrap().summary,
        );
        assert_eq!(
            (one.total_checks, one.block_rate, one.canaries, one.controls),
            (whole.total_checks, whole.block_rate, whole.canaries, whole.controls)
        );
        assert!((one.avg_confidence - whole.avg_confidence).abs() < 1e-12);
    }

    #[test]
    fn memory_is_bounded_by_forgetting_the_silent() {
        let mut rollup = Rollup::new(Limits { max_hours: 100, ..Limits::default() });
        for n in 0..1_000 {
            rollup.add(&format!("agent-{n}"), check(Decision::Accept, 0.1, None, n / 10));
        }
        assert_eq!((rollup.hours, rollup.agents().count(), rollup.by_age.len()), (100, 100, 100));
        assert_eq!(rollup.forgotten(), 900);
        assert!(rollup.agents().any(|agent| agent == "agent-999"));
        let mut few = Rollup::new(Limits { max_agents: 7, ..Limits::default() });
        (0..50).for_each(|n| few.add(&format!("agent-{n}"), check(Decision::Accept, 0.1, None, n)));
        assert_eq!((few.agents().count(), few.hours), (7, 7));
    }

    #[test]
    fn what_was_kept_goes_on() {
        let (mut whole, mut first) = (Rollup::default(), Rollup::default());
        let one = |n: i64| check(if n % 3 == 0 { Decision::Block } else { Decision::Accept }, 0.2, None, n);
        (0..50).for_each(|n| whole.add("a", one(n)));
        (0..20).for_each(|n| first.add("a", one(n)));
        let kept = serde_json::to_string(&first).unwrap();
        let mut again = serde_json::from_str::<Rollup>(&kept).unwrap().restored(Limits::default());
        (20..50).for_each(|n| again.add("a", one(n)));
        assert_eq!(again.summary("a", Window::Week, at(49)), whole.summary("a", Window::Week, at(49)));
        assert_eq!((again.hours, again.by_age.len()), (50, 1));
    }
}
