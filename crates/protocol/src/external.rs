//! External subjects: things outside that an agent says are its own, written `KIND:ID`, each in one canonical form. What others say
//! about such a thing feeds the agent only over a proven link.
//!
//! | kind | id | parts |
//! |---|---|---|
//! | `repository` | `github.com/acme/weather` (GitHub, GitLab, Codeberg) | `forge`, `owner`, `name` |
//! | `host` | `shop.example`, with a port where it is not 443 | `host` |
//! | `wallet` | CAIP-10: `eip155:8453:0x…`, `solana:GENESIS:BASE58` | `namespace`, `chain`, `address` |
//! | `container` | `docker.io/acme/weather` | `registry`, `namespace`, `name` |
//! | `model` | `huggingface.co/acme/weather-7b` | `hub`, `owner`, `name` |
//! | `package` | `pkg:npm/weather@1.2.0` (npm, PyPI, Cargo; with a version) | `purl`, `system`, `name`, `version` |
//! | `erc8004` | `eip155:8453:0x…/22` | `chain`, `contract`, `token` |
//! | `solana8004` | the asset, in base58 | `asset` |
//! | `mcp` | `io.github.acme/weather` | `name` |
//! | `a2a` | the host of the agent card | `host` |
//! | `uaid` | what follows `uaid:` (HCS-14) | `uaid` |
//! | `mnemom` | the agent's id there | `id` |
//!
//! Parts go into requests to others. So every id is made of few characters, and none of them changes the meaning of an address.

use url::{Host, Url};

use crate::{Alias, Error, limits::MAX_ALIAS_BYTES, text::checked_text};

/// What a subject is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubjectKind {
    /// A source repository.
    Repository,
    /// A web host.
    Host,
    /// A wallet on a chain.
    Wallet,
    /// A container image.
    Container,
    /// A model on a hub.
    Model,
    /// A version of a published package.
    Package,
    /// A registration in an ERC-8004 registry.
    Erc8004,
    /// A registration in the Solana 8004 registry.
    Solana8004,
    /// A server in the MCP registry.
    Mcp,
    /// An A2A agent card.
    A2a,
    /// A universal agent id.
    Uaid,
    /// An agent of Mnemom.
    Mnemom,
}

impl SubjectKind {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Repository,
        Self::Host,
        Self::Wallet,
        Self::Container,
        Self::Model,
        Self::Package,
        Self::Erc8004,
        Self::Solana8004,
        Self::Mcp,
        Self::A2a,
        Self::Uaid,
        Self::Mnemom,
    ];

    /// As it is written before the colon.
    pub fn key(self) -> &'static str {
        match self {
            Self::Repository => "repository",
            Self::Host => "host",
            Self::Wallet => "wallet",
            Self::Container => "container",
            Self::Model => "model",
            Self::Package => "package",
            Self::Erc8004 => "erc8004",
            Self::Solana8004 => "solana8004",
            Self::Mcp => "mcp",
            Self::A2a => "a2a",
            Self::Uaid => "uaid",
            Self::Mnemom => "mnemom",
        }
    }

    /// The kind that is written so.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.key() == text)
    }

    /// The names of its parts.
    pub fn parts(self) -> &'static [&'static str] {
        match self {
            Self::Repository => &["forge", "owner", "name"],
            Self::Host | Self::A2a => &["host"],
            Self::Wallet => &["namespace", "chain", "address"],
            Self::Container => &["registry", "namespace", "name"],
            Self::Model => &["hub", "owner", "name"],
            Self::Package => &["purl", "system", "name", "version"],
            Self::Erc8004 => &["chain", "contract", "token"],
            Self::Solana8004 => &["asset"],
            Self::Mcp => &["name"],
            Self::Uaid => &["uaid"],
            Self::Mnemom => &["id"],
        }
    }
}

/// A subject in canonical form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExternalSubject(String);

type Canonical = Result<String, &'static str>;

