//! Aliases: the names an agent has elsewhere, each brought to one canonical form, so that two spellings of one name
//! cannot become two agents. They lead to an [`EntityId`](crate::EntityId) through the ledger only.
//!
//! | kind | accepted | canonical |
//! |---|---|---|
//! | `did:web` | `did:web:Example.com%3a8443:agents:a` | host as below, `%3A` before a port that is not 443 |
//! | `did:key` | base58btc (`z`) or base64url (`u`) multikeys | the `z` form |
//! | web | `https://Example.com.:443/a/../b` | URL-normalised, no credentials, no fragment, no trailing slash of a bare host |
//! | UAID (HCS-14) | parameters in any order | `uid;registry;proto;nativeId;domain`, `uid=0` when absent |
//! | ERC-8004 | `eip155:1:0xAb…/22`, `eip155:1:0xAb…:22`, `eip155:1/erc721:0xAb…/22` | `eip155:1:0xab…/22` |

//!
//! A host is read as browsers do (percent-encoding, case, IDNA with its mapping of look-alike and zero-width characters), without the
//! dot of the root. `did:web:example.com:a` and `https://example.com/a` name one place on one host: they have one [`Alias::key`], and
//! with it one owner.

use url::{Host, Url};

use crate::{
    Error,
    limits::MAX_ALIAS_BYTES,
    text::{checked_text, is_deceptive},
};

/// An alias in canonical form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Alias(String);

impl Alias {
    /// Recognises the kind of `input` and normalises it.
    pub fn parse(input: &str) -> Result<Self, Error> {
        // In the name of a host IDNA takes some of them away.
        let names_a_host = ["did:web:", "https://"]
            .iter()
            .any(|kind| input.get(..kind.len()).is_some_and(|start| start.eq_ignore_ascii_case(kind)));
        let canonical = if input.len() > MAX_ALIAS_BYTES {
            Err("longer than 512 bytes")
        } else if input.chars().any(|c| c.is_control() || c.is_whitespace()) {
            Err("it has a space or a control character")
        } else if input.chars().any(|c| is_deceptive(c) && !(names_a_host && is_mapped(c))) {
            Err("it has a character that changes the direction of text, or is not shown")
        } else if let Some(rest) = input.strip_prefix("did:web:") {
            did_web(rest)
        } else if let Some(rest) = input.strip_prefix("did:key:") {
            did_key(rest)
        } else if let Some(rest) = input.strip_prefix("uaid:") {
            uaid(rest)
        } else if let Some(rest) = input.strip_prefix("eip155:") {
            erc8004(rest)
        } else if input.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")) {
            web(input)
        } else {
            Err("expected did:web:…, did:key:…, https://…, uaid:… or eip155:CHAIN:REGISTRY/TOKEN")
        };
        canonical.map(Self).map_err(|why| Error::Alias { input: input.chars().take(160).collect(), why })
    }

    /// The canonical form.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What every spelling of the same name has in common, whatever its kind: who has one of them has them all.
    pub fn key(&self) -> String {
        if let Some(rest) = self.0.strip_prefix("did:web:") {
            let (host, path) = rest.split_once(':').map_or((rest, ""), |(host, path)| (host, path));
            let slash = if path.is_empty() { "" } else { "/" };
            return format!("web:{}{slash}{}", host.replace("%3A", ":"), path.replace(':', "/"));
        }
        match self.0.strip_prefix("https://") {
            Some(rest) if !rest.contains('?') => format!("web:{}", rest.trim_end_matches('/')),
            Some(rest) => format!("web:{rest}"),
            None => self.0.clone(),
        }
    }

    /// Whether this is an on-chain identity.
    pub fn is_on_chain(&self) -> bool {
        self.0.starts_with("eip155:")
    }
}

/// The one spelling, or what is wrong.
pub type Normalised = Result<String, &'static str>;

/// The port that is meant where none is named.
const HTTPS_PORT: u16 = 443;

/// Characters that are not shown and that IDNA maps to nothing: in a host they are another spelling of it.
fn is_mapped(c: char) -> bool {
    matches!(c, '\u{00AD}' | '\u{200B}' | '\u{2060}' | '\u{FEFF}')
}

/// A domain name as it is looked up: in lower case, other scripts in punycode, without the dot of the root.
fn domain(name: &str) -> Normalised {
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.split('.').any(str::is_empty) {
        return Err("the host has an empty part");
    }
    Ok(name.to_owned())
}

