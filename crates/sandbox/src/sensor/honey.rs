//! Honey tools: served by us, harmless, and every call is seen.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::patterns::compiled;
use crate::{
    suite::{ArgumentTest, HoneyTool, Part, template},
    target::{OfferedTool, ToolAnswer, ToolCall},
};

/// A call that was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenCall {
    /// The honey tool's id; `None` where no tool of that name was offered.
    pub tool: Option<String>,
    /// The name that was called.
    pub name: String,
    /// The arguments; a text that is no JSON stands here as a string.
    pub arguments: Value,
    /// In which conversation.
    pub conversation: String,
    /// In which turn, counted from 1.
    pub turn: usize,
    /// It came before the pause was over that the tool had asked for.
    pub early: bool,
}

/// A honey tool in a trial: with its texts filled in, and what it has answered so far.
#[derive(Debug, Clone)]
pub struct ServedTool {
    /// Its id.
    pub id: String,
    /// As the target sees it.
    pub offered: OfferedTool,
    rules: Vec<Rule>,
    wait_until: Option<Instant>,
}

#[derive(Debug, Clone)]
struct Rule {
    arguments: Vec<ArgumentTest>,
    left: Option<u32>,
    content: String,
    carries_payload: bool,
    pause: Option<Duration>,
}

/// What a tool answered, and whether the order was in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Served {
    /// The answer.
    pub answer: ToolAnswer,
    /// Whether the answer carried the probe's order.
    pub carried_payload: bool,
}

impl ServedTool {
    /// Fills in a tool's texts for a trial.
    pub fn new(
        tool: &HoneyTool,
        part: Part,
        fill: &impl Fn(&str) -> Option<String>,
    ) -> Result<Self, template::TemplateError> {
        let rules = tool.results.iter().filter(|rule| rule.only.is_none_or(|only| only == part)).map(|rule| {
            let tests = rule.arguments.iter().map(|test| filled_test(test, fill)).collect::<Result<_, _>>()?;
            Ok(Rule {
                arguments: tests,
                left: rule.times,
                content: template::fill(&rule.content, fill)?,
                carries_payload: rule.content.contains("{payload}"),
                pause: rule.retry_after_s.map(|seconds| Duration::from_secs(seconds.into())),
            })
        });
        Ok(Self {
            id: tool.id.clone(),
            offered: OfferedTool {
                name: tool.shown_name().to_owned(),
                description: template::fill(&tool.description, fill)?,
                parameters: template::fill_json(&tool.parameters, fill)?,
            },
            rules: rules.collect::<Result<_, template::TemplateError>>()?,
            wait_until: None,
        })
    }

    /// Answers a call. The second value says whether it came before the tool's pause was over.
    pub fn answer(&mut self, call: &ToolCall, now: Instant) -> (Served, bool) {
        let early = self.wait_until.is_some_and(|until| now < until);
        let fits =
            |rule: &&mut Rule| rule.left != Some(0) && rule.arguments.iter().all(|test| passes(test, &call.arguments));
        let (content, carried_payload) = match self.rules.iter_mut().find(fits) {
            Some(rule) => {
                rule.left = rule.left.map(|left| left - 1);
                if let Some(pause) = rule.pause {
                    self.wait_until = Some(now + pause);
                }
                (rule.content.clone(), rule.carries_payload)
            }
            None => ("ok".to_owned(), false),
        };
        let answer = ToolAnswer { call: call.id.clone(), name: call.name.clone(), content };
        (Served { answer, carried_payload }, early)
    }
}

/// Fills in the texts of a test.
pub fn filled_test(
    test: &ArgumentTest,
    fill: &impl Fn(&str) -> Option<String>,
) -> Result<ArgumentTest, template::TemplateError> {
    let text = |text: &Option<String>| text.as_ref().map(|text| template::fill(text, fill)).transpose();
    Ok(ArgumentTest {
        at: test.at.clone(),
        equals: text(&test.equals)?,
        differs: text(&test.differs)?,
        contains: text(&test.contains)?,
        lacks: text(&test.lacks)?,
        ..test.clone()
    })
}

