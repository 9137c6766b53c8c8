//! A badge: an SVG, 20 pixels high, that shows a score and carries the signed claim it was drawn from in its metadata. Whoever
//! has it verifies the claim and draws the badge again: a polished picture does not come out.

use credence_engine::{tiers::Tier, universal};
use credence_protocol::{EntityId, PublicKey, SecretKey, Timestamp, strict};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Error,
    document::{self, Document},
};

const HEIGHT: u32 = 20;
const PADDING: u32 = 6;
const LABEL: &str = "trust";
const CLAIM_START: &str = "<metadata id=\"credence-claim\">";
const CLAIM_END: &str = "</metadata>";
/// A badge file is far smaller.
pub const MAX_BYTES: usize = 64 * 1024;

/// How it looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// Square corners, no shine.
    #[default]
    Flat,
    /// Round ends.
    Pill,
}

impl Style {
    /// By its name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "flat" => Some(Style::Flat),
            "pill" => Some(Style::Pill),
            _ => None,
        }
    }
}

/// What a badge claims.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// About whom.
    pub agent: EntityId,
    /// The published score; none when unrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<u8>,
    /// Its uncertainty, to a tenth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stddev: Option<f64>,
    /// The formula of that score; none when unrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub formula: Option<String>,
    /// The assured score; none when nothing that counts is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assured: Option<ClaimedAssured>,
    /// The authority took the agent's standing back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub revoked: bool,
    /// The entry of the authority's log with the score event that it rests on; none when never rated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<u64>,
    /// How it looks.
    pub style: Style,
    /// When it was made.
    pub issued: Timestamp,
    /// Until when it can be relied on.
    pub expires: Timestamp,
    /// The key that signed; set by signing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    kid: String,
}

/// What a badge claims of an assured score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimedAssured {
    /// What can be vouched for.
    pub score: u8,
    /// What is believed.
    pub estimate: f64,
    /// The share of that which is evidence.
    pub known: f64,
    /// The entry of the authority's log with the score event that it rests on.
    pub event: u64,
    /// The formula.
    pub formula: String,
}

impl Claim {
    /// A claim to be drawn.
    pub fn new(agent: EntityId, score: Option<(u8, f64)>, style: Style, issued: Timestamp, expires: Timestamp) -> Self {
        let stddev = score.map(|(_, stddev)| (stddev * 10.0).round() / 10.0);
        let score = score.map(|(score, _)| score);
        let (revoked, event, assured, kid) = (false, None, None, String::new());
        let formula = score.map(|_| universal::FORMULA.to_owned());
        Self { agent, score, stddev, formula, assured, revoked, event, style, issued, expires, kid }
    }

    /// The assured score beside it.
    pub fn assured(self, assured: Option<ClaimedAssured>) -> Self {
        Self { assured, ..self }
    }

    /// Whether the authority took the agent's standing back.
    pub fn revoked(self, revoked: bool) -> Self {
        Self { revoked, ..self }
    }

    /// The score event that it rests on.
    pub fn from_event(self, event: Option<u64>) -> Self {
        Self { event, ..self }
    }

    fn tier(&self) -> Tier {
        self.score.map_or(Tier::Unrated, Tier::of)
    }

    fn message(&self) -> String {
        let assured = self.assured.as_ref().filter(|_| !self.revoked);
        let prefix = assured.map_or(String::new(), |assured| format!("{} assured · ", assured.score));
        prefix + &self.universal_message()
    }

    fn universal_message(&self) -> String {
        match (self.score, self.stddev) {
            _ if self.revoked => "revoked".to_owned(),
            (Some(score), Some(stddev)) => format!("{} {score} ± {stddev:.1}", self.tier()),
            (Some(score), None) => format!("{} {score}", self.tier()),
            (None, _) => "not rated".to_owned(),
        }
    }
}

/// Background where the standing was revoked.
const REVOKED: &str = "#9b1c1c";

/// Background of the message; white on each has a contrast of at least 4.5 (WCAG AA).
fn colour(tier: Tier) -> &'static str {
    match tier {
        Tier::Unrated => "#5f6368",
        Tier::Bronze => "#8a4b16",
        Tier::Silver => "#56606b",
        Tier::Gold => "#7a5c00",
        Tier::Platinum => "#1f5f8b",
        Tier::Diamond => "#0f6b4f",
    }
}

/// Signs a claim and draws it.
pub fn issue(claim: &Claim, key: &SecretKey) -> Result<String, Error> {
    let value = serde_json::to_value(claim).map_err(|e| Error::Malformed(e.to_string()))?;
    let body = value.as_object().cloned().unwrap_or_default();
    Ok(draw(claim, Document::sign(body, key)?.as_str()))
}

