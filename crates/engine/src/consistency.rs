//! `cross_chain_consistency`: whether an agent's registrations say the same of it, and its A2A cards and domains with them.
//!
//! Every pair is compared in five fields. A field is compared only where both sides say something:
//!
//! | field | weight | agrees when |
//! |---|---|---|
//! | name | 1 | the digests of the names are equal |
//! | endpoints | 2 | the origins are the same; with a card, which lists only those of A2A: all of the card's are among the other's |
//! | owner | 2 | the accounts are equal, or both are proven wallets of the agent |
//! | wallet | 1 | the same |
//! | back link, once in each direction | 2 | the registration's file names the other registration or the domain, the domain's file the registration |
//!
//! Accounts on chains of different kinds have different forms, so they are compared only if both are proven. A name is text that
//! anyone can copy, and a wallet may differ by chain on purpose: both weigh less than what only the owner can set up. Two cards are
//! compared by name alone, for each lists its own host.
//!
//! With `N` comparisons, and `p` the share of them that agree, weighted, the signal is the Beta distribution of a share as for probes:
//!
//! `a = ½ + N·(1 − p)`, `b = ½ + N·p`, `value = 100·b/(a + b)`, `stddev = 100·√(a·b/((a + b)²·(a + b + 1)))`, at most 50.
//!
//! This is computed twice, over the registrations alone and over everything, and the lower value holds: cards and domains cost nothing, so
//! they may lower the value and not raise it.
//!
//! With one registration, or nothing to compare, there is no signal, however many cards and domains there are.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// How it is made, for evidence.
pub const DERIVATION: &str = "consistency/2";
/// Registrations that are compared, in the order of their ids.
pub const MAX_REGISTRATIONS: usize = 16;
/// Cards that are compared, and domains.
pub const MAX_OTHERS: usize = 8;
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
    /// The domains of its file by their origins, and what the file of each says; `None` where a domain has no file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub domains: BTreeMap<String, Option<Domain>>,
}

/// What a domain's `/.well-known/agent-registration.json` says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Domain {
    /// As of a registration, where the file is a whole registration file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_digest: Option<String>,
    /// The same.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub endpoints: BTreeSet<String>,
    /// The registrations that it names.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub points_to: BTreeSet<String>,
}

/// What an A2A card says.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// As of a registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_digest: Option<String>,
    /// Origins of its interfaces.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub endpoints: BTreeSet<String>,
}

impl Registration {
    /// Whether its file was read. A file without a name, an endpoint and a registration says nothing.
    fn has_file(&self) -> bool {
        self.name_digest.is_some() || !self.endpoints.is_empty() || !self.points_to.is_empty()
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

/// Whether a list names the registration with this id. Registries outside eip155 may be named with more before the `/`.
fn names(points_to: &BTreeSet<String>, id: &str) -> bool {
    points_to.contains(id) || points_to.iter().any(|one| one.rsplit('/').next() == Some(id))
}

/// Something that describes the agent, with its id.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Side<'a> {
    /// A registration: `eip155:8453:0x…/22`.
    Registration(&'a str, &'a Registration),
    /// An A2A card.
    Card(&'a str, &'a Card),
    /// A domain, by its origin.
    Domain(&'a str, &'a Domain),
}

impl<'a> Side<'a> {
    /// Its id.
    pub fn id(&self) -> &'a str {
        match self {
            Self::Registration(id, _) | Self::Card(id, _) | Self::Domain(id, _) => id,
        }
    }

    fn name_digest(&self) -> Option<&str> {
        match self {
            Self::Registration(_, says) => says.name_digest.as_deref(),
            Self::Card(_, says) => says.name_digest.as_deref(),
            Self::Domain(_, says) => says.name_digest.as_deref(),
        }
    }

    fn endpoints(&self) -> &BTreeSet<String> {
        match self {
            Self::Registration(_, says) => &says.endpoints,
            Self::Card(_, says) => &says.endpoints,
            Self::Domain(_, says) => &says.endpoints,
        }
    }

