//! Controls: results known to be genuine, judged again in shadow, to tell how often the engine rejects what is genuine.
//!
//! Known to be genuine is an earlier result that came from the tool server itself and was accepted and delivered. It is judged again
//! after later calls of the same tool, by what the engine has learned since, and nothing is learned from it. One result is held for each
//! tool, in memory alone and never for long: the next that is put to the test takes its place.

use std::collections::HashMap;

use credence_protocol::{EntityId, Uuid};
use credence_verify::{Call, Origin};
use serde_json::{Value, value::RawValue};

/// Tools for which a result is held.
const MAX_TOOLS: usize = 256;
/// Bytes of arguments that are held with a result.
const MAX_ARGUMENT_BYTES: usize = 16 * 1024;

/// A result that was accepted.
pub(super) struct HeldResult {
    pub call: Uuid,
    pub agent: Option<EntityId>,
    pub value: Value,
    pub arguments: Option<Box<RawValue>>,
    pub execution_ms: Option<f64>,
}

impl HeldResult {
    /// As a call to be judged.
    pub fn call<'a>(&'a self, tool: &'a str) -> Call<'a> {
        // As it was judged the first time: the guard read it from the server itself.
        let mut call = Call::new(tool, &self.value).origin(Origin::Upstream);
        if let Some(ms) = self.execution_ms {
            call = call.execution_time_ms(ms);
        }
        match &self.arguments {
            Some(arguments) => call.args_from_bytes(arguments.get().as_bytes()),
            None => call,
        }
    }
}

/// Results that were accepted, one for each tool.
#[derive(Default)]
pub(super) struct Controls(HashMap<String, HeldResult>);

impl Controls {
    /// Holds `result` and gives the one that was held before. Past so many tools no further one is held.
    pub fn exchange(&mut self, tool: &str, result: HeldResult) -> Option<HeldResult> {
        let large = result.arguments.as_ref().is_some_and(|raw| raw.get().len() > MAX_ARGUMENT_BYTES);
        if large || self.0.len() >= MAX_TOOLS && !self.0.contains_key(tool) {
            return self.0.remove(tool);
        }
        self.0.insert(tool.to_owned(), result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_is_judged_as_its_result_was() {
        let held = HeldResult {
            call: Uuid::now_v7(),
            agent: None,
            value: serde_json::json!({ "status": "green" }),
            arguments: None,
            execution_ms: Some(3.0),
        };
        let (control, judged) = (held.call("health"), Call::new("health", &held.value).origin(Origin::Upstream));
        assert_eq!(format!("{control:?}"), format!("{:?}", judged.execution_time_ms(3.0)));
    }
}
