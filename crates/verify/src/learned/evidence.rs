//! From surprises to evidence.
//!
//! A surprise's ratio is what it is worth on this tool: `1 / P(a genuine result surprises as much)`, from the tool's own
//! traffic. Surprises are not independent: a made-up result breaks several aspects at once, and so does a genuine one of a
//! kind not seen before. So the strongest counts in full, the next one from another family by a part, and the rest not at
//! all. A fabricated result breaks content or latency, seldom both: the two are alternatives, weighed as a mixture, and
//! perfect content says nothing for an answer that came too fast.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    counts::Alarms,
    describe::describe,
    model::Model,
    observation::Observation,
    oddities::OddityKey,
    surprise::{ASPECT_LIST, ASPECTS, Aspect, Surprise, Surprises},
};
use crate::{Check, CheckResult};

/// Less surprise than this is none, in nats.
const NOTICEABLE: f64 = 0.7;
/// From this much evidence on a check has fired, in nats.
const FIRED: f64 = 1.5;
/// No single aspect is worth more, in nats: what never happened yet can still happen, and the world that a tool reports on
/// changes more readily than the tool.
const MOST: f64 = 7.3;
const MOST_OF_THE_WORLD: f64 = 4.5;
/// However quiet a tool was so far, a surprise is worth at most so much more than itself, in nats; nothing more up to
/// [`RATE_IS_KNOWN`], twice of which it takes for all of it. Rates of what is common are known well, those of what never happened are guesses.
const MOST_OVER: f64 = 1.2;
const RATE_IS_KNOWN: f64 = 1.5;
/// What it is worth that someone rejected the same, in nats, however often the tool's results surprise.
const REJECTED: f64 = 9.0;
/// P(the strongest surprise is so strong | fabricated), over the number of aspects that had a chance to be it.
const STRONGEST: f64 = -1.8;
/// The table's ratios are those of any tool: they count for less where the tool's own are known, in nats.
const OF_ANY_TOOL: f64 = 0.2;
/// The part of the second family's evidence that counts.
const SECOND: f64 = 0.3;
/// What it says that nothing was surprising, in nats: the keys and types, the echoes, the same result again, a result that
/// was not seen for other arguments, the latency.
const SOUND_STRUCTURE: f64 = -1.2;
const SOUND_ECHO: f64 = -1.0;
const SAME_AGAIN: f64 = -3.0;
const NOT_BORROWED: f64 = -0.5;
const USUAL_LATENCY: f64 = -1.0;
/// ln P(an answer is so fast | fabricated), which is 0.3.
const LN_FAST: f64 = -1.203_972_804_325_936_1;
/// The share of fabrications that only their latency gives away.
const LATENCY_ONLY: f64 = 0.2;
/// Results learned until a sound structure says half of what it can.
const HALF_TRUST: f64 = 8.0;

/// The evidence of one result.
pub(crate) struct Evidence {
    surprises: Surprises,
    /// By aspect, in nats; what is not noticeable is 0.
    strength: [Option<f64>; ASPECTS],
    /// By aspect: the ratio set by hand, where it fired.
    by_hand: [Option<f64>; ASPECTS],
    /// ln(P(seen | fabricated) / P(seen | genuine)).
    pub(crate) log_ratio: f64,
    /// The same, had nothing been seen before that is odd.
    pub(crate) unrelieved: f64,
    /// Whether what weighs most was odd before in the same way.
    pub(crate) recurring: bool,
    /// What weighs most; none where that is a check of the table.
    pub(crate) strongest: Option<OddityKey>,
    /// The aspect that weighs most; none where that is a check of the table.
    pub(crate) aspect: Option<Aspect>,
}

