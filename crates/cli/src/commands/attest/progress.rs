//! What a person sees while an attestation is on its way: one line for each step, on standard error.

use std::time::Duration;

use credence_pipeline::query::AttestationRow;
use credence_protocol::Uuid;
use credence_server::attesting::AttestError;

use crate::output::Output;

/// How often the node is asked.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What was said so far.
pub struct Progress<'a> {
    out: &'a Output,
    id: Uuid,
    steps: usize,
    waits: String,
}

impl<'a> Progress<'a> {
    pub fn new(out: &'a Output, id: Uuid) -> Self {
        Self { out, id, steps: 0, waits: String::new() }
    }

    /// Says the steps that are new.
    pub fn at(&mut self, row: &AttestationRow) {
        for step in row.steps.iter().skip(self.steps) {
            let entry = step.seq;
            self.out.note(&match row.transactions.last().filter(|sent| sent.seq == entry) {
                Some(sent) => format!("  {} {} (entry {entry})", step.step.key(), sent.transaction.id),
                None if step.step.key() == "intent" => format!("  intent {} (entry {entry})", self.id),
                None => format!("  {} (entry {entry})", step.step.key()),
            });
        }
        self.steps = row.steps.len();
    }

    /// Says what is in the way, once.
    pub fn waits(&mut self, error: &AttestError) {
        let text = error.to_string();
        if self.waits != text {
            self.out.note(&format!("  waits: {text}"));
            self.waits = text;
        }
    }
}
