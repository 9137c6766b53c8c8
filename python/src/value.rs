//! Python values as JSON values: what the engine judges and what receipts commit to.
//!
//! A value is walked once, with the interpreter's lock held, into a [`Node`]; everything else happens without the lock. Types that JSON has
//! are read here. Others get the form that `credence_trust/values.py` documents; a value that has none is *opaque*: its type and the digest
//! of its `repr` stand for it. Walking never raises because of a value and never changes it, and it ends: a container inside itself is not
//! entered again, and a value of more than [`MAX_PARTS`] parts is a digest of the first ones.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use credence_protocol::receipt::Exact;
use pyo3::{
    prelude::*,
    sync::PyOnceLock,
    types::{PyBool, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet, PyString, PyTuple},
};
use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};

/// Nesting that is written out; what is deeper is a digest. Receipts look into 64 levels, two of which are the result around the value.
const MAX_DEPTH: usize = 60;
/// Nesting that digests look into.
const MAX_DIGESTED_DEPTH: usize = 300;
/// Parts of a value that are walked: values, 64 bytes of text each, and [`FORM_PARTS`] for a form that Python code makes.
const MAX_PARTS: usize = 1_000_000;
/// What a form that Python code makes counts as: it takes about this many times as long.
const FORM_PARTS: usize = 20;
/// Members of an object that are few.
const FEW_MEMBERS: usize = 11;
/// Bytes of text that count as a part.
const TEXT_PART: usize = 64;

/// A JSON value whose integers keep all their digits.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer of 64 bits.
    Int(i64),
    /// A longer integer, as digits.
    Big(String),
    /// A finite number.
    Float(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// An object, each name once.
    Object(Vec<(String, Node)>),
}

/// A value that was walked.
#[derive(Debug)]
pub struct Walked {
    /// The value.
    pub node: Node,
    /// Parts of it had no form of their own: their type and the digest of their `repr` stand for them.
    pub opaque: bool,
    /// It has only the types that Python itself prints, so that `str` of it runs no code of anybody else.
    pub plain: bool,
    /// Nothing in it is printed otherwise than its form tells: no tuple, and no name that is not a text.
    pub printable: bool,
    /// It has more parts than are walked: a digest of the first ones stands for it.
    pub too_large: bool,
    /// How many parts were walked.
    pub parts: usize,
}

impl Walked {
    /// What Python's `str` makes of a container or number, where that is easy to tell; several times as fast as `str`.
    pub fn printed(&self) -> Option<String> {
        let mut text = String::new();
        (self.printable && print(&self.node, &mut text)).then_some(text)
    }
}

/// Adds what Python's `repr` makes of a value; says whether it could.
fn print(node: &Node, out: &mut String) -> bool {
    match node {
        Node::Null => out.push_str("None"),
        Node::Bool(true) => out.push_str("True"),
        Node::Bool(false) => out.push_str("False"),
        Node::Int(number) => out.push_str(&number.to_string()),
        // Python writes others with an exponent, in a way of its own.
        Node::Float(number) if *number == 0.0 || (1e-4..1e16).contains(&number.abs()) => {
            out.push_str(zmij::Buffer::new().format_finite(*number));
        }
        Node::Text(text) => return print_text(text, out),
        Node::List(items) => {
            out.push('[');
            for (n, item) in items.iter().enumerate() {
                out.push_str(if n > 0 { ", " } else { "" });
                if !print(item, out) {
                    return false;
                }
            }
            out.push(']');
        }
        Node::Object(members) => {
            out.push('{');
            for (n, (name, member)) in members.iter().enumerate() {
                out.push_str(if n > 0 { ", " } else { "" });
                if !print_text(name, out) {
                    return false;
                }
                out.push_str(": ");
                if !print(member, out) {
                    return false;
                }
            }
            out.push('}');
        }
        Node::Big(_) | Node::Float(_) => return false,
    }
    true
}

/// Adds a text in quotes, unless it has characters that Python may write otherwise.
fn print_text(text: &str, out: &mut String) -> bool {
    let as_it_is = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'\'' | b'\\');
    if !text.bytes().all(as_it_is) {
        return false;
    }
    out.push('\'');
    out.push_str(text);
    out.push('\'');
    true
}