impl ExternalSubject {
    /// Checks and normalises `KIND:ID`.
    pub fn parse(input: &str) -> Result<Self, Error> {
        let wrong = |why| Error::Subject { input: input.chars().take(160).collect(), why };
        if input.len() > MAX_ALIAS_BYTES {
            return Err(wrong("longer than 512 bytes"));
        }
        if !input.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("a space, or a character other than ASCII: escape it"));
        }
        let (kind, id) = input.split_once(':').ok_or_else(|| wrong("write KIND:ID, such as host:shop.example"))?;
        let kind = SubjectKind::parse(kind).ok_or_else(|| wrong(KINDS))?;
        let id = match kind {
            SubjectKind::Repository => hosted(id, &FORGES).map(|id| id.to_ascii_lowercase()),
            SubjectKind::Container => hosted(id, &["docker.io"]).map(|id| id.to_ascii_lowercase()),
            SubjectKind::Model => hosted(id, &["huggingface.co"]),
            SubjectKind::Host | SubjectKind::A2a => host(id),
            SubjectKind::Wallet => wallet(id),
            SubjectKind::Package => package(id),
            SubjectKind::Erc8004 => {
                let alias = Alias::parse(id).map_err(|_| "expected eip155:CHAIN:0xREGISTRY/TOKEN");
                alias.map(|alias| alias.as_str().to_owned()).and_then(|text| {
                    if text.starts_with("eip155:") { Ok(text) } else { Err("expected eip155:CHAIN:0xREGISTRY/TOKEN") }
                })
            }
            SubjectKind::Solana8004 => base58_key(id).map(str::to_owned),
            SubjectKind::Mcp => mcp(id),
            SubjectKind::Uaid => {
                let alias = Alias::parse(&format!("uaid:{id}")).map_err(|_| "expected uaid:aid:ID;… (HCS-14)");
                alias.map(|alias| alias.as_str().trim_start_matches("uaid:").to_owned())
            }
            SubjectKind::Mnemom => Some(id).filter(|id| is_name(id)).map(str::to_owned).ok_or(NAME),
        };
        id.map(|id| Self(format!("{}:{id}", kind.key()))).map_err(wrong)
    }

    /// `KIND:ID`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn split(&self) -> (SubjectKind, &str) {
        let (kind, id) = self.0.split_once(':').unwrap_or((&self.0, ""));
        (SubjectKind::parse(kind).unwrap_or(SubjectKind::Host), id)
    }

    /// What it is.
    pub fn kind(&self) -> SubjectKind {
        self.split().0
    }

    /// Its id, without the kind.
    pub fn id(&self) -> &str {
        self.split().1
    }

    /// Its parts by their names, in the order of [`SubjectKind::parts`]. Not escaped.
    pub fn parts(&self) -> Vec<(&'static str, String)> {
        let (kind, id) = self.split();
        let values: Vec<String> = match kind {
            SubjectKind::Repository | SubjectKind::Container | SubjectKind::Model => {
                id.splitn(3, '/').map(str::to_owned).collect()
            }
            SubjectKind::Wallet => id.splitn(3, ':').map(str::to_owned).collect(),
            SubjectKind::Package => {
                let (path, version) = id.rsplit_once('@').unwrap_or((id, ""));
                let (system, name) = path.trim_start_matches("pkg:").split_once('/').unwrap_or_default();
                vec![id.to_owned(), system.to_owned(), name.replace("%40", "@"), version.to_owned()]
            }
            SubjectKind::Erc8004 => {
                let (registry, token) = id.split_once('/').unwrap_or((id, ""));
                let (chain, contract) = registry.trim_start_matches("eip155:").split_once(':').unwrap_or_default();
                vec![chain.to_owned(), contract.to_owned(), token.to_owned()]
            }
            SubjectKind::Uaid => vec![self.0.clone()],
            _ => vec![id.to_owned()],
        };
        kind.parts().iter().copied().zip(values).collect()
    }
}

const KINDS: &str =
    "the kinds are repository, host, wallet, container, model, package, erc8004, solana8004, mcp, a2a, uaid, mnemom";
const NAME: &str = "a name is 1 to 128 of A-Z a-z 0-9 . _ -, and neither '.' nor '..'";
const FORGES: [&str; 3] = ["github.com", "gitlab.com", "codeberg.org"];

