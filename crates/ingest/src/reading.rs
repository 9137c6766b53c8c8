//! From an answer to measurements, without any request: parse, required shape, whom it is about, selection, extraction, rules.
//!
//! What is not measured has a reason ([`NoReading`]). Its words are made of the source file's own names; nothing of an answer is
//! repeated, for its text is the text of others.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use credence_protocol::{ExternalSubject, Tag, Timestamp};
use data_encoding::HEXLOWER;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use url::Url;

use crate::{
    Source,
    jws::KeySet,
    normalise::{Number, Numbers},
    pointer::Pointer,
    source::{
        AbsentRule, CardRule, ExtractKind, ExtractRule, Format, IdentityRule, NextPage, PageRule, Reduce, digest,
    },
    template::Parts,
    verification::{self, Needed},
};

/// A number that a verification adds: 1 where a signature was there and holds, 0 where none was there.
pub(crate) const SIGNED: &str = "signed";
/// Interfaces of a card that are looked at, at one place.
const MAX_INTERFACES: usize = 32;
/// Elements looked at in one list.
const MAX_ELEMENTS: usize = 100_000;
const DAY_MICROS: f64 = 86_400.0 * 1e6;
/// How far in the future a time of the past may be: clocks differ.
const MAX_AHEAD_DAYS: f64 = 1.0;

/// A measurement: one signal to be signed.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Measured {
    /// What was measured.
    pub tags: Vec<Tag>,
    /// 0..=100.
    pub value: f64,
    /// 0..=50.
    pub stddev: f64,
}

/// What an answer comes to.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Reading {
    /// The signals.
    pub measured: Vec<Measured>,
    /// The numbers used, by the names in the source file.
    pub numbers: BTreeMap<String, f64>,
    /// `sha256:` and the digest of the answer: of several pages, of their digests.
    pub digest: String,
    /// The times behind numbers that are ages, so that they go on ageing while the answer stays the same.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub times: BTreeMap<String, Timestamp>,
    /// The elements behind numbers whose spread is used.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lists: BTreeMap<String, Vec<f64>>,
    /// What a card says of itself, where the source reads cards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<Card>,
}

/// What a card says that is compared with the agent's registrations: no text of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Card {
    /// SHA-256 of the name, trimmed, in lower case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_digest: Option<String>,
    /// Origins of its interfaces, of whichever hosts: which of them are the agent's is the caller's to tell.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub endpoints: BTreeSet<String>,
}

impl Card {
    /// The hosts of its interfaces, with a port where that is not 443.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.endpoints.iter().filter_map(|origin| origin.strip_prefix("https://"))
    }

    fn read(rule: &CardRule, document: &Value) -> Self {
        let texts = |pointer: &Pointer| -> Vec<String> {
            let found = pointer.find(document).into_iter().flatten().filter_map(Value::as_str);
            found.take(MAX_INTERFACES).map(str::to_owned).collect()
        };
        let name = texts(&rule.name).first().map(|name| name.trim().to_lowercase()).filter(|name| !name.is_empty());
        let urls = rule.endpoints.iter().flat_map(texts).filter_map(|text| Url::parse(&text).ok());
        let endpoints = urls.filter(|url| url.scheme() == "https").map(|url| url.origin().ascii_serialization());
        Self {
            name_digest: name.map(|name| HEXLOWER.encode(&Sha256::digest(name.as_bytes()))),
            endpoints: endpoints.collect(),
        }
    }
}

/// One page of an answer, of the required form.
#[derive(Debug)]
pub(crate) struct Page {
    pub value: Arc<Value>,
    digest: String,
}

impl Page {
    pub fn parse(source: &Source, bytes: &[u8]) -> Result<Self, NoReading> {
        Ok(Self { value: Arc::new(parse_page(source, bytes)?), digest: digest(bytes) })
    }
}

