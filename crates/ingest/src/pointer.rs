//! JSON pointers (RFC 6901), with `*` for every element of an array.

use serde_json::Value;

/// A pointer into an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pointer {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Member(String),
    Each,
}

impl Pointer {
    /// `/a/b`, `/list/*/c`; empty for the whole document.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Ok(Self { steps: Vec::new() });
        }
        let rest = text.strip_prefix('/').ok_or("a pointer starts with '/', or is empty for the whole document")?;
        let mut steps = Vec::new();
        for step in rest.split('/') {
            if step == "*" {
                steps.push(Step::Each);
                continue;
            }
            let bytes = step.as_bytes();
            let escapes_nothing =
                (0..bytes.len()).any(|n| bytes[n] == b'~' && !matches!(bytes.get(n + 1), Some(b'0' | b'1')));
            if escapes_nothing {
                return Err("a '~' in a pointer is followed by 0 or 1");
            }
            steps.push(Step::Member(step.replace("~1", "/").replace("~0", "~")));
        }
        Ok(Self { steps })
    }

    /// Whether it can lead to several places.
    pub fn is_many(&self) -> bool {
        self.steps.contains(&Step::Each)
    }

    /// What is there: for a pointer to many, one for each element, `None` where an element has nothing there. For a pointer to one
    /// at most one. A `*` leads nowhere unless it meets an array.
    pub fn find<'a>(&self, document: &'a Value) -> Vec<Option<&'a Value>> {
        let mut places = vec![Some(document)];
        for step in &self.steps {
            places = match step {
                Step::Member(name) => places.into_iter().map(|place| place.and_then(|at| member(at, name))).collect(),
                Step::Each => {
                    let elements = places.into_iter().flatten().filter_map(Value::as_array).flatten();
                    elements.map(Some).collect()
                }
            };
        }
        places
    }
}

fn member<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Object(members) => members.get(name),
        Value::Array(elements) => {
            let canonical = name == "0" || !name.starts_with('0');
            name.parse::<usize>().ok().filter(|_| canonical).and_then(|n| elements.get(n))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(pointer: &str, document: &Value) -> Vec<Option<Value>> {
        Pointer::parse(pointer).unwrap().find(document).into_iter().map(|one| one.cloned()).collect()
    }

    #[test]
    fn pointers_lead_to_one_or_to_each() {
        let document = json!({"a": {"b/c": 1, "m~n": 2}, "list": [{"x": 1}, {}, {"x": 3}]});
        assert_eq!(found("/a/b~1c", &document), [Some(json!(1))]);
        assert_eq!(found("/a/m~0n", &document), [Some(json!(2))]);
        assert_eq!(found("/list/2/x", &document), [Some(json!(3))]);
        assert_eq!(found("/list/*/x", &document), [Some(json!(1)), None, Some(json!(3))]);
        assert_eq!(found("", &document), [Some(document.clone())]);
        assert_eq!(found("/list/02/x", &document), [None]);
        assert_eq!(found("/a/*/x", &document), []);
        assert_eq!(found("/missing/x", &document), [None]);
    }

    #[test]
    fn what_is_no_pointer_is_refused() {
        for text in ["a", "a/b", "/a~", "/a~2"] {
            assert!(Pointer::parse(text).is_err(), "{text}");
        }
    }
}