fn is_name(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && text != "."
        && text != ".."
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// `HOST/OWNER/NAME`, at one of the hosts that are known.
fn hosted(id: &str, hosts: &[&str]) -> Canonical {
    let parts: Vec<&str> = id.split('/').collect();
    let [at, owner, name] = parts.as_slice() else { return Err("expected HOST/OWNER/NAME") };
    let at = at.to_ascii_lowercase();
    if !hosts.contains(&at.as_str()) {
        return Err(
            "the host is not one that is known: github.com, gitlab.com, codeberg.org; docker.io; huggingface.co",
        );
    }
    if !is_name(owner) || !is_name(name) {
        return Err(NAME);
    }
    Ok(format!("{at}/{owner}/{}", name.strip_suffix(".git").filter(|bare| !bare.is_empty()).unwrap_or(name)))
}

/// A domain name as it is looked up, with its port where that is not 443.
fn host(id: &str) -> Canonical {
    const SHAPE: &str = "expected the name of a host, such as shop.example";
    if id.contains(['/', '?', '#', '@', '\\', '%']) {
        return Err(SHAPE);
    }
    let url = Url::parse(&format!("https://{id}/")).map_err(|_| SHAPE)?;
    let Some(Host::Domain(name)) = url.host() else { return Err("an address in numbers proves no name") };
    let name = name.strip_suffix('.').unwrap_or(name);
    let label = |l: &str| {
        (1..=63).contains(&l.len())
            && !l.starts_with('-')
            && !l.ends_with('-')
            && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    if !name.contains('.') || !name.split('.').all(label) {
        return Err(SHAPE);
    }
    Ok(url.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}")))
}

fn wallet(id: &str) -> Canonical {
    const SHAPE: &str = "expected a CAIP-10 account: eip155:CHAIN:0xADDRESS or solana:GENESIS:ADDRESS";
    let parts: Vec<&str> = id.split(':').collect();
    match parts.as_slice() {
        ["eip155", chain, address] => {
            let decimal = (1..=32).contains(&chain.len()) && chain.bytes().all(|b| b.is_ascii_digit());
            let hex = address.strip_prefix("0x").unwrap_or_default();
            let is_address = hex.len() == 40 && hex.bytes().all(|b| b.is_ascii_hexdigit());
            if !decimal || chain.starts_with('0') || !is_address {
                return Err(SHAPE);
            }
            Ok(format!("eip155:{chain}:0x{}", hex.to_ascii_lowercase()))
        }
        ["solana", genesis, address] => {
            if !(1..=32).contains(&genesis.len()) || !genesis.bytes().all(|b| b.is_ascii_alphanumeric()) {
                return Err(SHAPE);
            }
            Ok(format!("solana:{genesis}:{}", base58_key(address)?))
        }
        _ => Err(SHAPE),
    }
}

/// 32 bytes in base58, in their one spelling.
fn base58_key(text: &str) -> Result<&str, &'static str> {
    let bytes = bs58::decode(text).into_vec().map_err(|_| "not base58")?;
    if bytes.len() == 32 && bs58::encode(&bytes).into_string() == text {
        Ok(text)
    } else {
        Err("not 32 bytes in base58")
    }
}

fn package(id: &str) -> Canonical {
    const SHAPE: &str = "expected pkg:npm/NAME@VERSION, pkg:pypi/NAME@VERSION or pkg:cargo/NAME@VERSION";
    let path = id.strip_prefix("pkg:").ok_or(SHAPE)?;
    let (path, version) = path.rsplit_once('@').ok_or(SHAPE)?;
    let (system, name) = path.split_once('/').ok_or(SHAPE)?;
    let legal_version = |b: u8| b.is_ascii_alphanumeric() || b".-_+!".contains(&b);
    if !(1..=64).contains(&version.len()) || !version.bytes().all(legal_version) {
        return Err(SHAPE);
    }
    let name = match (system, name.split_once('/')) {
        ("npm" | "cargo", None) => Some(name).filter(|name| is_name(name)).map(str::to_owned),
        ("pypi", None) => {
            Some(name).filter(|name| is_name(name)).map(|name| name.to_ascii_lowercase().replace('_', "-"))
        }
        ("npm", Some((scope, name))) => {
            let scope = scope.strip_prefix("%40").or_else(|| scope.strip_prefix('@')).unwrap_or_default();
            (is_name(scope) && is_name(name)).then(|| format!("%40{scope}/{name}"))
        }
        _ => None,
    };
    name.map(|name| format!("pkg:{system}/{name}@{version}")).ok_or(SHAPE)
}

fn mcp(id: &str) -> Canonical {
    const SHAPE: &str = "expected NAMESPACE/SERVER, such as io.github.acme/weather";
    let (namespace, name) = id.split_once('/').ok_or(SHAPE)?;
    if !is_name(namespace) || !namespace.contains('.') || !is_name(name) {
        return Err(SHAPE);
    }
    Ok(id.to_owned())
}

checked_text!(ExternalSubject, parse);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn canonical(text: &str) -> String {
        ExternalSubject::parse(text).map_or_else(|e| e.to_string(), |subject| subject.as_str().to_owned())
    }

    #[test]
    fn every_kind_has_one_spelling() {
        let asset = bs58::encode([7; 32]).into_string();
        let address = "0x8004A169FB4a3325136EB29fA0ceB6D2e539a432";
        let cases = [
            ("repository:GitHub.com/Acme/Weather.git", "repository:github.com/acme/weather".to_owned()),
            ("host:Shop.Example.:443", "host:shop.example".to_owned()),
            ("host:shop.example:8443", "host:shop.example:8443".to_owned()),
            ("model:huggingface.co/Acme/W-7B", "model:huggingface.co/Acme/W-7B".to_owned()),
            ("container:docker.io/acme/weather", "container:docker.io/acme/weather".to_owned()),
            ("package:pkg:npm/@acme/weather@1.2.0", "package:pkg:npm/%40acme/weather@1.2.0".to_owned()),
            ("package:pkg:pypi/Weather_Bot@2.0", "package:pkg:pypi/weather-bot@2.0".to_owned()),
            ("mcp:io.github.acme/weather", "mcp:io.github.acme/weather".to_owned()),
            ("a2a:agent.shop.example", "a2a:agent.shop.example".to_owned()),
            ("mnemom:agent-123", "mnemom:agent-123".to_owned()),
        ];
        for (text, wanted) in cases {
            assert_eq!(canonical(text), wanted);
        }
        assert_eq!(
            canonical(&format!("erc8004:eip155:8453:{address}/22")),
            format!("erc8004:eip155:8453:{}/22", address.to_lowercase())
        );
        assert_eq!(
            canonical(&format!("wallet:eip155:1:{address}")),
            format!("wallet:eip155:1:{}", address.to_lowercase())
        );
        assert_eq!(canonical(&format!("wallet:solana:5eykt4:{asset}")), format!("wallet:solana:5eykt4:{asset}"));
        assert_eq!(canonical(&format!("solana8004:{asset}")), format!("solana8004:{asset}"));
        assert_eq!(canonical("uaid:aid:Qm1;proto=a2a;registry=hol"), "uaid:aid:Qm1;uid=0;registry=hol;proto=a2a");
    }

    #[test]
    fn parts_are_named() {
        let parts = |text: &str| ExternalSubject::parse(text).unwrap().parts();
        let of = |parts: &[(&'static str, String)], name| {
            parts.iter().find(|(part, _)| *part == name).map(|(_, value)| value.clone()).unwrap()
        };
        let package = parts("package:pkg:npm/@acme/weather@1.2.0");
        assert_eq!(of(&package, "name"), "@acme/weather");
        assert_eq!(of(&package, "version"), "1.2.0");
        assert_eq!(of(&package, "purl"), "pkg:npm/%40acme/weather@1.2.0");
        let token = parts("erc8004:eip155:8453:0x8004a169fb4a3325136eb29fa0ceb6d2e539a432/22");
        assert_eq!((of(&token, "chain").as_str(), of(&token, "token").as_str()), ("8453", "22"));
        assert_eq!(of(&token, "contract"), "0x8004a169fb4a3325136eb29fa0ceb6d2e539a432");
    }

    #[test]
    fn what_could_change_an_address_is_refused() {
        let asset = bs58::encode([7; 31]).into_string();
        let bad = [
            "repository:github.com/acme/../x",
            "repository:github.com/acme/..",
            "repository:github.com/acme",
            "repository:evil.example/acme/weather",
            "repository:github.com/acme/we?ather",
            "repository:github.com/acme/weather/tree",
            "repository:github.com/acme/we%2father",
            "host:127.0.0.1",
            "host:[::1]",
            "host:localhost",
            "host:user@shop.example",
            "host:shop.example/path",
            "host:shop..example",
            "host:0x7f000001",
            "wallet:eip155:1:0x12",
            "wallet:eip155:01:0x8004a169fb4a3325136eb29fa0ceb6d2e539a432",
            "wallet:bip122:1:abc",
            "package:pkg:npm/weather",
            "package:pkg:npm/a/b/c@1",
            "package:pkg:pypi/../x@1",
            "erc8004:https://shop.example",
            "mcp:weather",
            "mcp:io.github.acme/wea/ther",
            "a2a:https://shop.example",
            "mnemom:a b",
            "mnemom:a/b",
            "planet:mars",
            "host",
            "host:ex\u{430}mple.com",
        ];
        for text in bad.iter().map(|text| (*text).to_owned()).chain([format!("solana8004:{asset}")]) {
            assert!(ExternalSubject::parse(&text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_canonical_form_stays_as_it_is(text in "(repository|host|mcp|package|wallet|mnemom):[ -~]{0,60}") {
            if let Ok(subject) = ExternalSubject::parse(&text) {
                prop_assert_eq!(&ExternalSubject::parse(subject.as_str()).unwrap(), &subject);
                prop_assert_eq!(subject.parts().len(), subject.kind().parts().len());
            }
        }
    }
}
