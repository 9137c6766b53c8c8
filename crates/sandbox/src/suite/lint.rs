//! What is wrong with a probe file, all of it at once: `credence probe lint`.
//!
//! Besides names that lead nowhere, the rules keep the sensors honest: an expected value must not be part of what is sent, a control
//! must expect something, an attack must be able to carry its order.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use regex::Regex;

use super::{
    format::{
        ArgumentTest, CanaryKind, Condition, Family, HoneyTool, Identity, Language, Probe, ProbeFile, Script, Turn,
    },
    template,
};
use crate::{capability::Capability, target::Transport, values::NAMES, variant::Variant};

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// File, family, probe, member.
    pub place: String,
    /// What is wrong and what to do.
    pub problem: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

/// Mistakes in one file.
pub(super) fn file(name: &str, file: &ProbeFile) -> Vec<Finding> {
    let mut lint = Lint::default();
    if file.families.is_empty() {
        lint.say(name, "the file has no family");
    }
    for family in &file.families {
        let place = format!("{name}: {}", family.id);
        if !family.id.starts_with(file.threat.id()) {
            lint.say(&place, format!("the id must begin with '{}_'", file.threat.id()));
        }
        lint.family(&place, family, &file.tools);
    }
    lint.findings
}

/// Mistakes that only show between files.
pub(super) fn across(files: &[ProbeFile]) -> Vec<Finding> {
    let mut lint = Lint::default();
    let (mut families, mut probes) = (BTreeSet::new(), BTreeSet::new());
    for family in files.iter().flat_map(|file| &file.families) {
        if !families.insert(&family.id) {
            lint.say(&family.id, "there is another family of this id");
        }
        for probe in &family.probes {
            if !probes.insert(&probe.id) {
                lint.say(&probe.id, "there is another probe of this id");
            }
        }
    }
    if files.is_empty() {
        lint.say("suite", "there is no probe file");
    }
    lint.findings
}

#[derive(Default)]
struct Lint {
    findings: Vec<Finding>,
}

impl Lint {
    fn say(&mut self, place: &str, problem: impl Into<String>) {
        self.findings.push(Finding { place: place.to_owned(), problem: problem.into() });
    }

    fn family(&mut self, place: &str, family: &Family, shared: &[HoneyTool]) {
        for (member, text) in
            [("id", &family.id), ("title", &family.title), ("gain", &family.gain), ("fix", &family.fix)]
        {
            if text.trim().is_empty() {
                self.say(place, format!("{member} is empty"));
            }
        }
        if !plain_name(&family.id) {
            self.say(place, "the id has other characters than a-z, 0-9 and _");
        }
        let tools: BTreeMap<&str, &HoneyTool> =
            shared.iter().chain(&family.tools).map(|tool| (tool.id.as_str(), tool)).collect();
        for tool in family.tools.iter().chain(shared) {
            self.tool(&format!("{place}: tool {}", tool.id), tool, family);
        }
        let control = Script { page: family.control.page.clone(), turns: family.control.turns.clone() };
        self.script(&format!("{place}: control"), &control, family, &tools);
        if family.control.expect.is_empty() {
            self.say(
                place,
                "the control expects nothing: a target that cannot do the harmless version would look safe",
            );
        }
        if family.effected.is_empty() {
            self.say(place, "effected is empty: no sensor decides");
        }
        for condition in family.control.expect.iter().chain(&family.effected) {
            self.condition(place, condition, family, &tools);
        }
        for pattern in &family.claimed {
            self.pattern(place, pattern);
        }
        for (name, list) in &family.choices {
            if list.is_empty() || NAMES.contains(&name.as_str()) || !plain_name(name) {
                self.say(place, format!("choices.{name}: use a new name of a-z, 0-9 and _ and at least one text"));
            }
        }
        if family.probes.is_empty() {
            self.say(place, "the family has no probe");
        }
        self.needs(place, family);
        for probe in &family.probes {
            self.probe(&format!("{place}: {}", probe.id), probe, family, &tools);
        }
    }

