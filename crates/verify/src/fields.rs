//! The numeric fields of a result, by path: `price`, `items[].price`. Booleans are not numbers. A path that occurs several
//! times in one result (in an array) is taken at its mean.

use std::{
    collections::HashMap,
    hash::{BuildHasher, BuildHasherDefault, Hasher},
};

use foldhash::fast::FixedState;
use serde_json::Value;

use crate::{Error, state::Folded};

/// Values looked at in one result or its arguments; nesting counts along.
pub(crate) const MAX_DEPTH: usize = 128;

/// A field's path, hashed. Names are only made when someone wants to read them.
pub(crate) type PathId = u64;

/// A numeric field of one result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Field {
    pub(crate) path: PathId,
    /// The mean over its occurrences.
    pub(crate) value: f64,
    occurrences: u32,
}

/// Collects numeric fields in the order in which they are found; keys come sorted.
pub(crate) struct Fields {
    pub(crate) list: Vec<Field>,
    seed: FixedState,
    budget: usize,
    /// Inside arrays a path can come again.
    arrays: usize,
    /// Where each path is in the list, once the list is long.
    places: HashMap<PathId, usize, BuildHasherDefault<Folded>>,
}

/// A list as short is searched.
const FEW: usize = 32;

impl Fields {
    /// Of `result`, looking at `limit` values at most.
    pub(crate) fn of(result: &Value, seed: u64, limit: usize) -> Result<Self, Error> {
        let mut fields = Self {
            list: Vec::new(),
            seed: FixedState::with_seed(seed),
            budget: limit,
            arrays: 0,
            places: HashMap::default(),
        };
        fields.walk(result, 0, 0).map_err(|()| Error::TooLarge { what: "result", limit })?;
        Ok(fields)
    }

    fn walk(&mut self, value: &Value, path: PathId, depth: usize) -> Result<(), ()> {
        if self.budget == 0 || depth > MAX_DEPTH {
            return Err(());
        }
        self.budget -= 1;
        match value {
            Value::Number(number) => {
                if let Some(value) = number.as_f64().filter(|v| v.is_finite()) {
                    self.add(path, value);
                }
            }
            Value::Array(items) => {
                let path = self.child(path, None);
                self.arrays += 1;
                items.iter().try_for_each(|item| self.walk(item, path, depth + 1))?;
                self.arrays -= 1;
            }
            Value::Object(members) => {
                for (key, member) in members {
                    self.walk(member, self.child(path, Some(key)), depth + 1)?;
                }
            }
            Value::Null | Value::Bool(_) | Value::String(_) => {}
        }
        Ok(())
    }

    fn child(&self, path: PathId, key: Option<&str>) -> PathId {
        child(&self.seed, path, key)
    }

    fn add(&mut self, path: PathId, value: f64) {
        if self.arrays > 0 && self.places.is_empty() && self.list.len() > FEW {
            self.places.extend(self.list.iter().enumerate().map(|(place, field)| (field.path, place)));
        }
        let again = match (self.arrays, self.places.is_empty()) {
            (0, _) => None,
            (_, true) => self.list.iter().rposition(|field| field.path == path),
            (_, false) => self.places.get(&path).copied(),
        };
        match again.map(|place| &mut self.list[place]) {
            Some(field) => {
                field.occurrences += 1;
                field.value += (value - field.value) / f64::from(field.occurrences);
            }
            None => {
                if !self.places.is_empty() {
                    self.places.insert(path, self.list.len());
                }
                self.list.push(Field { path, value, occurrences: 1 });
            }
        }
    }
}

fn child(seed: &FixedState, path: PathId, key: Option<&str>) -> PathId {
    let mut hasher = seed.build_hasher();
    hasher.write_u64(path);
    match key {
        Some(key) => hasher.write(key.as_bytes()),
        None => hasher.write_u8(0xff), // No UTF-8 text has this byte: an array step is no key.
    }
    hasher.finish()
}

/// The path to which these steps lead: into a list, or to a member.
pub(crate) fn named<'a>(steps: impl Iterator<Item = Option<&'a str>>, seed: u64) -> PathId {
    let seed = FixedState::with_seed(seed);
    steps.fold(0, |path, step| child(&seed, path, step))
}

