//! Receipts: what a guard, sitting where a tool is called, says of one call (DESIGN, *Receipts*).
//!
//! A receipt shows nothing of the arguments and the result but salted commitments to them, `SHA-256(salt ‖ view ‖ 0 ‖
//! form)`. Whoever has a claim and the salts can tell whether it is what the tool really gave; whoever has the receipt alone
//! learns nothing, not even by guessing.
//!
//! Frameworks hand results on in several shapes, so a result is committed to in several [`Views`]: as a whole, its content
//! items, their text, their text but for white space, its structured content.

mod exact;
mod members;
mod spaces;
mod views;

use std::{fmt, io, str::FromStr};

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

pub use exact::Exact;
pub use members::Members;
pub use views::{Form, GUARD_META, Reading, View, Views, forms_of_error, forms_of_result, readings_of_text};

use crate::{Canonical, Decision, EntityId, Error, Stake, Timestamp, strict::present};

/// Bytes of a salt.
const SALT_BYTES: usize = 16;
/// Bytes of a receipt's canonical form.
pub const MAX_RECEIPT_BYTES: usize = 8 * 1024;
/// Bytes that the canonical form of most receipts fits into.
const USUAL_RECEIPT_BYTES: usize = 2 * 1024;
/// Bytes of a session's, a client's, a server's or a tool's name in a receipt; longer ones are cut.
pub const MAX_NAME_BYTES: usize = 256;

/// What makes a commitment say nothing to whoever does not have it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Salt([u8; SALT_BYTES]);

/// A salted hash. In base64url, 43 characters.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Commitment([u8; 32]);

impl Salt {
    /// From the operating system's randomness.
    pub fn generate() -> Result<Self, Error> {
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt).map_err(|e| Error::Randomness(e.to_string()))?;
        Ok(Self(salt))
    }

    /// The commitment to one view of a value.
    pub fn commit(&self, view: &str, form: &str) -> Commitment {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update(view.as_bytes());
        hash.update([0]);
        hash.update(form.as_bytes());
        Commitment(hash.finalize().into())
    }
}

/// Fixed-size bytes written as unpadded base64url.
macro_rules! text_form {
    ($name:ident, $chars:literal, $what:literal) => {
        impl $name {
            /// Calls `with` with the text form. There are fifteen of them for every tool call: none is allocated.
            fn with_text<T>(&self, with: impl FnOnce(&str) -> T) -> T {
                let mut text = [b'-'; $chars];
                BASE64URL_NOPAD.encode_mut(&self.0, &mut text);
                // Base64 is ASCII.
                with(std::str::from_utf8(&text).unwrap_or_default())
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.with_text(|text| f.write_str(text))
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self, Error> {
                let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
                bytes.map(Self).ok_or_else(|| Error::Malformed(format!("not {}", $what)))
            }
        }
        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                self.with_text(|text| s.serialize_str(text))
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
text_form!(Salt, 22, "a salt: 22 characters of unpadded base64url");
text_form!(Commitment, 43, "a commitment: 43 characters of unpadded base64url");

/// What came of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// A result.
    Result,
    /// A result by which the tool says that it failed.
    ToolError,
    /// An error of the protocol in place of a result.
    ProtocolError,
    /// Nothing: the server ended, or the call was given up.
    Unanswered,
}

/// Who else could have written a receipt, by the users that processes ran as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vantage {
    /// The guard ran as the user of the agent or of the tool server: a program of that user can read the guard's key and write
    /// receipts in its name.
    SameUser,
    /// The guard ran as a user of its own: neither the agent nor the tool server could read its key or write its journal.
    OwnUser,
    /// The guard ran inside the agent's own process: the agent's program can write receipts in its name.
    InProcess,
    /// Another program told the guard of the call: nothing can be removed or changed later, but that the call happened is that
    /// program's word.
    Reported,
}

impl Vantage {
    /// Whether the guard forwarded or executed the call itself. Otherwise the receipt rests on what the agent's side says.
    pub fn is_independent(self) -> bool {
        matches!(self, Vantage::SameUser | Vantage::OwnUser)
    }

    /// Who recorded the call, for people.
    pub fn in_words(self) -> &'static str {
        match self {
            Vantage::SameUser => "a guard that ran as the agent's or the tool server's user",
            Vantage::OwnUser => "a guard that ran as a user of its own",
            Vantage::InProcess => "the agent's own process, so it is self-reported",
            Vantage::Reported => "a guard that the agent's program told of it, so it is self-reported",
        }
    }
}

