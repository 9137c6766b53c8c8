//! From a file to a [`Source`], or what is wrong with it and on which line.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    time::Duration,
};

use credence_egress::{HeaderName, HeaderValue, Method, Rate, Redirects};
use credence_protocol::{EntityId, Root, SubjectKind, Tag, TagRegistry};
use toml::de::{DeTable, DeValue};

use super::{
    AbsentRule, CardRule, Format, Limits, NextPage, PageRule, RequestRule, SecretRule, SignalRule, Source, VerifyRule,
    digest,
    file::{self, File},
    rules::{self, unknown},
};
use crate::{
    SourceError,
    normalise::AgeRule,
    reading::SIGNED,
    secrets,
    template::{self, Address},
};

/// What is wrong, and at which key.
pub(super) struct Wrong {
    at: String,
    why: String,
}

pub(super) type Checked<T> = Result<T, Wrong>;

pub(super) fn wrong(at: &str, why: impl Into<String>) -> Wrong {
    Wrong { at: at.to_owned(), why: why.into() }
}

/// How ids of crawlers start. Other names are those of agents, readers of chains and the authority: a file cannot speak as one of them.
const IDS: &str = "crawler-";
/// The shortest and longest time to live.
const TTL_HOURS: std::ops::RangeInclusive<f64> = 0.25..=24.0 * 90.0;
/// Bytes that an answer may be said to have.
const MAX_BYTES: usize = 16 * 1024 * 1024;
const DEFAULT_BYTES: usize = 1024 * 1024;
const DEFAULT_TIMEOUT: u64 = 10;
const MAX_TIMEOUT: u64 = 60;
const MAX_PAGES: u32 = 20;

