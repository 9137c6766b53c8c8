//! One pass over a result: every value at its path, with what can be said of it.
//!
//! Paths lead through arrays without an index (`items[].price`). In keys, runs of three or more digits, of eight or more hexadecimal
//! digits and UUIDs count as one sign, so that `card_3481935` and `card_9823297` are the same field; an object whose keys keep changing is a map, and
//! its members are one field too.

use std::{
    collections::HashSet,
    hash::{BuildHasher, BuildHasherDefault, Hasher},
};

use foldhash::fast::FixedState;
use serde_json::{Number, Value};

use super::{model::Model, written::number_in};
use crate::{
    fields::{MAX_DEPTH, PathId, shortened},
    state::Folded,
};

/// Values looked at in one result; what comes after is not judged by what was learned.
const MAX_VALUES: usize = 20_000;
/// Items looked at in one array: as many from its end as from its start.
const MAX_ITEMS: usize = 64;
/// Bytes of a text whose shape is taken.
const SHAPED: usize = 256;
/// Bytes of a text whose classes of characters are taken.
const CLASSED: usize = 4096;
/// Spaces from which on a text is prose: the lengths of its words and numbers say nothing.
const PROSE: usize = 2;
/// No place in a list.
pub(crate) const NONE: u32 = u32::MAX;

/// One value of a result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ObservedValue<'a> {
    pub(crate) path: PathId,
    /// Where the model keeps what it knows of the path.
    pub(crate) node: u32,
    /// The object it is a member of, in this list, and under which key.
    pub(crate) parent: u32,
    pub(crate) key: &'a str,
    /// The whole value in one number: the order of keys does not matter, that of items does.
    pub(crate) hash: u64,
    /// Of a number, or of a text that is one: scaled, which is worked out once for judging and learning. Not a number otherwise.
    pub(crate) scaled: f64,
    pub(crate) what: ValueKind<'a>,
}

/// A value, and what can be said of it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ValueKind<'a> {
    Null,
    Bool,
    Number(f64),
    Text {
        text: &'a str,
        form: Form,
    },
    Array(usize),
    /// The set of its keys, hashed; how many; whether the model takes it for a map; where in the list what it holds ends.
    Object {
        keys: u32,
        len: u32,
        map: bool,
        end: u32,
    },
}

/// How a text is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    /// Which classes of characters occur.
    pub(crate) classes: u32,
    /// Lengths of its words and the signs between them: `8-4-4-4-12`.
    pub(crate) lengths: u32,
    /// Kinds of its words and the signs between them: `Word/lower-12`.
    pub(crate) words: u32,
}

impl ValueKind<'_> {
    /// The type, as a category.
    pub(crate) fn kind(&self) -> u32 {
        match self {
            ValueKind::Null => 0,
            ValueKind::Bool => 1,
            ValueKind::Number(_) => 2,
            ValueKind::Text { .. } => 3,
            ValueKind::Array(_) => 4,
            ValueKind::Object { .. } => 5,
        }
    }
}

impl ObservedValue<'_> {
    /// Of a boolean: whether it is true.
    pub(crate) fn is_true(&self) -> bool {
        self.hash == boolean(true)
    }

    /// The value, as a category: a container's is what it looks like from outside.
    pub(crate) fn value(&self) -> u32 {
        match self.what {
            ValueKind::Array(len) => 3 + u32::from(len == 0),
            ValueKind::Object { keys, .. } => keys,
            _ => fold(self.hash),
        }
    }

    /// What changes when the value does; of a container, when its outside does.
    pub(crate) fn digest(&self) -> u32 {
        match self.what {
            ValueKind::Array(len) => fold(mix(4, len as u64)),
            _ => self.value(),
        }
    }
}

/// Scales a number so that a factor is a distance.
pub(crate) fn scaled(number: f64) -> f64 {
    libm::copysign(libm::log1p(number.abs()), number)
}