/// Why an answer measures nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoReading {
    /// The source knows the subject, or not, and has no number for it. Missing is not zero.
    #[error("no measurement: {0}")]
    Absent(String),
    /// The list is longer than what is read of it, and the subject is not in that part: nothing is known.
    #[error("not known: the subject is not on the first {0} pages of a longer list")]
    Beyond(u32),
    /// The list is longer than what is read of it, and all of it is the subject's.
    #[error("not known: only the first {0} pages of a longer list are read")]
    Partial(u32),
    /// The answer has another form than the file requires: the source has changed. Correct the file, raise its version.
    #[error("the answer has another form than required: {0}")]
    WrongShape(String),
    /// The answer is about somebody else: renamed, redirected, or a card of another agent.
    #[error("the answer is about another subject than the one that was asked about")]
    OtherSubject,
    /// A signature is there and does not hold.
    #[error("the signature of the answer does not hold: {0}")]
    BadSignature(&'static str),
}

/// An answer of the required shape about the right subject.
#[derive(Debug)]
pub struct Document {
    pub(crate) first: Arc<Value>,
    selected: Option<Vec<Value>>,
    digest: String,
}

/// Reads recorded pages about `subject`, without asking anyone; `keys` are those that the answer is signed with.
pub fn read(
    source: &Source,
    subject: &ExternalSubject,
    pages: &[Vec<u8>],
    keys: Option<&KeySet>,
    now: Timestamp,
) -> Result<Reading, NoReading> {
    let document = Document::parse(source, subject, pages)?;
    let parts = source.parts(subject).ok_or(NoReading::OtherSubject)?;
    let signed = match (verification::needed(source, &parts, &document.first)?, keys) {
        (Needed::Nothing, _) => None,
        (Needed::Unsigned, _) => Some(false),
        (Needed::Keys(_), None) => {
            return Err(NoReading::BadSignature("the keys that it is signed with were not given"));
        }
        (Needed::Keys(_), Some(keys)) => {
            let bytes = pages.first().map(Vec::as_slice).unwrap_or_default();
            Some(verification::check(source, bytes, &document.first, keys)?)
        }
    };
    document.read(source, signed, now)
}

