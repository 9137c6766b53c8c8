//! The views of a result that a receipt commits to, and the same views of what a transcript claims.
//!
//! | view | its form |
//! |---|---|
//! | `whole` | the result object without what programs add on the way: `_meta`, members that are null, `isError: false` |
//! | `content` | the list of content items, cleaned in the same way |
//! | `text` | the text items, joined by newlines, without white space at the ends |
//! | `letters` | the same, with every run of white space as one space |
//! | `joined` | several text items with nothing between them, white space as before |
//! | `structured` | `structuredContent`, or text that is JSON |
//! | `bare` | the content items as any framework hands them on: text, data of media, addresses, without anything beside them |
//! | `told` | what of them can be told in text: text, text of embedded resources, addresses; white space as before |
//! | `meta` | what the server put into `_meta` of the result and of its content items; no claim is compared with it |
//!
//! The last three are there only where they say something that the others do not.

use std::{borrow::Cow, ops::Range};

use serde::{Deserialize, Serialize};

use super::{Commitment, Exact, Members, Salt, exact::quote, spaces::collapsed};
use crate::strict::present;

/// Bytes of forms from which on two threads hash them: it takes longer than starting one.
const LARGE_BYTES: usize = 1024 * 1024;
/// The member of `_meta` under which guards speak.
pub const GUARD_META: &str = "credence/guard";

/// A way to look at a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum View {
    /// All of it.
    Whole,
    /// The content items.
    Content,
    /// Their text.
    Text,
    /// Their text, but for how much white space there is.
    Letters,
    /// Several texts with nothing between them.
    Joined,
    /// The structured content.
    Structured,
    /// The content items, without anything beside what they hold.
    Bare,
    /// What a client that shows text alone can show of the content items.
    TextOnly,
    /// The server's `_meta`.
    Meta,
}

impl View {
    /// Its name, as in a receipt.
    pub fn name(self) -> &'static str {
        match self {
            View::Whole => "whole",
            View::Content => "content",
            View::Text => "text",
            View::Letters => "letters",
            View::Joined => "joined",
            View::Structured => "structured",
            View::Bare => "bare",
            View::TextOnly => "told",
            View::Meta => "meta",
        }
    }
}

/// One view of a value, in its one form.
pub type Form = (View, String);

/// The commitments to a result's views.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Views {
    /// The content items, without anything beside what they hold.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub bare: Option<Commitment>,
    /// The content items.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub content: Option<Commitment>,
    /// Several texts with nothing between them.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub joined: Option<Commitment>,
    /// Their text but for white space.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub letters: Option<Commitment>,
    /// The server's `_meta`.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Commitment>,
    /// The structured content.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub structured: Option<Commitment>,
    /// Their text.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub text: Option<Commitment>,
    /// What of the content items can be told in text.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub told: Option<Commitment>,
    /// All of it.
    pub whole: Commitment,
}

impl Views {
    /// Commits to `forms`; none without a view of the whole. Large ones are hashed by two threads.
    pub fn commit(salt: &Salt, forms: &[Form]) -> Option<Self> {
        let hash = |forms: &[&Form]| -> Vec<(View, Commitment)> {
            forms.iter().map(|(view, form)| (*view, salt.commit(view.name(), form))).collect()
        };
        let all: Vec<&Form> = forms.iter().collect();
        let bytes: usize = forms.iter().map(|(_, form)| form.len()).sum();
        let hashed = if bytes < LARGE_BYTES {
            hash(&all)
        } else {
            let (mut here, mut there, mut ahead) = (Vec::new(), Vec::new(), 0_i64);
            for form in all {
                let (half, sign) = if ahead <= 0 { (&mut here, 1) } else { (&mut there, -1) };
                half.push(form);
                ahead += sign * i64::try_from(form.1.len()).unwrap_or(i64::MAX / 16);
            }
            std::thread::scope(|scope| {
                let other = std::thread::Builder::new().spawn_scoped(scope, || hash(&there));
                let mut hashed = hash(&here);
                // Where there is no thread to be had, this one does it all.
                let others = other.ok().and_then(|other| other.join().ok());
                hashed.extend(others.unwrap_or_else(|| hash(&there)));
                hashed
            })
        };
        let of = |view: View| hashed.iter().find(|(one, _)| *one == view).map(|(_, commitment)| *commitment);
        Some(Self {
            whole: of(View::Whole)?,
            content: of(View::Content),
            text: of(View::Text),
            joined: of(View::Joined),
            letters: of(View::Letters),
            structured: of(View::Structured),
            bare: of(View::Bare),
            told: of(View::TextOnly),
            meta: of(View::Meta),
        })
    }

