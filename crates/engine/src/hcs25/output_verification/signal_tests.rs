use proptest::prelude::*;

use super::super::{Canaries, Controls, Evaluation, StakeDistribution, StakeLevel, Summary};
use super::*;
use crate::hcs25::Profile;

/// Of `n` checks `y` were not accepted; of `m` canaries `c` were caught.
fn summary(n: u64, y: u64, (m, c): (u64, u64)) -> Summary {
    let rejected = y as f64 / n as f64;
    Summary {
        allow_rate: 1.0 - rejected,
        block_rate: rejected,
        uncertain_rate: None,
        avg_confidence: 0.95,
        total_checks: n,
        stake_distribution: None,
        window_days: None,
        providers: Vec::new(),
        canaries: (m > 0).then_some(Canaries { checks: m, caught: c }),
        controls: None,
        updated_at: None,
    }
}

fn of(n: u64, y: u64, canaries: (u64, u64)) -> Result<Estimate, Unseeing> {
    quality(&summary(n, y, canaries), &Parameters::default())
}

#[test]
fn a_clean_agent_behind_a_poor_verifier_is_uncertain_and_not_bad() {
    let cases = [
        ("clean, a good verifier", (400, 0, (80, 68)), 100.0, 2.396062),
        ("clean, a poor verifier", (400, 0, (80, 48)), 100.0, 3.407913),
        ("30 % blocked", (400, 120, (80, 76)), 69.478639, 3.024606),
        ("5 % blocked", (400, 20, (80, 68)), 96.211372, 2.663500),
        ("62.5 % not accepted, every canary caught", (400, 250, (49, 49)), 37.037358, 2.912662),
    ];
    for (name, (n, y, canaries), value, stddev) in cases {
        let estimate = of(n, y, canaries).unwrap();
        assert!(
            (estimate.value - value).abs() < 5e-7 && (estimate.stddev - stddev).abs() < 5e-7,
            "{name}: {estimate:?}"
        );
    }
}

#[test]
fn a_verifier_without_sight_says_nothing() {
    assert!(matches!(of(400, 20, (0, 0)), Err(Unseeing::NoSight { .. })), "5 % blocked, no canaries");
    assert!(matches!(of(400, 0, (0, 0)), Err(Unseeing::NoSight { .. })), "a rubber stamp");
    assert!(matches!(of(400, 0, (500, 0)), Err(Unseeing::NoSight { .. })), "a rubber stamp that makes canaries");
    assert!(matches!(of(400, 200, (80, 40)), Err(Unseeing::NoSight { .. })), "a coin");
    assert!(
        matches!(of(400, 200, (80, 44)), Err(Unseeing::NoSight { .. } | Unseeing::TooUncertain(_))),
        "a lucky coin"
    );
    assert!(of(400, 0, (3, 1)).unwrap().stddev > 10.0, "three canaries do not make sure");
    let alarmed = Summary { controls: Some(Controls { checks: 400, rejected: 380 }), ..summary(400, 0, (80, 68)) };
    assert!(matches!(quality(&alarmed, &Parameters::default()), Err(Unseeing::NoSeparation { .. })));
    let text = of(400, 20, (0, 0)).unwrap_err().to_string();
    assert!(text.contains("0 of 0 canaries") && text.contains("5.0 %"), "{text}");
}

#[test]
fn controls_show_what_is_a_false_alarm() {
    let with = |rejected| {
        let controls = Some(Controls { checks: 200, rejected });
        quality(&Summary { controls, ..summary(400, 40, (80, 76)) }, &Parameters::default()).unwrap().value
    };
    // A verifier that rejects a tenth of what is genuine has found nothing in an agent of which it rejects a tenth.
    assert!(with(20) > 97.0 && with(0) < 91.0, "{} {}", with(20), with(0));
}

#[test]
fn counts_beyond_the_caps_weigh_no_more() {
    let same = |a: Estimate, b: Estimate| (a.value - b.value).abs() < 1e-9 && (a.stddev - b.stddev).abs() < 1e-9;
    assert!(same(of(10_000, 500, (1_000, 900)).unwrap(), of(1 << 50, (1 << 50) / 20, (1_000_000, 900_000)).unwrap()));
    assert!(of(10_000, 500, (1_000, 900)).unwrap().stddev > 0.2);
}