/// A path in which nothing is escaped that need not be, so that it has one spelling.
pub fn plain_path(path: &str) -> Normalised {
    let hex =
        |digits: &str| u8::from_str_radix(digits, 16).ok().filter(|_| digits.bytes().all(|b| b.is_ascii_hexdigit()));
    let (mut out, mut bytes, mut rest) = (String::with_capacity(path.len()), Vec::new(), path);
    while let Some(c) = rest.chars().next() {
        if c == '%' {
            let byte = rest.get(1..3).and_then(hex).ok_or("a '%' that escapes nothing")?;
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                out.push(byte.into());
            } else {
                out += &format!("%{byte:02X}");
            }
            bytes.push(byte);
            rest = &rest[3..];
        } else {
            out.push(c);
            bytes.extend(c.to_string().bytes());
            rest = &rest[c.len_utf8()..];
        }
    }
    if String::from_utf8_lossy(&bytes).chars().any(is_deceptive) {
        return Err("its path has a character that changes the direction of text, or is not shown");
    }
    Ok(out)
}

fn did_web(rest: &str) -> Normalised {
    let (host_and_port, path) = rest.split_once(':').map_or((rest, None), |(h, p)| (h, Some(p)));
    let lower = host_and_port.to_lowercase();
    let (host, port) = lower.split_once("%3a").map_or((lower.as_str(), None), |(h, p)| (h, Some(p)));
    const NOT_A_DOMAIN: &str = "the host is not a domain name";
    if host.contains(['/', '?', '#', '@', '\\', '[', ']']) {
        return Err(NOT_A_DOMAIN);
    }
    let url = Url::parse(&format!("https://{host}/")).map_err(|_| NOT_A_DOMAIN)?;
    let host = match url.host() {
        Some(Host::Domain(name)) => domain(name)?,
        Some(_) => return Err("did:web does not allow IP addresses"),
        None => return Err(NOT_A_DOMAIN),
    };
    let label = |l: &str| {
        l.len() <= 63
            && !l.starts_with('-')
            && !l.ends_with('-')
            && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    if !host.split('.').all(label) {
        return Err(NOT_A_DOMAIN);
    }
    let mut out = format!("did:web:{host}");
    if let Some(port) = port {
        let port: u16 = port.parse().map_err(|_| "the port is not a number")?;
        if port != HTTPS_PORT {
            out += &format!("%3A{port}");
        }
    }
    for segment in path.into_iter().flat_map(|path| path.split(':')) {
        let legal = |b: u8| b.is_ascii_alphanumeric() || b"._~-%".contains(&b);
        let segment = plain_path(segment)?;
        if segment.is_empty() || segment == "." || segment == ".." || !segment.bytes().all(legal) {
            return Err("a path segment is empty or has an illegal character");
        }
        out += ":";
        out += &segment;
    }
    Ok(out)
}

/// Multicodec prefixes (varint) of the public keys a did:key may carry, with the key's length.
const MULTIKEYS: [(&[u8], usize); 5] = [
    (&[0xed, 0x01], 32), // Ed25519
    (&[0xec, 0x01], 32), // X25519
    (&[0xe7, 0x01], 33), // secp256k1
    (&[0x80, 0x24], 33), // P-256
    (&[0x81, 0x24], 49), // P-384
];

fn did_key(rest: &str) -> Normalised {
    let bytes = match rest.split_at_checked(1) {
        Some(("z", text)) => bs58::decode(text).into_vec().map_err(|_| "not base58")?,
        Some(("u", text)) => data_encoding::BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| "not base64url")?,
        _ => return Err("a did:key value starts with z (base58btc) or u (base64url)"),
    };
    let known = |(prefix, len): &(&[u8], usize)| bytes.starts_with(prefix) && bytes.len() == prefix.len() + len;
    if !MULTIKEYS.iter().any(known) {
        return Err("not a public key of a known kind");
    }
    Ok(format!("did:key:z{}", bs58::encode(bytes).into_string()))
}

fn web(input: &str) -> Normalised {
    let url = Url::parse(input).map_err(|_| "not a URL")?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a URL with credentials in it");
    }
    if url.fragment().is_some() {
        return Err("a URL with a fragment");
    }
    let host = match url.host() {
        Some(Host::Domain(name)) => domain(name)?,
        Some(address) => address.to_string(),
        None => return Err("not a URL"),
    };
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let query =
        url.query().map(|query| plain_path(query).map(|query| format!("?{query}"))).transpose()?.unwrap_or_default();
    let path = plain_path(url.path())?;
    let path = if path == "/" && query.is_empty() { "" } else { &path };
    Ok(format!("https://{host}{port}{path}{query}"))
}

