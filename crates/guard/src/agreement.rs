//! Whether the text of a result says the same as its structure (ADR 18).
//!
//! The engine judges `structuredContent` where there is some. A client may give the model `content` instead, so `content` must not say
//! something else unnoticed. Servers put there what their SDK puts: the structure as JSON, or, where the structure is one value under a
//! name, that value, a list as an item for each of its members. That is *the same*, and nothing more is asked.
//!
//! Other servers write a summary for people. It *differs*. It is judged by the engine as the result of a tool without structure would be,
//! and until it is this tool's habit to differ, that it does is a finding: `text_differs`. So is a number that is neither in the
//! structure nor in the arguments, unless this tool's texts often hold such: `text_numbers`.

use std::collections::{BTreeMap, HashSet};

use credence_protocol::receipt::Exact;
use credence_receipts::parts::judged_part;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::content::value;

/// The text is not the structure.
pub const TEXT_DIFFERS: &str = "text_differs";
/// The text holds a number that the structure does not.
pub const TEXT_NUMBERS: &str = "text_numbers";

/// Texts of a tool that have to do something before it is the tool's habit.
const HABIT: u32 = 20;
/// One text of so many has to, at least.
const HABIT_SHARE: u32 = 10;
/// Texts after which older ones count half.
const REMEMBERED: u32 = 400;
/// Tools whose habits are remembered.
const MAX_TOOLS: usize = 10_000;
/// Bytes of a text up to which its numbers are looked up.
const MAX_TEXT: usize = 256 * 1024;
/// Digits of an integer that a double holds exactly.
const EXACT_DIGITS: usize = 15;

/// How the content of a result compares with its structure.
#[derive(Debug, PartialEq)]
pub enum Agreement {
    /// There is only one of them, or both say the same.
    Same,
    /// The content says something else.
    Differs {
        /// What it says, as the engine judges it; `None` where it cannot be judged.
        content: Option<Value>,
        /// It holds a number that neither the structure nor the arguments hold.
        odd_numbers: bool,
    },
}

/// Compares them.
pub fn compare(result: &Exact<'_>, arguments: Option<&Exact<'_>>) -> Agreement {
    let Some(structure) = result.get("structuredContent").filter(|structure| !structure.is_null()) else {
        return Agreement::Same;
    };
    let content = match result.get("content") {
        None => return Agreement::Same,
        Some(Exact::List(items)) if says_the_same(structure, items) => return Agreement::Same,
        Some(Exact::List(items)) => items,
        // No list of content items, so no reader knows what to make of it; it is judged all the same.
        Some(other) => return Agreement::Differs { content: value(other).ok(), odd_numbers: true },
    };
    let texts: Vec<&str> = content.iter().filter_map(|item| item.get("text").and_then(Exact::as_text)).collect();
    let odd_numbers = has_odd_numbers(&texts, structure, arguments);
    let alone = Exact::Object([("content".into(), Exact::List(content.clone()))].into_iter().collect());
    Agreement::Differs { content: value(&judged_part(&alone)).ok(), odd_numbers }
}

/// Whether the items are what SDKs make of the structure.
fn says_the_same(structure: &Exact<'_>, items: &[Exact<'_>]) -> bool {
    let text = |item: &Exact<'_>| -> Option<String> {
        let is_text = item.get("type").and_then(Exact::as_text) == Some("text");
        item.get("text").filter(|_| is_text).and_then(Exact::as_text).map(str::to_owned)
    };
    let Some(texts) = items.iter().map(text).collect::<Option<Vec<String>>>() else { return false };
    let wrapped = match structure {
        Exact::Object(members) if members.len() == 1 => members.values().next(),
        _ => None,
    };
    let is = |text: &str, value: &Exact<'_>| match value {
        Exact::Text(value) if value.trim() == text.trim() => true,
        value => Exact::parse(text.trim()).is_ok_and(|parsed| parsed == *value),
    };
    match (texts.as_slice(), wrapped) {
        ([], _) => true,
        ([text], wrapped) if is(text, structure) || wrapped.is_some_and(|value| is(text, value)) => true,
        (texts, Some(Exact::List(values))) => {
            texts.len() == values.len() && texts.iter().zip(values).all(|(text, value)| is(text, value))
        }
        _ => false,
    }
}

fn has_odd_numbers(texts: &[&str], structure: &Exact<'_>, arguments: Option<&Exact<'_>>) -> bool {
    if texts.iter().map(|text| text.len()).sum::<usize>() > MAX_TEXT {
        return true;
    }
    let mut known = Known::default();
    known.add(structure);
    arguments.into_iter().for_each(|arguments| known.add(arguments));
    known.values.sort_by(f64::total_cmp);
    texts.iter().flat_map(|text| numbers(text)).any(|number| !known.holds(&number))
}

