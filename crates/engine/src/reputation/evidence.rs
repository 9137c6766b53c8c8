//! What is known of an agent in the window, and the factors it makes.

use credence_protocol::RiskBand;
use serde::{Deserialize, Serialize};

use super::{
    Factors, Parameters,
    consistency::{self, Basis, Consistency},
    penalty::{self, Penalty},
    performance::{self, Performance, RapMethod, Settled},
    sum,
    transparency::Checklist,
    validation::{self, Validation},
};

/// What an agent's identity declares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declared {
    /// How its performance is measured.
    pub rap_method: Option<RapMethod>,
    /// That its errors against its own confidence be taken for volatility.
    #[serde(default)]
    pub confidence_bands: bool,
}

/// A claim of the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContractFacts {
    /// In what context.
    pub context: Option<String>,
    /// The probability announced.
    pub probability: Option<f64>,
    /// The risk declared.
    pub band: RiskBand,
    /// What it has of the transparency checklist.
    pub checklist: Checklist,
}

/// What is known of an agent in the window.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evidence {
    /// What its identity declares.
    pub declared: Declared,
    /// Its newest claims, oldest first.
    pub contracts: Vec<ContractFacts>,
    /// Its newest settled claims, oldest first. A list of its own: new claims must not push out what old ones came to.
    pub settled: Vec<Settled>,
    /// The weight of the peers against whom it was not refuted, over settled challenges.
    pub upheld: f64,
    /// Settled challenges in which it was refuted.
    pub refuted: u32,
    /// The weights of the agents that took its claims up.
    pub citers: Vec<f64>,
    /// Reviews of it: weight and rating.
    pub reviews: Vec<(f64, f64)>,
    /// Challenges of its own that failed.
    pub failed_challenges: u32,
    /// Challenges of its own that it put a second time.
    pub resubmitted_challenges: u32,
    /// Changes of model or method without a new version.
    pub unversioned_changes: u32,
}

/// The factors, and what each rests on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Assessed {
    /// The five numbers.
    #[serde(skip)]
    pub factors: Factors,
    /// C.
    pub consistency: Consistency,
    /// T: the mean over contracts; 0 without any.
    pub transparency: Transparency,
    /// P.
    pub performance: Performance,
    /// V.
    pub validation: Validation,
    /// Q.
    pub penalty: Penalty,
}

/// T and how many contracts it rests on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Transparency {
    /// T.
    pub value: f64,
    /// Contracts in the window.
    pub contracts: usize,
}

/// The factors of what is known.
pub fn assess(evidence: &Evidence, parameters: &Parameters) -> Assessed {
    let contracts = &evidence.contracts;
    let settled = &evidence.settled;
    let instability =
        consistency::instability(contracts.iter().filter_map(|one| Some((one.context.as_deref()?, one.probability?))));
    let consistency = consistency(evidence, instability, parameters);
    let sum = sum(contracts.iter().map(|one| one.checklist.score()));
    let transparency = Transparency { value: sum / contracts.len().max(1) as f64, contracts: contracts.len() };
    let performance = performance::performance(settled, evidence.declared.rap_method, parameters);
    let validation = validation(evidence, parameters);
    // Not twice: what C rests on is no penalty as well.
    let q1 = instability.filter(|_| consistency.basis != Basis::Probabilities).map_or(0.0, |(spread, _)| spread);
    let mismatch = performance::risk_mismatch(settled, &parameters.band_failures);
    let q2 = penalty::abuse(mismatch, evidence.unversioned_changes, parameters);
    let q3 = penalty::spam(evidence.failed_challenges, evidence.resubmitted_challenges, parameters);
    let penalty = Penalty::new(q1, q2, q3, parameters);
    let factors = Factors {
        c: consistency.value,
        t: transparency.value.clamp(0.0, 1.0),
        p: performance.value,
        v: validation.value,
        q: penalty.value,
    };
    Assessed { factors, consistency, transparency, performance, validation, penalty }
}