/// Checks the form of one page.
fn parse_page(source: &Source, bytes: &[u8]) -> Result<Value, NoReading> {
    let wrong = |why: &str| NoReading::WrongShape(why.to_owned());
    let value = match source.request.format {
        Format::Json => serde_json::from_slice(bytes).map_err(|_| wrong("it is not JSON"))?,
        Format::Fields => fields(std::str::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8"))?),
    };
    match source.require.validate(&value) {
        Ok(()) => Ok(value),
        Err(error) => {
            // A path can hold names that the source chose.
            let path = error.instance_path().to_string();
            let plain = path.len() <= 80 && path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/_-.".contains(&b));
            let place = if plain { format!("'{path}'") } else { "a member".to_owned() };
            let rule = error.schema_path().to_string();
            Err(NoReading::WrongShape(format!("{place} breaks require{rule}")))
        }
    }
}

impl Document {
    /// Checks the pages of an answer about `subject`.
    pub fn parse(source: &Source, subject: &ExternalSubject, pages: &[Vec<u8>]) -> Result<Self, NoReading> {
        let pages = pages.iter().map(|page| Page::parse(source, page)).collect::<Result<Vec<_>, _>>()?;
        Self::of(source, subject, &pages)
    }

    pub(crate) fn of(source: &Source, subject: &ExternalSubject, pages: &[Page]) -> Result<Self, NoReading> {
        let parts = source.parts(subject).ok_or(NoReading::OtherSubject)?;
        let digest = match pages {
            [one] => one.digest.clone(),
            several => {
                let digests: Vec<&str> = several.iter().map(|page| page.digest.as_str()).collect();
                digest(digests.join("\n").as_bytes())
            }
        };
        let own = || pages.iter().flat_map(|page| select(source, &parts, &page.value)).collect::<Vec<_>>();
        let selected = source.select.as_ref().map(|_| own());
        let first = pages.first().ok_or_else(|| NoReading::WrongShape("there is no answer".into()))?;
        let first = match &source.page {
            Some(PageRule { join: Some(member), next, .. }) => {
                let count = pages.len() as u64;
                if pages.last().is_some_and(|last| next.value(&last.value, count).is_some()) {
                    return Err(NoReading::Partial(u32::try_from(count).unwrap_or(u32::MAX)));
                }
                Arc::new(joined(pages, member))
            }
            _ => Arc::clone(&first.value),
        };
        if !source.identity.iter().all(|rule| matches(rule, &parts, &first)) {
            return Err(NoReading::OtherSubject);
        }
        Ok(Self { first, selected, digest })
    }

    /// The measurements. `signed` is what the verification found, where the file asks for one.
    pub fn read(&self, source: &Source, signed: Option<bool>, now: Timestamp) -> Result<Reading, NoReading> {
        let whole;
        let document = match &self.selected {
            None => &*self.first,
            Some(selected) if selected.is_empty() => {
                return Err(NoReading::Absent("nothing in the list is the subject's".into()));
            }
            Some(selected) => {
                whole = Value::Array(selected.clone());
                &whole
            }
        };
        let (mut numbers, mut times) = (Numbers::new(), BTreeMap::new());
        for (name, rule) in &source.extract {
            if let Some(number) = extract(name, rule, document, now)? {
                numbers.insert(name.clone(), number);
            }
            if rule.kind.is_time() && !rule.pointer.is_many() {
                let found = rule.pointer.find(document).into_iter().flatten().next();
                times.extend(found.and_then(time_of).map(|time| (name.clone(), time)));
            }
        }
        if let Some(signed) = signed {
            numbers.insert(SIGNED.into(), Number { value: f64::from(u8::from(signed)), list: Vec::new() });
        }
        let card = source.card.as_ref().map(|rule| Card::read(rule, document));
        Ok(Reading { card, ..measure(source, &numbers, times, &self.digest)? })
    }
}

impl Reading {
    /// Whether [`Reading::later`] can tell: times in lists are not kept.
    pub fn can_age(&self, source: &Source) -> bool {
        source.extract.iter().filter(|(_, rule)| rule.kind.is_time()).all(|(name, rule)| {
            let number = self.numbers.get(name).copied();
            self.times.contains_key(name) || !rule.pointer.is_many() && (number.is_none() || number == rule.default)
        })
    }

    /// What the same answer measures at `now`: ages have grown, and what was in the future may have passed.
    pub fn later(&self, source: &Source, now: Timestamp) -> Result<Self, NoReading> {
        let list = |name: &String| self.lists.get(name).cloned().unwrap_or_default();
        let numbers =
            self.numbers.iter().map(|(name, value)| (name.clone(), Number { value: *value, list: list(name) }));
        let mut numbers: Numbers = numbers.collect();
        for (name, time) in &self.times {
            let Some(rule) = source.extract.get(name) else { continue };
            let value = checked(name, rule, Some(&Value::String(time.to_string())), now)?;
            numbers.extend(value.map(|value| (name.clone(), Number { value, list: vec![value] })));
        }
        Ok(Self { card: self.card.clone(), ..measure(source, &numbers, self.times.clone(), &self.digest)? })
    }
}

/// From numbers to measurements.
fn measure(
    source: &Source,
    numbers: &Numbers,
    times: BTreeMap<String, Timestamp>,
    digest: &str,
) -> Result<Reading, NoReading> {
    for AbsentRule { of, below, above } in &source.absent {
        match numbers.get(of) {
            Some(number) if number.value >= *below && number.value <= *above => {}
            Some(number) if number.value > *above => {
                return Err(NoReading::Absent(format!("'{of}' is above {above}")));
            }
            _ => return Err(NoReading::Absent(format!("'{of}' is below {below}"))),
        }
    }
    let (mut measured, mut missing) = (Vec::new(), None);
    for rule in &source.signals {
        if let Some(when) = &rule.when
            && numbers.get(when).is_none_or(|number| number.value < 0.5)
        {
            continue;
        }
        let age = source.age.as_ref();
        let mut used = rule.value.names();
        used.extend(rule.stddev.names());
        used.extend(age.map(|age| age.of.as_str()));
        if let Some(absent) = used.into_iter().find(|name| !numbers.contains_key(*name)) {
            missing = Some(absent.to_owned());
            continue;
        }
        let not_a_number = || NoReading::WrongShape("a rule does not come to a number".into());
        let value = rule.value.value(numbers).ok_or_else(not_a_number)?;
        let stddev = rule.stddev.stddev(numbers, age).ok_or_else(not_a_number)?;
        measured.push(Measured { tags: rule.tags.clone(), value: rounded(value), stddev: rounded(stddev) });
    }
    if measured.is_empty() {
        let why = missing.map_or("no signal applies".to_owned(), |name| format!("'{name}' is not there"));
        return Err(NoReading::Absent(why));
    }
    let spread = source.signals.iter().filter_map(|rule| rule.stddev.list());
    let lists = spread.filter_map(|name| Some((name.to_owned(), numbers.get(name)?.list.clone()))).collect();
    let numbers = numbers.iter().map(|(name, number)| (name.clone(), rounded(number.value))).collect();
    Ok(Reading { measured, numbers, digest: digest.to_owned(), times, lists, card: None })
}

/// Six decimals: more is noise, and would make every answer a new one.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// The first page, with the elements that all pages have in a member.
fn joined(pages: &[Page], member: &str) -> Value {
    let lists = pages.iter().filter_map(|page| page.value.get(member)?.as_array());
    let all: Option<Vec<Value>> = lists.fold(None, |all, list| Some([all.unwrap_or_default(), list.clone()].concat()));
    let mut whole = pages.first().map(|page| (*page.value).clone()).unwrap_or_default();
    if let (Some(all), Some(members)) = (all, whole.as_object_mut()) {
        members.insert(member.to_owned(), Value::Array(all));
    }
    whole
}

impl NextPage {
    /// What asks for the page after `page`, the last of so many; none where it is the last of all.
    pub(crate) fn value(&self, page: &Value, pages: u64) -> Option<String> {
        match self {
            Self::Cursor(pointer) => text_at(pointer, page).map(str::to_owned),
            Self::Offset { total, size } => {
                let offset = pages * size;
                (offset < number_at(total, page)?).then(|| offset.to_string())
            }
        }
    }
}

/// The elements of a page that are the subject's.
pub(crate) fn select(source: &Source, parts: &Parts, page: &Value) -> Vec<Value> {
    let Some((items, conditions)) = &source.select else { return Vec::new() };
    let lists = items.find(page).into_iter().flatten();
    let elements = lists.filter_map(Value::as_array).flatten().take(MAX_ELEMENTS);
    let own = |element: &&Value| conditions.iter().all(|rule| matches(rule, parts, element));
    elements.filter(own).cloned().collect()
}

fn matches(rule: &IdentityRule, parts: &Parts, value: &Value) -> bool {
    let wanted = rule.equals.plain(parts);
    let same = |text: &str| if rule.ignore_case { text.eq_ignore_ascii_case(&wanted) } else { text == wanted };
    let found = rule.pointers.iter().flat_map(|pointer| pointer.find(value)).flatten();
    let texts = found.filter_map(|value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    });
    texts.into_iter().any(|text| if rule.host { host_of(&text).is_some_and(|host| same(&host)) } else { same(&text) })
}