/// Walks a Python value.
pub fn walk(value: &Bound<'_, PyAny>) -> Walked {
    let mut walker = Walker::new();
    let node = walker.node(value, 0);
    walker.walked(node, || call("type_name", value))
}

/// Walks the arguments of a call: positional ones under the parameters' names, then those given by name.
pub fn walk_arguments(
    names: &Bound<'_, PyTuple>,
    positional: &Bound<'_, PyTuple>,
    named: Option<&Bound<'_, PyDict>>,
) -> Walked {
    let mut walker = Walker::new();
    let mut members = Members::default();
    let (mut rest, known) = (Vec::new(), names.len());
    for (n, value) in positional.iter_borrowed().enumerate() {
        let node = walker.node(&value, 1);
        match names.get_borrowed_item(n) {
            Ok(name) if n < known => members.push(text_of(&name), node),
            // Values for `*args`.
            _ => rest.push(node),
        }
    }
    if !rest.is_empty() {
        members.push("*".to_owned(), Node::List(rest));
    }
    if let Some(named) = named {
        // A copy: the form of a value is made by Python code, which may change the dictionary.
        for (name, value) in named.iter().collect::<Vec<_>>() {
            let node = walker.node(&value, 1);
            members.push(text_of(&name), node);
        }
    }
    walker.walked(Node::Object(members.list), || call("type_name", positional.as_any()))
}

/// A value and the text that a model is shown of it: what the caller says, or else what `str` makes of plain values.
pub fn walk_returned(
    value: &Bound<'_, PyAny>,
    shown: Option<&Bound<'_, PyString>>,
    is_mcp_result: bool,
) -> (Walked, Option<String>) {
    let shown = shown.map(|text| text.to_string_lossy().into_owned());
    if let Ok(items) = value.cast::<Items>() {
        let (walked, text) = items.get().take(value.py());
        return (walked, shown.or(text));
    }
    let walked = walk(value);
    let shown = shown.or_else(|| {
        let prints = walked.plain && !is_mcp_result && !walked.node.is_text();
        let by_python = || value.str().ok().map(|text| text.to_string_lossy().into_owned());
        prints.then(|| walked.printed().or_else(by_python)).flatten()
    });
    (walked, shown)
}

/// The items of a generator, walked one by one as they come: what is done to them afterwards does not change the receipt.
#[pyclass(frozen, module = "credence_trust._native")]
pub struct Items {
    collected: Mutex<Collected>,
}

struct Collected {
    walker: Walker,
    nodes: Vec<Node>,
    /// What `str` makes of the list, without its end; `None` where it cannot be told or is long.
    text: Option<String>,
}

/// Bytes of the text of a list that are kept.
const MAX_TEXT: usize = 1024 * 1024;

#[pymethods]
impl Items {
    #[new]
    fn new() -> Self {
        let collected = Collected { walker: Walker::new(), nodes: Vec::new(), text: Some("[".to_owned()) };
        Self { collected: Mutex::new(collected) }
    }

    /// Takes in the next item.
    fn push(&self, item: &Bound<'_, PyAny>) {
        // Walked without the lock: the form of a value is made by Python code, which may be anything.
        let mut collected = self.collected.lock().unwrap_or_else(PoisonError::into_inner);
        let mut walker = std::mem::replace(&mut collected.walker, Walker::new());
        drop(collected);
        let was_over = walker.parts == 0;
        let node = walker.node(item, 1);
        let text = walker.plain.then(|| item.repr().ok().map(|text| text.to_string_lossy().into_owned())).flatten();
        collected = self.collected.lock().unwrap_or_else(PoisonError::into_inner);
        collected.walker = walker;
        if was_over {
            return;
        }
        let first = collected.nodes.is_empty();
        collected.nodes.push(node);
        collected.text = collected.text.take().zip(text).and_then(|(all, text)| {
            let separator = if first { "" } else { ", " };
            (all.len() + text.len() < MAX_TEXT).then(|| all + separator + &text)
        });
    }
}

