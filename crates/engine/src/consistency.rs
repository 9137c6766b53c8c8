//! `cross_chain_consistency`: whether an agent's registrations say the same of it.
//!
//! Every pair of registrations is compared in five fields. A field is compared only where both sides say something:
//!
//! | field | weight | agrees when |
//! |---|---|---|
//! | name | 1 | the digests of the names are equal |
//! | endpoints | 2 | the origins are the same |
//! | owner | 2 | the accounts are equal, or both are proven wallets of the agent |
//! | wallet | 1 | the same |
//! | back link, once in each direction | 2 | the registration's file names the other registration |
//!
//! Accounts on chains of different kinds have different forms, so they are compared only if both are proven. A name is text that
//! anyone can copy, and a wallet may differ by chain on purpose: both weigh less than what only the owner can set up.
//!
//! With `N` comparisons, and `p` the share of them that agree, weighted, the signal is the Beta distribution of a share as for probes:
//!
//! `a = ½ + N·(1 − p)`, `b = ½ + N·p`, `value = 100·b/(a + b)`, `stddev = 100·√(a·b/((a + b)²·(a + b + 1)))`, at most 50.
//!
//! With one registration, or nothing to compare, there is no signal.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// How it is made, for evidence.
pub const DERIVATION: &str = "consistency/1";
/// Registrations that are compared, in the order of their ids.
pub const MAX_REGISTRATIONS: usize = 16;
const MAX_STDDEV: f64 = 50.0;

/// What one registration says: digests, origins and accounts, never text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registration {
    /// The chain, as a CAIP-2 id.
    pub chain: String,
    /// SHA-256 of the name, trimmed, in lower case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_digest: Option<String>,
    /// Origins of its endpoints.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub endpoints: BTreeSet<String>,
    /// Who holds the registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The agent's wallet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wallet: Option<String>,
    /// The registrations that its file names.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub points_to: BTreeSet<String>,
}

impl Registration {
    /// Whether its file was read. A file without a name, an endpoint and a registration says nothing.
    fn has_file(&self) -> bool {
        self.name_digest.is_some() || !self.endpoints.is_empty() || !self.points_to.is_empty()
    }

    /// Whether its file names the registration with this id. Registries outside eip155 may be named with more before the `/`.
    fn names(&self, id: &str) -> bool {
        self.points_to.contains(id) || self.points_to.iter().any(|one| one.rsplit('/').next() == Some(id))
    }

    /// The kind of chain: the namespace of its CAIP-2 id.
    fn kind(&self) -> &str {
        self.chain.split(':').next().unwrap_or_default()
    }

    /// An account of this chain, as a CAIP-10 id.
    fn account(&self, address: &str) -> String {
        format!("{}:{address}", self.chain)
    }
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Field {
    /// The name.
    Name,
    /// Origins of endpoints.
    Endpoints,
    /// Who holds the registration.
    Owner,
    /// The agent's wallet.
    Wallet,
    /// That the first names the second.
    BackLink,
}

impl Field {
    fn weight(self) -> f64 {
        match self {
            Self::Name | Self::Wallet => 1.0,
            Self::Endpoints | Self::Owner | Self::BackLink => 2.0,
        }
    }
}

/// Two registrations that do not say the same, by their places in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Disagreement {
    /// In what.
    pub field: Field,
    /// Which of them.
    pub of: [usize; 2],
}

/// What the comparison found.
#[derive(Debug, Clone, PartialEq)]
pub struct Consistency {
    /// 0 to 100.
    pub value: f64,
    /// 0 to 50.
    pub stddev: f64,
    /// Comparisons made.
    pub comparisons: usize,
    /// Those that do not agree.
    pub disagreements: Vec<Disagreement>,
}