/// The host of an https address, with its port where that is not 443.
fn host_of(text: &str) -> Option<String> {
    let url = Url::parse(text).ok().filter(|url| url.scheme() == "https")?;
    let host = url.host_str()?;
    Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

fn extract(name: &str, rule: &ExtractRule, document: &Value, now: Timestamp) -> Result<Option<Number>, NoReading> {
    let places = rule.pointer.find(document);
    if places.len() > MAX_ELEMENTS {
        return Err(NoReading::WrongShape(format!("'{name}' is a list of more than {MAX_ELEMENTS}")));
    }
    let mut list = Vec::new();
    for place in places {
        list.extend(checked(name, rule, place.filter(|value| !value.is_null()), now)?);
    }
    let sum = || list.iter().sum::<f64>();
    let value = match (rule.reduce, list.as_slice()) {
        (Reduce::Count, all) => Some(all.len() as f64),
        (Reduce::Sum, all) if !all.is_empty() => Some(sum()),
        (_, []) => None,
        (Reduce::Only, [first, ..]) => Some(*first),
        (Reduce::Sum, _) => Some(sum()),
        (Reduce::Mean, all) => Some(sum() / all.len() as f64),
        (Reduce::Min, all) => all.iter().copied().reduce(f64::min),
        (Reduce::Max, all) => all.iter().copied().reduce(f64::max),
    };
    Ok(value.or(rule.default).map(|value| Number { value, list }))
}

/// One value as a number within its bounds; none where nothing is there, or what means "not measured".
fn checked(name: &str, rule: &ExtractRule, place: Option<&Value>, now: Timestamp) -> Result<Option<f64>, NoReading> {
    match one(&rule.kind, place, now).map_err(|why| NoReading::WrongShape(format!("'{name}' {why}")))? {
        Some(number) if rule.missing.contains(&number) => Ok(None),
        Some(number) if number < rule.min || number > rule.max || !number.is_finite() => {
            Err(NoReading::WrongShape(format!("'{name}' is outside its bounds")))
        }
        other => Ok(other),
    }
}

/// One value as a number; none where nothing is there.
fn one(kind: &ExtractKind, place: Option<&Value>, now: Timestamp) -> Result<Option<f64>, &'static str> {
    let is_present = |value: &Value| match value {
        Value::Null => false,
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(elements) => !elements.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    };
    if let ExtractKind::Present = kind {
        return Ok(Some(f64::from(u8::from(place.is_some_and(is_present)))));
    }
    if let (ExtractKind::Enum { otherwise: Some(otherwise), .. }, None) = (kind, place) {
        return Ok(Some(*otherwise));
    }
    let Some(value) = place else { return Ok(None) };
    let days = |value: &Value| days_since(value, now);
    Ok(Some(match kind {
        ExtractKind::Number => value.as_f64().filter(|x| x.is_finite()).ok_or("is no number")?,
        ExtractKind::Count => {
            let whole = |x: &f64| x.fract() == 0.0 && (0.0..=9e15).contains(x);
            value.as_f64().filter(whole).ok_or("is no count")?
        }
        ExtractKind::Percent => percent(value).ok_or("is no percentage")?,
        ExtractKind::AgeDays => {
            let age = days(value).ok_or("is no time")?;
            if age < -MAX_AHEAD_DAYS {
                return Err("is a time in the future");
            }
            age.max(0.0)
        }
        ExtractKind::IsFuture => f64::from(u8::from(days(value).ok_or("is no time")? < 0.0)),
        ExtractKind::Boolean => f64::from(u8::from(value.as_bool().ok_or("is neither true nor false")?)),
        ExtractKind::Length => match value {
            Value::Array(elements) => elements.len() as f64,
            Value::Object(members) => members.len() as f64,
            _ => return Err("is no list"),
        },
        ExtractKind::Enum { values, otherwise } => {
            let word = value.as_str().ok_or("is no word")?;
            values.get(word).copied().or(*otherwise).ok_or("is a word that the file does not know")?
        }
        ExtractKind::Present => return Ok(None),
    }))
}