fn draw(claim: &Claim, signed: &str) -> String {
    let message = claim.message();
    let (left, right) = (width(LABEL) + 2 * PADDING, width(&message) + 2 * PADDING);
    let (total, radius) = (left + right, if claim.style == Style::Pill { 10 } else { 3 });
    let title = format!("{LABEL}: {message}, {}", claim.agent);
    let (title, text) = (escape(&title), escape(&message));
    let fill = if claim.revoked { REVOKED } else { colour(claim.tier()) };
    let (x1, x2) = (left / 2, left + right / 2);
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{HEIGHT}" role="img" aria-label="{title}"><title>{title}</title>{CLAIM_START}{}{CLAIM_END}<clipPath id="r"><rect width="{total}" height="{HEIGHT}" rx="{radius}" fill="#fff"/></clipPath><g clip-path="url(#r)"><rect width="{left}" height="{HEIGHT}" fill="#333b44"/><rect x="{left}" width="{right}" height="{HEIGHT}" fill="{fill}"/></g><g fill="#fff" text-anchor="middle" font-family="Verdana,Geneva,DejaVu Sans,sans-serif" font-size="11"><text x="{x1}" y="14">{LABEL}</text><text x="{x2}" y="14">{text}</text></g></svg>
"##,
        escape(signed)
    )
}

/// The width of text in Verdana at 11 pixels, nearly.
fn width(text: &str) -> u32 {
    let tenths: u32 = text
        .chars()
        .map(|c| match c {
            'i' | 'l' | 'j' | '.' | ',' | ' ' => 36,
            't' | 'f' | 'r' => 44,
            'm' | 'w' => 100,
            '±' => 90,
            'A'..='Z' => 77,
            _ => 68,
        })
        .sum();
    tenths.div_ceil(10)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn unescape(text: &str) -> String {
    text.replace("&quot;", "\"").replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&")
}

/// Whether a file looks like a badge.
pub fn recognises(text: &str) -> bool {
    text.trim_start().starts_with("<svg") && text.contains(CLAIM_START)
}

/// Checks the claim in a badge, and that the picture is the one it makes.
pub fn verify(svg: &str, keys: &[PublicKey]) -> Result<Claim, Error> {
    if svg.len() > MAX_BYTES {
        return Err(Error::TooLarge { what: "the badge".into(), bytes: svg.len(), limit: MAX_BYTES });
    }
    let missing = || Error::Malformed("the picture carries no claim".into());
    let (_, rest) = svg.split_once(CLAIM_START).ok_or_else(missing)?;
    let (inner, _) = rest.split_once(CLAIM_END).ok_or_else(missing)?;
    let signed = unescape(inner);
    let verified = document::verify(signed.as_bytes(), keys)?;
    let claim: Claim = strict::typed(Value::Object(verified.body).to_string().as_bytes())?;
    if draw(&claim, &signed) != svg {
        return Err(Error::Redrawn);
    }
    Ok(claim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(score: Option<(u8, f64)>, style: Style) -> Claim {
        let at = |text: &str| text.parse().unwrap();
        let agent = EntityId::new("weather-bot").unwrap();
        Claim::new(agent, score, style, at("2026-11-16T00:00:00Z"), at("2026-11-17T00:00:00Z"))
    }

    #[test]
    fn a_badge_carries_its_proof_and_no_other_picture_has_it() {
        let key = SecretKey::from_seed(&[6; 32]);
        for (score, style) in [(Some((66, 5.55)), Style::Flat), (Some((91, 0.0)), Style::Pill), (None, Style::Flat)] {
            let svg = issue(&claim(score, style), &key).unwrap();
            let checked = verify(&svg, &[key.public()]).unwrap();
            assert_eq!((checked.score, checked.style), (score.map(|(score, _)| score), style));
            for at in
                (0..svg.len()).filter(|at| svg.is_char_boundary(*at) && svg.as_bytes()[*at].is_ascii_alphanumeric())
            {
                let mut bytes = svg.clone().into_bytes();
                bytes[at] = if bytes[at] == b'7' { b'8' } else { b'7' };
                let polished = String::from_utf8(bytes).unwrap();
                assert!(verify(&polished, &[key.public()]).is_err(), "byte {at}");
            }
        }
        let unrated = issue(&claim(None, Style::Flat), &key).unwrap();
        assert!(unrated.contains(">not rated<"));
    }

    #[test]
    fn colours_have_contrast() {
        let luminance = |hex: &str| {
            let part = |at: usize| {
                let c = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
                if c <= 0.03928 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
        };
        for fill in Tier::ALL.map(colour).into_iter().chain([REVOKED]) {
            let contrast = 1.05 / (luminance(fill) + 0.05);
            assert!(contrast >= 4.5, "{fill}: {contrast}");
        }
    }
}
