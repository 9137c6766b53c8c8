//! An ERC-8004 registration: the chain names a registration file (`tokenURI`), the file names the registration and holds the line.
//!
//! The chain is read through the operator's node, where one is configured. Else it is read at a public endpoint, with one `eth_call` at the
//! finalized block. Files at https addresses and in `data:` URIs are read.

use credence_egress::{HeaderValue, Request};
use credence_protocol::{LinkProof, LinkStatement, Timestamp};
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use url::Url;

use super::{CheckFailure, registration_file};
use crate::Crawler;

/// `tokenURI(uint256)`
const TOKEN_URI: &str = "c87b56dd";
/// Public endpoints, by chain.
const ENDPOINTS: [(&str, &str); 4] = [
    ("1", "https://ethereum-rpc.publicnode.com/"),
    ("8453", "https://mainnet.base.org/"),
    ("56", "https://bsc-rpc.publicnode.com/"),
    ("42161", "https://arb1.arbitrum.io/rpc"),
];
/// The identity registry, at the same address on every main chain (erc-8004-contracts, README). Anyone can deploy another contract whose
/// `tokenURI(22)` is theirs; those who read registries by chain and token would take it for the real token 22.
const REGISTRY: &str = "0x8004a169fb4a3325136eb29fa0ceb6d2e539a432";
const MAX_BYTES: usize = 256 * 1024;

pub(super) async fn check(
    crawler: &Crawler,
    statement: &LinkStatement,
    (chain, contract, token): (&str, &str, &str),
    now: Timestamp,
) -> Result<LinkProof, CheckFailure> {
    if let Some(reader) = crawler.registry(&statement.subject) {
        let said = reader.registered(&statement.subject, now).await?;
        let uri = Some(said.uri).filter(|uri| !uri.is_empty()).ok_or_else(no_file)?;
        return registration_file::check(crawler, statement, &uri, &said.registry, token).await;
    }
    let endpoint = ENDPOINTS.iter().find(|(known, _)| *known == chain).map(|(_, url)| *url);
    let unknown = || CheckFailure::not(format!("no endpoint is known for chain {chain}: name its node in [[chain]]"));
    let endpoint = endpoint.ok_or_else(unknown)?;
    if contract != REGISTRY {
        return Err(CheckFailure::not(format!("{contract} is not the ERC-8004 registry of this chain ({REGISTRY})")));
    }
    let word = uint256(token).ok_or_else(|| CheckFailure::not("the token is larger than 256 bits"))?;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_call",
        "params": [{"to": contract, "data": format!("0x{TOKEN_URI}{}", HEXLOWER.encode(&word))}, "finalized"]});
    let url = Url::parse(endpoint).map_err(|_| CheckFailure::not("no endpoint"))?;
    let build = |url: &Url| {
        let body = call.to_string().into_bytes();
        Ok(Request::post(url.as_str(), HeaderValue::from_static("application/json"), body)?.max_bytes(MAX_BYTES))
    };
    let answer = crawler.send_checked(build, &url).await.map_err(CheckFailure::of)?;
    let answer: Value = serde_json::from_slice(&answer.body)
        .map_err(|_| CheckFailure::Unreachable("the chain's endpoint does not answer JSON".into()))?;
    if answer.get("error").is_some_and(|error| !error.is_null()) {
        return Err(CheckFailure::not("the registry knows no such token"));
    }
    let uri = answer.get("result").and_then(Value::as_str).and_then(abi_string);
    let uri = uri.ok_or_else(no_file)?;
    registration_file::check(crawler, statement, &uri, &format!("eip155:{chain}:{contract}"), token).await
}

fn no_file() -> CheckFailure {
    CheckFailure::not("the registration names no file")
}

/// A decimal number as a 32-byte word.
fn uint256(decimal: &str) -> Option<[u8; 32]> {
    let mut word = [0u8; 32];
    for digit in decimal.bytes() {
        let mut carry = u16::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?);
        for byte in word.iter_mut().rev() {
            let sum = u16::from(*byte) * 10 + carry;
            *byte = (sum & 0xff) as u8;
            carry = sum >> 8;
        }
        if carry != 0 {
            return None;
        }
    }
    Some(word)
}

/// The one string that a call returns: offset 32, length, bytes.
fn abi_string(hex: &str) -> Option<String> {
    let bytes = HEXLOWER.decode(hex.strip_prefix("0x")?.to_ascii_lowercase().as_bytes()).ok()?;
    let number = |at: usize| -> Option<usize> {
        let word = bytes.get(at..at.checked_add(32)?)?;
        if word[..24].iter().any(|byte| *byte != 0) {
            return None;
        }
        usize::try_from(u64::from_be_bytes(word[24..].try_into().ok()?)).ok()
    };
    let offset = number(0)?;
    let length = number(offset).filter(|length| *length <= MAX_BYTES)?;
    let start = offset.checked_add(32)?;
    String::from_utf8(bytes.get(start..start.checked_add(length)?)?.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_words() {
        assert_eq!(uint256("0").unwrap(), [0; 32]);
        assert_eq!(uint256("258").unwrap()[30..], [1, 2]);
        let most = "115792089237316195423570985008687907853269984665640564039457584007913129639935";
        assert_eq!(uint256(most).unwrap(), [0xff; 32]);
        assert_eq!(uint256("115792089237316195423570985008687907853269984665640564039457584007913129639936"), None);
        assert_eq!(uint256("1x"), None);
    }

    #[test]
    fn strings_are_read_within_their_bounds() {
        let word = |n: u64| format!("{n:064x}");
        let text = HEXLOWER.encode(b"https://shop.example/agent.json");
        let good = format!("0x{}{}{text:0<64}", word(32), word(31));
        assert_eq!(abi_string(&good).as_deref(), Some("https://shop.example/agent.json"));
        for bad in [
            format!("0x{}{}", word(32), word(31)),
            format!("0x{}{}", word(u64::MAX), word(1)),
            "0x".into(),
            "zz".into(),
            format!("0x{}{}", "f".repeat(64), word(1)),
        ] {
            assert_eq!(abi_string(&bad), None, "{bad}");
        }
    }
}