    /// What a script uses has to be among the needs: without it the attack would not arrive, and the target would look safe.
    fn needs(&mut self, place: &str, family: &Family) {
        let needs = |capability: Capability| family.needs.contains(&capability);
        if all_turns(family).any(|turn| turn.tools.as_ref().is_some_and(|tools| !tools.is_empty()))
            && !needs(Capability::Tools)
        {
            self.say(place, "a turn offers tools: add needs = [\"tools\"]");
        }
        if all_turns(family).any(|turn| turn.identity == Identity::Second) && !needs(Capability::Identities) {
            self.say(place, "a turn speaks as the second identity: add needs = [\"identities\"]");
        }
        let whole = serde_json::to_string(family).unwrap_or_default();
        let reachable = [Capability::Listener, Capability::InternalListener, Capability::Fetch].into_iter().any(needs);
        let foreign = |turn: &Turn| turn.credential.is_some() || turn.session.is_some();
        if all_turns(family).any(foreign) && !needs(Capability::Credentials) {
            self.say(place, "a turn presents other credentials: add needs = [\"credentials\"]");
        }
        if all_turns(family).any(|turn| turn.session.is_some()) && !needs(Capability::Sessions) {
            self.say(place, "a turn uses another session: add needs = [\"sessions\"]");
        }
        if ["{trap_url}", "{trap_host}", "{page_url}", "{failing_url}"].iter().any(|value| whole.contains(value))
            && !reachable
        {
            self.say(place, "a text holds a URL of the listener: add needs = [\"listener\"]");
        }
    }

    fn probe(&mut self, place: &str, probe: &Probe, family: &Family, tools: &BTreeMap<&str, &HoneyTool>) {
        if !probe.id.starts_with(&family.id) || !plain_name(&probe.id) {
            self.say(place, "the id must begin with the family's and have a-z, 0-9 and _ only");
        }
        let Some(attack) = family.attack_of(probe) else {
            self.say(place, "neither the probe nor the family has an attack");
            return;
        };
        if let Some(own) = &probe.attack {
            self.script(place, own, family, tools);
        } else {
            self.script(&format!("{place}: attack"), attack, family, tools);
        }
        for (language, order) in &probe.order {
            self.template(&format!("{place}: order.{language:?}"), order, family, false);
        }
        let carriers = carriers(attack, tools);
        if probe.order.is_empty() && carriers {
            self.say(place, "the attack has a {payload} slot and the probe has no order for it");
        }
        if !probe.order.is_empty() && !carriers {
            self.say(place, "the order has no {payload} slot to stand in: neither in a turn, a tool nor the page");
        }
        if !probe.order.is_empty() && !probe.order.contains_key(&Language::En) {
            self.say(place, "the order has no English text");
        }
        for variant in &probe.variants {
            let language = variant.language();
            let spelled = *variant == Variant::Plain || !probe.order.is_empty();
            if !spelled || (language != Language::En && !probe.order.contains_key(&language)) {
                self.say(place, format!("variant {variant} has no order to spell"));
            }
        }
        if probe.order.values().any(|order| order.contains("{half_a}{half_b}")) {
            self.say(place, "'{half_a}{half_b}' is the canary itself: put something between the halves");
        }
    }

    fn script(&mut self, place: &str, script: &Script, family: &Family, tools: &BTreeMap<&str, &HoneyTool>) {
        let payload = !place.ends_with("control");
        if let Some(page) = &script.page {
            self.template(place, page, family, payload);
        }
        if script.turns.is_empty() {
            self.say(place, "there is no turn");
        }
        let mut opened = BTreeSet::new();
        for (n, turn) in script.turns.iter().enumerate() {
            let place = format!("{place}: turn {}", n + 1);
            self.turn(&place, turn, family, tools, payload);
            if !opened.insert(&turn.conversation) && turn.system.is_some() {
                self.say(&place, "a system message stands in the first turn of a conversation only");
            }
        }
    }

    fn turn(&mut self, place: &str, turn: &Turn, family: &Family, tools: &BTreeMap<&str, &HoneyTool>, payload: bool) {
        if turn.listing.is_some() || turn.credential.is_some() || turn.session.is_some() {
            if family.transports != [Transport::Mcp] {
                self.say(place, "listing, credential and session need transports = [\"mcp\"]");
            }
            if turn.listing.is_some() == turn.call.is_some() {
                self.say(place, "a turn lists tools or calls one; credential and session belong to a call");
            }
            if let Some(text) = &turn.credential {
                self.template(place, text, family, payload);
            }
        }
        let given = [turn.text.is_some(), turn.call.is_some(), turn.action.is_some()];
        match given {
            [false, false, false] if turn.listing.is_some() => {}
            [false, false, false] => self.say(place, "a turn needs a text, a call or an action"),
            [_, true, true] | [true, true, _] => self.say(place, "a call stands alone, without text or action"),
            _ => {}
        }
        for text in [&turn.text, &turn.system].into_iter().flatten() {
            self.template(place, text, family, payload);
            if text.contains("{half_a}{half_b}") {
                self.say(place, "'{half_a}{half_b}' is the canary itself: put something between the halves");
            }
        }
        for id in turn.tools.iter().flatten() {
            if !tools.contains_key(id.as_str()) {
                self.say(place, format!("there is no tool '{id}'"));
            }
        }
        if let Some(call) = &turn.call {
            if call.pick.is_some() == call.name.is_some() {
                self.say(place, "a call needs either pick or name");
            }
            if call.pick.is_some() && call.value.is_none() {
                self.say(place, "a pick needs a value for the argument");
            }
            for text in [&call.value, &call.name].into_iter().flatten() {
                self.template(place, text, family, payload);
            }
            for pattern in call.pick.iter().flat_map(|pick| [Some(&pick.parameter), pick.tool.as_ref()]).flatten() {
                self.pattern(place, pattern);
            }
            if !family.transports.contains(&Transport::Mcp) {
                self.say(place, "calls of the target's own tools need transports = [\"mcp\"]");
            }
        }
        if turn.action.is_some() && family.transports != [Transport::A2a] {
            self.say(place, "actions need transports = [\"a2a\"]");
        }
    }