impl Evidence {
    /// `table` is the evidence of the table's own content checks, in nats, and by what share it weighs less for having been
    /// there before.
    pub(crate) fn of(
        surprises: Surprises,
        model: &Model,
        (table, relief): (f64, f32),
        by_hand: &BTreeMap<Check, f64>,
    ) -> Self {
        let strength = |aspect: Aspect| {
            let strength = strength_of(&surprises, model, aspect)?;
            // A ratio set by hand is what the check counts with when it fires.
            let ratio = by_hand.get(&check_of(aspect)).filter(|_| strength >= FIRED);
            Some(ratio.map_or(strength, |ratio| (libm::log(*ratio) - offset(aspect)).max(0.0)))
        };
        let plain = ASPECT_LIST.map(strength);
        let fired_by_hand = |aspect: Aspect| {
            let ratio = by_hand.get(&check_of(aspect)).copied()?;
            strength_of(&surprises, model, aspect).filter(|strength| *strength >= FIRED).map(|_| ratio)
        };
        let by_hand = if by_hand.is_empty() { [None; ASPECTS] } else { ASPECT_LIST.map(fired_by_hand) };
        let trust = f64::from(model.results) / (f64::from(model.results) + HALF_TRUST);
        let (log_ratio, strongest) = weigh(&plain, table, trust);
        let key = strongest.and_then(|aspect| surprises.get(aspect)).map(|surprise| surprise.key);
        if !surprises.is_relieved() && relief == 0.0 {
            return Self {
                surprises,
                strength: plain,
                by_hand,
                log_ratio,
                unrelieved: log_ratio,
                recurring: false,
                strongest: key,
                aspect: strongest,
            };
        }
        let strength = ASPECT_LIST.map(|aspect| {
            let relief = surprises.get(aspect).map_or(0.0, |surprise| f64::from(surprise.relief));
            Some(plain[aspect as usize]? * (1.0 - relief))
        });
        let (relieved, _) = weigh(&strength, table * f64::from(1.0 - relief), trust);
        let recurring = match strongest {
            Some(aspect) => surprises.get(aspect).is_some_and(|surprise| surprise.relief > 0.0),
            None => relief > 0.0,
        };
        let unrelieved = log_ratio;
        Self {
            surprises,
            strength,
            by_hand,
            log_ratio: relieved,
            unrelieved,
            recurring,
            strongest: key,
            aspect: strongest,
        }
    }

    /// The evidence as checks, those that could be evaluated.
    pub(crate) fn checks(
        &self,
        model: &Model,
        observation: &Observation<'_>,
        result: &Value,
        out: &mut Vec<CheckResult>,
    ) {
        for (check, aspects) in [
            (Check::StructureDrift, &[Aspect::Structure, Aspect::Format][..]),
            (Check::ValuePlausibility, &[Aspect::Value, Aspect::Range]),
            (Check::EchoMismatch, &[Aspect::Echo]),
            (Check::Determinism, &[Aspect::Changed, Aspect::Borrowed]),
            (Check::LatencyAnomaly, &[Aspect::Latency]),
        ] {
            if out.iter().any(|given| given.check == check) {
                continue;
            }
            let judged = aspects.iter().filter_map(|aspect| Some((*aspect, self.strength[*aspect as usize]?)));
            let Some((aspect, strength)) = judged.max_by(|a, b| a.1.total_cmp(&b.1)) else { continue };
            let by_hand = self.by_hand[aspect as usize];
            let fired = strength >= FIRED || by_hand.is_some();
            let likelihood_ratio = match (aspect, fired) {
                _ if by_hand.is_some() => by_hand.unwrap_or_default(),
                (_, true) => libm::exp(strength + offset(aspect)),
                (aspect, false) => ratio_of_nothing(aspect),
            };
            let score = if fired { 1.0 - libm::exp(-strength) } else { 0.0 };
            let surprise = self.surprises.get(aspect).filter(|_| fired);
            let detail = surprise.map(|surprise| describe(surprise, model, observation, result));
            out.push(CheckResult { check, fired, score, likelihood_ratio, detail });
        }
    }
}