/// Compares registrations, each with its id (`eip155:8453:0x…/22`). `proven` are the agent's proven wallets, as CAIP-10 ids. `None`
/// where there is nothing to compare.
pub fn compare(registrations: &[(&str, &Registration)], proven: &BTreeSet<String>) -> Option<Consistency> {
    let mut made: Vec<(Disagreement, bool)> = Vec::new();
    let compared = registrations.len().min(MAX_REGISTRATIONS);
    for (first, (id, one)) in registrations.iter().enumerate().take(compared) {
        for (second, (other_id, other)) in registrations.iter().enumerate().take(compared).skip(first + 1) {
            let mut add = |field, of, agrees: Option<bool>| {
                made.extend(agrees.map(|agrees| (Disagreement { field, of }, agrees)));
            };
            let both = [first, second];
            add(Field::Name, both, equal(&one.name_digest, &other.name_digest));
            let endpoints = !one.endpoints.is_empty() && !other.endpoints.is_empty();
            add(Field::Endpoints, both, endpoints.then(|| one.endpoints == other.endpoints));
            let accounts = |a: &Option<String>, b: &Option<String>| same_account((one, a), (other, b), proven);
            add(Field::Owner, both, accounts(&one.owner, &other.owner));
            add(Field::Wallet, both, accounts(&one.wallet, &other.wallet));
            add(Field::BackLink, both, one.has_file().then(|| one.names(other_id)));
            add(Field::BackLink, [second, first], other.has_file().then(|| other.names(id)));
        }
    }
    if made.is_empty() {
        return None;
    }
    let weight = |of: &dyn Fn(bool) -> bool| -> f64 {
        made.iter().filter(|(_, agrees)| of(*agrees)).map(|(one, _)| one.field.weight()).sum()
    };
    let share = weight(&|agrees| agrees) / weight(&|_| true);
    let n = made.len() as f64;
    let (a, b) = (0.5 + n * (1.0 - share), 0.5 + n * share);
    let variance = a * b / ((a + b) * (a + b) * (a + b + 1.0));
    let disagreements = made.iter().filter(|(_, agrees)| !agrees).map(|(one, _)| *one).collect();
    let (value, stddev) = (100.0 * b / (a + b), (100.0 * libm::sqrt(variance)).min(MAX_STDDEV));
    Some(Consistency { value, stddev, comparisons: made.len(), disagreements })
}

fn equal(one: &Option<String>, other: &Option<String>) -> Option<bool> {
    Some(one.as_ref()? == other.as_ref()?)
}

