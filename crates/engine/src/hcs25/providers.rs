//! Several providers report on one agent (seed 0, "Multi-provider support"; DESIGN, *HCS-25*).
//!
//! ```text
//! wᵢ           = log10(checksᵢ + 1)
//! combined     = Σ wᵢqᵢ / Σ wᵢ
//! disagreement = Σ wᵢ|qᵢ − combined| / Σ wᵢ
//! quality      = max(0, combined − disagreement)
//! ```
//!
//! That is the standard's join. For Credence's own signal ([`Measure::Signal`]) providers [join by random effects](signal::join), and
//! the weighted mean absolute deviation is taken off as well.
//!
//! Each provider's quality is computed on its own: merging rates first would let one provider's blocks lend power to
//! another's approvals. Nothing is rounded after that. Coverage comes from the checks of all who count.
//!
//! Left out, with the reason: who has too few checks, who speaks of itself, and whose window is past. Odd stakes are
//! [found](stake_jump), not hidden.

use credence_protocol::Timestamp;
use serde::Serialize;

use super::{
    Error, Profile,
    output_verification::{
        Parameters, Report, StakeDistribution, Summary,
        signal::{self, Estimate, Joined},
    },
};

/// Who may be the same as whom.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Party {
    /// Its id.
    pub id: String,
    /// Who runs it.
    pub owner: Option<String>,
    /// A key it signs with.
    pub key: Option<String>,
}

impl Party {
    /// Whether both are the same, run by one owner, run by each other, or sign with one key.
    pub fn is(&self, other: &Party) -> bool {
        let names =
            |party: &Party| [Some(party.id.clone()), party.owner.clone()].into_iter().flatten().collect::<Vec<_>>();
        let theirs = names(other);
        names(self).iter().any(|name| theirs.contains(name)) || (self.key.is_some() && self.key == other.key)
    }
}

/// What a provider reports.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderReport {
    /// Who.
    pub provider: Party,
    /// What.
    pub report: Report,
}

/// How quality is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// As the standard has it.
    Standard(Profile),
    /// As Credence's own signal has it.
    Signal,
}

/// What providers say together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Combined {
    /// Whether any report counts.
    pub applicable: bool,
    /// Why none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// After disagreement, 0..=100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality: Option<f64>,
    /// From the checks of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coverage: Option<f64>,
    /// Both together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// Before disagreement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub combined: Option<f64>,
    /// By how much they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disagreement: Option<f64>,
    /// The uncertainty of quality, where it is a signal's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stddev: Option<f64>,
    /// The checks of all who count.
    pub checks: u64,
    /// What each said.
    pub providers: Vec<ProviderOutcome>,
}

/// What one provider said.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProviderOutcome {
    /// Who.
    pub id: String,
    /// Whether it counts.
    pub counted: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its quality.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality: Option<f64>,
    /// Its share of the weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Its checks.
    pub checks: u64,
}

