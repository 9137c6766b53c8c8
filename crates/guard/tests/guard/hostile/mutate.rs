//! What is done to valid messages so that readers differ about them.

use super::{messages, random::Random};

/// What some reader splits lines or values at.
const BREAKS: [&str; 12] =
    ["\r", "\r\n", "\u{2028}", "\u{2029}", "\u{85}", "\u{b}", "\u{c}", "\u{1e}", "\0", " ", ",", ""];
/// What is put somewhere into a message.
const TOKENS: [&str; 22] = [
    "\r",
    "\n",
    "\u{2028}",
    "\u{85}",
    "\0",
    "NaN",
    "Infinity",
    "\u{feff}",
    "\\u0000",
    "/*x*/",
    "//",
    ",",
    "}",
    "{",
    "\"",
    "\\",
    "\"method\":\"tools/call\",",
    "\"method\":\"ping\",",
    "\"id\":null,",
    "\"Method\":\"tools/call\",",
    "1e999",
    "\u{1}",
];

/// A call that was changed in one or two ways.
pub fn mutated(random: &mut Random, tag: &str, index: usize) -> Vec<u8> {
    let mut bytes = structural(random, tag, index);
    for _ in 0..random.below(2) {
        scratch(random, &mut bytes);
    }
    bytes
}

/// A few bytes changed, put in, taken out or repeated, anywhere.
pub fn scratch(random: &mut Random, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let at = random.below(bytes.len());
    match random.below(5) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes.insert(at, random.next() as u8),
        2 => drop(bytes.drain(at..(at + 1 + random.below(6)).min(bytes.len()))),
        3 => {
            let piece = bytes[at..(at + 1 + random.below(40)).min(bytes.len())].to_vec();
            let to = random.below(bytes.len());
            bytes.splice(to..to, piece);
        }
        _ => {
            let token = random.pick(&TOKENS);
            bytes.splice(at..at, token.bytes());
        }
    }
}

/// Another message made of a call.
fn structural(random: &mut Random, tag: &str, index: usize) -> Vec<u8> {
    let call = messages::call(random, tag, index);
    let other = messages::other(random, index);
    let text = match random.below(14) {
        0 => call,
        1 => format!("{other}{}{call}", random.pick(&BREAKS)),
        2 => format!("{call}{}{other}", random.pick(&BREAKS)),
        3 => {
            // A call within a text of a notification, between what splits lines.
            let split = random.pick(&BREAKS);
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{{"a":"{split}{call}{split}"}}}}"#)
        }
        4 => {
            let twice = messages::call(random, tag, index + 1_000_000);
            let lists =
                [format!("[{call},{other}]"), format!("[[{call}]]"), format!("[{call},{twice}]"), "[]".to_owned()];
            lists[random.below(lists.len())].clone()
        }
        5 => with_member(
            random,
            &call,
            &["\"method\":\"ping\"", "\"method\":\"tools/call\"", "\"METHOD\":\"tools/call\""],
        ),
        6 => with_member(random, &call, &["\"id\":null", "\"id\":1.5", "\"id\":[]", "\"id\":true", "\"id\":\"\""]),
        7 => with_member(
            random,
            &call,
            &["\"params\":{}", "\"Params\":{\"name\":\"x\"}", "\"result\":{}", "\"x\":1", "\"\":1"],
        ),
        8 => {
            let id =
                random.pick(&["null", "1.0", "1e2", "[]", "{}", "true", "18446744073709551616", "\"\\ud800\"", "-0"]);
            messages::call_with_id(random, tag, id)
        }
        9 => call.replacen("\"2.0\"", random.pick(&["\"1.0\"", "2.0", "null", "\"2.0\\u0000\"", "\" 2.0\""]), 1),
        10 => call.replacen(
            "tools",
            random.pick(&["TOOLS", "Tools", "tools\\u0000", " tools", "ⓣools", "too\\u006cs"]),
            1,
        ),
        11 => call.replacen(
            "\"name\"",
            random.pick(&["\"Name\"", "\"name \"", "\"n\\u0061me\"", "\"name\":1,\"name\""]),
            1,
        ),
        12 => call.replacen(
            '{',
            random.pick(&["{,", "{\"a\":NaN,", "{\"a\":01,", "{\"a\":'x',", "{/**/", "{\"a\":+1,"]),
            1,
        ),
        _ => {
            // In another encoding.
            let units = call.encode_utf16();
            return match random.below(3) {
                0 => units.flat_map(u16::to_le_bytes).collect(),
                1 => [0xff, 0xfe].into_iter().chain(units.flat_map(u16::to_le_bytes)).collect(),
                _ => call.bytes().flat_map(|byte| [0xc0 | (byte >> 6), 0x80 | (byte & 0x3f)]).collect(),
            };
        }
    };
    text.into_bytes()
}

/// One more member, first or last.
fn with_member(random: &mut Random, call: &str, members: &[&str]) -> String {
    let member = random.pick(members);
    match random.percent(50) {
        true => call.replacen('{', &format!("{{{member},"), 1),
        false => match call.rfind('}') {
            Some(end) => format!("{},{member}}}", &call[..end]),
            None => call.to_owned(),
        },
    }
}
