//! The values of one trial: canaries, nonces, names and addresses, made from the run's seed.
//!
//! `value = f(SHA-256(seed ‖ probe ‖ variant ‖ trial ‖ part ‖ name))`: a resumed run and a reproduction make the same ones, and no
//! two trials share any. Control and attack of one trial have different values, so that what the control taught a target cannot be
//! taken for the attack's success.
//!
//! | in texts | what it is |
//! |---|---|
//! | `{half_a}` `{half_b}` | two pieces; joined they are the canary `joined` |
//! | `{backwards}` | the canary `reversed`, read from its end |
//! | `{factor_a}` `{factor_b}` | four-digit numbers; their product is the canary `product`, their sum `sum` |
//! | `{digest_input}` | a word; its SHA-256 in hex is the canary `sha256` |
//! | `{nonce}` `{nonce_b}` | short unique words, for ids and file names |
//! | `{secret}` `{secret_b}` | something to keep: `amber-falcon-4821` |
//! | `{trap_url}` | a URL of our listener that nobody should fetch; `{trap_host}` is its host and port |
//! | `{page_url}` | a URL of our listener with the script's page |
//! | `{failing_url}` | a URL of our listener that answers every fetch with an error and asks for a pause |
//! | `{person}` `{other_person}` `{company}` `{city}` | names |
//! | `{user_email}` `{attacker_email}` `{attacker_domain}` | addresses below `.example` |
//! | `{order_id}` `{account}` `{attacker_account}` | ids |
//! | `{amount}` `{wrong_amount}` `{number}` | whole numbers, all different |
//! | `{filler_2k}` `{filler_20k}` | that many words of harmless prose |
//! | `{payload}` | the probe's order in the trial's variant |

use sha2::{Digest, Sha256};

use crate::{
    suite::{CanaryKind, Part},
    variant::Variant,
};

/// Names of all values that every trial has.
pub const NAMES: [&str; 30] = [
    "half_a",
    "half_b",
    "backwards",
    "factor_a",
    "factor_b",
    "digest_input",
    "nonce",
    "nonce_b",
    "secret",
    "secret_b",
    "trap_url",
    "trap_host",
    "page_url",
    "failing_url",
    "person",
    "other_person",
    "company",
    "city",
    "user_email",
    "attacker_email",
    "attacker_domain",
    "order_id",
    "account",
    "attacker_account",
    "amount",
    "wrong_amount",
    "number",
    "filler_2k",
    "filler_20k",
    "payload",
];

const PEOPLE: [&str; 12] =
    ["Marta", "Jonas", "Priya", "Tomas", "Elena", "Kwame", "Sofia", "Daniel", "Aiko", "Lucas", "Nadia", "Peter"];
const COMPANIES: [&str; 8] = [
    "Northwind Traders",
    "Harbor Logistics",
    "Alder Foods",
    "Brightline Media",
    "Kestrel Optics",
    "Juniper Bank",
    "Ostrava Steel",
    "Lakeside Clinic",
];
const CITIES: [&str; 10] = ["Lisbon", "Oslo", "Prague", "Turin", "Ghent", "Krakow", "Porto", "Graz", "Bergen", "Malmo"];
const COLOURS: [&str; 10] =
    ["amber", "cobalt", "crimson", "ivory", "jade", "copper", "violet", "silver", "scarlet", "indigo"];
const BIRDS: [&str; 10] =
    ["falcon", "heron", "magpie", "osprey", "plover", "raven", "sparrow", "swift", "thrush", "wren"];
const PROSE: [&str; 12] = [
    "The committee met on Tuesday and went through the figures of the last quarter.",
    "Deliveries from the northern depot arrived a day late because of the weather.",
    "The new chairs were placed along the windows of the reading room.",
    "Two of the five printers were replaced, and the others were cleaned.",
    "A short survey among the visitors showed that most of them came by train.",
    "The garden behind the building was planted with low hedges.",
    "The canteen tried a second soup, which was well received.",
    "Parking spaces near the entrance are reserved until the end of the month.",
    "The minutes of the earlier meeting were read and accepted.",
    "Maintenance of the lift is planned for the first week of the holidays.",
    "Several members asked for a longer opening time on Thursdays.",
    "The lights in the corridor now switch off by themselves after ten minutes.",
];

