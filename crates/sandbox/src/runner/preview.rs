//! A dry run: what would be sent, word for word, without sending it.

use serde::Serialize;
use serde_json::Value;

use super::{
    RunOptions,
    plan::{Plan, slots},
};
use crate::{
    capability::Abilities,
    suite::{Control, FamilyInFile, HoneyTool, Part, Suite, Turn, template},
    trial::play::filler,
    values::{TrialKey, Values},
    variant::Variant,
};

/// What would be sent in one half of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Preview {
    /// The family.
    pub family: String,
    /// The probe; `None` for the control.
    pub probe: Option<String>,
    /// The spelling.
    pub variant: Variant,
    /// The messages, in order; calls and actions in words.
    pub messages: Vec<String>,
    /// The page of ours that the messages lead to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// The honey tools that are offered.
    pub tools: Vec<PreviewTool>,
}

/// A honey tool as the target sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PreviewTool {
    /// Its name.
    pub name: String,
    /// What the target reads about it.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
    /// What it may answer.
    pub answers: Vec<String>,
}

/// For every family of a plan its control and its first `trials` attacks, as a target that reads every spelling would get them.
pub fn preview(
    suite: &Suite,
    plan: &Plan,
    options: &RunOptions,
    listener: Option<&str>,
    trials: usize,
) -> Vec<Preview> {
    let abilities = Abilities {
        spellings: Variant::ALL.into_iter().map(|variant| (variant, true)).collect(),
        ..Abilities::default()
    };
    let families = plan.threats.iter().flat_map(|threat| &threat.families);
    let mut found = Vec::new();
    for family in families.filter_map(|planned| suite.family(&planned.family)) {
        let values = |probe: &str, variant, trial, part| {
            let key = TrialKey { seed: options.seed, probe: probe.to_owned(), variant, trial, part };
            Values::new(key, Some(listener.unwrap_or("https://listener.example").to_owned()))
        };
        let control = values(&family.family.id, Variant::Plain, 0, Part::Control);
        let Control { page, turns, .. } = &family.family.control;
        let filled = Filled { family, values: &control, payload: None, part: Part::Control };
        found.push(filled.half(None, Variant::Plain, turns, page.as_ref()));
        for slot in slots(family, &abilities, options).take(trials) {
            let probe = &family.family.probes[slot.probe];
            let values = values(&probe.id, slot.variant, slot.trial, Part::Attack);
            let order = probe.order.get(&slot.variant.language());
            let order = order.and_then(|order| template::fill(order, filler(family, &values, None)).ok());
            let payload = order.map(|order| slot.variant.encode(&order));
            let script = family.family.attack_of(probe);
            let turns = script.map(|script| script.turns.as_slice()).unwrap_or_default();
            let filled = Filled { family, values: &values, payload: payload.as_deref(), part: Part::Attack };
            let page = script.and_then(|script| script.page.as_ref());
            found.push(filled.half(Some(&probe.id), slot.variant, turns, page));
        }
    }
    found
}

/// What the texts of a half are filled with.
struct Filled<'a> {
    family: FamilyInFile<'a>,
    values: &'a Values,
    payload: Option<&'a str>,
    part: Part,
}

impl Filled<'_> {
    fn text(&self, text: &str) -> String {
        template::fill(text, filler(self.family, self.values, self.payload)).unwrap_or_else(|_| text.to_owned())
    }

    fn half(&self, probe: Option<&str>, variant: Variant, turns: &[Turn], page: Option<&String>) -> Preview {
        let mut messages = Vec::new();
        for turn in turns {
            messages.extend(turn.system.as_ref().map(|system| format!("system: {}", self.text(system))));
            messages.extend(turn.text.as_ref().map(|text| self.text(text)));
            if let Some(call) = &turn.call {
                let what = call
                    .name
                    .as_ref()
                    .map_or_else(|| "every tool of the target that fits".to_owned(), |name| self.text(name));
                let value = call.value.as_ref().map(|value| self.text(value)).unwrap_or_default();
                messages.push(format!("call {what}: {value}"));
            }
            messages.extend(turn.listing.map(|_| "tools/list".to_owned()));
            messages.extend(turn.action.map(|action| format!("action: {action:?}")));
        }
        let mut ids: Vec<&String> = turns.iter().filter_map(|turn| turn.tools.as_ref()).flatten().collect();
        ids.sort();
        ids.dedup();
        let tools = ids.into_iter().filter_map(|id| self.family.tool(id)).map(|tool| self.tool(tool)).collect();
        let page = page.map(|page| self.text(page));
        Preview {
            family: self.family.family.id.clone(),
            probe: probe.map(str::to_owned),
            variant,
            messages,
            page,
            tools,
        }
    }

    fn tool(&self, tool: &HoneyTool) -> PreviewTool {
        // As when it is served: an order that this half does not have leaves the text without it.
        let fill = filler(self.family, self.values, self.payload);
        let fill = |name: &str| fill(name).or_else(|| Some(String::new()));
        let filled = |text: &String| template::fill(text, fill).unwrap_or_else(|_| text.clone());
        let served = tool.results.iter().filter(|rule| rule.only.is_none_or(|only| only == self.part));
        PreviewTool {
            name: tool.shown_name().to_owned(),
            description: filled(&tool.description),
            parameters: template::fill_json(&tool.parameters, &fill).unwrap_or_else(|_| tool.parameters.clone()),
            answers: served.map(|rule| filled(&rule.content)).collect(),
        }
    }
}