/// Whether two accounts are one person's; `None` where that cannot be told.
fn same_account(
    (one, a): (&Registration, &Option<String>),
    (other, b): (&Registration, &Option<String>),
    proven: &BTreeSet<String>,
) -> Option<bool> {
    let (a, b) = (a.as_deref()?, b.as_deref()?);
    let same_kind = one.kind() == other.kind();
    if proven.contains(&one.account(a)) && proven.contains(&other.account(b)) || same_kind && a == b {
        return Some(true);
    }
    same_kind.then_some(false)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HERE: &str = "eip155:1:0xaa/1";
    const THERE: &str = "eip155:8453:0xaa/2";
    const ASSET: &str = "9xAsset";

    fn registration(chain: &str, points_to: &[&str]) -> Registration {
        Registration {
            chain: chain.into(),
            name_digest: Some("d1".into()),
            endpoints: ["https://a.example".to_owned()].into(),
            owner: Some("0x01".into()),
            wallet: Some("0x02".into()),
            points_to: points_to.iter().map(ToString::to_string).collect(),
        }
    }

    fn pair() -> (Registration, Registration) {
        (registration("eip155:1", &[HERE, THERE]), registration("eip155:8453", &[HERE, THERE]))
    }

    fn compared(one: &Registration, other: &Registration) -> Consistency {
        compare(&[(HERE, one), (THERE, other)], &BTreeSet::new()).unwrap()
    }

    #[test]
    fn one_registration_says_nothing() {
        let (one, _) = pair();
        assert_eq!(compare(&[], &BTreeSet::new()), None);
        assert_eq!(compare(&[(HERE, &one)], &BTreeSet::new()), None);
        let silent = Registration { chain: "eip155:1".into(), ..Registration::default() };
        assert_eq!(compare(&[(HERE, &silent), (THERE, &silent)], &BTreeSet::new()), None);
    }

    #[test]
    fn agreement_in_all_six_is_as_certain_as_six_comparisons() {
        let (one, other) = pair();
        let found = compared(&one, &other);
        assert_eq!((found.comparisons, found.disagreements.len()), (6, 0));
        assert!((found.value - 100.0 * 6.5 / 7.0).abs() < 1e-9);
        assert!((found.stddev - 100.0 * (0.5 * 6.5_f64 / (49.0 * 8.0)).sqrt()).abs() < 1e-9);
    }

    #[test]
    fn what_disagrees_is_named_and_weighs() {
        let (one, mut other) = pair();
        other.name_digest = Some("d2".into());
        let name = compared(&one, &other);
        assert_eq!(name.disagreements, [Disagreement { field: Field::Name, of: [0, 1] }]);
        other.name_digest.clone_from(&one.name_digest);
        other.owner = Some("0x03".into());
        let owner = compared(&one, &other);
        assert!(owner.value < name.value, "the owner weighs more than the name");
        other.points_to = [THERE.to_owned()].into();
        let back = compared(&one, &other);
        assert_eq!(back.disagreements[1], Disagreement { field: Field::BackLink, of: [1, 0] });
        assert!(back.value < owner.value);
    }

    #[test]
    fn what_is_not_said_is_not_compared() {
        let (one, mut other) = pair();
        other.name_digest = None;
        other.endpoints.clear();
        other.points_to.clear();
        // Owner, wallet, and that the first names the second: the other's file was not read.
        assert_eq!(compared(&one, &other).comparisons, 3);
    }

    #[test]
    fn proven_wallets_are_the_agents_on_every_chain() {
        let (one, mut other) = pair();
        other.chain = "solana:5eykt".into();
        other.owner = Some("So1".into());
        other.wallet = None;
        other.points_to = [HERE.to_owned(), format!("solana:5eykt:8oo4/{ASSET}")].into();
        let mut first = one.clone();
        first.points_to.insert(format!("solana:5eykt:8oo4/{ASSET}"));
        let list = [(HERE, &first), (ASSET, &other)];
        let unproven = compare(&list, &BTreeSet::new()).unwrap();
        assert_eq!(
            (unproven.comparisons, unproven.disagreements.len()),
            (4, 0),
            "owners of two kinds cannot be compared"
        );
        let proven = ["eip155:1:0x01".to_owned(), "solana:5eykt:So1".to_owned()].into();
        assert_eq!(compare(&list, &proven).unwrap().comparisons, 5);
        let (one, mut other) = pair();
        other.owner = Some("0x09".into());
        let proven = ["eip155:1:0x01".to_owned(), "eip155:8453:0x09".to_owned()].into();
        assert!(compare(&[(HERE, &one), (THERE, &other)], &proven).unwrap().disagreements.is_empty());
    }

    proptest! {
        #[test]
        fn more_disagreement_is_never_worth_more(fields in proptest::collection::vec(any::<bool>(), 4)) {
            let (one, mut other) = pair();
            let mut last = compared(&one, &other).value;
            for (n, changes) in fields.into_iter().enumerate() {
                if changes {
                    match n {
                        0 => other.name_digest = Some("x".into()),
                        1 => other.endpoints = ["https://b.example".to_owned()].into(),
                        2 => other.owner = Some("0x0f".into()),
                        _ => other.wallet = Some("0x0f".into()),
                    }
                }
                let now = compared(&one, &other);
                prop_assert!(now.value <= last && (0.0..=100.0).contains(&now.value) && now.stddev <= 50.0);
                last = now.value;
            }
        }
    }
}