/// And back.
pub(crate) fn unscaled(scaled: f64) -> f64 {
    libm::copysign(libm::expm1(scaled.abs()), scaled)
}

/// Sign and wholeness of a number, as a category.
pub(crate) fn number_form(number: f64) -> u32 {
    u32::from(number < 0.0) + 2 * u32::from(number == libm::trunc(number))
}

pub(crate) fn mix(hash: u64, word: u64) -> u64 {
    let mixed = (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

/// The hash of a boolean.
fn boolean(flag: bool) -> u64 {
    2 + u64::from(flag)
}

pub(crate) fn fold(hash: u64) -> u32 {
    (hash ^ (hash >> 32)) as u32
}

/// Where paths and texts get their hashes.
#[derive(Clone, Copy)]
pub(crate) struct Paths(u64);

impl Paths {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn hasher(self) -> impl Hasher {
        FixedState::with_seed(self.0).build_hasher()
    }

    pub(super) fn item(self, path: PathId) -> PathId {
        mix(path, 0xff)
    }

    fn member(self, path: PathId, key: PathId) -> PathId {
        mix(path, key | 0x100)
    }

    /// The hash of a number.
    pub(crate) fn number(self, number: f64) -> u64 {
        mix(mix(self.0, number.to_bits()), self.0.rotate_left(32))
    }

    /// The hash of what holds nothing else.
    fn scalar(self, value: &Value) -> Option<u64> {
        match value {
            Value::Null => Some(1),
            Value::Bool(flag) => Some(boolean(*flag)),
            Value::Number(number) => Some(self.number(plain(number))),
            Value::String(text) => Some(self.text(text)),
            Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// The hash of any value, as [`Walk`] takes it. Nesting is bounded before anything is looked at.
    fn value(self, value: &Value) -> u64 {
        match value {
            Value::Array(items) => items.iter().fold(ARRAY, |hash, item| mix(hash, self.value(item))),
            Value::Object(members) => {
                let members = members.iter().map(|(key, member)| mix(self.text(key), self.value(member)));
                mix(OBJECT, members.fold(0_u64, u64::wrapping_add))
            }
            scalar => self.scalar(scalar).unwrap_or_default(),
        }
    }

    /// The hash of a text.
    pub(crate) fn text(self, text: &str) -> u64 {
        let mut hasher = self.hasher();
        hasher.write(text.as_bytes());
        hasher.finish()
    }

    /// The hash of a key, and whether signs in it were taken as one.
    fn key(self, key: &str) -> (u64, bool) {
        let bytes = key.as_bytes();
        let digits = bytes.windows(3).any(|three| three.iter().all(u8::is_ascii_digit));
        if !digits && bytes.len() < 36 && !has_hex(bytes) {
            return (self.text(key), false);
        }
        let mut hasher = self.hasher();
        let mut at = 0;
        let mut changed = false;
        while at < bytes.len() {
            let run = bytes[at..].iter().take_while(|b| b.is_ascii_digit()).count();
            if is_uuid(&bytes[at..]) {
                hasher.write_u8(0xfe);
                (at, changed) = (at + 36, true);
            } else if let Some(run) = hex_run(&bytes[at..]) {
                hasher.write_u8(0xfc);
                (at, changed) = (at + run, true);
            } else if run >= 3 {
                hasher.write_u8(0xfd);
                (at, changed) = (at + run, true);
            } else {
                let step = run.max(1);
                hasher.write(&bytes[at..at + step]);
                at += step;
            }
        }
        if changed { (hasher.finish(), true) } else { (self.text(key), false) }
    }
}

/// Hexadecimal digits in a key from which on they are an identifier, and how many of them are decimal at the least.
const LEAST_HEX: usize = 8;
const LEAST_DECIMAL: usize = 2;

/// How long the identifier in hexadecimal digits is that `bytes` start with, decimal digits alone aside.
fn hex_run(bytes: &[u8]) -> Option<usize> {
    let is_hex = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let run = bytes.iter().take_while(is_hex).count();
    let decimal = bytes[..run].iter().filter(|byte| byte.is_ascii_digit()).count();
    (run >= LEAST_HEX && (LEAST_DECIMAL..run).contains(&decimal)).then_some(run)
}

fn has_hex(bytes: &[u8]) -> bool {
    bytes.len() >= LEAST_HEX && (0..=bytes.len() - LEAST_HEX).any(|at| hex_run(&bytes[at..]).is_some())
}

fn is_uuid(bytes: &[u8]) -> bool {
    bytes.len() >= 36
        && bytes[8] == b'-'
        && bytes[..36].iter().enumerate().all(|(n, b)| match n {
            8 | 13 | 18 | 23 => *b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}

/// Lists the values of a result, containers before what they hold.
pub(crate) fn observe<'a>(result: &'a Value, model: Option<&Model>, paths: Paths) -> Vec<ObservedValue<'a>> {
    let mut walk = Walk { model, paths, seen: Vec::with_capacity(16) };
    walk.value(result, 0, (NONE, ""), 0);
    walk.seen
}

struct Walk<'a, 'm> {
    model: Option<&'m Model>,
    paths: Paths,
    seen: Vec<ObservedValue<'a>>,
}

impl<'a> Walk<'a, '_> {
    /// Lists a value and what it holds; gives its hash.
    fn value(&mut self, value: &'a Value, path: PathId, (parent, key): (u32, &'a str), depth: usize) -> u64 {
        if self.seen.len() >= MAX_VALUES || depth > MAX_DEPTH {
            return self.paths.value(value);
        }
        let node = self.model.map_or(NONE, |model| model.find(path));
        let hash = self.paths.scalar(value).unwrap_or_default();
        let place = self.seen.len();
        let what = match value {
            Value::Null => ValueKind::Null,
            Value::Bool(_) => ValueKind::Bool,
            Value::Number(number) => ValueKind::Number(plain(number)),
            Value::String(text) => ValueKind::Text { text, form: form(text) },
            Value::Array(items) => ValueKind::Array(items.len()),
            Value::Object(members) => ValueKind::Object { keys: 0, len: members.len() as u32, map: false, end: 0 },
        };
        let number = match what {
            ValueKind::Number(number) => Some(number),
            ValueKind::Text { text, .. } => number_in(text),
            _ => None,
        };
        let scaled = number.map_or(f64::NAN, scaled);
        self.seen.push(ObservedValue { path, node, parent, key, hash, scaled, what });
        match value {
            Value::Array(items) => {
                let path = self.paths.item(path);
                let (head, tail) = sampled(items.len());
                let mut hash = ARRAY;
                for (n, item) in items.iter().enumerate() {
                    let looked_at = n < head || n >= tail;
                    let item =
                        if looked_at { self.value(item, path, (NONE, ""), depth + 1) } else { self.paths.value(item) };
                    hash = mix(hash, item);
                }
                self.seen[place].hash = hash;
            }
            Value::Object(members) => {
                let map = self.model.is_some_and(|model| model.is_map(node));
                let mut keys = 0_u64;
                let mut sum = 0_u64;
                let mut folded: HashSet<u64, BuildHasherDefault<Folded>> = HashSet::default();
                for (key, member) in members {
                    let (hash, changed) = if map { (0, true) } else { self.paths.key(key) };
                    if !changed || folded.insert(hash) {
                        // A sum does not care for the order of its terms.
                        keys = keys.wrapping_add(mix(0, hash));
                    }
                    let member = self.value(member, self.paths.member(path, hash), (place as u32, key), depth + 1);
                    let key = if changed { self.paths.text(key) } else { hash };
                    sum = sum.wrapping_add(mix(key, member));
                }
                self.seen[place].hash = mix(OBJECT, sum);
                let end = self.seen.len() as u32;
                self.seen[place].what = ValueKind::Object { keys: fold(keys), len: members.len() as u32, map, end };
            }
            _ => {}
        }
        self.seen[place].hash
    }
}

fn sample(items: &[Value]) -> impl Iterator<Item = &Value> {
    let (head, tail) = sampled(items.len());
    items[..head].iter().chain(&items[tail..])
}

/// Where the items at the start end that are looked at, and where those at the end start.
fn sampled(len: usize) -> (usize, usize) {
    if len > MAX_ITEMS { (MAX_ITEMS / 2, len - MAX_ITEMS / 2) } else { (len, len) }
}

const ARRAY: u64 = 0x5bd1_e995_7b7d_159b;
const OBJECT: u64 = 0xc2b2_ae3d_27d4_eb4f;

/// A number as it is compared: there is one zero.
fn plain(number: &Number) -> f64 {
    number.as_f64().unwrap_or_default() + 0.0
}

/// The readable name of the value at `place` of the list that [`observe`] made of `result`.
pub(crate) fn name(result: &Value, place: usize) -> String {
    fn find(value: &Value, left: &mut usize, name: &mut String) -> bool {
        if *left == 0 {
            return true;
        }
        *left -= 1;
        let length = name.len();
        match value {
            Value::Array(items) => {
                name.push_str("[]");
                if sample(items).any(|item| find(item, left, name)) {
                    return true;
                }
            }
            Value::Object(members) => {
                for (key, member) in members {
                    if length > 0 {
                        name.push('.');
                    }
                    name.push_str(key);
                    if find(member, left, name) {
                        return true;
                    }
                    name.truncate(length);
                }
            }
            _ => {}
        }
        name.truncate(length);
        false
    }
    let (mut left, mut name) = (place, String::new());
    find(result, &mut left, &mut name);
    if name.is_empty() { "the result".to_owned() } else { format!("'{}'", shortened(name)) }
}

const DIGIT: u16 = 1;
const LOWER: u16 = 2;
const UPPER: u16 = 4;
const OTHER_LETTER: u16 = 8;
const WORD: u16 = DIGIT | LOWER | UPPER | OTHER_LETTER;

const CLASSES: [u16; 256] = {
    let mut table = [1 << 11; 256];
    let mut byte = 0;
    while byte < 256 {
        let class = match byte as u8 {
            b'0'..=b'9' => DIGIT,
            b'a'..=b'z' => LOWER,
            b'A'..=b'Z' => UPPER,
            128..=255 => OTHER_LETTER,
            b' ' => 1 << 4,
            b'\n' | b'\r' | b'\t' => 1 << 5,
            b'<' | b'>' => 1 << 6,
            b'{' | b'}' | b'[' | b']' | b'"' => 1 << 7,
            b'/' | b'\\' => 1 << 8,
            b':' | b'@' | b'#' | b'&' | b'=' | b'?' | b'%' => 1 << 9,
            b'-' | b'_' | b'.' => 1 << 10,
            _ => 1 << 11,
        };
        table[byte] = class;
        byte += 1;
    }
    table
};

fn form(text: &str) -> Form {
    let bytes = text.as_bytes();
    let shaped = &bytes[..bytes.len().min(SHAPED)];
    let prose = shaped.iter().filter(|byte| **byte == b' ').nth(PROSE - 1).is_some();
    let (mut classes, mut lengths, mut words) = (0_u16, 0_u64, 0_u64);
    let mut number = false;
    let mut at = 0;
    while at < shaped.len() {
        let class = CLASSES[usize::from(shaped[at])];
        classes |= class;
        if class & WORD == 0 {
            let digit = |at: usize| shaped.get(at).is_some_and(u8::is_ascii_digit);
            if prose && number && matches!(shaped[at], b'.' | b',') && digit(at + 1) {
                // The rest of a number is no word of its own.
                at += 1 + shaped[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                continue;
            }
            lengths = mix(lengths, u64::from(shaped[at]) << 32);
            words = mix(words, u64::from(shaped[at]) << 32);
            at += 1;
            continue;
        }
        if class != OTHER_LETTER && is_uuid(&shaped[at..]) {
            classes |= DIGIT | LOWER | 1 << 10;
            lengths = mix(lengths, 1 << 40);
            words = mix(words, 1 << 40);
            at += 36;
            continue;
        }
        let (start, first) = (at, class);
        let (mut all, mut rest) = (0, 0);
        while at < shaped.len() {
            let class = CLASSES[usize::from(shaped[at])];
            if class & WORD == 0 {
                break;
            }
            all |= class;
            rest |= if at > start { class } else { 0 };
            at += 1;
        }
        classes |= all;
        lengths = mix(lengths, if prose { 0 } else { (at - start) as u64 });
        number = all == DIGIT;
        let kind = match all {
            DIGIT => 0,
            LOWER => 1,
            UPPER => 2,
            _ if first == UPPER && rest == LOWER => 3,
            _ => 4,
        };
        words = mix(words, kind);
    }
    for byte in &bytes[shaped.len()..bytes.len().min(CLASSED).max(shaped.len())] {
        classes |= CLASSES[usize::from(*byte)];
    }
    Form { classes: u32::from(classes), lengths: fold(lengths), words: fold(words) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn forms() {
        assert_eq!(form("2024-05-20"), form("1999-12-31"));
        assert_eq!(
            form("/x/6581d072-105e-4418-827f-bd446d56421b"),
            form("/x/aaaaaaaa-105e-aaaa-827f-bd446d56421b"),
            "a UUID is a UUID, whatever its digits are"
        );
        assert_ne!(form("HAT").words, form("hat").words);
        assert_ne!(form("abc").lengths, form("abcd").lengths);
        assert_eq!(form("abc").words, form("abcd").words);
        assert_ne!(form("ok").classes, form("ok\n<b>").classes);
        assert_eq!(form("").classes, 0);
    }

    #[test]
    fn numbered_keys_are_one_field() {
        let paths = Paths::new(7);
        assert_eq!(paths.key("card_3481935"), paths.key("card_9823297"));
        assert_ne!(paths.key("card_3481935").0, paths.key("gift_3481935").0);
        assert_ne!(paths.key("line1").0, paths.key("line2").0);
        let keys = |value: &Value| match observe(value, None, paths)[0].what {
            ValueKind::Object { keys, .. } => keys,
            _ => 0,
        };
        assert_eq!(keys(&json!({"a": 1, "c_123": 2})), keys(&json!({"c_777": 1, "c_999": 2, "a": 3})));
    }

    #[test]
    fn keys_that_are_identifiers_are_one_field() {
        let paths = Paths::new(7);
        assert_eq!(paths.key("user:c4736615"), paths.key("user:4ed7feb5"));
        assert_ne!(paths.key("user:c4736615").0, paths.key("team:c4736615").0);
        for [one, other] in [["feedback", "facade_added"], ["column_10", "column_11"], ["accessed", "deceased"]] {
            assert_ne!(paths.key(one).0, paths.key(other).0, "{one} and {other} are names");
        }
    }

    #[test]
    fn names_lead_back_to_places() {
        let result = json!({"a": 1, "items": [{"p": 1, "q": [true]}, {"p": 2}]});
        let seen = observe(&result, None, Paths::new(1));
        let names: Vec<String> = (0..seen.len()).map(|place| name(&result, place)).collect();
        assert_eq!(
            names,
            [
                "the result",
                "'a'",
                "'items'",
                "'items[]'",
                "'items[].p'",
                "'items[].q'",
                "'items[].q[]'",
                "'items[]'",
                "'items[].p'"
            ]
        );
    }

    #[test]
    fn large_results_cost_no_more_than_the_limit() {
        let wide = json!(vec![vec![1; 1000]; 1000]);
        assert!(observe(&wide, None, Paths::new(1)).len() <= MAX_VALUES);
    }
}