const UAID_PARAMETERS: [&str; 5] = ["uid", "registry", "proto", "nativeId", "domain"];
/// The place of `domain` among them.
const DOMAIN: usize = 4;

fn uaid(rest: &str) -> Normalised {
    const ASCII: &str = "a character other than ASCII: escape it";
    let mut parts = rest.split(';');
    let (method, id) =
        parts.next().and_then(|head| head.split_once(':')).ok_or("expected uaid:aid:ID or uaid:did:ID")?;
    if !matches!(method, "aid" | "did") || id.is_empty() {
        return Err("expected uaid:aid:ID or uaid:did:ID");
    }
    if !id.is_ascii() {
        return Err(ASCII);
    }
    let mut values: [Option<&str>; UAID_PARAMETERS.len()] = [None; _];
    for part in parts {
        let (name, value) = part.split_once('=').ok_or("a parameter without '='")?;
        let slot = UAID_PARAMETERS.iter().position(|known| *known == name);
        let slot = slot.ok_or("a parameter other than uid, registry, proto, nativeId, domain")?;
        if value.is_empty() {
            return Err("a parameter without a value");
        }
        if name != "domain" && !value.is_ascii() {
            return Err(ASCII);
        }
        if values[slot].replace(value).is_some() {
            return Err("a parameter given twice");
        }
    }
    values[0].get_or_insert("0");
    let host = values[DOMAIN].map(|name| did_web(name).map_err(|_| "domain is not a domain name")).transpose()?;
    values[DOMAIN] = host.as_deref().and_then(|did| did.strip_prefix("did:web:"));
    let mut out = format!("uaid:{method}:{id}");
    for (name, value) in UAID_PARAMETERS.iter().zip(values) {
        if let Some(value) = value {
            out += &format!(";{name}={value}");
        }
    }
    Ok(out)
}

fn erc8004(rest: &str) -> Normalised {
    const SHAPE: &str = "expected eip155:CHAIN:0xREGISTRY/TOKEN";
    let at = rest.find([':', '/']).ok_or(SHAPE)?;
    let (chain, tail) = (&rest[..at], &rest[at + 1..]);
    let tail = if rest.as_bytes()[at] == b'/' { tail.strip_prefix("erc721:").ok_or(SHAPE)? } else { tail };
    let (address, token) = tail.split_once(['/', ':']).ok_or(SHAPE)?;
    let decimal = |text: &str| {
        !text.is_empty()
            && text.len() <= 78
            && text.bytes().all(|b| b.is_ascii_digit())
            && (text == "0" || !text.starts_with('0'))
    };
    if !decimal(chain) || !decimal(token) {
        return Err("chain and token are decimal numbers without leading zeros");
    }
    let hex = address.strip_prefix("0x").unwrap_or_default();
    if hex.len() != 40 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err("the registry is not 0x and 40 hex digits");
    }
    Ok(format!("eip155:{chain}:0x{}/{token}", hex.to_ascii_lowercase()))
}