/// Which trial, and which half of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TrialKey {
    /// The run's seed.
    pub seed: u64,
    /// The probe's id; for a control, the family's.
    pub probe: String,
    /// The spelling.
    pub variant: Variant,
    /// Counted from 0 within probe and variant; for a control, how often the control was run before.
    pub trial: u32,
    /// Control or attack.
    pub part: Part,
}

impl TrialKey {
    /// 32 bytes for one name.
    pub fn bytes(&self, name: &str) -> [u8; 32] {
        let mut hash = Sha256::new();
        let part = match self.part {
            Part::Control => "control",
            Part::Attack => "attack",
        };
        let (seed, trial) = (self.seed.to_string(), self.trial.to_string());
        for piece in [seed.as_str(), &self.probe, self.variant.id(), &trial, part, name] {
            hash.update((piece.len() as u64).to_be_bytes());
            hash.update(piece.as_bytes());
        }
        hash.finalize().into()
    }

    fn number(&self, name: &str, from: u64, below: u64) -> u64 {
        let bytes = self.bytes(name);
        let wide = bytes[..8].iter().fold(0u64, |sum, byte| (sum << 8) | u64::from(*byte));
        from + wide % (below - from)
    }

    fn pick<'a>(&self, name: &str, list: &[&'a str]) -> &'a str {
        list[self.number(name, 0, list.len() as u64) as usize]
    }

    /// `length` letters that spell no word: consonants and digits, without those that look alike.
    fn letters(&self, name: &str, length: usize) -> String {
        const ALPHABET: &[u8] = b"bcdfghjkmnpqrtvwxz2346789";
        let bytes = self.bytes(name);
        (0..length).map(|n| char::from(ALPHABET[usize::from(bytes[n % 32]) % ALPHABET.len()])).collect()
    }
}

/// The values of one half of a trial.
#[derive(Debug, Clone)]
pub struct Values {
    key: TrialKey,
    listener: Option<String>,
}

impl Values {
    /// Those of a trial. `listener` is the base URL of our listener, where there is one.
    pub fn new(key: TrialKey, listener: Option<String>) -> Self {
        Self { key, listener: listener.map(|base| base.trim_end_matches('/').to_owned()) }
    }

    /// Which trial.
    pub fn key(&self) -> &TrialKey {
        &self.key
    }

    /// The value of a name, without `payload`. `None`: there is no such name, or no listener to point to.
    pub fn get(&self, name: &str) -> Option<String> {
        let key = &self.key;
        Some(match name {
            "half_a" => key.letters("half_a", 6),
            "half_b" => key.letters("half_b", 6),
            "backwards" => self.canary(CanaryKind::Reversed).chars().rev().collect(),
            "factor_a" | "factor_b" => self.factor(name).to_string(),
            "digest_input" | "nonce" | "nonce_b" => key.letters(name, 8),
            "secret" | "secret_b" => {
                let (colour, bird) = (key.pick(&format!("{name}1"), &COLOURS), key.pick(&format!("{name}2"), &BIRDS));
                format!("{colour}-{bird}-{}", key.number(name, 1000, 10_000))
            }
            "trap_url" => format!("{}/{}", self.listener.as_ref()?, self.trap_path()),
            "trap_host" => host_of(self.listener.as_ref()?).to_owned(),
            "page_url" => format!("{}/{}", self.listener.as_ref()?, self.page_path()),
            "failing_url" => format!("{}/{}", self.listener.as_ref()?, self.failing_path()),
            "person" | "other_person" => {
                let first = key.number("person", 0, PEOPLE.len() as u64) as usize;
                let step = 1 + key.number("other_person", 0, PEOPLE.len() as u64 - 1) as usize;
                PEOPLE[if name == "person" { first } else { (first + step) % PEOPLE.len() }].to_owned()
            }
            "company" => key.pick(name, &COMPANIES).to_owned(),
            "city" => key.pick(name, &CITIES).to_owned(),
            "user_email" => format!("{}@customer.example", self.get("person")?.to_lowercase()),
            "attacker_email" => format!("billing-{}@{}", key.letters("mail", 4), self.get("attacker_domain")?),
            "attacker_domain" => format!("{}-services.example", key.letters("domain", 5)),
            "order_id" => format!("ORD-{}", key.number(name, 10_000, 100_000)),
            "account" => format!("DE{}", key.number(name, 1_000_000_000, 10_000_000_000)),
            "attacker_account" => format!("XK{}", key.number(name, 1_000_000_000, 10_000_000_000)),
            // Different ranges, so that none of them is ever another.
            "amount" => key.number(name, 1_100, 4_900).to_string(),
            "wrong_amount" => key.number(name, 5_100, 9_900).to_string(),
            "number" => key.number(name, 110, 990).to_string(),
            "filler_2k" => self.filler(2_000),
            "filler_20k" => self.filler(20_000),
            _ => return None,
        })
    }

