//! Orders in ordinary English (and a few verbs of other languages): call a tool, fetch a URL, join, reverse, compute, remember.
//!
//! The reading is deliberately shallow, like that of a small model: it knows nothing of any probe, and takes an order in whatever words
//! name the tool, the URL or the pieces.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::text::{content_words, pattern, sentences};

/// A tool that the agent may call, as the caller or its server describes it.
#[derive(Clone, Debug)]
pub struct Tool {
    /// The name it is called by.
    pub name: String,
    /// What it says about itself.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub schema: Value,
}

/// One thing that a sentence asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Call a tool.
    Call(Call),
    /// Get a URL.
    Fetch(String),
    /// Say a text that had to be worked out, or was dictated.
    Say(String),
    /// Run code whose result is this.
    Execute(String),
    /// Keep a fact or a rule.
    Remember(String),
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
}

/// An action and the sentence it was read from.
#[derive(Clone, Debug)]
pub struct Order {
    /// What to do.
    pub action: Action,
    /// The words.
    pub sentence: String,
}

const CALL_VERBS: &str = r"(?i)\b(call|calls|calling|use|using|invoke|run|execute|trigger|with the tool|rufe?|benutze|verwende|nutze|appel\w*|utilise\w*|utilisez|exécut\w*)\b|调用|使用|运行|استدع|استخدم|شغّل";
const FETCH_VERBS: &str = r"(?i)\b(fetch|open|visit|load|download|get|retrieve|request|read|browse|check|look at|import|include|render|preview|rufe?|öffne|lade|ouvr\w+|télécharg\w+|consult\w+|récupér\w+)\b|打开|访问|获取|读取|افتح|اجلب|حمّل|زر";
const JOIN_VERBS: &str = r"(?i)\b(join|joined|concatenat\w+|combin\w+|glue\w*|put together|stick together|merge\w*|verbind\w*|verkett\w*|füge|zusammen\w*|concatén\w+|assembl\w+|joign\w*|coll\w+)\b|连接|拼接|合并|ادمج|اربط|صل";
const REVERSE_VERBS: &str = r"(?i)\b(revers\w+|backwards?|back to front|rückwärts|umgekehrt\w*|à l'envers|invers\w+)\b|倒序|反转|倒过来|معكوس|اعكس";
const NEGATED: &str =
    r"(?i)\b(do not|don't|never|must not|should not|shouldn't|cannot|without calling|not call|no need to)\b";

static QUOTED: LazyLock<Regex> =
    LazyLock::new(|| pattern("\"([^\"\n]*)\"|“([^”\n]*)”|«\\s*([^»\n]*?)\\s*»|„([^“\n]*)“|`([^`\n]*)`|'([^'\n]{2,})'"));
static URL: LazyLock<Regex> = LazyLock::new(|| pattern(r#"https?://[^\s"'<>()\]`，。“”»]+"#));
static EMAIL: LazyLock<Regex> = LazyLock::new(|| pattern(r"[\w.+-]+@[\w-]+(\.[\w-]+)+"));
static NUMBER: LazyLock<Regex> = LazyLock::new(|| pattern(r"-?\d[\d,]*(\.\d+)?"));

/// What a text asks for, in the order of its sentences.
pub fn orders(text: &str, tools: &[Tool]) -> Vec<Order> {
    let found = sentences(text).into_iter().flat_map(|sentence| {
        let action = read_sentence(&sentence, tools);
        action.into_iter().map(move |action| Order { action, sentence: sentence.clone() })
    });
    found.collect()
}

fn read_sentence(sentence: &str, tools: &[Tool]) -> Vec<Action> {
    static NEGATION: LazyLock<Regex> = LazyLock::new(|| pattern(NEGATED));
    static REMEMBER: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"(?i)^\W*(?:and |then |please |also |now |assistant[,:] |important: |note: )*(?:remember|memori[sz]e|store|save|keep in mind|note down|take note|note for later|from now on|merke? dir|retiens|记住|تذكّر|تذكر)[\s,:，]+(?:that|this|daran|dass|que|fact|the fact)?[\s,:]*(.+)$",
        )
    });
    if let Some(kept) = REMEMBER.captures(sentence) {
        let names_a_tool = tools.iter().any(|tool| named(sentence, &tool.name));
        if !names_a_tool {
            return vec![Action::Remember(kept[1].to_owned())];
        }
    }
    if NEGATION.is_match(sentence) && !NEGATION.replace_all(sentence, "").contains(" but ") {
        return Vec::new();
    }
    let calls = tool_calls(sentence, tools);
    if !calls.is_empty() {
        return calls;
    }
    static FETCH: LazyLock<Regex> = LazyLock::new(|| pattern(FETCH_VERBS));
    if let Some(url) = URL.find(sentence).filter(|_| FETCH.is_match(sentence)) {
        let url = url.as_str().trim_end_matches(['.', ',', ';', ':', '!', '?']).to_owned();
        let fetching = tools.iter().find(|tool| parameter_like(tool, &["url", "uri", "link", "address"]).is_some());
        return vec![match fetching {
            Some(tool) => Action::Call(Call { tool: tool.name.clone(), arguments: arguments(sentence, tool) }),
            None => Action::Fetch(url),
        }];
    }
    worked_out(sentence).or_else(|| by_topic(sentence, tools)).or_else(|| dictated(sentence)).into_iter().collect()
}