impl Items {
    fn take(&self, py: Python<'_>) -> (Walked, Option<String>) {
        let mut collected = self.collected.lock().unwrap_or_else(PoisonError::into_inner);
        let walker = std::mem::replace(&mut collected.walker, Walker::new());
        let nodes = std::mem::take(&mut collected.nodes);
        let text = collected.text.take().map(|text| text + "]");
        drop(collected);
        let walked = walker.walked(Node::List(nodes), || Some(PyString::new(py, "generator").into_any()));
        let text = text.filter(|_| walked.plain);
        (walked, text)
    }
}

/// The members of an object; a name that comes a second time gets a mark, so that nothing is lost.
#[derive(Default)]
struct Members {
    list: Vec<(String, Node)>,
    /// Filled only when names are not known to differ.
    seen: Option<BTreeSet<String>>,
}

impl Members {
    fn push(&mut self, name: String, node: Node) {
        self.list.push((name, node));
    }

    fn push_checked(&mut self, mut name: String, node: Node) {
        let list = &self.list;
        let seen = self.seen.get_or_insert_with(|| list.iter().map(|(name, _)| name.clone()).collect());
        while !seen.insert(name.clone()) {
            name.push('\'');
        }
        self.push(name, node);
    }
}

struct Walker {
    opaque: bool,
    plain: bool,
    printable: bool,
    /// Parts that may still be walked. At 0 containers are left as they are so far.
    parts: usize,
    /// The values around the current one, by their addresses, and whether they are containers: the form of an object is one, and stands
    /// in the object's place.
    around: Vec<(usize, bool)>,
}

impl Walker {
    fn new() -> Self {
        Self { opaque: false, plain: true, printable: true, parts: MAX_PARTS, around: Vec::new() }
    }