pub(super) fn source(name: &str, text: &str) -> Result<Source, SourceError> {
    let at_byte = |byte: usize| text.as_bytes()[..byte.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1;
    let error = |line, why: String| SourceError { file: name.to_owned(), line, why };
    let file: File = toml::from_str(text).map_err(|e| {
        let line = e.span().map_or(1, |span| at_byte(span.start));
        error(line, e.message().trim().replace('\n', " "))
    })?;
    convert(file, text).map_err(|Wrong { at, why }| error(at_byte(byte_of(text, &at)), format!("{at}: {why}")))
}

/// Where a key stands, or the nearest table around it.
fn byte_of(text: &str, path: &str) -> usize {
    let Ok(root) = DeTable::parse(text) else { return 0 };
    let mut table = Some(root.get_ref());
    let mut array: Option<&toml::de::DeArray<'_>> = None;
    let mut byte = 0;
    for step in path.split('.') {
        let next = match (table, array) {
            (Some(table), _) => {
                let found = table.iter().find(|(key, _)| key.get_ref().as_ref() == step);
                found.map(|(key, value)| {
                    byte = key.span().start;
                    value
                })
            }
            (None, Some(array)) => step.parse::<usize>().ok().and_then(|n| array.get(n)).inspect(|value| {
                byte = value.span().start;
            }),
            (None, None) => None,
        };
        let Some(next) = next else { break };
        (table, array) = match next.get_ref() {
            DeValue::Table(inner) => (Some(inner), None),
            DeValue::Array(inner) => (None, Some(inner)),
            _ => (None, None),
        };
    }
    byte
}

fn convert(file: File, text: &str) -> Checked<Source> {
    let id = EntityId::new(&file.id).map_err(|e| wrong("id", e.to_string()))?;
    if !file.id.starts_with(IDS) || file.id.len() == IDS.len() {
        return Err(wrong("id", format!("'{id}' is no id of a crawler: it starts with '{IDS}'")));
    }
    let owner = EntityId::new(&file.owner).map_err(|e| wrong("owner", e.to_string()))?;
    let kinds: Vec<&str> = SubjectKind::ALL.iter().map(|kind| kind.key()).collect();
    let subject =
        SubjectKind::parse(&file.subject).ok_or_else(|| wrong("subject", unknown("subject", &file.subject, &kinds)))?;
    let roots: Vec<Root> = file
        .roots
        .iter()
        .map(|root| Root::new(root).map_err(|e| wrong("roots", e.to_string())))
        .collect::<Checked<_>>()?;
    if !(file.weight.is_finite() && (0.0..=1.0).contains(&file.weight)) {
        return Err(wrong("weight", format!("{} is no weight of a crawler: within 0 and 1", file.weight)));
    }
    if !TTL_HOURS.contains(&file.ttl_hours) {
        return Err(wrong("ttl_hours", "a time to live is between a quarter of an hour and 90 days"));
    }
    for (field, text) in [("title", &file.title), ("about", &file.about), ("licence", &file.licence)] {
        if text.trim().is_empty() || text.chars().count() > 500 || text.chars().any(credence_protocol::is_deceptive) {
            return Err(wrong(field, "a text of 1 to 500 characters on one line"));
        }
    }
    let names = names(&file.names, subject)?;
    let known: BTreeSet<&str> = subject.parts().iter().copied().chain(names.keys().map(String::as_str)).collect();
    let request = request(file.request, &known)?;
    let identity: Vec<_> = file
        .identity
        .iter()
        .enumerate()
        .map(|(n, one)| places_of_identity(&format!("identity.{n}"), one, &known))
        .collect::<Checked<_>>()?;
    let verify = file.verify.as_ref().map(|verify| verification(verify, subject)).transpose()?;
    let card = file.card.as_ref().map(|places| card(places, subject)).transpose()?;
    let select = file.select.as_ref().map(|select| {
        let conditions = select.conditions.iter().enumerate();
        let rules = conditions.map(|(n, one)| places_of_identity(&format!("select.where.{n}"), one, &known));
        Ok((rules::pointer("select.items", &select.items)?, rules.collect::<Checked<Vec<_>>>()?))
    });
    let select = select.transpose()?;
    distinguished(&file.ignores, subject, &names, &request, &identity, select.as_ref().map(|(_, rules)| rules))?;
    if file.page.is_some() && verify.is_some() {
        return Err(wrong("verify", "a list in pages is not verified"));
    }
    let page = file.page.map(|page| self::page(page, select.is_some(), request.body.is_some())).transpose()?;
    let require = require(&file.require)?;
    let mut extract = BTreeMap::new();
    for (name, given) in file.extract {
        let at = format!("extract.{name}");
        let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        if name == SIGNED || !name.bytes().all(legal) || name.len() > 40 {
            return Err(wrong(&at, format!("a name is 1 to 40 of a-z 0-9 _, and not '{SIGNED}'")));
        }
        extract.insert(name, rules::extract(&at, given)?);
    }
    let numbers: BTreeSet<&str> =
        extract.keys().map(String::as_str).chain(verify.is_some().then_some(SIGNED)).collect();
    let is_number = |at: &str, name: &str| {
        if numbers.contains(name) {
            return Ok(());
        }
        let list: Vec<&str> = numbers.iter().copied().collect();
        Err(wrong(at, unknown("extracted number", name, &list)))
    };
    for (n, one) in file.absent.iter().enumerate() {
        is_number(&format!("absent.{n}.of"), &one.of)?;
        if one.below.or(one.above).is_none_or(f64::is_nan) {
            return Err(wrong(&format!("absent.{n}"), "say 'below', or 'above'"));
        }
    }
    if let Some(age) = &file.age {
        is_number("age.of", &age.of)?;
        if !(age.half_life_days.is_finite() && age.half_life_days > 0.0) {
            return Err(wrong("age.half_life_days", "a half-life is above 0 days"));
        }
    }
    let signals = signals(file.signal, &id, &is_number)?;
    let limits = limits(&file.limits)?;
    Ok(Source {
        id,
        version: file.version,
        title: file.title,
        about: file.about,
        owner,
        licence: file.licence,
        documentation: file.documentation,
        roots,
        weight: file.weight,
        subject,
        ttl: Duration::from_secs_f64(file.ttl_hours * 3600.0),
        limits,
        digest: digest(text.as_bytes()),
        request,
        names,
        page,
        require,
        identity,
        verify,
        card,
        select,
        extract,
        absent: file
            .absent
            .into_iter()
            .map(|file::Absent { of, below, above }| AbsentRule {
                of,
                below: below.unwrap_or(f64::NEG_INFINITY),
                above: above.unwrap_or(f64::INFINITY),
            })
            .collect(),
        age: file.age.map(|age| AgeRule { of: age.of, half_life_days: age.half_life_days }),
        signals,
    })
}

fn card(given: &file::CardPlaces, subject: SubjectKind) -> Checked<CardRule> {
    if subject != SubjectKind::A2a {
        return Err(wrong("card", "only what is asked about a2a is a card"));
    }
    let endpoints = given.endpoints.iter().map(|place| rules::pointer("card.endpoints", place));
    Ok(CardRule { name: rules::pointer("card.name", &given.name)?, endpoints: endpoints.collect::<Checked<_>>()? })
}

type NamesOf = BTreeMap<String, (String, BTreeMap<String, String>)>;

fn names(given: &BTreeMap<String, file::Names>, subject: SubjectKind) -> Checked<NamesOf> {
    let mut names = NamesOf::new();
    for (name, file::Names { of, values }) in given {
        let at = format!("names.{name}");
        if subject.parts().contains(&name.as_str()) {
            return Err(wrong(&at, format!("'{name}' is a part of the subject already")));
        }
        if !subject.parts().contains(&of.as_str()) {
            return Err(wrong(&format!("{at}.of"), unknown("part of the subject", of, subject.parts())));
        }
        names.insert(name.clone(), (of.clone(), values.clone()));
    }
    Ok(names)
}

/// Every part of a subject has to matter: asked for, bounded by [names], or compared with the answer. Otherwise two subjects that differ
/// in that part get the same answer, and anyone who proves the one inherits what is said of the other.
fn distinguished(
    ignores: &[String],
    subject: SubjectKind,
    names: &NamesOf,
    request: &RequestRule,
    identity: &[super::IdentityRule],
    select: Option<&Vec<super::IdentityRule>>,
) -> Checked<()> {
    if let Some(other) = ignores.iter().find(|part| !subject.parts().contains(&part.as_str())) {
        return Err(wrong("ignores", unknown("part of the subject", other, subject.parts())));
    }
    let rules = identity.iter().chain(select.into_iter().flatten());
    let body =
        request.body.as_ref().map(template::body_places).transpose().map_err(|why| wrong("request.body", why))?;
    let mut used: BTreeSet<&str> = rules.flat_map(|rule| rule.equals.places()).collect();
    used.extend(request.address.places());
    used.extend(body.iter().flatten().map(String::as_str));
    used.extend(names.values().map(|(of, _)| of.as_str()));
    used.extend(ignores.iter().map(String::as_str));
    // A purl is the other three.
    let whole = ["system", "name", "version"];
    if used.contains("purl") {
        used.extend(whole);
    } else if whole.iter().all(|part| used.contains(part)) {
        used.insert("purl");
    }
    match subject.parts().iter().find(|part| !used.contains(*part)) {
        None => Ok(()),
        Some(part) => Err(wrong(
            "subject",
            format!(
                "'{part}' is neither asked for nor checked, so that others could inherit the answer: compare it in [[identity]], bound it \
                 in [names], or say in 'ignores' that it makes no difference"
            ),
        )),
    }
}

fn places<'a>(at: &str, found: impl IntoIterator<Item = &'a str>, known: &BTreeSet<&str>) -> Checked<()> {
    let list: Vec<&str> = known.iter().copied().collect();
    match found.into_iter().find(|place| !known.contains(place)) {
        Some(place) => Err(wrong(at, unknown("part of the subject", place, &list))),
        None => Ok(()),
    }
}

