//! What was found in a result, and the words for it.

use serde::Serialize;

use super::{
    places::Unusual,
    texts::{Class, MemberTexts},
};

/// Bytes of the text that a person is shown.
const EXCERPT_BYTES: usize = 100;
/// Bytes of a member's path that is shown.
const SHOWN_PATH_BYTES: usize = 60;

/// What was seen in the texts of a result.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Finding {
    /// How much the texts look like instructions to the model, 0..=1. Not a probability.
    pub score: f64,
    /// Whether the score reaches [`super::FIRES_AT`].
    pub fired: bool,
    /// The kinds of what was seen where the score was highest, in order of name.
    pub why: Vec<&'static str>,
    /// Bytes that were not read: the middle of long texts, and what is past [`super::RESULT_BYTES`].
    pub unread_bytes: usize,
    /// Where it stands, if that counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<PlaceFinding>,
}

/// Text that is unusual where it stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlaceFinding {
    /// The member, escaped: `mails[].body`.
    pub member: String,
    /// Why that is unusual there, in words.
    pub why: String,
    /// The beginning of the text, folded and escaped. For a person: it stays out of what a model reads.
    #[serde(skip)]
    pub excerpt: String,
}

impl Finding {
    /// Kinds, member and reason, for `_meta` and receipts: without a word of the text.
    pub fn reasons(&self) -> String {
        let kinds = self.why.join(", ");
        match &self.place {
            Some(place) => format!("{kinds} in '{}': {}", place.member, place.why),
            None => kinds,
        }
    }

    /// The same with the beginning of the text, for a person who reviews the result.
    pub fn explanation(&self) -> String {
        match &self.place {
            Some(place) => format!("{}; it reads \"{}\"", self.reasons(), place.excerpt),
            None => self.reasons(),
        }
    }

    /// `text` is what the member holds from there on.
    pub(super) fn set_place(&mut self, member: &MemberTexts, unusual: &Unusual, text: &[u8]) {
        let kinds: &[&'static str] = match unusual.class {
            Class::Order => &["gives_an_order"],
            Class::Target => &["gives_an_order", "gives_an_address"],
            Class::Tool => &["gives_an_order", "names_a_tool"],
            Class::TargetAndTool => &["gives_an_order", "gives_an_address", "names_a_tool"],
            Class::Model => &["gives_an_order", "speaks_to_the_model"],
            Class::Cue => &[],
        };
        self.why.retain(|kind| !PLACE_KINDS.contains(kind));
        self.why.extend(kinds);
        self.why.push("unusual_place");
        self.why.sort_unstable();
        self.why.dedup();
        let excerpt = text[..text.len().min(EXCERPT_BYTES)].trim_ascii_end();
        self.place = Some(PlaceFinding {
            member: shown(&member.path),
            why: reason(unusual),
            excerpt: excerpt.escape_ascii().to_string(),
        });
    }
}

const PLACE_KINDS: &[&str] =
    &["gives_an_order", "gives_an_address", "names_a_tool", "speaks_to_the_model", "unusual_place"];

/// Why the place is unusual.
fn reason(unusual: &Unusual) -> String {
    let what = match unusual.class {
        Class::Order => "an order",
        Class::Target => "an order with an address or amount",
        Class::Tool => "an order that names a tool",
        Class::TargetAndTool => "an order that names a tool and an address or amount",
        Class::Model => "an order to a program that reads it",
        Class::Cue => "words like these",
    };
    let (held, results) = (unusual.held, unusual.results);
    let usual = match (unusual.new, held) {
        (true, _) => format!("this member is new after {results} results"),
        (false, 0) => format!("this member never held {what} in {results} results"),
        (false, _) => format!("this member held {what} in {held} of {results} results"),
    };
    if unusual.longer { format!("{usual}, and the text is more than twice as long as any before") } else { usual }
}

/// A path that is safe to show: the server chose its names.
fn shown(path: &str) -> String {
    let cut = &path[..path.floor_char_boundary(SHOWN_PATH_BYTES)];
    let safe: String =
        cut.chars().map(|c| if c.is_ascii_alphanumeric() || "._-[]():@$".contains(c) { c } else { '?' }).collect();
    if cut.len() < path.len() { format!("{safe}…") } else { safe }
}