fn consistency(evidence: &Evidence, instability: Option<(f64, usize)>, parameters: &Parameters) -> Consistency {
    let settled = &evidence.settled;
    let outcomes: Vec<f64> = settled.iter().map(|one| one.outcome).collect();
    if outcomes.len() > 1 {
        let drawdown = consistency::drawdown(&outcomes);
        let errors: Option<Vec<f64>> =
            settled.iter().map(|one| one.probability.map(|probability| one.share() - probability)).collect();
        return match errors.filter(|_| evidence.declared.confidence_bands) {
            Some(errors) => {
                let spread = consistency::deviation(&errors);
                Consistency::new(Basis::ConfidenceBands, spread, drawdown, errors.len(), parameters)
            }
            None => {
                let spread = consistency::deviation(&outcomes);
                Consistency::new(Basis::Outcomes, spread, drawdown, outcomes.len(), parameters)
            }
        };
    }
    // A single bad outcome is a fall already.
    let drawdown = consistency::drawdown(&outcomes);
    let bands: Vec<RiskBand> = evidence.contracts.iter().map(|one| one.band).collect();
    match (instability, consistency::band_shifts(&bands)) {
        (Some((spread, n)), _) => Consistency::new(Basis::Probabilities, spread, drawdown, n, parameters),
        (None, Some((shifts, n))) => Consistency::new(Basis::RiskBands, shifts, drawdown, n, parameters),
        (None, None) => Consistency::new(Basis::Nothing, 0.0, drawdown, outcomes.len(), parameters),
    }
}

fn validation(evidence: &Evidence, parameters: &Parameters) -> Validation {
    let adoption = validation::adoption(&evidence.citers, parameters);
    let survival = validation::survival(evidence.upheld, evidence.refuted, parameters);
    let helpfulness = validation::helpfulness(&evidence.reviews, parameters);
    Validation {
        value: validation::value(adoption, survival, helpfulness, parameters),
        adoption,
        survival,
        helpfulness,
        upheld: evidence.upheld,
        refuted: evidence.refuted,
        reviews: evidence.reviews.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn contract(probability: f64, band: RiskBand) -> ContractFacts {
        ContractFacts { context: Some("c".into()), probability: Some(probability), band, checklist: Checklist::FULL }
    }

    /// `reference/arn.md` §6, item 7.
    #[test]
    fn a_newborn_with_spotless_contracts_has_11_25() {
        let evidence = Evidence { contracts: vec![contract(0.8, RiskBand::Low)], ..Evidence::default() };
        let raw = assess(&evidence, &Parameters::default()).factors.raw();
        assert!((raw - 11.25).abs() < 1e-9, "{raw}");
        assert!(raw < Parameters::default().peer_floor);
        assert_eq!(assess(&Evidence::default(), &Parameters::default()).factors.raw(), 0.0);
    }

    #[test]
    fn understating_risk_costs_twice() {
        let parameters = Parameters::default();
        let outcomes = [1.0, -1.0, 1.0, -1.0];
        let of = |band| {
            let contracts = vec![contract(0.5, band)];
            let settled = outcomes.iter().map(|o| Settled { band, probability: Some(0.5), outcome: *o }).collect();
            let declared = Declared { rap_method: Some(RapMethod::Calibration), confidence_bands: false };
            assess(&Evidence { declared, contracts, settled, ..Evidence::default() }, &parameters)
        };
        let (low, high) = (of(RiskBand::Low), of(RiskBand::High));
        assert!(low.performance.rap < high.performance.rap && low.penalty.abuse > high.penalty.abuse);
        assert!(low.factors.raw() < high.factors.raw());
    }

    proptest! {
        #[test]
        fn factors_stay_in_bounds(contracts in proptest::collection::vec(
                (0.0..=1.0_f64, 0..3_u8, proptest::option::of(-1.0..=1.0_f64), 0.0..=5.0_f64), 0..40),
            upheld in 0.0..50.0_f64, refuted in 0..50_u32, failed in 0..50_u32, changes in 0..50_u32, declared: bool, bands: bool) {
            let bands_of = [RiskBand::Low, RiskBand::Moderate, RiskBand::High];
            let settled = contracts.iter().filter_map(|(p, band, outcome, _)| {
                outcome.map(|outcome| Settled { band: bands_of[*band as usize], probability: Some(*p), outcome })
            }).collect();
            let citers = contracts.iter().map(|(_, _, _, weight)| *weight).collect();
            let contracts = contracts.into_iter().map(|(p, band, _, _)| contract(p, bands_of[band as usize])).collect();
            let declared = Declared { rap_method: declared.then_some(RapMethod::Sharpe), confidence_bands: bands };
            let evidence = Evidence { declared, contracts, settled, citers, upheld, refuted, failed_challenges: failed, unversioned_changes: changes, ..Evidence::default() };
            let assessed = assess(&evidence, &Parameters::default());
            prop_assert!(assessed.factors.check().is_ok() && assessed.factors.q <= 2.0, "{:?}", assessed);
        }

        #[test]
        fn being_refuted_never_helps(upheld in 0.0..50.0_f64, refuted in 0..50_u32) {
            let parameters = Parameters::default();
            let of = |refuted| assess(&Evidence { upheld, refuted, ..Evidence::default() }, &parameters).factors.v;
            prop_assert!(of(refuted + 1) <= of(refuted));
        }
    }
}