    /// The commitment to one view.
    pub fn get(&self, view: View) -> Option<Commitment> {
        match view {
            View::Whole => Some(self.whole),
            View::Content => self.content,
            View::Text => self.text,
            View::Letters => self.letters,
            View::Joined => self.joined,
            View::Structured => self.structured,
            View::Bare => self.bare,
            View::TextOnly => self.told,
            View::Meta => self.meta,
        }
    }

    /// The first way to read a claim of which every part is committed to; gives its weakest view.
    pub fn matching(&self, salt: &Salt, claim: &[Reading]) -> Option<View> {
        let held = |(view, form): &Form| self.get(*view).is_some_and(|one| salt.commit(view.name(), form) == one);
        let whole = claim.iter().find(|reading| !reading.is_empty() && reading.iter().all(held))?;
        let weakest =
            [View::TextOnly, View::Joined, View::Letters, View::Text, View::Structured, View::Bare, View::Content];
        let weakest = weakest.into_iter().find(|view| whole.iter().any(|(one, _)| one == view));
        Some(weakest.unwrap_or(View::Whole))
    }
}

/// One way to read what a transcript claims came back: all of these views have to be those of the result.
pub type Reading = Vec<Form>;

/// The views of a tool's result (an MCP `CallToolResult`).
pub fn forms_of_result(result: &Exact<'_>) -> Vec<Form> {
    let mut whole = String::new();
    let content = write_cleaned(result, true, &mut whole);
    // Written once: the list of items stands in the whole as it is.
    let content = content.and_then(|range| whole.get(range).map(str::to_owned));
    let beside = whole.len() - content.as_ref().map_or(0, String::len);
    let mut forms = vec![(View::Whole, whole)];
    if let Some(Exact::List(items)) = result.get("content") {
        forms.extend(forms_of_items(items, content));
    }
    match result.get("structuredContent").filter(|structured| !structured.is_null()) {
        Some(structured) => {
            let mut form = String::with_capacity(beside);
            structured.write(&mut form);
            forms.push((View::Structured, form));
        }
        None => {
            // Text that is JSON is what many clients hand on as a value.
            let text = forms.iter().find(|(view, _)| *view == View::Text);
            let structured = text.and_then(|(_, text)| structured(text));
            forms.extend(structured);
        }
    }
    forms.extend(meta(result).map(|form| (View::Meta, form)));
    forms
}

/// What the server put into `_meta`, by place; `None` where there is nothing.
fn meta(result: &Exact<'_>) -> Option<String> {
    let items = match result.get("content") {
        Some(Exact::List(items)) => items.as_slice(),
        _ => &[],
    };
    let mut form = String::new();
    for (place, holder) in std::iter::once(result).chain(items).enumerate() {
        for meta in [holder.get("_meta"), holder.get("resource").and_then(|resource| resource.get("_meta"))] {
            let Some(meta) = meta else { continue };
            let others = match meta {
                Exact::Object(members) => {
                    let others = members.iter().filter(|(name, _)| *name != GUARD_META);
                    Exact::Object(others.map(|(name, value)| (name.clone(), value.clone())).collect())
                }
                other => other.clone(),
            };
            if others != Exact::Object(Members::default()) {
                form.push_str(&format!("{place} "));
                others.write(&mut form);
                form.push('\n');
            }
        }
    }
    (!form.is_empty()).then_some(form)
}

/// The views of an error in place of a result.
pub fn forms_of_error(error: &Exact<'_>) -> Vec<Form> {
    let mut forms = vec![(View::Whole, error.canonical())];
    forms.extend(error.get("message").and_then(Exact::as_text).map(text_forms).into_iter().flatten());
    forms
}