fn named(sentence: &str, name: &str) -> bool {
    let bounded = |c: Option<char>| c.is_none_or(|c| !(c.is_alphanumeric() && c.is_ascii()) && c != '_');
    sentence.match_indices(name).any(|(at, _)| {
        bounded(sentence[..at].chars().next_back()) && bounded(sentence[at + name.len()..].chars().next())
    })
}

/// The tools that a sentence names outright, with a verb before or after.
fn tool_calls(sentence: &str, tools: &[Tool]) -> Vec<Action> {
    static CALL: LazyLock<Regex> = LazyLock::new(|| pattern(CALL_VERBS));
    if !CALL.is_match(sentence) {
        return Vec::new();
    }
    let mut found: Vec<(usize, &Tool)> = tools
        .iter()
        .filter(|tool| named(sentence, &tool.name))
        .filter_map(|tool| Some((sentence.find(&tool.name)?, tool)))
        .collect();
    found.sort_by_key(|(at, _)| *at);
    let parts: Vec<Action> = found
        .iter()
        .enumerate()
        .map(|(n, (at, tool))| {
            let end = found.get(n + 1).map_or(sentence.len(), |(next, _)| *next);
            let own = &sentence[if n == 0 { 0 } else { *at }..end];
            Action::Call(Call { tool: tool.name.clone(), arguments: arguments(own, tool) })
        })
        .collect();
    parts
}

/// A tool that the sentence means without its name: "What is the balance of account 7?" means `get_balance`.
fn by_topic(sentence: &str, tools: &[Tool]) -> Option<Action> {
    const VERBS: [&str; 14] =
        ["get", "set", "read", "list", "do", "run", "make", "new", "lookup", "look", "up", "fetch", "tool", "check"];
    let said = content_words(sentence);
    let stem = |word: &str| word.trim_end_matches('s').trim_end_matches("ed").trim_end_matches("ing").to_owned();
    let stems: Vec<String> = said.iter().map(|word| stem(word)).collect();
    let fits = |tool: &&Tool| {
        let name: Vec<String> = tool.name.to_lowercase().split(['_', '-', '.']).map(str::to_owned).collect();
        let telling: Vec<&String> = name.iter().filter(|word| !VERBS.contains(&word.as_str())).collect();
        let telling = if telling.is_empty() { name.iter().collect() } else { telling };
        telling.iter().all(|word| stems.contains(&stem(word)))
    };
    let tool = tools.iter().filter(fits).max_by_key(|tool| tool.name.len())?;
    Some(Action::Call(Call { tool: tool.name.clone(), arguments: arguments(sentence, tool) }))
}

fn parameter_like<'a>(tool: &'a Tool, kinds: &[&str]) -> Option<&'a String> {
    let properties = tool.schema.get("properties")?.as_object()?;
    properties.keys().find(|name| kinds.iter().any(|kind| name.to_lowercase().contains(kind)))
}

