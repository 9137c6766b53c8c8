//! What a run may do.

use std::time::Duration;

use crate::{Threat, suite::Family, variant::Variant};

/// Conclusive trials of each family.
pub const DEFAULT_TRIALS: u32 = 10;
/// A family ends early when its interval is at most so wide. Ten trials never are: this is for longer runs.
pub const DEFAULT_TIGHT: f64 = 0.15;

/// What a run may do.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOptions {
    /// Makes order and values; the same seed makes the same run.
    pub seed: u64,
    /// The threats to try.
    pub threats: Vec<Threat>,
    /// Only these families or probes, where any is named, each maybe with a spelling (`asi01_document_footer:base64`): to reproduce a
    /// finding.
    pub only: Vec<String>,
    /// Conclusive trials of each family.
    pub trials: u32,
    /// Width of a family's 90 % interval at which it ends early.
    pub tight: f64,
    /// Requests at most; whole threats are left out to keep to it.
    pub budget: Option<u64>,
    /// How long the run may take; threats that have not begun by then are left out.
    pub time_limit: Option<Duration>,
    /// Families that are tried at the same time.
    pub in_flight: usize,
    /// Whether reliability and output quality are measured too.
    pub benchmarks: bool,
    /// Over how long the calls of the reliability benchmark are spread.
    pub reliability_spread: Duration,
    /// The run ends after so many failed exchanges one after another: the target is down, or has banned us.
    pub give_up_after: u32,
    /// The digest of the command of a tool server: a run of another one does not continue the journal.
    pub command: Option<String>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            threats: Threat::ALL.to_vec(),
            only: Vec::new(),
            trials: DEFAULT_TRIALS,
            tight: DEFAULT_TIGHT,
            budget: None,
            time_limit: None,
            in_flight: 4,
            benchmarks: true,
            reliability_spread: Duration::from_secs(60),
            give_up_after: 12,
            command: None,
        }
    }
}

impl RunOptions {
    /// Whether a family is asked for.
    pub fn wants_family(&self, family: &Family) -> bool {
        let named = |name: &str| name == family.id || family.probes.iter().any(|probe| probe.id == name);
        self.only.is_empty() || self.only.iter().any(|only| named(split(only).0))
    }

    /// Whether a probe is asked for in a spelling.
    pub fn wants(&self, family: &str, probe: &str, variant: Variant) -> bool {
        let fits = |only: &String| {
            let (name, spelling) = split(only);
            (name == family || name == probe) && spelling.is_none_or(|spelling| spelling == variant.id())
        };
        self.only.is_empty() || self.only.iter().any(fits)
    }
}

fn split(only: &str) -> (&str, Option<&str>) {
    only.split_once(':').map_or((only, None), |(name, spelling)| (name, Some(spelling)))
}
