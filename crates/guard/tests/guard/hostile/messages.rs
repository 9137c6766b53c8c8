//! Valid messages of a client, in all the forms that JSON allows. The tool's name is the message's tag, so that an execution and a receipt
//! tell which message they come from.

use super::random::Random;

/// Texts that readers stumble over, as JSON.
const TEXTS: [&str; 16] = [
    r#""""#,
    r#""plain""#,
    r#""\u0000""#,
    r#""a\r\nb""#,
    r#""\u2028{\"method\":\"tools/call\"}""#,
    "\"raw \u{2028} separator\"",
    "\"raw \u{85} line\"",
    "\"\u{feff}mark\"",
    r#""\\\" end""#,
    r#""😀 \ud83d\ude00""#,
    r#""+ACIAfQ-""#,
    r#""]}{[""#,
    r#""NaN""#,
    "\"\u{7f}\u{202e}\"",
    r#""tools/call""#,
    "\"表\\\"\"",
];
const NUMBERS: [&str; 9] = ["0", "-1", "7", "1.5", "1e3", "-0", "9007199254740991", "12345678901234567890", "1E-2"];
const NAMES: [&str; 8] = ["a", "b", "name", "method", "id", "credence/agent", "", "ünï"];

/// A value, as JSON.
pub fn value(random: &mut Random, depth: usize) -> String {
    match random.below(if depth == 0 { 4 } else { 6 }) {
        0 => random.pick(&TEXTS).to_owned(),
        1 => random.pick(&NUMBERS).to_owned(),
        2 => random.pick(&["true", "false", "null"]).to_owned(),
        3 => random.next().to_string(),
        4 => {
            let items: Vec<String> = (0..random.below(4)).map(|_| value(random, depth - 1)).collect();
            format!("[{}]", items.join(","))
        }
        _ => object(random, depth - 1),
    }
}

/// An object without two members of one name, as JSON.
pub fn object(random: &mut Random, depth: usize) -> String {
    let first = random.below(NAMES.len());
    let names = (0..random.below(4)).map(|n| NAMES[(first + n) % NAMES.len()]);
    let members: Vec<String> = names.map(|name| format!("\"{name}\":{}", value(random, depth))).collect();
    format!("{{{}}}", members.join(","))
}

/// A request's id that no other message has.
pub fn id(random: &mut Random, index: usize) -> String {
    match random.below(5) {
        0 => format!("\"m-{index}\""),
        1 => format!("-{}", index + 1),
        2 => (9_007_199_254_740_991 - index as u64).to_string(),
        3 => format!("\"\\u006d{index} \\\"\""),
        _ => (index + 1).to_string(),
    }
}

/// Members as an object, in another order and with other white space.
pub fn written(random: &mut Random, members: &[(&str, String)]) -> String {
    let mut order: Vec<usize> = (0..members.len()).collect();
    if random.percent(40) {
        order.rotate_left(random.below(members.len()));
    }
    let gap = random.pick(&["", "", "", " ", "\t ", "  "]);
    let members: Vec<String> =
        order.iter().map(|n| format!("{gap}\"{}\"{gap}:{gap}{}", members[*n].0, members[*n].1)).collect();
    format!("{{{}{gap}}}", members.join(","))
}

/// A call of the tool `tag` that every server executes.
pub fn call(random: &mut Random, tag: &str, index: usize) -> String {
    let number = id(random, index);
    call_with_id(random, tag, &number)
}

pub fn call_with_id(random: &mut Random, tag: &str, id: &str) -> String {
    let mut params = vec![("name", format!("\"{tag}\""))];
    if random.percent(90) {
        params.push(("arguments", object(random, 2)));
    }
    if random.percent(15) {
        params.push(("_meta", format!("{{\"progressToken\":{}}}", random.below(9))));
    }
    let params = written(random, &params);
    let method = random.pick(&["\"tools/call\"", "\"tools/call\"", r#""tools\/call""#, r#""\u0074ools/c\u0061ll""#]);
    written(
        random,
        &[("jsonrpc", "\"2.0\"".into()), ("id", id.to_owned()), ("method", method.to_owned()), ("params", params)],
    )
}

/// A message that executes nothing.
pub fn other(random: &mut Random, index: usize) -> String {
    let id = id(random, index);
    let params = object(random, 1);
    let (id, method) = match random.below(8) {
        0 => (Some(id), "ping"),
        1 => (Some(id), "tools/list"),
        2 => (Some(id), "resources/list"),
        3 => (Some(id), "no/such/method"),
        4 => (None, "notifications/cancelled"),
        5 => (None, "notifications/progress"),
        6 => (None, "notifications/roots/list_changed"),
        _ => {
            let answer = if random.percent(50) { "result" } else { "error" };
            return written(random, &[("jsonrpc", "\"2.0\"".into()), ("id", id), (answer, params)]);
        }
    };
    let mut members = vec![("jsonrpc", "\"2.0\"".to_owned()), ("method", format!("\"{method}\""))];
    members.extend(id.map(|id| ("id", id)));
    if random.percent(50) {
        members.push(("params", params));
    }
    written(random, &members)
}