/// Joins reports on `agent`. Without `now` nothing is stale.
pub fn combine(
    reports: &[ProviderReport],
    agent: Option<&Party>,
    now: Option<Timestamp>,
    parameters: &Parameters,
    measure: Measure,
) -> Result<Combined, Error> {
    let mut counted: Vec<(usize, Counted)> = Vec::new();
    let mut providers = Vec::with_capacity(reports.len());
    for (n, ProviderReport { provider, report }) in reports.iter().enumerate() {
        if reports[..n].iter().any(|before| before.provider.id == provider.id) {
            return Err(Error::DuplicateProvider(provider.id.clone()));
        }
        let mut outcome = ProviderOutcome {
            id: provider.id.clone(),
            counted: false,
            reason: None,
            quality: None,
            share: None,
            checks: 0,
        };
        let judged = judge(provider, report, agent, now)?;
        let judged = judged.and_then(|summary| match measure {
            Measure::Standard(profile) => {
                let value = parameters.evaluate(summary, profile).quality;
                Ok((summary.total_checks, Estimate { value, stddev: 0.0 }))
            }
            Measure::Signal => match signal::quality(summary, parameters) {
                Ok(quality) => Ok((summary.total_checks, quality)),
                Err(why) => Err((summary.total_checks, why.to_string())),
            },
        });
        match judged {
            Ok((checks, quality)) => {
                (outcome.counted, outcome.quality, outcome.checks) = (true, Some(quality.value), checks);
                counted.push((n, Counted { quality, checks }));
            }
            Err((checks, reason)) => {
                outcome.checks = checks;
                outcome.reason = Some(reason);
            }
        }
        providers.push(outcome);
    }
    if counted.is_empty() {
        return Ok(Combined {
            applicable: false,
            reason: Some(match &providers[..] {
                [] => "no provider reports on this agent".to_owned(),
                [one] => one.reason.clone().unwrap_or_default(),
                _ => "none of the providers' reports counts".to_owned(),
            }),
            quality: None,
            coverage: None,
            total: None,
            combined: None,
            disagreement: None,
            stddev: None,
            checks: 0,
            providers,
        });
    }
    let Joined { mean: combined, disagreement, stddev, shares } = match measure {
        Measure::Standard(_) => by_checks(&counted),
        Measure::Signal => {
            let estimates: Vec<Estimate> = counted.iter().map(|(_, one)| one.quality).collect();
            signal::join(&estimates).unwrap_or_else(|| by_checks(&counted))
        }
    };
    for ((n, _), share) in counted.iter().zip(shares) {
        providers[*n].share = Some(share);
    }
    let quality = (combined - disagreement).max(0.0);
    let checks = counted.iter().fold(0_u64, |sum, (_, one)| sum.saturating_add(one.checks));
    let coverage = parameters.coverage(checks);
    let Parameters { quality_weight, coverage_weight, .. } = *parameters;
    let stddev = libm::sqrt(stddev * stddev + disagreement * disagreement).min(50.0);
    Ok(Combined {
        applicable: true,
        reason: None,
        quality: Some(quality),
        coverage: Some(coverage),
        total: Some((quality * quality_weight + coverage * coverage_weight) / (quality_weight + coverage_weight)),
        combined: Some(combined),
        disagreement: Some(disagreement),
        stddev: (measure == Measure::Signal).then_some(stddev),
        checks,
        providers,
    })
}

/// The standard's join: by the logarithm of checks.
fn by_checks(counted: &[(usize, Counted)]) -> Joined {
    let weight = |one: &Counted| libm::log10(one.checks as f64 + 1.0);
    let total: f64 = counted.iter().map(|(_, one)| weight(one)).sum();
    let mean = |of: &dyn Fn(&Counted) -> f64| counted.iter().map(|(_, one)| weight(one) * of(one)).sum::<f64>() / total;
    let combined = mean(&|one| one.quality.value);
    let disagreement = mean(&|one| (one.quality.value - combined).abs());
    let shares = counted.iter().map(|(_, one)| weight(one) / total).collect();
    Joined { mean: combined, disagreement, stddev: 0.0, shares }
}

struct Counted {
    quality: Estimate,
    checks: u64,
}

type CountedSummary<'a> = Result<&'a Summary, (u64, String)>;

/// The summary, or why the report does not count.
fn judge<'a>(
    provider: &Party,
    report: &'a Report,
    agent: Option<&Party>,
    now: Option<Timestamp>,
) -> Result<CountedSummary<'a>, Error> {
    let checks = match report {
        Report::Applicable(summary) => summary.total_checks,
        Report::TooFew { checks, .. } => *checks,
        Report::None => 0,
    };
    if agent.is_some_and(|agent| provider.is(agent)) {
        return Ok(Err((checks, "self-reported: the provider is the agent, or both have one owner or key".to_owned())));
    }
    let summary = match report {
        Report::Applicable(summary) => summary,
        Report::TooFew { checks, needed } => {
            return Ok(Err((*checks, format!("too few checks: {checks}, at least {needed} are needed"))));
        }
        Report::None => return Ok(Err((0, "there is no totalChecks".to_owned()))),
    };
    if let (Some(now), Some(updated_at)) = (now, summary.updated_at) {
        summary.not_from_the_future(now)?;
        if summary.is_stale(now) {
            return Ok(Err((checks, format!("stale: updated at {updated_at}, and its window has passed since"))));
        }
    }
    Ok(Ok(summary))
}

/// The share of high and critical checks that is odd when it comes at once.
pub const STAKE_JUMP: f64 = 0.2;
/// Standard errors that tell a jump from chance.
const JUMP_SIGMAS: f64 = 3.0;

/// A provider's share of high and critical checks that jumped.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StakeJump {
    /// The share before.
    pub before: f64,
    /// The share now.
    pub now: f64,
    /// By how many standard errors they differ.
    pub sigmas: f64,
}

