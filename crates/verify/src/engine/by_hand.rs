//! What a person says of a result (docs/adr/0025).

use super::{
    Engine, Mode, Resolved,
    judge::{Basis, Case, schema_key},
};
use crate::{
    Check,
    calibration::{DEFAULT_FLAG, DEFAULT_PRIOR},
    combiner::{log_odds, probability},
    evaluation::Evaluation,
    learned::{
        answers::{Fact, fact},
        evidence::Evidence,
        observe::Paths,
        surprise::{Cause, Surprises},
    },
};

impl Engine {
    /// Learns a result that someone vouches for, or doubts what is odd in it from now on.
    pub(super) fn judged_by_hand(&self, case: &Case<'_>, resolved: &Resolved, genuine: bool) {
        let paths = Paths::new(self.state.seed);
        let mut locked = self.state.lock(case.ids);
        if self.mode == Mode::Fixed {
            if genuine {
                self.learn(&mut locked, case, |_, _| {});
            }
            return;
        }
        let is_error = case.call.is_error;
        let model = locked.tool().and_then(|tool| tool.shape(is_error));
        let observation = case.observation(model, paths, &locked);
        let mut evaluation = Evaluation::new(resolved, case, model);
        if !is_error {
            evaluation.schema();
            evaluation.history(&locked, &case.fields, self.state.seed);
            evaluation.session(&locked, &case.fields, self.state.seed);
            evaluation.spc(&locked, &case.fields, case.size, self.state.seed);
        }
        let schema = evaluation.broken_schema.map(schema_key);
        let mut checks = evaluation.results;
        // What an operator states of a tool is not moved by an answer about one result.
        checks.retain(|result| schema.is_some() || result.check != Check::SchemaMismatch);
        let odd = self.odd(&locked, case, &observation, (&checks, schema));
        let by_hand = &resolved.calibration.likelihood_ratios;
        let weighed = model.map(|model| {
            let (surprises, _) = model.judge(&observation, locked.history().map(|h| &h.last), case.call.origin);
            let evidence = Evidence::of(surprises, model, (0.0, 0.0), by_hand);
            let posterior = probability(log_odds(DEFAULT_PRIOR) + evidence.log_ratio);
            (posterior >= DEFAULT_FLAG, evidence.aspect)
        });
        if !genuine {
            let (doubtful, aspect) = weighed.unwrap_or_default();
            let whole = fact(0, Cause::Borrowed, observation.both());
            let model = locked.tool_mut().shape_mut(is_error);
            let paths = model.known_paths();
            model.oddities.take_back(&odd.keys);
            // What is believed because someone confirmed it is what the rejection is about.
            let confirmed = || odd.facts.iter().filter(|fact| model.answers.is_confirmed(fact.key)).copied().collect();
            let confirmed: Vec<Fact> = if doubtful { Vec::new() } else { confirmed() };
            let now = if confirmed.is_empty() { (&*odd.facts, aspect) } else { (&*confirmed, None) };
            model.answers.reject(observation.id(), now, (whole, paths));
            if let Some(schema) = schema {
                model.answers.reject_key(schema, paths);
            }
            return;
        }
        let model = locked.tool_mut().shape_mut(is_error);
        model.oddities.confirmed();
        model.answers.confirm(&odd.facts);
        if let Some(schema) = schema {
            model.answers.confirm_key(schema);
        }
        while let Some((_, _, rejected)) = model.rejected(&observation) {
            model.answers.withdraw(rejected);
        }
        let basis = Basis {
            observation,
            surprises: Surprises::none(),
            strongest: None,
            aspect: None,
            recurring: false,
            rejected: None,
            schema: None,
            unlike: false,
            of_few: false,
        };
        self.learn_adaptive(&mut locked, case, basis, &checks, (true, 0.0), &[]);
    }
}