/// The views of a list of content items; `written` is its cleaned form, where there is one already.
fn forms_of_items(items: &[Exact<'_>], written: Option<String>) -> Vec<Form> {
    let content = written.unwrap_or_else(|| {
        let mut content = String::new();
        write_items(items, &mut content);
        content
    });
    let mut forms = vec![(View::Content, content)];
    let texts: Vec<&str> = items.iter().filter_map(text_of).collect();
    if !texts.is_empty() || items.is_empty() {
        forms.extend(match texts.as_slice() {
            [only] => text_forms(only),
            several => text_forms(&several.join("\n")),
        });
    }
    if texts.len() > 1 {
        forms.push((View::Joined, collapsed(&texts.concat())));
    }
    // Plain text is the same in every view.
    if texts.len() < items.len() || items.iter().any(|item| item.get("annotations").is_some()) {
        let bare: Vec<Bare<'_>> = items.iter().map(Bare::of).collect();
        forms.push((View::Bare, bare_form(&bare)));
        forms.extend(text_only(&bare).map(|text| (View::TextOnly, text)));
    }
    forms
}

/// What a content item holds, whoever hands it on.
#[derive(Debug, Clone, PartialEq)]
enum Bare<'a> {
    Text(Cow<'a, str>),
    /// Base64: what kind of media it is differs in spelling from program to program.
    Media(Cow<'a, str>),
    Link(Cow<'a, str>),
    Other(String),
}

impl<'a> Bare<'a> {
    fn of(item: &'a Exact<'_>) -> Self {
        let text = |value: Option<&'a Exact<'_>>| value.and_then(Exact::as_text).map(Cow::Borrowed);
        let of = |one: &str, two: &str| item.get(one).and_then(|inner| text(inner.get(two)));
        let of_address = |address: Option<Cow<'a, str>>| match address? {
            Cow::Borrowed(address) => address.split_once(";base64,").map(|(_, data)| Cow::Borrowed(data)),
            Cow::Owned(address) => address.split_once(";base64,").map(|(_, data)| Cow::Owned(data.to_owned())),
        };
        let resource = item.get("resource");
        let of_resource = |name: &str| resource.and_then(|resource| text(resource.get(name)));
        if let Some(words) = text_of(item) {
            return Bare::Text(words.into());
        }
        // MCP; LangChain; Anthropic's messages; Bedrock; Gemini; OpenAI's chat completions and responses.
        let media = text(item.get("data"))
            .or_else(|| text(item.get("base64")))
            .or_else(|| of("source", "data"))
            .or_else(|| of("source", "bytes"))
            .or_else(|| of("inlineData", "data"))
            .or_else(|| of("inline_data", "data"))
            .or_else(|| of("input_audio", "data"))
            .or_else(|| of_address(of("image_url", "url")))
            .or_else(|| of_address(text(item.get("image_url"))))
            .or_else(|| of_address(of("file", "file_data")))
            .or_else(|| of_address(text(item.get("file_data"))))
            .or_else(|| of_resource("blob"));
        if let Some(data) = media {
            return Bare::Media(in_standard_base64(data));
        }
        if let Some(words) = of_resource("text") {
            return Bare::Text(words);
        }
        // LangChain calls the address of a link `url`.
        let address = text(item.get("uri")).or_else(|| text(item.get("url")));
        address.map_or_else(|| Bare::Other(cleaned(item, false)), Bare::Link)
    }

    /// What a claimed item holds. One that tells more than the member it is read by is no item that a tool gave: what stands beside
    /// would pass unseen.
    fn of_claimed(item: &'a Exact<'_>) -> Self {
        if tells_more(item) { Bare::Other(item.canonical()) } else { Self::of(item) }
    }

    fn write(&self, out: &mut String) {
        let (kind, value) = match self {
            Bare::Text(text) => ("text", text.trim()),
            Bare::Media(data) => ("media", data.as_ref()),
            Bare::Link(address) => ("link", address.as_ref()),
            Bare::Other(form) => ("other", form.as_str()),
        };
        out.push_str(kind);
        out.push(' ');
        quote(value, out);
        out.push('\n');
    }
}

fn bare_form(items: &[Bare<'_>]) -> String {
    let mut out = String::new();
    items.iter().for_each(|item| item.write(&mut out));
    out
}

/// Members by which frameworks hand on what an item holds.
const HOLDERS: &[&str] = &[
    "base64",
    "content",
    "data",
    "file",
    "file_data",
    "image_url",
    "inlineData",
    "inline_data",
    "input_audio",
    "json",
    "resource",
    "source",
    "text",
    "uri",
    "url",
];
/// Members that programs put beside it: kinds of media, ids, marks.
const BESIDE: &[&str] = &[
    "_meta",
    "annotations",
    "cache_control",
    "detail",
    "extras",
    "filename",
    "format",
    "icons",
    "id",
    "identifier",
    "index",
    "kind",
    "media_type",
    "mediaType",
    "meta",
    "mimeType",
    "mime_type",
    "providerMetadata",
    "providerOptions",
    "source_type",
    "type",
    "vendor_metadata",
];
/// Members that describe what an address leads to.
const OF_LINKS: &[&str] = &["description", "name", "size", "title"];
/// Members of what is under a holder: `source`, `image_url`, `resource`.
const HELD: &[&str] = &["blob", "bytes", "data", "file_data", "text", "url"];

/// Whether a claimed item has anything beside the one member it is read by and what programs add to it.
fn tells_more(item: &Exact<'_>) -> bool {
    let Exact::Object(members) = item else { return false };
    let says = |value: &Exact<'_>| match value {
        Exact::List(items) => !items.is_empty(),
        Exact::Object(members) => !members.is_empty(),
        other => !other.is_null() && !matches!(other, Exact::Word("false")),
    };
    let mut holders = members.iter().filter(|(name, value)| HOLDERS.contains(&name.as_ref()) && !value.is_null());
    let holder = holders.next();
    if holders.next().is_some() {
        return true;
    }
    let is_link = holder.is_some_and(|(name, _)| matches!(name.as_ref(), "uri" | "url" | "resource" | "file"));
    let known = |name: &str| HOLDERS.contains(&name) || BESIDE.contains(&name) || (is_link && OF_LINKS.contains(&name));
    if members.iter().any(|(name, value)| !known(name) && says(value)) {
        return true;
    }
    let Some((_, Exact::Object(held))) = holder else { return false };
    let of_holder = |name: &str| BESIDE.contains(&name) || OF_LINKS.contains(&name) || name == "uri";
    held.keys().filter(|name| HELD.contains(&name.as_ref())).count() > 1
        || held.iter().any(|(name, value)| !HELD.contains(&name.as_ref()) && !of_holder(name) && says(value))
}

/// Base64 in the alphabet that MCP uses: some frameworks write it in that for addresses.
fn in_standard_base64(data: Cow<'_, str>) -> Cow<'_, str> {
    if data.contains(['-', '_']) { data.replace('-', "+").replace('_', "/").into() } else { data }
}

/// None where there is nothing to tell.
fn text_only(items: &[Bare<'_>]) -> Option<String> {
    let words = items.iter().filter_map(|item| match item {
        Bare::Text(text) | Bare::Link(text) => Some(text.as_ref()),
        Bare::Media(_) | Bare::Other(_) => None,
    });
    let words = collapsed(&words.collect::<Vec<_>>().join("\n"));
    (!words.is_empty()).then_some(words)
}

/// What a transcript holds in place of a result, as text: that text, or the JSON in it.
pub fn readings_of_text(text: &str) -> Vec<Reading> {
    let mut readings = readings_of_plain(text);
    if let Ok(value) = Exact::parse(text.trim()) {
        readings.extend(value.readings());
    }
    readings
}

fn readings_of_plain(text: &str) -> Vec<Reading> {
    let forms =
        text_forms(text).into_iter().chain([(View::Joined, collapsed(text)), (View::TextOnly, collapsed(text))]);
    forms.map(|form| vec![form]).collect()
}

impl Exact<'_> {
    /// The ways to read this value as what a transcript claims came back: a whole result, content items, one of them, or a
    /// value. Where there is more than text in it, the text alone does not stand for it.
    pub fn readings(&self) -> Vec<Reading> {
        let mut readings = Vec::new();
        match self {
            Exact::Object(_) if matches!(self.get("content"), Some(Exact::List(_))) => {
                readings.push(vec![(View::Whole, cleaned(self, true))]);
                // What stands beside content and structure is compared as part of the whole, or not at all.
                if result_tells_more(self) {
                    return readings;
                }
                let structured = self.get("structuredContent").or_else(|| self.get("structured_content"));
                let structured = structured.filter(|one| !one.is_null());
                let structured = structured.map(|one| (View::Structured, one.canonical()));
                let Some(Exact::List(items)) = self.get("content") else { return readings };
                readings.extend(readings_of_items(items).into_iter().map(|mut reading| {
                    reading.extend(structured.clone());
                    reading
                }));
            }
            Exact::Object(_) if is_item(self) => readings.extend(readings_of_items(std::slice::from_ref(self))),
            Exact::List(items) => readings.extend(readings_of_items(items)),
            Exact::Text(text) => readings.extend(readings_of_plain(text)),
            _ => {}
        }
        readings.push(vec![(View::Structured, self.canonical())]);
        readings
    }
}

/// Whether a claimed result has anything that is in none of the views of its parts.
fn result_tells_more(result: &Exact<'_>) -> bool {
    let Exact::Object(members) = result else { return false };
    const KNOWN: [&str; 7] =
        ["content", "structuredContent", "structured_content", "isError", "is_error", "_meta", "meta"];
    let known = |name: &str, value: &Exact<'_>| {
        KNOWN.contains(&name) || (name == "resultType" && value.as_text() == Some("complete"))
    };
    let both =
        ["structuredContent", "structured_content"].map(|name| result.get(name).is_some_and(|one| !one.is_null()));
    both == [true, true] || members.iter().any(|(name, value)| !known(name, value) && !value.is_null())
}

fn readings_of_items(items: &[Exact<'_>]) -> Vec<Reading> {
    let mut content = String::new();
    write_items(items, &mut content);
    // An item that is handed on as JSON in a text is that item.
    let inner: Vec<Option<Exact<'_>>> = items
        .iter()
        .map(|item| Exact::parse(text_of(item)?.trim()).ok().filter(|inner| is_item(inner) && text_of(inner).is_none()))
        .collect();
    let bare: Vec<Bare<'_>> =
        items.iter().zip(&inner).map(|(item, inner)| Bare::of_claimed(inner.as_ref().unwrap_or(item))).collect();
    let mut readings = vec![vec![(View::Content, content)], vec![(View::Bare, bare_form(&bare))]];
    if !items.is_empty() && items.iter().all(|item| text_of(item).is_some() && !tells_more(item)) {
        let texts: Vec<&str> = items.iter().filter_map(text_of).collect();
        readings.extend(match texts.as_slice() {
            // JSON in it may have been written again.
            [only] => readings_of_text(only),
            several => readings_of_plain(&several.join("\n")),
        });
    }
    readings
}

fn text_forms(text: &str) -> Vec<Form> {
    vec![(View::Text, text.trim().to_owned()), (View::Letters, collapsed(text))]
}

fn structured(text: &str) -> Option<Form> {
    let value = Exact::parse(text).ok()?;
    matches!(value, Exact::Object(_) | Exact::List(_)).then(|| (View::Structured, value.canonical()))
}

/// Whether a value is a content item of some kind, not just any object.
fn is_item(value: &Exact<'_>) -> bool {
    let kind = value.get("type").and_then(Exact::as_text);
    let known = ["image", "audio", "resource", "resource_link", "image_url", "input_audio", "input_image"];
    kind.is_some_and(|kind| known.contains(&kind) || text_of(value).is_some())
}

fn text_of<'a>(item: &'a Exact<'_>) -> Option<&'a str> {
    match item {
        Exact::Text(text) => Some(text),
        _ => item.get("text").and_then(Exact::as_text),
    }
}

/// The form of a value without what programs add on the way.
fn cleaned(value: &Exact<'_>, is_result: bool) -> String {
    let mut out = String::new();
    write_cleaned(value, is_result, &mut out);
    out
}

/// Gives where the list of content items of a result stands in it.
fn write_cleaned(value: &Exact<'_>, is_result: bool, out: &mut String) -> Option<Range<usize>> {
    let Exact::Object(members) = value else {
        value.write(out);
        return None;
    };
    // An image as Anthropic's messages hold it is the one that the tool gave.
    let source = value.get("source");
    let image = source.and_then(|source| Some((source.get("data")?, source.get("media_type")?)));
    if let Some((data, kind)) = image {
        let mut members: Members<'_> = members.clone();
        members.remove("source");
        members.insert("data".into(), data.clone());
        members.insert("mimeType".into(), kind.clone());
        return write_cleaned(&Exact::Object(members), is_result, out);
    }
    let (mut first, mut content) = (true, None);
    out.push('{');
    for (name, member) in members {
        let added = match name.as_ref() {
            "_meta" | "meta" => true,
            "isError" | "is_error" => matches!(member, Exact::Word("false")),
            "resultType" => is_result && member.as_text() == Some("complete"),
            // Anthropic's way to mark a prefix for its cache.
            "cache_control" => !is_result,
            _ => member.is_null(),
        };
        if added {
            continue;
        }
        if !std::mem::take(&mut first) {
            out.push(',');
        }
        quote(name, out);
        out.push(':');
        match member {
            Exact::List(items) if is_result && name == "content" => {
                let start = out.len();
                write_items(items, out);
                content = Some(start..out.len());
            }
            other => other.write(out),
        }
    }
    out.push('}');
    content
}

fn write_items(items: &[Exact<'_>], out: &mut String) {
    out.push('[');
    for (n, item) in items.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        write_cleaned(item, false, out);
    }
    out.push(']');
}

#[cfg(test)]
#[path = "views_tests.rs"]
mod tests;