/// One call that happened. What is absent was not known. Members are in the order of their names in JSON, as in the canonical form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// Who called, as the operator or the caller said.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub agent: Option<EntityId>,
    /// The arguments.
    pub arguments: Commitment,
    /// The guard's id of the call.
    pub call: Uuid,
    /// The client program, as it calls itself.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// How strongly the result's text reads like instructions, 0..=1, where that was looked at.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub content_injection: Option<f64>,
    /// The result as the client got it, where that is another.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub delivered: Option<Views>,
    /// How long the server took.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub execution_ms: Option<f64>,
    /// What came of it.
    pub outcome: CallOutcome,
    /// P(fabricated).
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub posterior: Option<f64>,
    /// The JSON-RPC id of the request, as JSON.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The result as the server gave it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub result: Option<Views>,
    /// The guard's name of the server.
    pub server: String,
    /// In which session.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The checks that fired.
    #[serde(default, rename = "signals", skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<String>,
    /// What was at stake.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub stake: Option<Stake>,
    /// When the call went to the server.
    pub started_at: Timestamp,
    /// The tool.
    pub tool: String,
    /// The user id of the process that reported the call, where one did.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Why there is no verdict.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub unjudged: Option<String>,
    /// Who else could have written it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub vantage: Option<Vantage>,
    /// What the engine decided on the result.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Decision>,
}

/// Compact JSON with numbers as RFC 8785 writes them.
struct CanonicalNumbers;

impl serde_json::ser::Formatter for CanonicalNumbers {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, number: f64) -> io::Result<()> {
        let form = exact::double_form(number).map_err(io::Error::other)?;
        writer.write_all(form.as_bytes())
    }
}

impl Receipt {
    /// The canonical form. One is made for every call, so serde_json writes it, several times as fast: only numbers differ, as members
    /// are in the order of their names.
    pub fn canonical(&self) -> Result<Canonical, Error> {
        if [self.posterior, self.execution_ms, self.content_injection].into_iter().flatten().any(|x| !x.is_finite()) {
            return Canonical::of(self);
        }
        let mut bytes = Vec::with_capacity(USUAL_RECEIPT_BYTES);
        let malformed = |e: &dyn fmt::Display| Error::Malformed(e.to_string());
        self.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, CanonicalNumbers))
            .map_err(|e| malformed(&e))?;
        Ok(Canonical::known(String::from_utf8(bytes).map_err(|e| malformed(&e))?))
    }

    /// Whether claimed arguments and a claimed result are what was committed to: what whoever was shown a receipt with its
    /// salts asks. Nothing is said of what is not claimed.
    pub fn matches(
        &self,
        salts: &Salts,
        arguments: Option<&Exact<'_>>,
        result: Option<&Exact<'_>>,
    ) -> (Option<bool>, Option<bool>) {
        let arguments = arguments.map(|value| salts.arguments(Some(value)) == self.arguments);
        let result = result.map(|value| {
            let readings = match value {
                Exact::Text(text) => readings_of_text(text),
                other => other.readings(),
            };
            let mut given = [&self.result, &self.delivered].into_iter().flatten();
            given.any(|views| views.matching(&salts.result, &readings).is_some())
        });
        (arguments, result)
    }
}

/// The salts of one receipt: with them whoever has a claim can check it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Salts {
    /// Of the arguments.
    pub arguments: Salt,
    /// Of the result, as given and as delivered.
    pub result: Salt,
}

impl Salts {
    /// Fresh ones.
    pub fn generate() -> Result<Self, Error> {
        // One call to the system for both: there is one for every tool call.
        let mut both = [[0; SALT_BYTES]; 2];
        getrandom::fill(both.as_flattened_mut()).map_err(|e| Error::Randomness(e.to_string()))?;
        let [arguments, result] = both.map(Salt);
        Ok(Self { arguments, result })
    }

