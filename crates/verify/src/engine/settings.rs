//! What holds for a tool: its profile, its calibration, and the thresholds that follow from them and from feedback.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use crate::{
    Calibration, ToolProfile,
    calibration::{DEFAULT_BLOCK, DEFAULT_FALSE_BLOCKS, DEFAULT_PRIOR},
    combiner::{log_odds, probability},
    state::Locked,
};

/// Feedback from which on its rate is the prior.
const MIN_FEEDBACK: u64 = 5;

/// What was set, by tool and for all.
#[derive(Default, Clone)]
pub(crate) struct Settings {
    pub(super) profiles: HashMap<String, Arc<ToolProfile>>,
    pub(super) global: Calibration,
    pub(super) tools: HashMap<String, Calibration>,
    /// What holds for a tool with settings of its own, and for all others.
    resolved: HashMap<String, Resolved>,
    others: Resolved,
}

/// What holds for one tool.
#[derive(Default, Clone)]
pub(crate) struct Resolved {
    pub(crate) profile: Option<Arc<ToolProfile>>,
    pub(crate) calibration: Calibration,
}

impl Settings {
    /// What holds for a tool.
    pub(crate) fn of(&self, tool: &str) -> &Resolved {
        self.resolved.get(tool).unwrap_or(&self.others)
    }

    /// Works out what holds for each tool that has settings of its own.
    pub(super) fn resolve(&mut self) {
        self.others = Resolved { profile: None, calibration: self.global.clone() };
        let nothing = Calibration::default();
        let named = self.profiles.keys().chain(self.tools.keys());
        self.resolved = named
            .map(|tool| {
                let calibration = self.tools.get(tool).unwrap_or(&nothing).or(&self.global);
                (tool.clone(), Resolved { profile: self.profiles.get(tool).cloned(), calibration })
            })
            .collect();
    }
}

/// The prior and the blocking threshold: set by hand, or moved by feedback, or the defaults.
pub(crate) fn thresholds(locked: &Locked<'_>, calibration: &Calibration) -> (f64, f64) {
    let feedback = locked.tool().map(|tool| tool.feedback).unwrap_or_default();
    let fed_back = |least: u64| feedback.count >= least;
    let prior = if fed_back(MIN_FEEDBACK) { feedback.rate.clamp(1e-6, 1.0 - 1e-6) } else { DEFAULT_PRIOR };
    let moved = (DEFAULT_BLOCK + 2.0 * (DEFAULT_PRIOR - feedback.rate)).clamp(0.1, 0.9);
    let block = if fed_back(1) { moved } else { DEFAULT_BLOCK };
    (calibration.prior.unwrap_or(prior), calibration.block_threshold.unwrap_or(block))
}

fn budget(prior: f64, rate: f64) -> f64 {
    probability(log_odds(prior) - libm::log(rate))
}

/// Where nothing is set, as mostly.
static DEFAULT_BUDGET: LazyLock<f64> = LazyLock::new(|| budget(DEFAULT_PRIOR, DEFAULT_FALSE_BLOCKS));

/// The posterior from which on a result is blocked for what was learned.
///
/// On genuine results the ratio of likelihoods is 1 on average, so it reaches `1 / rate` in at most `rate` of them (Markov's
/// inequality). This asks nothing of how often the engine blocks, so that no flood of fabrications moves it. A threshold set
/// by hand holds as it is.
pub(crate) fn within_budget(block: f64, prior: f64, calibration: &Calibration) -> f64 {
    if calibration.block_threshold.is_some() {
        return block;
    }
    block.max(match calibration.max_false_block_rate {
        None if prior == DEFAULT_PRIOR => *DEFAULT_BUDGET,
        rate => budget(prior, rate.unwrap_or(DEFAULT_FALSE_BLOCKS)),
    })
}