#[test]
fn fabricating_does_not_raise_quality() {
    let values: Vec<f64> = [0, 10, 50, 120, 300, 500, 700].map(|y| of(1000, y, (200, 160)).unwrap().value).to_vec();
    assert!(values.windows(2).all(|pair| pair[0] >= pair[1]) && values[0] > values[2], "{values:?}");
}

#[test]
fn more_checks_are_less_uncertain() {
    let stddev = |n| of(n, n / 10, (500, 450)).unwrap().stddev;
    assert!(stddev(10) > 2.0 * stddev(100) && stddev(100) > stddev(1000), "{} {}", stddev(10), stddev(100));
    let parameters = Parameters::default();
    assert!(coverage(10, &parameters).stddev > coverage(100, &parameters).stddev);
    assert_eq!(coverage(1000, &parameters), Estimate { value: 100.0, stddev: 0.0 });
}

#[test]
fn declaring_everything_critical_gains_nothing() {
    let parameters = Parameters::default();
    let plain = summary(100, 40, (200, 180));
    let level = StakeLevel { checks: 100, allow_rate: None, avg_confidence: None };
    let staked = |stakes| quality(&Summary { stake_distribution: Some(stakes), ..plain.clone() }, &parameters).unwrap();
    let of_plain = quality(&plain, &parameters).unwrap();
    assert_eq!(staked(StakeDistribution { critical: Some(level), ..Default::default() }), of_plain);
    let trivial = staked(StakeDistribution { low: Some(level), ..Default::default() });
    assert!((trivial.value * 2.0 - of_plain.value).abs() < 1e-9);
}

#[test]
fn providers_that_disagree_weigh_the_same() {
    let estimate = |value, stddev| Estimate { value, stddev };
    let agreeing = join(&[estimate(90.0, 2.0), estimate(91.0, 1.0)]).unwrap();
    assert!(
        (agreeing.mean - 90.8).abs() < 1e-9 && (agreeing.shares[1] - 0.8).abs() < 1e-9,
        "inverse variance: {agreeing:?}"
    );
    // A thousand invented clean checks against an honest report of 36.
    let contrary = join(&[estimate(36.0, 3.0), estimate(100.0, 0.5)]).unwrap();
    let quality = contrary.mean - contrary.disagreement;
    assert!((contrary.shares[0] - 0.5).abs() < 0.01 && (quality - 36.0).abs() < 1.0, "{contrary:?}");
    assert_eq!(join(&[]), None);
    let one = join(&[estimate(70.0, 4.0)]).unwrap();
    assert!((one.mean - 70.0).abs() < 1e-12 && one.disagreement < 1e-12 && (one.stddev - 4.0).abs() < 1e-12);
}

proptest! {
    #[test]
    fn quality_and_its_uncertainty_stay_in_bounds(allow in 0.0..=1.0_f64, rest in 0.0..=1.0_f64, checks in 10..u64::MAX / 2048,
        canaries in (0..5_000_u64, 0..5_000_u64), controls in (0..5_000_u64, 0..5_000_u64)) {
        let base = summary(10, 0, (canaries.0.max(canaries.1), canaries.0.min(canaries.1)));
        let controls = Some(Controls { checks: controls.0.max(controls.1), rejected: controls.0.min(controls.1) });
        let block_rate = (1.0 - allow) * rest;
        let summary = Summary { allow_rate: allow, block_rate, total_checks: checks, controls, ..base };
        let parameters = Parameters::default();
        if let Ok(estimate) = quality(&summary, &parameters) {
            prop_assert!((0.0..=100.0).contains(&estimate.value) && (0.0..=50.0).contains(&estimate.stddev), "{:?}", estimate);
        }
        let covered = coverage(checks, &parameters);
        prop_assert!((0.0..=100.0).contains(&covered.value) && (0.0..=50.0).contains(&covered.stddev));
        for profile in [Profile::Spec, Profile::Reference] {
            let Evaluation { quality, coverage, total } = parameters.evaluate(&summary, profile);
            prop_assert!([quality, coverage, total].iter().all(|value| (0.0..=100.0).contains(value)));
        }
    }

    #[test]
    fn one_more_rejected_output_never_raises_the_value(n in 10_u64..2_000, y in 0_u64..2_000, c in 0_u64..=200) {
        let y = y.min(n - 1);
        if let (Ok(less), Ok(more)) = (of(n, y, (200, c)), of(n, y + 1, (200, c))) {
            prop_assert!(more.value <= less.value + 1e-9);
        }
    }
}