/// `"99.92%"`, or a number.
fn percent(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(text) => text.strip_suffix('%')?.parse().ok()?,
        value => value.as_f64()?,
    };
    (0.0..=100.0).contains(&number).then_some(number)
}

/// Days since a time; negative for the future.
fn days_since(value: &Value, now: Timestamp) -> Option<f64> {
    Some((now.micros() - time_of(value)?.micros()) as f64 / DAY_MICROS)
}

/// An RFC 3339 time or a date.
fn time_of(value: &Value) -> Option<Timestamp> {
    let text = value.as_str()?;
    let date = text.len() == 10 && text.is_ascii();
    if date { format!("{text}T00:00:00Z").parse().ok() } else { text.parse().ok() }
}

/// Lines of `Name: value` as an object of lists, names in lower case. Comments, and the frame of a signed message, are left out.
fn fields(text: &str) -> Value {
    let mut members: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in text.lines().take(10_000) {
        if line.starts_with("-----BEGIN PGP SIGNATURE") {
            break;
        }
        let Some((name, value)) = line.split_once(':').filter(|_| !line.starts_with(['#', '-'])) else { continue };
        let name = name.trim().to_ascii_lowercase();
        if !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            members.entry(name).or_default().push(Value::String(value.trim().to_owned()));
        }
    }
    Value::Object(members.into_iter().map(|(name, values)| (name, Value::Array(values))).collect::<Map<_, _>>())
}

/// The text at a pointer, for cursors.
fn text_at<'a>(pointer: &Pointer, page: &'a Value) -> Option<&'a str> {
    pointer.find(page).into_iter().flatten().next()?.as_str().filter(|text| !text.is_empty())
}

/// The number at a pointer, for totals.
fn number_at(pointer: &Pointer, page: &Value) -> Option<u64> {
    pointer.find(page).into_iter().flatten().next()?.as_u64()
}
