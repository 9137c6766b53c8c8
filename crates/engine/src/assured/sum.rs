//! An assured score as the sum of its steps, for people: `50 + security 8.2 + … = estimate 80.9; − doubt 12.8 = 68`.

use super::{Assured, Step};

/// A step that would be written as 0.0 is left out.
const VISIBLE: f64 = 0.05;

impl Assured {
    /// The steps in a line. Numbers have one decimal and the result is the score, so the last step takes up what rounding left.
    pub fn sum(&self) -> String {
        let mut text = String::new();
        let of = |name: &str| self.steps.iter().find(|step| step.name == name).map_or(0.0, |step| step.value);
        for Step { name, value } in &self.steps {
            match name.as_str() {
                "prior" => text += &format!("{value:.0}"),
                "doubt" => text += &format!(" = estimate {:.1}; − doubt {:.1}", self.estimate, value.abs()),
                "rounding" => {}
                _ if value.abs() < VISIBLE => {}
                _ => text += &format!(" {} {name} {:.1}", if *value < 0.0 { '−' } else { '+' }, value.abs()),
            }
        }
        let relation = if of("rounding").abs() < VISIBLE { "=" } else { "≈" };
        text + &format!(" {relation} {}", self.score)
    }
}

#[cfg(test)]
mod tests {
    use credence_protocol::ScoreStatus;

    use super::*;
    use crate::tiers::Tier;

    fn assured(score: u8, steps: &[(&str, f64)]) -> Assured {
        let steps: Vec<Step> =
            steps.iter().map(|(name, value)| Step { name: (*name).to_owned(), value: *value }).collect();
        let estimate: f64 = steps.iter().take_while(|step| step.name != "doubt").map(|step| step.value).sum();
        Assured {
            score,
            estimate,
            sd: 1.0,
            low: 0.0,
            high: 0.0,
            cap: 100.0,
            known: 0.5,
            n_eff: 1.0,
            tier: Tier::of(score),
            status: ScoreStatus::Published,
            fragility: 0,
            not_counted: Vec::new(),
            dimensions: Default::default(),
            steps,
        }
    }

    #[test]
    fn the_sum_reads_as_it_is_computed() {
        let steps = [("prior", 50.0), ("security", 8.2), ("output", -3.12), ("adoption", 0.0), ("doubt", -12.8)];
        let rounded = [&steps[..], &[("clamp", 0.0), ("cap", 0.0), ("rounding", -0.26)]].concat();
        assert_eq!(assured(42, &rounded).sum(), "50 + security 8.2 − output 3.1 = estimate 55.1; − doubt 12.8 ≈ 42");
        let capped = [&steps[..], &[("clamp", 0.0), ("cap", -7.26), ("rounding", 0.0)]].concat();
        assert_eq!(
            assured(35, &capped).sum(),
            "50 + security 8.2 − output 3.1 = estimate 55.1; − doubt 12.8 − cap 7.3 = 35"
        );
    }
}
