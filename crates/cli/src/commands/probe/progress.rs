//! What is being tried and what it costs, while it runs.

use std::sync::Mutex;

use credence_sandbox::{
    runner::{Event, Observer},
    trial::Outcome,
};
use indicatif::ProgressBar;

use crate::output::Output;

/// A bar over the planned requests, on a terminal.
pub struct Progress {
    bar: ProgressBar,
    effected: Mutex<u64>,
}

impl Progress {
    pub fn new(out: &Output) -> Self {
        Self { bar: out.progress(Some(1), "looking at the target"), effected: Mutex::default() }
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Observer for Progress {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Planned { plan, .. } => self.bar.set_length(plan.requests()),
            Event::Checking { what } => self.bar.set_message(format!("can it do this: {what}?")),
            Event::Trying { probe, variant, conclusive, .. } => {
                let effected = self.effected.lock().map(|count| *count).unwrap_or_default();
                self.bar.set_message(format!("{probe} ({variant}), {conclusive} told; {effected} took effect"));
            }
            Event::Recorded { trial, requests } => {
                if trial.outcome == Outcome::Effected
                    && let Ok(mut effected) = self.effected.lock()
                {
                    *effected += 1;
                }
                self.bar.set_position(requests);
            }
            Event::Measured { benchmark, samples } => self.bar.set_message(format!("{benchmark}: {samples} measured")),
            _ => {}
        }
    }
}