/// The numbers that a text may hold.
#[derive(Default)]
struct Known {
    values: Vec<f64>,
    long: HashSet<String>,
    longest_list: usize,
}

impl Known {
    fn add(&mut self, value: &Exact<'_>) {
        match value {
            Exact::Word(_) => {}
            Exact::Number(number) => self.add_text(number),
            Exact::Text(text) => self.add_text(text),
            Exact::List(items) => {
                self.longest_list = self.longest_list.max(items.len());
                items.iter().for_each(|item| self.add(item));
            }
            Exact::Object(members) => {
                self.longest_list = self.longest_list.max(members.len());
                members.iter().for_each(|(name, member)| {
                    self.add_text(name);
                    self.add(member);
                });
            }
        }
    }

    fn add_text(&mut self, text: &str) {
        // Written with an exponent it is one number, and what is in it are others.
        self.values.extend(text.parse::<f64>().ok().filter(|value| value.is_finite()).map(f64::abs));
        for number in numbers(text) {
            if number.is_long() {
                self.long.insert(number.digits);
            } else {
                self.values.push(number.value);
            }
        }
    }

    /// As it is, rounded, in percent, or as a count of what there is.
    fn holds(&self, number: &Number) -> bool {
        if number.is_long() {
            return self.long.contains(&number.digits);
        }
        let near = |value: f64, scale: f64| {
            let slack = 0.5 * 10_f64.powi(-number.decimals) / scale * (1.0 + 1e-9);
            let from = self.values.partition_point(|known| *known < value - slack);
            self.values.get(from).is_some_and(|known| *known <= value + slack)
        };
        number.decimals == 0 && number.value <= self.longest_list as f64
            || near(number.value, 1.0)
            || near(number.value / 100.0, 100.0)
    }
}

/// A number as it stands in a text, without its sign.
struct Number {
    digits: String,
    value: f64,
    decimals: i32,
}

impl Number {
    fn new(whole: &str, fraction: &str) -> Self {
        Self {
            digits: whole.trim_start_matches('0').to_owned(),
            value: format!("{whole}.{fraction}0").parse().unwrap_or(f64::INFINITY),
            decimals: i32::try_from(fraction.len()).unwrap_or(i32::MAX),
        }
    }

    fn is_long(&self) -> bool {
        self.decimals == 0 && self.digits.len() > EXACT_DIGITS
    }
}

/// The numbers in a text: digits, with commas between thousands, and a fraction.
fn numbers(text: &str) -> Vec<Number> {
    let bytes = text.as_bytes();
    let digits_at =
        |at: usize| bytes.get(at..).map_or(0, |rest| rest.iter().take_while(|b| b.is_ascii_digit()).count());
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = bytes.get(at..).and_then(|rest| rest.iter().position(u8::is_ascii_digit)) {
        at += start;
        let length = digits_at(at);
        let mut digits = text[at..at + length].to_owned();
        at += length;
        while bytes.get(at) == Some(&b',') && digits_at(at + 1) == 3 && digits.len() <= EXACT_DIGITS {
            digits.push_str(&text[at + 1..at + 4]);
            at += 4;
        }
        // Several dots make a date, a version or an address: numbers of their own.
        let mut groups = vec![digits];
        while bytes.get(at) == Some(&b'.') && digits_at(at + 1) > 0 {
            let length = digits_at(at + 1);
            groups.push(text[at + 1..at + 1 + length].to_owned());
            at += 1 + length;
        }
        match groups.as_slice() {
            [whole, fraction] => found.push(Number::new(whole, fraction)),
            groups => found.extend(groups.iter().map(|group| Number::new(group, ""))),
        }
    }
    found
}

/// What the texts of each tool usually do.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Habits {
    tools: BTreeMap<String, Habit>,
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(default)]
struct Habit {
    /// Results with a structure.
    texts: u32,
    differ: u32,
    odd_numbers: u32,
}