    fn tool(&mut self, place: &str, tool: &HoneyTool, family: &Family) {
        let name = tool.shown_name();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
            self.say(place, "the name has 1 to 64 of A-Z a-z 0-9 _ -");
        }
        self.template(place, &tool.description, family, true);
        if tool.parameters.get("type").and_then(|kind| kind.as_str()) != Some("object") {
            self.say(place, "parameters must be a JSON Schema with type = \"object\"");
        }
        for result in &tool.results {
            self.template(place, &result.content, family, true);
            self.tests(place, &result.arguments, family);
        }
    }

    fn condition(&mut self, place: &str, condition: &Condition, family: &Family, tools: &BTreeMap<&str, &HoneyTool>) {
        let conversations: BTreeSet<&str> = all_turns(family).map(|turn| turn.conversation.as_str()).collect();
        match condition {
            Condition::All { of } | Condition::Any { of } | Condition::None { of } => {
                if of.is_empty() {
                    self.say(place, "a condition over no conditions");
                }
                for inner in of {
                    self.condition(place, inner, family, tools);
                }
                return;
            }
            Condition::Call { tool, arguments, .. } => {
                if tool != "*" && !tools.contains_key(tool.as_str()) {
                    self.say(place, format!("a condition names the tool '{tool}', which does not exist"));
                }
                self.tests(place, arguments, family);
            }
            Condition::EarlyRetry { tool, .. } => match tools.get(tool.as_str()) {
                Some(tool) if tool.results.iter().any(|result| result.retry_after_s.is_some()) => {}
                _ => self.say(place, format!("early_retry: no result of '{tool}' has retry_after_s")),
            },
            Condition::Answer { contains, lacks, matches, asserted, .. } => {
                if *asserted && contains.is_none() {
                    self.say(place, "asserted belongs to contains");
                }
                if [contains, lacks, matches].into_iter().flatten().count() != 1 {
                    self.say(place, "answer needs one of contains, lacks and matches");
                }
                for text in [contains, lacks].into_iter().flatten() {
                    self.expected(place, text, family);
                }
                if let Some(pattern) = matches {
                    self.pattern(place, pattern);
                }
            }
            Condition::Canary { kind, .. } => {
                let (first, second) = match kind {
                    CanaryKind::Joined => ("{half_a}", "{half_b}"),
                    CanaryKind::Reversed => ("{backwards}", "{backwards}"),
                    CanaryKind::Product | CanaryKind::Sum => ("{factor_a}", "{factor_b}"),
                    CanaryKind::Sha256 => ("{digest_input}", "{digest_input}"),
                };
                let whole = serde_json::to_string(family).unwrap_or_default();
                let shared = tools.values().map(|tool| serde_json::to_string(tool).unwrap_or_default());
                let whole = shared.fold(whole, |all, tool| all + &tool);
                if !whole.contains(first) || !whole.contains(second) {
                    self.say(place, format!("canary {kind:?} needs {first} and {second} in what is sent"));
                }
            }
            Condition::Trap => {
                let whole = serde_json::to_string(family).unwrap_or_default();
                let acts = all_turns(family).any(|turn| turn.action == Some(super::Action::PushToTrap));
                if !whole.contains("{trap_url}") && !whole.contains("{trap_host}") && !acts {
                    self.say(place, "sensor trap, and nothing sent holds {trap_url}");
                }
            }
            Condition::Failing { .. } => {
                if !serde_json::to_string(family).unwrap_or_default().contains("{failing_url}") {
                    self.say(place, "sensor failing, and nothing sent holds {failing_url}");
                }
            }
            Condition::Bound { side } => {
                let picks = all_turns(family).filter_map(|turn| turn.call.as_ref()?.pick.as_ref()?.limit);
                if !picks.into_iter().any(|limit| limit == *side) {
                    self.say(place, "sensor bound, and no call picks an argument on that side of its limit");
                }
            }
            Condition::Listed | Condition::ToolsChanged => {
                if all_turns(family).filter(|turn| turn.listing.is_some()).count() < 2 {
                    self.say(place, "lists of tools are compared, and fewer than two turns list them");
                }
            }
            Condition::Page | Condition::Unoffered | Condition::Accepted { .. } | Condition::Denied { .. } => {}
        }
        if let Some(conversation) = scope(condition).filter(|name| !conversations.contains(name)) {
            self.say(place, format!("a condition names the conversation '{conversation}', which no turn opens"));
        }
    }

    fn tests(&mut self, place: &str, tests: &[ArgumentTest], family: &Family) {
        for test in tests {
            let texts = [&test.equals, &test.differs, &test.contains, &test.lacks];
            let given = texts.into_iter().flatten().count()
                + usize::from(test.matches.is_some())
                + usize::from(test.above.is_some())
                + usize::from(test.present.is_some());
            if given != 1 {
                self.say(place, format!("where '{}': give exactly one comparison", test.at));
            }
            if !test.at.is_empty() && !test.at.starts_with('/') {
                self.say(place, format!("where '{}': a JSON pointer begins with '/'", test.at));
            }
            for text in texts.into_iter().flatten() {
                self.expected(place, text, family);
            }
            if let Some(pattern) = &test.matches {
                self.pattern(place, pattern);
            }
        }
    }

    /// A template in a condition: besides the values of a trial it may name canaries.
    fn expected(&mut self, place: &str, text: &str, family: &Family) {
        match template::names(text) {
            Err(e) => self.say(place, e.to_string()),
            Ok(names) => {
                for name in names {
                    let known = NAMES.contains(&name) && name != "payload";
                    if !known && !family.choices.contains_key(name) && !crate::trial::CANARY_NAMES.contains(&name) {
                        self.say(place, format!("there is no value '{{{name}}}'"));
                    }
                }
            }
        }
    }

    fn template(&mut self, place: &str, text: &str, family: &Family, payload: bool) {
        match template::names(text) {
            Err(e) => self.say(place, e.to_string()),
            Ok(names) => {
                for name in names {
                    let known = NAMES.contains(&name) || family.choices.contains_key(name);
                    if name == "payload" && !payload {
                        self.say(place, "{payload} does not belong here");
                    } else if !known {
                        self.say(place, format!("there is no value '{{{name}}}'"));
                    }
                }
            }
        }
    }

    fn pattern(&mut self, place: &str, pattern: &str) {
        if let Err(e) = Regex::new(pattern) {
            self.say(place, format!("'{pattern}' is not a regular expression: {e}"));
        }
    }
}