/// Whether the share of high and critical checks jumped from `before` to `now` (each: all checks, and those), by more than
/// [`STAKE_JUMP`] and more than chance.
pub fn stake_jump(before: (u64, u64), now: (u64, u64)) -> Option<StakeJump> {
    let ((n0, k0), (n1, k1)) = (before, now);
    if n0 == 0 || n1 == 0 {
        return None;
    }
    let share = |k: u64, n: u64| k as f64 / n as f64;
    let (p0, p1) = (share(k0, n0), share(k1, n1));
    let pooled = share(k0 + k1 + 1, n0 + n1 + 2);
    let error = libm::sqrt(pooled * (1.0 - pooled) * (1.0 / n0 as f64 + 1.0 / n1 as f64));
    let sigmas = (p1 - p0).abs() / error;
    ((p1 - p0).abs() > STAKE_JUMP && sigmas > JUMP_SIGMAS).then_some(StakeJump { before: p0, now: p1, sigmas })
}

/// The counts that [`stake_jump`] compares.
pub fn stake_counts(summary: &Summary) -> (u64, u64) {
    summary.stake_distribution.as_ref().map_or((0, 0), StakeDistribution::counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report(id: &str, allow: f64, block: f64, confidence: f64, checks: u64) -> ProviderReport {
        let value = json!({"allowRate": allow, "blockRate": block, "avgConfidence": confidence, "totalChecks": checks,
            "windowDays": 7, "updatedAt": "2026-11-10T00:00:00Z"});
        let provider = Party { id: id.into(), ..Party::default() };
        ProviderReport { provider, report: Summary::from_value(&value, 10).unwrap() }
    }

    fn spec(reports: &[ProviderReport], agent: Option<&Party>, now: Option<&str>) -> Combined {
        let now = now.map(|now| now.parse().unwrap());
        combine(reports, agent, now, &Parameters::default(), Measure::Standard(Profile::Spec)).unwrap()
    }

    /// `reference/hcs25.md` §4, row 6.
    #[test]
    fn one_providers_blocks_lend_no_power_to_anothers_approvals() {
        let both = spec(&[report("a", 0.99, 0.01, 0.95, 900), report("b", 0.4, 0.6, 0.9, 100)], None, None);
        assert!((both.combined.unwrap() - 25.87).abs() < 0.005, "{both:?}");
        assert!((both.disagreement.unwrap() - 8.19).abs() < 0.01, "{both:?}");
        assert_eq!(both.quality.unwrap(), both.combined.unwrap() - both.disagreement.unwrap());
        assert_eq!((both.checks, both.coverage), (1000, Some(100.0)));
    }

    #[test]
    fn what_does_not_count_is_named() {
        let reports =
            [report("me", 0.9, 0.1, 0.9, 50), report("few", 0.9, 0.1, 0.9, 9), report("lab", 0.9, 0.1, 0.9, 50)];
        let agent = Party { id: "me".into(), ..Party::default() };
        let fresh = spec(&reports, Some(&agent), Some("2026-11-16T00:00:00Z"));
        let reasons: Vec<_> = fresh.providers.iter().map(|p| p.reason.clone().unwrap_or_default()).collect();
        assert!(reasons[0].starts_with("self-reported") && reasons[1].starts_with("too few") && reasons[2].is_empty());
        assert_eq!((fresh.quality, fresh.disagreement, fresh.checks), (Some(81.0), Some(0.0), 50));
        let later = spec(&reports[2..], Some(&agent), Some("2026-11-18T00:00:00Z"));
        assert!(!later.applicable && later.reason.unwrap().starts_with("stale"));
        let owned = Party { id: "bot".into(), owner: Some("lab".into()), ..Party::default() };
        assert!(!spec(&reports[2..], Some(&owned), None).applicable);
    }

    #[test]
    fn bad_reports_are_errors() {
        let twice = [report("a", 0.9, 0.1, 0.9, 50), report("a", 0.9, 0.1, 0.9, 50)];
        let now = "2026-11-01T00:00:00Z".parse().ok();
        let try_combine = |reports: &[ProviderReport], now| {
            combine(reports, None, now, &Parameters::default(), Measure::Signal).unwrap_err().to_string()
        };
        assert!(try_combine(&twice, None).contains("twice"));
        assert!(try_combine(&twice[..1], now).contains("after now"));
    }

    #[test]
    fn stakes_that_jump_are_found() {
        assert_eq!(stake_jump((200, 20), (200, 30)), None, "chance");
        assert_eq!(stake_jump((5, 0), (5, 2)), None, "too few to tell");
        assert_eq!(stake_jump((0, 0), (200, 200)), None, "nothing to compare with");
        let jump = stake_jump((200, 20), (200, 180)).unwrap();
        assert!((jump.before, jump.now) == (0.1, 0.9) && jump.sigmas > 10.0);
    }
}