    /// Whether it names `other`; `None` where it cannot.
    fn names(&self, other: &Side<'_>) -> Option<bool> {
        match (self, other) {
            (Self::Registration(_, says), Side::Registration(id, _)) => {
                says.has_file().then(|| names(&says.points_to, id))
            }
            (Self::Registration(_, says), Side::Domain(origin, _)) => {
                let asked = says.domains.contains_key(*origin);
                says.has_file().then(|| asked || says.endpoints.contains(*origin))
            }
            (Self::Domain(_, says), Side::Registration(id, _)) => Some(names(&says.points_to, id)),
            _ => None,
        }
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

/// Two that do not say the same, by their places in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Disagreement {
    /// In what.
    pub field: Field,
    /// Which of them.
    pub of: [usize; 2],
}

/// How many comparisons, and how many of them agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Made.
    pub comparisons: usize,
    /// Of those.
    pub agreeing: usize,
}

/// What the comparison found.
#[derive(Debug, Clone, PartialEq)]
pub struct Consistency {
    /// 0 to 100.
    pub value: f64,
    /// 0 to 50.
    pub stddev: f64,
    /// Of everything.
    pub all: Counts,
    /// Of the registrations alone.
    pub registrations: Counts,
    /// Comparisons that do not agree.
    pub disagreements: Vec<Disagreement>,
}

/// One comparison.
struct Compared {
    what: Disagreement,
    agrees: bool,
    /// Whether both are registrations.
    on_chain: bool,
}