    /// The value, or what stands for it if it has too many parts.
    fn walked<'py>(self, node: Node, kind: impl FnOnce() -> Option<Bound<'py, PyAny>>) -> Walked {
        if self.parts > 0 {
            let parts = MAX_PARTS - self.parts;
            let printable = self.plain && self.printable;
            return Walked { node, opaque: self.opaque, plain: self.plain, printable, too_large: false, parts };
        }
        let kind = kind().and_then(|kind| kind.extract::<String>().ok()).unwrap_or_default();
        let node = Node::Object(vec![
            ("first_parts".to_owned(), Node::Int(MAX_PARTS as i64)),
            ("sha256".to_owned(), Node::Text(digest(&node))),
            ("type".to_owned(), Node::Text(kind)),
        ]);
        Walked { node, opaque: true, plain: false, printable: false, too_large: true, parts: MAX_PARTS }
    }

    fn node(&mut self, value: &Bound<'_, PyAny>, depth: usize) -> Node {
        self.parts = self.parts.saturating_sub(1);
        // Exact types first: they are nearly all there is.
        if value.is_none() {
            return Node::Null;
        }
        if let Ok(text) = value.cast::<PyString>() {
            self.plain &= value.is_exact_instance_of::<PyString>();
            return self.text(text.to_string_lossy().into_owned());
        }
        if let Ok(truth) = value.cast::<PyBool>() {
            return Node::Bool(truth.is_true());
        }
        if let Ok(number) = value.cast::<PyInt>() {
            self.plain &= value.is_exact_instance_of::<PyInt>();
            let node = integer(number);
            self.printable &= matches!(node, Node::Int(_));
            return node;
        }
        if let Ok(number) = value.cast::<PyFloat>() {
            self.plain &= value.is_exact_instance_of::<PyFloat>();
            let number = number.value();
            self.printable &= number.is_finite();
            return float(number);
        }
        if self.parts == 0 {
            return Node::Null;
        }
        let address = value.as_ptr() as usize;
        if let Some(found) = self.around.iter().rposition(|(one, _)| *one == address) {
            let levels = self.around[found..].iter().filter(|(_, is_container)| *is_container).count() as i64;
            return self.in_place_of(value, ("cycle", Node::Int(levels)));
        }
        if depth >= MAX_DIGESTED_DEPTH {
            return self.in_place_of(value, ("deeper_than", Node::Int(MAX_DIGESTED_DEPTH as i64)));
        }
        self.around.push((address, true));
        let node = self.with_parts(value, depth);
        self.around.pop();
        if depth == MAX_DEPTH {
            return self.in_place_of(value, ("sha256", Node::Text(digest(&node))));
        }
        node
    }

    fn text(&mut self, text: String) -> Node {
        self.parts = self.parts.saturating_sub(text.len() / TEXT_PART);
        Node::Text(text)
    }

    fn with_parts(&mut self, value: &Bound<'_, PyAny>, depth: usize) -> Node {
        if let Ok(dict) = value.cast::<PyDict>() {
            self.plain &= value.is_exact_instance_of::<PyDict>();
            return self.object(dict, depth);
        }
        if let Ok(list) = value.cast::<PyList>() {
            self.plain &= value.is_exact_instance_of::<PyList>();
            return self.list(list.iter(), list.len(), depth);
        }
        if let Ok(tuple) = value.cast::<PyTuple>() {
            self.plain &= value.is_exact_instance_of::<PyTuple>();
            self.printable = false;
            return self.list(tuple.iter(), tuple.len(), depth);
        }
        self.plain = false;
        if value.cast::<PySet>().is_ok() || value.cast::<PyFrozenSet>().is_ok() {
            return self.set(value, depth);
        }
        self.parts = self.parts.saturating_sub(FORM_PARTS);
        if let Some((_, is_container)) = self.around.last_mut() {
            *is_container = false;
        }
        match call("simplify", value) {
            Some(simple) if !simple.is(value) => self.node(&simple, depth + 1),
            _ => self.without_form(value),
        }
    }

    fn list<'py>(&mut self, items: impl Iterator<Item = Bound<'py, PyAny>>, length: usize, depth: usize) -> Node {
        let mut nodes = Vec::with_capacity(length.min(self.parts));
        for item in items {
            if self.parts == 0 {
                break;
            }
            nodes.push(self.node(&item, depth + 1));
        }
        Node::List(nodes)
    }

    fn object(&mut self, dict: &Bound<'_, PyDict>, depth: usize) -> Node {
        let mut members = Members { list: Vec::with_capacity(dict.len()), seen: None };
        let mut others = Vec::new();
        // A copy: the form of a value is made by Python code, which may change the dictionary.
        for (key, value) in dict.iter().collect::<Vec<_>>() {
            if self.parts == 0 {
                return Node::Object(members.list);
            }
            match key.cast::<PyString>().ok().and_then(|key| key.to_cow().ok().map(|key| key.into_owned())) {
                Some(name) => {
                    self.plain &= key.is_exact_instance_of::<PyString>();
                    let node = self.node(&value, depth + 1);
                    members.push(name, node);
                }
                None => others.push((key, value)),
            }
        }
        self.printable &= others.is_empty();
        // A name of another type may be the same text as one that is a text.
        for (key, value) in others {
            if self.parts == 0 {
                break;
            }
            let name = match self.node(&key, MAX_DEPTH - 1) {
                Node::Text(text) => text,
                other => other.canonical(),
            };
            let node = self.node(&value, depth + 1);
            members.push_checked(name, node);
        }
        Node::Object(members.list)
    }

    /// A set has no order: its members are sorted by their forms.
    fn set(&mut self, set: &Bound<'_, PyAny>, depth: usize) -> Node {
        let members = call("members", set).and_then(|members| members.cast_into::<PyTuple>().ok());
        let Some(members) = members else { return self.without_form(set) };
        let mut nodes = Vec::with_capacity(members.len().min(self.parts));
        for item in members.iter() {
            let node = self.node(&item, depth + 1);
            // Which members are the first ones is chance.
            if self.parts == 0 {
                return Node::Null;
            }
            nodes.push((node.canonical(), node));
        }
        nodes.sort_by(|(one, _), (other, _)| one.cmp(other));
        Node::List(nodes.into_iter().map(|(_, node)| node).collect())
    }

    /// The type and something else, in place of a value that is not written out.
    fn in_place_of(&mut self, value: &Bound<'_, PyAny>, (name, what): (&str, Node)) -> Node {
        (self.opaque, self.plain) = (true, false);
        let kind = call("type_name", value).and_then(|kind| kind.extract().ok()).unwrap_or_default();
        Node::Object(vec![(name.to_owned(), what), ("type".to_owned(), Node::Text(kind))])
    }

    /// Type and digest of the `repr`, in place of a value that has no form.
    fn without_form(&mut self, value: &Bound<'_, PyAny>) -> Node {
        (self.opaque, self.plain) = (true, false);
        let made = call("opaque", value).and_then(|made| made.extract::<(String, String)>().ok());
        let (kind, digest) = made.unwrap_or_else(|| ("unknown".to_owned(), String::new()));
        Node::Object(vec![("repr_sha256".to_owned(), Node::Text(digest)), ("type".to_owned(), Node::Text(kind))])
    }
}