/// ln(P(seen | fabricated) / P(seen | genuine)), and the aspect that weighs most; none where that is the table.
fn weigh(strength: &[Option<f64>; ASPECTS], table: f64, trust: f64) -> (f64, Option<Aspect>) {
    let of = |aspect: Aspect| strength[aspect as usize];
    let strongest = |list: &[Aspect]| {
        list.iter().filter_map(|aspect| Some((of(*aspect)?, *aspect))).fold((0.0, None), |most, (strength, aspect)| {
            if strength > most.0 { (strength, Some(aspect)) } else { most }
        })
    };
    let (fired, unjudged) = (table > 0.0, table);
    let mut content = strongest(&[Aspect::Structure, Aspect::Format, Aspect::Value, Aspect::Range]);
    let table = table - STRONGEST - OF_ANY_TOOL;
    if table > content.0 && fired {
        content = (table, None);
    }
    let mut families = [content, strongest(&[Aspect::Echo]), strongest(&[Aspect::Changed, Aspect::Borrowed])];
    families.sort_by(|a, b| b.0.total_cmp(&a.0));
    let quiet = |aspect: Aspect, says: f64| if of(aspect) == Some(0.0) { says } else { 0.0 };
    let judged = [Aspect::Structure, Aspect::Echo, Aspect::Changed, Aspect::Borrowed].iter().any(|a| of(*a).is_some());
    let (content, most) = if judged {
        let sum = STRONGEST
            + families[0].0
            + SECOND * families[1].0
            + trust * quiet(Aspect::Structure, SOUND_STRUCTURE)
            + quiet(Aspect::Echo, SOUND_ECHO)
            + quiet(Aspect::Changed, SAME_AGAIN)
            + quiet(Aspect::Borrowed, NOT_BORROWED);
        (sum, families[0].1)
    } else {
        (unjudged, None)
    };
    match of(Aspect::Latency) {
        Some(latency) => {
            let fast = if latency > 0.0 { offset(Aspect::Latency) + latency } else { USUAL_LATENCY };
            let both = libm::log((1.0 - LATENCY_ONLY) * libm::exp(content) + LATENCY_ONLY * libm::exp(fast));
            (both, if fast > content { Some(Aspect::Latency) } else { most })
        }
        None => (content, most),
    }
}

/// The check that reports an aspect.
fn check_of(aspect: Aspect) -> Check {
    match aspect {
        Aspect::Structure | Aspect::Format => Check::StructureDrift,
        Aspect::Value | Aspect::Range => Check::ValuePlausibility,
        Aspect::Echo => Check::EchoMismatch,
        Aspect::Changed | Aspect::Borrowed => Check::Determinism,
        Aspect::Latency => Check::LatencyAnomaly,
    }
}

/// The ratio that a check is reported with that found nothing: the exponentials of what that says.
fn ratio_of_nothing(aspect: Aspect) -> f64 {
    match aspect {
        Aspect::Changed => 0.049_787_068_367_863_944,
        Aspect::Borrowed => 0.606_530_659_712_633_4,
        Aspect::Echo | Aspect::Latency => 0.367_879_441_171_442_33,
        _ => 0.301_194_211_912_202_14,
    }
}

/// ln P(so strong | fabricated): what is added to a strength to make it the logarithm of a ratio.
fn offset(aspect: Aspect) -> f64 {
    if aspect == Aspect::Latency { LN_FAST } else { STRONGEST }
}

/// The strength of an aspect, by its own false alarms.
fn strength_of(surprises: &Surprises, model: &Model, aspect: Aspect) -> Option<f64> {
    let most = match aspect {
        Aspect::Changed | Aspect::Borrowed => MOST_OF_THE_WORLD,
        _ => MOST,
    };
    let surprise = surprises.get(aspect)?;
    Some(if surprise.rejected { REJECTED } else { strength(surprise, &model.alarms[aspect as usize], most) })
}

/// What a profile says and what was learned, together: where both accuse, they mostly do for the same reason.
pub(crate) fn together(stated: f64, learned: f64) -> f64 {
    if stated > 0.0 && learned > 0.0 { stated.max(learned) + SECOND * stated.min(learned) } else { stated + learned }
}

fn strength(surprise: Surprise, alarms: &Alarms, most: f64) -> f64 {
    let nats = surprise.nats();
    if nats < NOTICEABLE {
        return 0.0;
    }
    // However regular a tool was so far, a surprise is not worth much more than itself.
    (-libm::log(alarms.rate(nats)))
        .clamp(0.0, most.min(nats + MOST_OVER * ((nats - RATE_IS_KNOWN) / RATE_IS_KNOWN).clamp(0.0, 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_the_exponentials_of_what_is_said() {
        for (aspect, says) in [
            (Aspect::Changed, SAME_AGAIN),
            (Aspect::Borrowed, NOT_BORROWED),
            (Aspect::Echo, SOUND_ECHO),
            (Aspect::Latency, USUAL_LATENCY),
            (Aspect::Structure, SOUND_STRUCTURE),
        ] {
            assert!((ratio_of_nothing(aspect) / libm::exp(says) - 1.0).abs() < 1e-15, "{aspect:?}");
        }
        assert!((libm::exp(LN_FAST) - 0.3).abs() < 1e-15);
    }
}