/// Compares what describes an agent. `proven` are the agent's proven wallets, as CAIP-10 ids. `None` where there is nothing to compare, or
/// fewer than two registrations.
pub fn compare(sides: &[Side<'_>], proven: &BTreeSet<String>) -> Option<Consistency> {
    if sides.iter().filter(|side| matches!(side, Side::Registration(..))).count() < 2 {
        return None;
    }
    let mut made: Vec<Compared> = Vec::new();
    for (first, one) in sides.iter().enumerate() {
        for (second, other) in sides.iter().enumerate().skip(first + 1) {
            let on_chain = matches!((one, other), (Side::Registration(..), Side::Registration(..)));
            let mut add = |field, of, agrees: Option<bool>| {
                made.extend(agrees.map(|agrees| Compared { what: Disagreement { field, of }, agrees, on_chain }));
            };
            let both = [first, second];
            add(Field::Name, both, one.name_digest().zip(other.name_digest()).map(|(a, b)| a == b));
            add(Field::Endpoints, both, same_endpoints(one, other));
            if let (Side::Registration(_, a), Side::Registration(_, b)) = (one, other) {
                add(Field::Owner, both, same_account((a, &a.owner), (b, &b.owner), proven));
                add(Field::Wallet, both, same_account((a, &a.wallet), (b, &b.wallet), proven));
            }
            add(Field::BackLink, both, one.names(other));
            add(Field::BackLink, [second, first], other.names(one));
        }
    }
    let (everything, alone) = (estimate(&made, |_| true), estimate(&made, |one| one.on_chain));
    let (value, stddev) = [everything, alone].into_iter().flatten().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let counts = |of: &dyn Fn(&&Compared) -> bool| Counts {
        comparisons: made.iter().filter(of).count(),
        agreeing: made.iter().filter(of).filter(|one| one.agrees).count(),
    };
    let disagreements = made.iter().filter(|one| !one.agrees).map(|one| one.what).collect();
    Some(Consistency {
        value,
        stddev,
        all: counts(&|_| true),
        registrations: counts(&|one| one.on_chain),
        disagreements,
    })
}

/// Value and stddev of some of the comparisons; `None` where there are none.
fn estimate(made: &[Compared], which: impl Fn(&Compared) -> bool) -> Option<(f64, f64)> {
    let (mut n, mut total, mut agreeing) = (0.0, 0.0, 0.0);
    for one in made.iter().filter(|one| which(one)) {
        let weight = one.what.field.weight();
        n += 1.0;
        total += weight;
        agreeing += if one.agrees { weight } else { 0.0 };
    }
    if n == 0.0 {
        return None;
    }
    let share = agreeing / total;
    let (a, b) = (0.5 + n * (1.0 - share), 0.5 + n * share);
    let variance = a * b / ((a + b) * (a + b) * (a + b + 1.0));
    Some((100.0 * b / (a + b), (100.0 * libm::sqrt(variance)).min(MAX_STDDEV)))
}

/// Whether two list the same origins; `None` where one of them lists none.
fn same_endpoints(one: &Side<'_>, other: &Side<'_>) -> Option<bool> {
    let (a, b) = (one.endpoints(), other.endpoints());
    if a.is_empty() || b.is_empty() {
        return None;
    }
    match (one, other) {
        (Side::Card(..), Side::Card(..)) => None,
        (Side::Card(..), _) => Some(a.is_subset(b)),
        (_, Side::Card(..)) => Some(b.is_subset(a)),
        _ => Some(a == b),
    }
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
    const ORIGIN: &str = "https://a.example";

    fn registration(chain: &str, points_to: &[&str]) -> Registration {
        Registration {
            chain: chain.into(),
            name_digest: Some("d1".into()),
            endpoints: ["https://a.example".to_owned()].into(),
            owner: Some("0x01".into()),
            wallet: Some("0x02".into()),
            points_to: points_to.iter().map(ToString::to_string).collect(),
            ..Registration::default()
        }
    }

    fn sides<'a>(one: &'a Registration, other: &'a Registration) -> [Side<'a>; 2] {
        [Side::Registration(HERE, one), Side::Registration(THERE, other)]
    }

    fn pair() -> (Registration, Registration) {
        (registration("eip155:1", &[HERE, THERE]), registration("eip155:8453", &[HERE, THERE]))
    }

    fn compared(one: &Registration, other: &Registration) -> Consistency {
        compare(&sides(one, other), &BTreeSet::new()).unwrap()
    }

    #[test]
    fn one_registration_says_nothing() {
        let (one, _) = pair();
        assert_eq!(compare(&[], &BTreeSet::new()), None);
        assert_eq!(compare(&[Side::Registration(HERE, &one)], &BTreeSet::new()), None);
        let (card, domain) = (Card { name_digest: Some("d1".into()), ..Card::default() }, Domain::default());
        let with_others = [Side::Registration(HERE, &one), Side::Card("a2a:a", &card), Side::Domain(ORIGIN, &domain)];
        assert_eq!(compare(&with_others, &BTreeSet::new()), None, "nor with a card and a domain beside it");
        let silent = Registration { chain: "eip155:1".into(), ..Registration::default() };
        assert_eq!(compare(&sides(&silent, &silent), &BTreeSet::new()), None);
    }

    #[test]
    fn agreement_in_all_six_is_as_certain_as_six_comparisons() {
        let (one, other) = pair();
        let found = compared(&one, &other);
        assert_eq!((found.all.comparisons, found.disagreements.len()), (6, 0));
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
        assert_eq!(compared(&one, &other).all.comparisons, 3);
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
        let list = [Side::Registration(HERE, &first), Side::Registration(ASSET, &other)];
        let unproven = compare(&list, &BTreeSet::new()).unwrap();
        assert_eq!(
            (unproven.all.comparisons, unproven.disagreements.len()),
            (4, 0),
            "owners of two kinds cannot be compared"
        );
        let proven = ["eip155:1:0x01".to_owned(), "solana:5eykt:So1".to_owned()].into();
        assert_eq!(compare(&list, &proven).unwrap().all.comparisons, 5);
        let (one, mut other) = pair();
        other.owner = Some("0x09".into());
        let proven = ["eip155:1:0x01".to_owned(), "eip155:8453:0x09".to_owned()].into();
        assert!(compare(&sides(&one, &other), &proven).unwrap().disagreements.is_empty());
    }

    fn origins(list: &[&str]) -> BTreeSet<String> {
        list.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_card_is_compared_by_its_name_and_whether_its_interfaces_are_among_the_others() {
        let (mut one, other) = pair();
        one.endpoints = origins(&[ORIGIN, "https://mcp.example"]);
        let [first, second] = sides(&one, &other);
        let mut card = Card { name_digest: Some("d1".into()), endpoints: origins(&[ORIGIN]) };
        let found =
            |card: &Card| compare(&[first, second, Side::Card("a2a:a.example", card)], &BTreeSet::new()).unwrap();
        let agreeing = found(&card);
        // The two registrations list different endpoints; the card agrees with both.
        assert_eq!(agreeing.disagreements, [Disagreement { field: Field::Endpoints, of: [0, 1] }]);
        assert_eq!(agreeing.registrations, Counts { comparisons: 6, agreeing: 5 });
        assert_eq!(agreeing.all, Counts { comparisons: 10, agreeing: 9 });
        card.name_digest = Some("d2".into());
        card.endpoints = origins(&["https://mcp.example"]);
        let differs = |field, with| Disagreement { field, of: [with, 2] };
        let odd = found(&card);
        assert_eq!(
            odd.disagreements[1..],
            [differs(Field::Name, 0), differs(Field::Name, 1), differs(Field::Endpoints, 1)]
        );
        assert!(odd.value < agreeing.value);
        // Two cards on two hosts have a name in common and nothing else.
        let cards = [first, second, Side::Card("a2a:a", &card), Side::Card("a2a:b", &card)];
        assert_eq!(compare(&cards, &BTreeSet::new()).unwrap().all.comparisons, 6 + 4 + 4 + 1);
    }

    #[test]
    fn a_domain_and_a_registration_name_each_other_or_not() {
        let (one, mut other) = pair();
        other.endpoints = origins(&["https://b.example"]);
        let domain = Domain { points_to: origins(&[HERE]), ..Domain::default() };
        let found = |other: &Registration, domain: &Domain| {
            let [first, second] = sides(&one, other);
            compare(&[first, second, Side::Domain(ORIGIN, domain)], &BTreeSet::new()).unwrap()
        };
        let differs = |of| Disagreement { field: Field::BackLink, of };
        let odd = found(&other, &domain);
        assert_eq!(odd.disagreements[1..], [differs([1, 2]), differs([2, 1])], "neither names the other");
        assert_eq!(odd.all, Counts { comparisons: 10, agreeing: 7 });
        // A file that stands on the domain names it.
        other.domains.insert(ORIGIN.into(), Some(domain.clone()));
        assert_eq!(found(&other, &domain).disagreements[1..], [differs([2, 1])]);
        // A whole registration file on the domain has a name and endpoints, too.
        let whole = Domain {
            name_digest: Some("d2".into()),
            endpoints: one.endpoints.clone(),
            points_to: origins(&[HERE, THERE]),
        };
        let whole = found(&other, &whole);
        assert_eq!(whole.all, Counts { comparisons: 14, agreeing: 10 });
        assert_eq!(whole.disagreements[1].field, Field::Name);
    }

    #[test]
    fn cards_and_domains_lower_the_value_and_never_raise_it() {
        let (one, mut other) = pair();
        other.owner = Some("0x03".into());
        let alone = compared(&one, &other);
        let [first, second] = sides(&one, &other);
        let agreeing = Domain { points_to: origins(&[HERE, THERE]), ..Domain::default() };
        let hosts: Vec<String> = (0..MAX_OTHERS).map(|n| format!("https://{n}.example")).collect();
        let (mut a, mut b) = (one.clone(), other.clone());
        a.endpoints.extend(hosts.iter().cloned());
        b.endpoints.extend(hosts.iter().cloned());
        let mut many = sides(&a, &b).to_vec();
        many.extend(hosts.iter().map(|origin| Side::Domain(origin, &agreeing)));
        let many = compare(&many, &BTreeSet::new()).unwrap();
        assert_eq!(many.all.comparisons, 6 + 4 * MAX_OTHERS);
        assert_eq!(
            (many.value, many.stddev),
            (alone.value, alone.stddev),
            "agreement that costs nothing hides nothing"
        );
        let silent = Domain::default();
        let lowered = compare(&[first, second, Side::Domain(ORIGIN, &silent)], &BTreeSet::new()).unwrap();
        assert!(lowered.value < alone.value);
        // Registrations that say nothing of each other are compared through what both are compared with.
        let silent = |chain: &str| Registration {
            name_digest: Some("d1".into()),
            chain: chain.into(),
            ..Registration::default()
        };
        let (a, b) = (Registration { name_digest: None, ..silent("eip155:1") }, silent("solana:5eykt"));
        let card = Card { name_digest: Some("d2".into()), ..Card::default() };
        let through = [Side::Registration(HERE, &a), Side::Registration(ASSET, &b), Side::Card("a2a:a", &card)];
        let through = compare(&through, &BTreeSet::new()).unwrap();
        assert_eq!(through.disagreements.last().unwrap(), &Disagreement { field: Field::Name, of: [1, 2] });
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