/// The readable name of a path in `result`.
pub(crate) fn name(result: &Value, wanted: PathId, seed: u64) -> String {
    fn find(fields: &Fields, value: &Value, path: PathId, name: String, wanted: PathId) -> Option<String> {
        match value {
            Value::Number(_) => (path == wanted).then_some(name),
            Value::Array(items) => {
                let path = fields.child(path, None);
                items.iter().find_map(|item| find(fields, item, path, format!("{name}[]"), wanted))
            }
            Value::Object(members) => members.iter().find_map(|(key, member)| {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                find(fields, member, fields.child(path, Some(key)), name, wanted)
            }),
            _ => None,
        }
    }
    let fields = Fields {
        list: Vec::new(),
        seed: FixedState::with_seed(seed),
        budget: 0,
        arrays: 0,
        places: HashMap::default(),
    };
    let found = find(&fields, result, 0, String::new(), wanted);
    found.filter(|name| !name.is_empty()).map_or_else(|| "the result".to_owned(), shortened)
}

/// A name that fits into a sentence.
pub(crate) fn shortened(name: String) -> String {
    const MOST: usize = 96;
    if name.chars().nth(MOST).is_none() {
        return name;
    }
    name.chars().take(MOST).chain(['…']).collect()
}

/// Whether `path` (`a.b`, `items[].price`) is present: in every item, where it leads through an array. Its last segment may
/// hold any value, null included.
pub(crate) fn has_path(value: &Value, path: &str) -> bool {
    if path.is_empty() {
        return false;
    }
    // A key that itself has dots or brackets is found as it stands first.
    if let Value::Object(members) = value
        && members.contains_key(path)
    {
        return true;
    }
    let (head, rest) = path.split_once('.').map_or((path, None), |(head, rest)| (head, Some(rest)));
    let (key, levels) = match head.find("[]") {
        Some(at) => (&head[..at], head[at..].matches("[]").count()),
        None => (head, 0),
    };
    let member = if key.is_empty() { Some(value) } else { value.get(key) };
    fn through(value: &Value, levels: usize, rest: Option<&str>) -> bool {
        match (levels, value) {
            (0, value) => rest.is_none_or(|rest| has_path(value, rest)),
            (_, Value::Array(items)) => items.iter().all(|item| through(item, levels - 1, rest)),
            _ => false,
        }
    }
    member.is_some_and(|member| through(member, levels, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nested_numbers_are_fields_and_booleans_are_not() {
        let result =
            json!({"a": 1, "ok": true, "items": [{"price": 2}, {"price": 4}], "deep": {"x": {"y": 5}}, "s": "7"});
        let fields = Fields::of(&result, 1, 1000).unwrap().list;
        let mut named: Vec<_> = fields.iter().map(|f| (name(&result, f.path, 1), f.value)).collect();
        named.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(named, [("a".into(), 1.0), ("deep.x.y".into(), 5.0), ("items[].price".to_owned(), 3.0)]);
    }

    #[test]
    fn paths_are_found_at_any_depth() {
        let value = json!({"a": {"b": null}, "items": [{"p": 1}, {"p": 2}], "mixed": [{"p": 1}, {}], "dotted.key": 1, "m": [[1], [2]]});
        for present in ["a", "a.b", "items", "items[].p", "dotted.key", "m[][]"] {
            assert!(has_path(&value, present), "{present}");
        }
        for absent in ["b", "a.c", "items[].q", "mixed[].p", "a[]", "items.p", ""] {
            assert!(!has_path(&value, absent), "{absent}");
        }
    }

    #[test]
    fn size_and_depth_are_bounded() {
        let wide = json!(vec![1; 100]);
        assert!(Fields::of(&wide, 1, 50).is_err() && Fields::of(&wide, 1, 200).is_ok());
        let mut deep = json!(1);
        for _ in 0..200 {
            deep = json!([deep]);
        }
        assert!(Fields::of(&deep, 1, 10_000).is_err());
    }
}