    /// The value that the target must compute. It is never part of what is sent.
    pub fn canary(&self, kind: CanaryKind) -> String {
        match kind {
            CanaryKind::Joined => format!("{}{}", self.key.letters("half_a", 6), self.key.letters("half_b", 6)),
            CanaryKind::Reversed => self.key.letters("reversed", 10),
            CanaryKind::Product => (self.factor("factor_a") * self.factor("factor_b")).to_string(),
            CanaryKind::Sum => (self.factor("factor_a") + self.factor("factor_b")).to_string(),
            CanaryKind::Sha256 => {
                let digest = Sha256::digest(self.key.letters("digest_input", 8).as_bytes());
                data_encoding::HEXLOWER.encode(&digest)
            }
        }
    }

    /// The path of the trap below the listener's base.
    pub fn trap_path(&self) -> String {
        format!("t-{}", self.key.letters("trap", 20))
    }

    /// The path of the page below the listener's base.
    pub fn page_path(&self) -> String {
        format!("p-{}", self.key.letters("page", 20))
    }

    /// The path of the failing URL below the listener's base.
    pub fn failing_path(&self) -> String {
        format!("f-{}", self.key.letters("failing", 20))
    }

    /// One of a list, always the same for this trial and name.
    pub fn choice<'a>(&self, name: &str, list: &'a [String]) -> Option<&'a str> {
        let most = u64::try_from(list.len()).ok().filter(|length| *length > 0)?;
        list.get(self.key.number(name, 0, most) as usize).map(String::as_str)
    }

    fn factor(&self, name: &str) -> u64 {
        self.key.number(name, 1_009, 9_973)
    }

    fn filler(&self, words: usize) -> String {
        let mut text = String::new();
        let (mut count, mut at) = (0, self.key.number("filler", 0, 12) as usize);
        while count < words {
            let sentence = PROSE[at % PROSE.len()];
            count += sentence.split(' ').count();
            text.push_str(sentence);
            text.push(if at.is_multiple_of(7) { '\n' } else { ' ' });
            at += 1 + (count / 60) % 5;
        }
        text
    }
}

fn host_of(base: &str) -> &str {
    let rest = base.split_once("://").map_or(base, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(trial: u32, part: Part) -> Values {
        let key = TrialKey { seed: 7, probe: "p".into(), variant: Variant::Plain, trial, part };
        Values::new(key, Some("http://127.0.0.1:9/x/".into()))
    }

    #[test]
    fn every_name_has_a_value_that_holds_no_canary() {
        let all = values(0, Part::Attack);
        let kinds =
            [CanaryKind::Joined, CanaryKind::Reversed, CanaryKind::Product, CanaryKind::Sum, CanaryKind::Sha256];
        for name in NAMES.into_iter().filter(|name| *name != "payload") {
            let value = all.get(name).unwrap();
            for kind in kinds {
                assert!(!value.contains(&all.canary(kind)), "{name}");
            }
        }
        assert_eq!(all.get("page").as_deref(), None);
        assert_eq!(all.get("trap_host").as_deref(), Some("127.0.0.1:9"));
        assert!(all.get("trap_url").unwrap().starts_with("http://127.0.0.1:9/x/t-"));
    }

    #[test]
    fn the_same_trial_has_the_same_values_and_no_other_has() {
        let (one, again) = (values(3, Part::Attack), values(3, Part::Attack));
        for other in [values(4, Part::Attack), values(3, Part::Control)] {
            assert_eq!(one.get("secret"), again.get("secret"));
            assert_ne!(one.get("half_a"), other.get("half_a"));
            assert_ne!(one.trap_path(), other.trap_path());
            assert_ne!(one.canary(CanaryKind::Product), other.canary(CanaryKind::Product));
        }
    }

    #[test]
    fn people_differ_and_long_texts_are_long() {
        for trial in 0..50 {
            let all = values(trial, Part::Attack);
            assert_ne!(all.get("person"), all.get("other_person"));
        }
        let words = values(0, Part::Attack).get("filler_20k").unwrap().split_whitespace().count();
        assert!((20_000..20_100).contains(&words), "{words}");
    }
}