fn places_of_identity(at: &str, given: &file::Identity, known: &BTreeSet<&str>) -> Checked<super::IdentityRule> {
    let rule = rules::identity(at, given)?;
    places(&format!("{at}.equals"), rule.equals.places(), known)?;
    Ok(rule)
}

fn request(given: file::Request, known: &BTreeSet<&str>) -> Checked<RequestRule> {
    let method = match given.method.as_str() {
        "GET" => Method::GET,
        "POST" => Method::POST,
        other => return Err(wrong("request.method", unknown("method", other, &["GET", "POST"]))),
    };
    let address = Address::parse(&given.url).map_err(|why| wrong("request.url", why))?;
    places("request.url", address.places(), known)?;
    if address.needs_base() != given.services.is_some() {
        return Err(wrong("request.url", "{base} goes with request.services, which says where it is"));
    }
    if address.needs_base() && !known.contains("host") {
        return Err(wrong("request.services", "services are found by the host of the subject"));
    }
    if let Some(services) = &given.services {
        let plain = Address::parse(services).map_err(|why| wrong("request.services", why))?;
        if plain.fixed_host().is_none() || !plain.places().is_empty() {
            return Err(wrong("request.services", "an address in full"));
        }
    }
    let mut headers = Vec::new();
    for (name, value) in &given.headers {
        let at = format!("request.headers.{name}");
        let header: HeaderName = name.parse().map_err(|_| wrong(&at, "not the name of a header"))?;
        if secrets::is_name(header.as_str()) || secrets::is_in(value) {
            return Err(wrong(&at, "this header holds a secret: name its variable in request.secret"));
        }
        headers.push((header, HeaderValue::from_str(value).map_err(|_| wrong(&at, "not the value of a header"))?));
    }
    let body = given.body.map(|table| {
        let value = serde_json::to_value(table).map_err(|e| wrong("request.body", e.to_string()))?;
        let found = template::body_places(&value).map_err(|why| wrong("request.body", why))?;
        places("request.body", found.iter().map(String::as_str), known)?;
        if secrets::is_in(&value.to_string()) {
            return Err(wrong("request.body", "a part of it looks like a secret: use request.secret"));
        }
        Ok(value)
    });
    let body = body.transpose()?;
    if body.is_some() && method != Method::POST {
        return Err(wrong("request.body", "only a POST has a body"));
    }
    let secret = given.secret.map(|secret| {
        if address.fixed_host().is_none() {
            return Err(wrong("request.secret", "a secret goes to a host that the file names, and nowhere else"));
        }
        let header: HeaderName =
            secret.header.parse().map_err(|_| wrong("request.secret.header", "not the name of a header"))?;
        let legal = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
        if secret.env.is_empty() || !secret.env.bytes().all(legal) {
            let why = "the name of an environment variable, of A-Z 0-9 _: a secret does not belong into a file";
            return Err(wrong("request.secret.env", why));
        }
        Ok(SecretRule { header, env: secret.env, prefix: secret.prefix, required: secret.required })
    });
    let redirects = match given.redirects.as_str() {
        "refuse" => Redirects::Refuse,
        "same_origin" => Redirects::SameOrigin(3),
        "public" => Redirects::USUAL,
        other => {
            let known = ["refuse", "same_origin", "public"];
            return Err(wrong("request.redirects", unknown("way to follow redirections", other, &known)));
        }
    };
    let format = match given.format.as_str() {
        "json" => Format::Json,
        "fields" => Format::Fields,
        other => return Err(wrong("request.format", unknown("format", other, &["json", "fields"]))),
    };
    let secret = secret.transpose()?;
    Ok(RequestRule { method, address, services: given.services, headers, body, secret, redirects, format })
}