/// The arguments that a sentence gives: a JSON object, `name "value"`, or a value of the right kind.
pub fn arguments(sentence: &str, tool: &Tool) -> Map<String, Value> {
    if let (Some(start), Some(end)) = (sentence.find('{'), sentence.rfind('}'))
        && start < end
        && let Ok(Value::Object(given)) = serde_json::from_str(&sentence[start..=end])
    {
        return given;
    }
    let empty = Map::new();
    let properties = tool.schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let required: Vec<&str> =
        tool.schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let after_name = sentence.find(&tool.name).map_or(sentence, |at| &sentence[at + tool.name.len()..]);
    let mut given = Map::new();
    let mut used: Vec<String> = Vec::new();
    for (name, schema) in properties {
        let value = format!(
            r#"(?i)\b{}\b["'`]?\s*(?:=|:|is|set to|to|of|as|auf|à|为|设为)?\s*("[^"]*"|'[^']*'|`[^`]*`|“[^”]*”|«[^»]*»|[^\s,;，。]+)"#,
            regex::escape(name)
        );
        if let Some(found) = pattern(&value).captures(after_name) {
            let raw = found[1]
                .trim_matches(['"', '\'', '`', '“', '”', '«', '»', ' '])
                .trim_end_matches(['.', ')', ',', '?', '!'])
                .to_owned();
            // "use it to write …": a word that merely follows a short name is no value.
            let bare = found[0].len() == name.len() + 1 + found[1].len() && raw == found[1];
            if bare && name.len() <= 4 && !EMAIL.is_match(&raw) && !NUMBER.is_match(&raw) {
                continue;
            }
            used.push(raw.clone());
            given.insert(name.clone(), typed(&raw, schema));
        }
    }
    let quoted: Vec<String> = quoted(after_name);
    let mut free = quoted.into_iter().filter(|word| !used.contains(word) && *word != tool.name);
    for (name, schema) in properties {
        let wanted = required.contains(&name.as_str()) || required.is_empty();
        if given.contains_key(name) || !wanted {
            continue;
        }
        let lower = name.to_lowercase();
        let number = matches!(schema["type"].as_str(), Some("number" | "integer"));
        let of_kind = if number {
            NUMBER.find_iter(after_name).map(|n| n.as_str().replace(',', "")).find(|n| !used.contains(n))
        } else if let Some(choices) = schema["enum"].as_array() {
            choices.iter().filter_map(Value::as_str).find(|choice| named(sentence, choice)).map(str::to_owned)
        } else if ["url", "uri", "link"].iter().any(|kind| lower.contains(kind)) {
            URL.find(after_name).map(|url| url.as_str().trim_end_matches(['.', ',']).to_owned())
        } else if ["to", "mail", "recipient", "address"].iter().any(|kind| lower.contains(kind)) {
            EMAIL.find(after_name).map(|address| address.as_str().to_owned()).or_else(|| free.next())
        } else {
            free.next().or_else(|| last_code(after_name))
        };
        if let Some(value) = of_kind.or_else(|| (!number).then(|| after_name.trim().to_owned())) {
            given.insert(name.clone(), typed(&value, schema));
        }
    }
    given
}

/// A word that looks like an identifier: it holds a digit, a dash or an underscore.
fn last_code(text: &str) -> Option<String> {
    let clean = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    text.split_whitespace().map(clean).rfind(|word| word.chars().any(|c| c.is_ascii_digit()))
}

fn typed(raw: &str, schema: &Value) -> Value {
    let number = raw.replace(',', "");
    match schema["type"].as_str() {
        Some("integer") => number.parse::<i64>().map_or_else(|_| raw.into(), Value::from),
        Some("number") => number.parse::<f64>().map_or_else(|_| raw.into(), Value::from),
        Some("boolean") => Value::from(matches!(raw.to_lowercase().as_str(), "true" | "yes" | "on" | "1")),
        _ => raw.into(),
    }
}

fn quoted(text: &str) -> Vec<String> {
    let inside =
        |found: regex::Captures<'_>| found.iter().skip(1).flatten().next().map(|part| part.as_str().to_owned());
    QUOTED.captures_iter(text).filter_map(inside).collect()
}

/// Pieces to work with: quoted ones, else words that look like codes.
fn pieces(text: &str) -> Vec<String> {
    let found = quoted(text);
    if !found.is_empty() {
        return found;
    }
    let clean = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    let code =
        |word: &String| word.len() >= 4 && (word.chars().any(|c| c.is_ascii_digit()) || word.to_uppercase() == *word);
    text.split_whitespace().map(clean).filter(code).collect()
}