    /// The commitment to arguments. None are an empty object: to a tool they are the same.
    pub fn arguments(&self, arguments: Option<&Exact<'_>>) -> Commitment {
        self.arguments_in_form(&arguments_form(arguments))
    }

    /// The commitment to arguments of which this is the [form](arguments_form).
    pub fn arguments_in_form(&self, form: &str) -> Commitment {
        self.arguments.commit("arguments", form)
    }
}

/// The canonical form of arguments. None are an empty object: to a tool they are the same.
pub fn arguments_form(arguments: Option<&Exact<'_>>) -> String {
    arguments.filter(|value| !value.is_null()).map_or_else(|| "{}".to_owned(), Exact::canonical)
}

/// A name as a receipt holds it.
pub fn cut_name(name: &str) -> String {
    let end = (0..=MAX_NAME_BYTES.min(name.len())).rev().find(|end| name.is_char_boundary(*end)).unwrap_or_default();
    name[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commitments_depend_on_salt_view_and_form() {
        let salt: Salt = "AAAAAAAAAAAAAAAAAAAAAA".parse().unwrap();
        let other = Salt::generate().unwrap();
        let commitment = salt.commit("text", "18");
        assert_eq!(commitment, salt.commit("text", "18"));
        for different in [other.commit("text", "18"), salt.commit("whole", "18"), salt.commit("text", "19")] {
            assert_ne!(commitment, different);
        }
        assert_eq!(commitment.to_string().parse::<Commitment>().unwrap(), commitment);
        assert!("short".parse::<Commitment>().is_err() && "AAAA".parse::<Salt>().is_err());
    }

    #[test]
    fn no_arguments_are_an_empty_object() {
        let salts = Salts::generate().unwrap();
        let [empty, null, some] = ["{}", "null", "{\"a\":1}"].map(|text| Exact::parse(text).unwrap());
        assert_eq!(salts.arguments(None), salts.arguments(Some(&empty)));
        assert_eq!(salts.arguments(None), salts.arguments(Some(&null)));
        assert_ne!(salts.arguments(None), salts.arguments(Some(&some)));
    }

    use proptest::strategy::Strategy as _;

    proptest::proptest! {
        /// The quick way gives the same bytes.
        #[test]
        fn the_quick_form_is_the_canonical_one(
            posterior in proptest::option::of(proptest::prop_oneof![0.0..1.0_f64, (-20.0..0.0_f64).prop_map(|x| 10_f64.powf(x))]),
            execution_ms in proptest::option::of(proptest::prop_oneof![0.0..1e7_f64, proptest::strategy::Just(3.0), 0.0..1e-3_f64]),
            tool in ".*", session in proptest::option::of(".*"), whole in ".*",
        ) {
            let salts = Salts::generate().unwrap();
            let forms = [(View::Whole, whole.clone()), (View::Text, whole)];
            let receipt = Receipt {
                agent: Some(EntityId::new("a").unwrap()), arguments: salts.arguments(None), call: Uuid::now_v7(), client: None,
                content_injection: None, delivered: None, execution_ms, outcome: CallOutcome::ToolError, posterior,
                request: Some("\"1\"".to_owned()), result: Views::commit(&salts.result, &forms), server: "s".to_owned(), session,
                checks: vec!["a".to_owned()],
                stake: Some(Stake::High), started_at: "2026-11-16T09:00:00.123456Z".parse().unwrap(), tool,
                uid: None, unjudged: None, vantage: None, verdict: Some(Decision::Flag),
            };
            let quick = receipt.canonical().unwrap();
            proptest::prop_assert_eq!(&quick, &Canonical::of(&receipt).unwrap());
            proptest::prop_assert_eq!(serde_json::from_str::<Receipt>(quick.as_str()).unwrap(), receipt);
        }
    }

    #[test]
    fn names_are_cut_between_characters() {
        assert_eq!(cut_name("short"), "short");
        let long = "é".repeat(200);
        assert!(cut_name(&long).len() <= MAX_NAME_BYTES && long.starts_with(&cut_name(&long)));
    }
}