fn verification(given: &file::Verify, subject: SubjectKind) -> Checked<VerifyRule> {
    match given.rule.as_str() {
        "a2a_card" => {
            if !subject.parts().contains(&"host") {
                return Err(wrong("verify.rule", "a card belongs to a host"));
            }
            Ok(VerifyRule::A2aCard)
        }
        "envelope" => {
            let text = given.pointer.as_deref().ok_or_else(|| wrong("verify", "an envelope needs 'pointer'"))?;
            let pointer = rules::pointer("verify.pointer", text)?;
            let jwks = given.jwks.clone().ok_or_else(|| wrong("verify", "an envelope needs 'jwks'"))?;
            let address = Address::parse(&jwks).map_err(|why| wrong("verify.jwks", why))?;
            if address.fixed_host().is_none() || !address.places().is_empty() || pointer.is_many() {
                return Err(wrong("verify", "an envelope has one place, and keys at an address in full"));
            }
            let at = text.split('/').skip(1).map(str::to_owned).collect();
            Ok(VerifyRule::Envelope { pointer, at, jwks })
        }
        other => Err(wrong("verify.rule", unknown("verification", other, &["a2a_card", "envelope"]))),
    }
}

fn page(given: file::Page, selects: bool, has_body: bool) -> Checked<PageRule> {
    if selects == given.join.is_some() {
        let why = "pages are for finding an element, with [select]; or for a list that is the subject's as a whole, with 'join'";
        return Err(wrong("page", why));
    }
    let in_body = match given.place.as_str() {
        "query" => false,
        "body" if has_body => true,
        "body" => return Err(wrong("page.in", "the request has no body")),
        other => return Err(wrong("page.in", unknown("place of a parameter", other, &["query", "body"]))),
    };
    let is_member = |name: &str| !name.is_empty() && !name.contains(['/', '~', '*']);
    let join = match given.join.as_deref().map(|join| join.strip_prefix('/').filter(|name| is_member(name))) {
        None => None,
        Some(Some(name)) => Some(name.to_owned()),
        Some(None) => return Err(wrong("page.join", "a member of the answer itself, such as '/items'")),
    };
    if given.most == 0 || given.most > MAX_PAGES {
        return Err(wrong("page.most", format!("between 1 and {MAX_PAGES} pages")));
    }
    if given.parameter.is_empty() || secrets::is_name(&given.parameter) {
        return Err(wrong("page.parameter", "the name of a parameter, and not one that holds a secret"));
    }
    let pointer = rules::pointer("page.pointer", &given.pointer)?;
    let next = match (given.rule.as_str(), given.size) {
        ("cursor", None) => NextPage::Cursor(pointer),
        ("offset", Some(size)) if size > 0 => NextPage::Offset { total: pointer, size },
        ("cursor" | "offset", _) => return Err(wrong("page", "'offset' needs a size above 0, 'cursor' has none")),
        (other, _) => return Err(wrong("page.rule", unknown("way to page", other, &["cursor", "offset"]))),
    };
    Ok(PageRule { parameter: given.parameter, in_body, next, join, most: given.most })
}