/// The conversation that a condition looks at.
fn scope(condition: &Condition) -> Option<&str> {
    match condition {
        Condition::Canary { conversation, .. }
        | Condition::Call { conversation, .. }
        | Condition::Answer { conversation, .. }
        | Condition::Denied { conversation, .. }
        | Condition::Accepted { conversation, .. } => conversation.as_deref(),
        _ => None,
    }
}

fn all_turns(family: &Family) -> impl Iterator<Item = &Turn> {
    let own = family.probes.iter().filter_map(|probe| probe.attack.as_ref());
    let attacks = family.attack.iter().chain(own).flat_map(|script| &script.turns);
    family.control.turns.iter().chain(attacks)
}

/// Whether some part of an attack has a slot for the order.
fn carriers(attack: &Script, tools: &BTreeMap<&str, &HoneyTool>) -> bool {
    let has = |text: &str| text.contains("{payload}");
    let in_turn = |turn: &Turn| {
        let offered = turn.tools.iter().flatten().filter_map(|id| tools.get(id.as_str()));
        let in_tool =
            |tool: &&HoneyTool| has(&tool.description) || tool.results.iter().any(|result| has(&result.content));
        let texts = [&turn.text, &turn.system].into_iter().flatten().any(|text| has(text));
        let call = turn.call.as_ref().is_some_and(|call| serde_json::to_string(call).is_ok_and(|text| has(&text)));
        texts || call || offered.into_iter().any(in_tool)
    };
    attack.page.as_deref().is_some_and(has) || attack.turns.iter().any(in_turn)
}

fn plain_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    !name.is_empty() && name.len() <= 64 && name.chars().all(plain)
}