/// Calls a function of `credence_trust/values.py`; `None` where that raised.
fn call<'py>(name: &str, value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let py = value.py();
    let module = MODULE.get_or_try_init(py, || py.import("credence_trust.values").map(Bound::unbind)).ok()?;
    module.bind(py).call_method1(name, (value,)).ok()
}

/// The SHA-256 of a form.
fn digest(node: &Node) -> String {
    Sha256::digest(node.canonical().as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text_of(value: &Bound<'_, PyAny>) -> String {
    value.cast::<PyString>().map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}

fn integer(number: &Bound<'_, PyInt>) -> Node {
    if let Ok(small) = number.extract::<i64>() {
        return Node::Int(small);
    }
    let digits = call("digits", number.as_any()).and_then(|digits| digits.extract::<String>().ok());
    match digits {
        // More digits than Python writes in decimal.
        Some(hex) if hex.contains('x') => Node::Text(hex),
        Some(digits) => Node::Big(digits),
        None => Node::Text("integer".to_owned()),
    }
}

/// JSON has no name for these.
fn float(number: f64) -> Node {
    match number {
        x if x.is_finite() => Node::Float(x),
        x if x.is_nan() => Node::Text("NaN".to_owned()),
        x if x > 0.0 => Node::Text("Infinity".to_owned()),
        _ => Node::Text("-Infinity".to_owned()),
    }
}

impl Node {
    /// As the engine judges it. An integer of more than 64 bits is the nearest double, or its digits where there is none.
    pub fn into_value(self) -> Value {
        match self {
            Node::Null => Value::Null,
            Node::Bool(truth) => Value::Bool(truth),
            Node::Int(number) => Value::Number(number.into()),
            Node::Big(digits) => match digits.parse::<u64>() {
                Ok(number) => Value::Number(number.into()),
                Err(_) => {
                    let double = digits.parse().ok().and_then(Number::from_f64);
                    double.map_or(Value::String(digits), Value::Number)
                }
            },
            Node::Float(number) => Number::from_f64(number).map_or(Value::Null, Value::Number),
            Node::Text(text) => Value::String(text),
            Node::List(items) => Value::Array(items.into_iter().map(Node::into_value).collect()),
            Node::Object(members) => {
                let few = members.len() <= FEW_MEMBERS;
                let members = members.into_iter().map(|(name, node)| (name, node.into_value()));
                // A few are put in place faster than sorted first.
                let mut object = Map::new();
                if few {
                    members.for_each(|(name, value)| drop(object.insert(name, value)));
                } else {
                    object = members.collect();
                }
                Value::Object(object)
            }
        }
    }

    /// As receipts commit to it.
    pub fn exact(&self) -> Exact<'_> {
        match self {
            Node::Null => Exact::Word("null"),
            Node::Bool(true) => Exact::Word("true"),
            Node::Bool(false) => Exact::Word("false"),
            Node::Int(number) => Exact::Number(number.to_string().into()),
            Node::Big(digits) => Exact::Number(digits.into()),
            // A finite number always has a form.
            Node::Float(number) => Exact::double(*number).unwrap_or(Exact::Word("null")),
            Node::Text(text) => Exact::Text(text.into()),
            Node::List(items) => Exact::List(items.iter().map(Node::exact).collect()),
            Node::Object(members) => {
                let members = members.iter().map(|(name, node)| (name.into(), node.exact()));
                Exact::Object(members.collect())
            }
        }
    }

    /// Whether it is a text.
    pub fn is_text(&self) -> bool {
        matches!(self, Node::Text(_))
    }

    /// The one text that stands for it.
    pub fn canonical(&self) -> String {
        self.exact().canonical()
    }
}