impl Habits {
    /// What is unusual about a text, given the earlier ones of the same tool; remembers it. `odd_numbers` of one that differs.
    pub fn findings(&mut self, tool: &str, odd_numbers: Option<bool>) -> Vec<&'static str> {
        let (differs, odd) = (odd_numbers.is_some(), odd_numbers == Some(true));
        if !self.tools.contains_key(tool) {
            // Tools whose texts never differ are most of them, and need no memory.
            if !differs {
                return Vec::new();
            }
            if self.tools.len() >= MAX_TOOLS {
                self.tools.pop_first();
            }
        }
        let habit = self.tools.entry(tool.to_owned()).or_default();
        let is_habit = |count: u32, of: u32| count >= HABIT && count.saturating_mul(HABIT_SHARE) >= of;
        let mut findings = Vec::new();
        if differs && !is_habit(habit.differ, habit.texts) {
            findings.push(TEXT_DIFFERS);
        }
        if odd && !is_habit(habit.odd_numbers, habit.texts) {
            findings.push(TEXT_NUMBERS);
        }
        habit.texts += 1;
        habit.differ += u32::from(differs);
        habit.odd_numbers += u32::from(odd);
        if habit.texts >= REMEMBERED {
            for count in [&mut habit.texts, &mut habit.differ, &mut habit.odd_numbers] {
                *count /= 2;
            }
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn differs(structure: Value, texts: &[&str]) -> Option<bool> {
        let items: Vec<Value> = texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
        let result = json!({ "structuredContent": structure, "content": items }).to_string();
        let arguments = Exact::parse(r#"{"city":"Oslo 7"}"#).unwrap();
        match compare(&Exact::parse(&result).unwrap(), Some(&arguments)) {
            Agreement::Same => None,
            Agreement::Differs { odd_numbers, .. } => Some(odd_numbers),
        }
    }

    #[test]
    fn what_sdks_make_of_a_structure_is_the_same() {
        let weather = json!({"temperature": 18.0, "city": "Oslo"});
        for (structure, texts) in [
            (weather.clone(), vec!["{\n  \"city\": \"Oslo\",\n  \"temperature\": 18\n}"]),
            (weather, vec![]),
            (json!({"result": "plain words"}), vec!["plain words"]),
            (json!({"result": 42}), vec!["42"]),
            (json!({"result": true}), vec!["true"]),
            (json!({"result": [1, "b", {"c": 2}]}), vec!["1", "b", "{\"c\":2}"]),
            (json!({"rows": [1, 2]}), vec!["[1, 2]"]),
            (json!({"result": ""}), vec![""]),
        ] {
            assert_eq!(differs(structure.clone(), &texts), None, "{structure} {texts:?}");
        }
    }

    #[test]
    fn a_summary_differs_and_its_numbers_are_those_of_the_structure() {
        let weather = || json!({"temperature": 18.46, "humidity": 0.6, "when": "2026-11-17", "population": 1234567, "id": 12345678901234567890_u64, "hours": [1, 2, 3]});
        for fine in [
            "18.5 degrees, 60 % humidity on 17.11.2026",
            "Oslo 7: 18°C",
            "1. 2. 3. of 3 hours",
            "population 1,234,567, id 12345678901234567890",
            "all fine",
        ] {
            assert_eq!(differs(weather(), &[fine]), Some(false), "{fine}");
        }
        for odd in
            ["45 degrees", "18.7 degrees", "61 %", "id 12345678901234567891", "{\"temperature\": 45}", "1,234,568"]
        {
            assert_eq!(differs(weather(), &[odd]), Some(true), "{odd}");
        }
        assert_eq!(differs(json!({"result": [1, 2]}), &["1"]), Some(false), "a part is not the whole");
        let image = json!({"structuredContent": {"a": 1}, "content": [{"type": "image", "data": "AAAA"}]}).to_string();
        assert!(matches!(compare(&Exact::parse(&image).unwrap(), None), Agreement::Differs { .. }));
        let bare = json!({"structuredContent": {"a": 1}, "content": "words"}).to_string();
        assert!(matches!(compare(&Exact::parse(&bare).unwrap(), None), Agreement::Differs { odd_numbers: true, .. }));
    }

    #[test]
    fn a_habit_is_no_finding_and_anything_else_is() {
        let mut habits = Habits::default();
        for n in 0..HABIT {
            assert_eq!(habits.findings("t", Some(false)), [TEXT_DIFFERS], "{n}");
        }
        for _ in 0..1000 {
            assert!(habits.findings("t", Some(false)).is_empty());
        }
        assert_eq!(habits.findings("t", Some(true)), [TEXT_NUMBERS]);
        assert_eq!(habits.findings("u", Some(true)), [TEXT_DIFFERS, TEXT_NUMBERS], "each tool has its own");
        // A tool that begins to write summaries is not held up for ever.
        let mut changed = Habits::default();
        changed.findings("t", Some(false));
        (0..10_000).for_each(|_| drop(changed.findings("t", None)));
        let flagged = (0..200).filter(|_| !changed.findings("t", Some(false)).is_empty()).count();
        assert!((20..100).contains(&flagged), "{flagged}");
    }
}