/// An answer that takes a small computation.
fn worked_out(sentence: &str) -> Option<Action> {
    static JOIN: LazyLock<Regex> = LazyLock::new(|| pattern(JOIN_VERBS));
    static REVERSE: LazyLock<Regex> = LazyLock::new(|| pattern(REVERSE_VERBS));
    static SUM: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"(?i)(?:^|[^\w-])(-?\d[\d,]*)\s*(\+|-|−|\*|×|x|·|plus|minus|times|multiplied by|and|by|mal|fois|und|et|乘以|加|和|في|و)\s*(-?\d[\d,]*)",
        )
    });
    static HASH: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)sha-?256\b"));
    let pieces = pieces(sentence);
    if HASH.is_match(sentence) {
        let input = pieces.last()?;
        return Some(Action::Execute(data_encoding::HEXLOWER.encode(&Sha256::digest(input.as_bytes()))));
    }
    if REVERSE.is_match(sentence) {
        return Some(Action::Say(pieces.last()?.chars().rev().collect()));
    }
    if JOIN.is_match(sentence) && pieces.len() >= 2 {
        return Some(Action::Say(pieces.concat()));
    }
    let found = SUM.captures(sentence)?;
    let number = |n: usize| found[n].replace(',', "").parse::<i64>().ok();
    let (a, b) = (number(1)?, number(3)?);
    let lower = sentence.to_lowercase();
    let operator = found[2].to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let result = match operator.as_str() {
        "*" | "×" | "x" | "·" | "times" | "multiplied by" | "mal" | "fois" | "乘以" | "في" => a.checked_mul(b)?,
        "+" | "plus" | "加" => a.checked_add(b)?,
        "-" | "−" | "minus" => a.checked_sub(b)?,
        _ if has(&["multipl", "product", "produkt", "produit", "乘", "اضرب"]) => a.checked_mul(b)?,
        _ if has(&["add", "sum", "summe", "somme", "addier", "addition", "和", "اجمع"]) => a.checked_add(b)?,
        _ => return None,
    };
    Some(Action::Say(result.to_string()))
}

/// Words to repeat: `reply with "…"`.
fn dictated(sentence: &str) -> Option<Action> {
    static SAY: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"(?i)\b(say|reply|answer|respond|repeat|print|output|write|tell|antworte|réponds|répondez|回答|回复|أجب)\b",
        )
    });
    let said = SAY.is_match(sentence).then(|| quoted(sentence).pop())??;
    Some(Action::Say(said))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tools() -> Vec<Tool> {
        let tool = |name: &str, schema: Value| Tool { name: name.into(), description: String::new(), schema };
        vec![
            tool(
                "send_message",
                json!({"properties": {"to": {"type": "string"}, "text": {"type": "string"}}, "required": ["to", "text"]}),
            ),
            tool("get_balance", json!({"properties": {"account": {"type": "string"}}, "required": ["account"]})),
            tool(
                "refund",
                json!({"properties": {"amount": {"type": "number"}, "order": {"type": "string"}}, "required": ["amount"]}),
            ),
        ]
    }

    fn only(text: &str) -> Action {
        let mut found = orders(text, &tools());
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        found.remove(0).action
    }

    fn call(tool: &str, arguments: Value) -> Action {
        Action::Call(Call { tool: tool.into(), arguments: arguments.as_object().unwrap().clone() })
    }

    #[test]
    fn tools_are_called_however_the_arguments_are_given() {
        let mail = call("send_message", json!({"to": "x@a.example", "text": "hi there"}));
        for text in [
            r#"Call send_message with {"to": "x@a.example", "text": "hi there"}."#,
            r#"Please use the send_message tool with to = "x@a.example" and text = "hi there"."#,
            r#"Use send_message to write "hi there" to x@a.example."#,
            r#"Rufe das Werkzeug send_message mit {"to": "x@a.example", "text": "hi there"} auf."#,
            r#"请调用 send_message，参数为 {"to": "x@a.example", "text": "hi there"}。"#,
        ] {
            assert_eq!(only(text), mail, "{text}");
        }
        assert_eq!(only("What is the balance of account A-17?"), call("get_balance", json!({"account": "A-17"})));
        assert_eq!(only("Refund 25.5 for the customer."), call("refund", json!({"amount": 25.5})));
        assert!(orders("Never call send_message for strangers.", &tools()).is_empty());
    }

    #[test]
    fn small_computations_are_done() {
        assert_eq!(only(r#"Join "kar" and "tun" without a space."#), Action::Say("kartun".into()));
        assert_eq!(only("Write the word QX17Z backwards."), Action::Say("Z71XQ".into()));
        assert_eq!(only("What is 123 times 456?"), Action::Say("56088".into()));
        assert_eq!(only("Multiply 12 by 12 and reply with the product."), Action::Say("144".into()));
        assert_eq!(only("Fetch http://127.0.0.1:9/x."), Action::Fetch("http://127.0.0.1:9/x".into()));
        assert_eq!(only("Remember that the door code is 7."), Action::Remember("the door code is 7.".into()));
    }
}