fn require(given: &toml::Table) -> Checked<jsonschema::Validator> {
    if given.is_empty() {
        return Err(wrong("require", "an empty schema allows every answer: sources change, so say what is required"));
    }
    let schema = serde_json::to_value(given).map_err(|e| wrong("require", e.to_string()))?;
    jsonschema::draft202012::new(&schema).map_err(|e| wrong("require", format!("not a JSON Schema: {e}")))
}

fn limits(given: &file::LimitsFile) -> Checked<Limits> {
    let at_least_one = |name: &str, value: Option<u32>, default: NonZeroU32| match value {
        None => Ok(default),
        Some(value) => NonZeroU32::new(value).ok_or_else(|| wrong(&format!("limits.{name}"), "at least 1")),
    };
    let usual = Rate::default();
    let per_second = at_least_one("per_second", given.per_second, usual.per_second)?;
    let burst = at_least_one("burst", given.burst, usual.burst)?;
    let max_bytes = given.max_bytes.unwrap_or(DEFAULT_BYTES);
    if !(1..=MAX_BYTES).contains(&max_bytes) {
        return Err(wrong("limits.max_bytes", format!("between 1 and {MAX_BYTES}")));
    }
    let seconds = given.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT);
    if !(1..=MAX_TIMEOUT).contains(&seconds) {
        return Err(wrong("limits.timeout_seconds", format!("between 1 and {MAX_TIMEOUT}")));
    }
    Ok(Limits { rate: Rate { per_second, burst }, max_bytes, timeout: Duration::from_secs(seconds) })
}

fn signals(
    given: Vec<file::Signal>,
    source: &EntityId,
    is_number: &dyn Fn(&str, &str) -> Checked<()>,
) -> Checked<Vec<SignalRule>> {
    let registry = TagRegistry::standard().map_err(|e| wrong("signal", e.to_string()))?;
    if given.is_empty() {
        return Err(wrong("signal", "a source measures something: at least one [[signal]]"));
    }
    let (mut rules, mut seen) = (Vec::new(), BTreeSet::new());
    for (n, one) in given.into_iter().enumerate() {
        let at = format!("signal.{n}");
        if one.tags.is_empty() {
            return Err(wrong(&format!("{at}.tags"), "at least one tag"));
        }
        let mut tags = Vec::new();
        for name in &one.tags {
            let at = format!("{at}.tags");
            let Some(tag) = registry.find(name) else {
                let meant = registry
                    .nearest(name)
                    .map_or_else(|| "`credence tags` lists them".to_owned(), |tag| format!("did you mean '{tag}'?"));
                return Err(wrong(&at, format!("'{name}' is no registered tag: {meant}")));
            };
            if !tag.may_be_emitted_by(source) {
                return Err(wrong(&at, format!("'{name}' is for the authority's own measurements")));
            }
            if !seen.insert(name.clone()) {
                return Err(wrong(&at, format!("'{name}' is measured twice")));
            }
            tags.push(Tag::new(name).map_err(|e| wrong(&at, e.to_string()))?);
        }
        if let Some(when) = &one.when {
            is_number(&format!("{at}.when"), when)?;
        }
        let value = rules::value(&format!("{at}.value"), one.value)?;
        let stddev = rules::stddev(&format!("{at}.stddev"), one.stddev)?;
        for name in value.names() {
            is_number(&format!("{at}.value"), name)?;
        }
        for name in stddev.names() {
            is_number(&format!("{at}.stddev"), name)?;
        }
        rules.push(SignalRule { tags, when: one.when, value, stddev });
    }
    Ok(rules)
}
