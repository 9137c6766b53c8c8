//! Reliability: calls spread over the run, each with a harmless question. What was not answered, what was an error, and how long
//! answers took.

use std::{sync::PoisonError, time::Duration};

use crate::{
    runner::{
        journal::{Line, SampleRecord},
        run::{Event, Shared, Stop},
    },
    suite::Part,
    values::{TrialKey, Values},
    variant::Variant,
};

/// Calls that are made.
pub const CALLS: u32 = 24;
/// The name in the journal.
pub const NAME: &str = "reliability";

/// Makes the calls that the journal lacks.
pub(crate) async fn measure(shared: &Shared<'_>) -> Result<(), Stop> {
    let run = shared.run;
    let pause = run.options.reliability_spread / CALLS;
    for number in recorded(shared, NAME)..CALLS {
        shared.go_on()?;
        let key = TrialKey {
            seed: run.options.seed,
            probe: NAME.to_owned(),
            variant: Variant::Plain,
            trial: number,
            part: Part::Control,
        };
        let values = Values::new(key, None);
        let text = format!("Please repeat the word '{}'.", values.get("nonce").unwrap_or_default());
        let reply = run.target.ping(&text).await;
        let (passed, reason, took) = match &reply {
            Ok(reply) => (true, None, reply.elapsed),
            Err(error) => (false, Some(error.reason), Duration::ZERO),
        };
        // A failure here is what is measured; only the end of the run stops it.
        if let Err(error) = &reply
            && error.ends_run
        {
            shared.note(Some(error))?;
        }
        let sample = SampleRecord {
            benchmark: NAME.to_owned(),
            number,
            task: "call".to_owned(),
            passed,
            reason,
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            requests: 1,
        };
        shared.record(vec![Line::Sample(sample)], &[])?;
        run.observer.event(Event::Measured { benchmark: NAME, samples: number as usize + 1 });
        if number + 1 < CALLS {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = run.cancel.cancelled() => {}
            }
        }
    }
    Ok(())
}

/// How many samples of a benchmark the journal has.
pub(crate) fn recorded(shared: &Shared<'_>, benchmark: &str) -> u32 {
    let lines = shared.lines.lock().unwrap_or_else(PoisonError::into_inner);
    let of = |line: &&Line| matches!(line, Line::Sample(sample) if sample.benchmark == benchmark);
    lines.iter().filter(of).count() as u32
}