checked_text!(Alias, parse);

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2";

    #[test]
    fn spellings_of_one_name_become_one_form() {
        for (input, canonical) in [
            ("did:web:Example.COM", "did:web:example.com"),
            ("did:web:example.com%3a8443:agents:A", "did:web:example.com%3A8443:agents:A"),
            (&format!("did:key:{KEY}"), &format!("did:key:{KEY}")),
            ("https://Example.com:443/", "https://example.com"),
            ("HTTPS://example.com/a/../b?x=1", "https://example.com/b?x=1"),
            ("uaid:did:abc;proto=mcp;uid=7", "uaid:did:abc;uid=7;proto=mcp"),
            ("uaid:aid:abc", "uaid:aid:abc;uid=0"),
            (
                "eip155:8453:0x8004A169FB4a3325136EB29fA0ceB6D2e539a432/22",
                "eip155:8453:0x8004a169fb4a3325136eb29fa0ceb6d2e539a432/22",
            ),
            (
                "eip155:8453:0x8004A169FB4a3325136EB29fA0ceB6D2e539a432:22",
                "eip155:8453:0x8004a169fb4a3325136eb29fa0ceb6d2e539a432/22",
            ),
            (
                "eip155:8453/erc721:0x8004A169FB4a3325136EB29fA0ceB6D2e539a432/22",
                "eip155:8453:0x8004a169fb4a3325136eb29fa0ceb6d2e539a432/22",
            ),
        ] {
            let alias = Alias::parse(input).unwrap();
            assert_eq!(alias.as_str(), canonical);
            assert_eq!(Alias::parse(canonical).unwrap(), alias, "canonical forms are fixed points");
        }
    }

    #[test]
    fn a_base64url_did_key_is_rewritten_as_base58() {
        let bytes = bs58::decode(&KEY[1..]).into_vec().unwrap();
        let u = format!("did:key:u{}", data_encoding::BASE64URL_NOPAD.encode(&bytes));
        assert_eq!(Alias::parse(&u).unwrap().as_str(), format!("did:key:{KEY}"));
    }

    /// Every spelling of a host is one name, whichever kind of alias it stands in.
    #[test]
    fn spellings_of_one_host_have_one_key() {
        for (key, spellings) in [
            (
                "web:shop.example",
                &[
                    "https://shop.example",
                    "https://SHOP.Example/",
                    "https://shop.example.",
                    "https://shop.example.:443/",
                    "https://shop.example:0443",
                    "https://%73hop.ex%61mple",
                    "https://sh\u{200b}op.example",
                    "https://shop\u{ad}.exam\u{feff}ple",
                    "https://ｓｈｏｐ.example",
                    "https://shop。example",
                    "did:web:shop.example",
                    "did:web:Shop.Example.",
                    "did:web:shop.example%3A443",
                    "did:web:%73hop.example",
                    "did:web:sh\u{200b}op.example",
                ][..],
            ),
            (
                "web:xn--caf-dma.example/a/b",
                &[
                    "https://café.example/a/b",
                    "https://cafe\u{301}.example/a/b/",
                    "https://CAFÉ.example/x/../a/%62",
                    "https://xn--caf-dma.example/a/b",
                    "https://XN--CAF-DMA.example./a/b",
                    "did:web:café.example:a:b",
                    "did:web:xn--caf-dma.example:a:%62",
                ],
            ),
            ("web:shop.example:8443/x", &["https://shop.example.:8443/x", "did:web:SHOP.example%3a8443:x"]),
        ] {
            for spelling in spellings {
                let alias = Alias::parse(spelling).unwrap_or_else(|e| panic!("{e}"));
                assert_eq!(alias.key(), key, "{spelling}");
                assert_eq!(Alias::parse(alias.as_str()).unwrap(), alias, "canonical forms are fixed points");
            }
        }
        let keys: std::collections::BTreeSet<String> = [
            "https://shop.example/a",
            "https://shop.example/A",
            "https://shop.example/a?x",
            "https://shop.example:444/a",
            "https://www.shop.example/a",
        ]
        .map(|text| Alias::parse(text).unwrap().key())
        .into();
        assert_eq!(keys.len(), 5, "other places stay other names");
        let uaid = |domain: &str| Alias::parse(&format!("uaid:aid:x;domain={domain}")).unwrap();
        assert_eq!(uaid("SHOP.example."), uaid("shop.example"));
    }

    #[test]
    fn refuses_what_is_none() {
        for bad in [
            "",
            "weather-bot",
            "http://example.com",
            "https://u:p@example.com",
            "https://example.com/#x",
            "did:web:",
            "did:web:127.0.0.1",
            "did:web:a..b",
            "did:web:example.com:..",
            "did:web:example.com%3Ax",
            "did:key:z",
            "did:key:zabc",
            "did:key:f00",
            "uaid:x:y",
            "uaid:aid:",
            "uaid:aid:a;b=c",
            "uaid:aid:a;uid=1;uid=2",
            "eip155:1:0x12/3",
            "eip155:01:0x8004A169FB4a3325136EB29fA0ceB6D2e539a432/1",
            "eip155:1:0x8004A169FB4a3325136EB29fA0ceB6D2e539a432",
            "https://exa mple.com",
            "https://example.com..",
            "https://exam\u{202e}ple.com",
            "https://example.com/\u{202e}a",
            "https://example.com/%E2%80%AEa",
            "https://example.com/a\u{200b}b",
            "https://example.com/%zz",
            "https://exa\u{85}mple.com",
            "did:web:exa%2fmple.com",
            "did:web:example.com:%2e%2e",
            "did:web:a@b",
            "uaid:aid:a\u{2066}b",
            "uaid:aid:a;domain=10.0.0.1",
            &format!("https://example.com/{}", "a".repeat(600)),
        ] {
            assert!(Alias::parse(bad).is_err(), "{bad}");
        }
    }
}