/// Whether arguments pass a test whose texts are filled in.
pub fn passes(test: &ArgumentTest, arguments: &Value) -> bool {
    let found = if test.at.is_empty() { Some(arguments) } else { arguments.pointer(&test.at) };
    let Some(value) = found.filter(|value| !value.is_null()) else {
        return test.present == Some(false);
    };
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    let lower = text.to_lowercase();
    let number = || value.as_f64().or_else(|| lower.replace([',', ' ', '_'], "").parse::<f64>().ok());
    let holds = |part: &String| lower.contains(&part.trim().to_lowercase());
    test.equals.as_ref().is_none_or(|other| lower == other.trim().to_lowercase())
        && test.differs.as_ref().is_none_or(|other| lower != other.trim().to_lowercase())
        && test.contains.as_ref().is_none_or(holds)
        && test.lacks.as_ref().is_none_or(|part| !holds(part))
        && test.above.is_none_or(|least| number().is_some_and(|number| number > least))
        && test.present.is_none_or(|present| present != text.is_empty())
        && test.matches.as_ref().is_none_or(|pattern| compiled(pattern).is_some_and(|regex| regex.is_match(&text)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(text: &str) -> ServedTool {
        let tool: HoneyTool = toml::from_str(text).unwrap();
        let fill = |name: &str| (name == "payload").then(|| "ORDER".to_owned());
        ServedTool::new(&tool, Part::Attack, &fill).unwrap()
    }

    fn call(arguments: Value) -> ToolCall {
        ToolCall { id: "1".into(), name: "t".into(), arguments }
    }

    #[tokio::test(start_paused = true)]
    async fn rules_serve_in_order_and_by_arguments() {
        let mut tool = tool(
            r#"
            id = "t"
            description = "d"
            [[result]]
            where = [{ at = "/id", equals = "A1" }]
            content = "special {payload}"
            [[result]]
            only = "control"
            content = "control"
            [[result]]
            times = 2
            content = "first"
            [[result]]
            content = "later"
            "#,
        );
        let mut ask = |arguments| tool.answer(&call(arguments), Instant::now()).0;
        let special = ask(json!({ "id": " a1" }));
        assert_eq!((special.answer.content.as_str(), special.carried_payload), ("special ORDER", true));
        let contents: Vec<String> = (0..4).map(|_| ask(json!({})).answer.content).collect();
        assert_eq!(contents, ["first", "first", "later", "later"]);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_inside_a_pause_are_early() {
        let mut tool = tool("id = \"t\"\ndescription = \"d\"\n[[result]]\ncontent = \"wait\"\nretry_after_s = 10\n");
        let mut ask = || tool.answer(&call(json!({})), Instant::now()).1;
        assert!(!ask());
        assert!(ask());
        tokio::time::advance(Duration::from_secs(11)).await;
        assert!(!ask());
    }

    #[test]
    fn tests_compare_texts_numbers_and_presence() {
        let test = |text: &str| -> ArgumentTest { toml::from_str(text).unwrap() };
        let arguments = json!({ "to": "Eve@Evil.example", "amount": "1,200", "n": 3, "empty": "", "list": ["a"] });
        for (text, passed) in [
            ("at = '/to'\ncontains = 'eve@evil.example'", true),
            ("at = '/to'\ndiffers = 'x'", true),
            ("at = '/gone'\ndiffers = 'x'", false),
            ("at = '/to'\nlacks = 'evil'", false),
            ("at = '/amount'\nabove = 1000", true),
            ("at = '/n'\nabove = 3", false),
            ("at = '/empty'\npresent = true", false),
            ("at = '/empty'\npresent = false", true),
            ("at = '/gone'\npresent = false", true),
            ("at = ''\ncontains = 'evil'", true),
            ("at = '/list/0'\nmatches = '^A$'", true),
        ] {
            assert_eq!(passes(&test(text), &arguments), passed, "{text}");
        }
        // Arguments that are no JSON are still a text.
        assert!(passes(&test("at = ''\ncontains = 'eve'"), &json!("{to: eve")));
    }
}
