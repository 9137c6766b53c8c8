//! A registration in the 8004 registry on Solana: the registry's account of the asset names its owner and a registration file.
//!
//! Two proofs: the owner's wallet signs the line (Ed25519), or the file names the registration and holds the line. The account is looked
//! for among those of the registry's program by its asset, at the finalized commitment. Only that program can write such an account, so
//! there is no address to derive; owner, discriminator and asset are checked again here. A registration that changes hands loses a proof
//! by signature: each check asks for the owner of that moment. Where the operator configured a node of the cluster, it is asked instead.

use credence_egress::{HeaderValue, Request};
use credence_protocol::{LinkProof, LinkStatement, Timestamp};
use data_encoding::BASE64;
use serde_json::{Value, json};
use url::Url;

use super::{CheckFailure, Registered, registration_file, wallet};
use crate::Crawler;

const ENDPOINT: &str = "https://api.mainnet-beta.solana.com/";
/// The cluster of that endpoint, and its registry.
const CHAIN: &str = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp";
const REGISTRY: &str = "8oo4dC4JvBLwy5tGgiH3WwK4B9PWxL9Z4XjA2jzkQMbQ";
/// The first eight bytes of SHA-256 of `account:AgentAccount`.
const DISCRIMINATOR: [u8; 8] = [0xf1, 0x77, 0x45, 0x8c, 0xe9, 0x09, 0x70, 0x32];
const KEY: usize = 32;
/// After the discriminator: collection, creator, owner, asset.
const OWNER_AT: usize = 8 + 2 * KEY;
const ASSET_AT: usize = 8 + 3 * KEY;
/// After the keys, bump and a flag: `Option` of the wallet, three digests with counts, `Option` of the parent, two flags, the address.
const OPTIONS_AT: usize = 8 + 4 * KEY + 2;
const DIGESTS: usize = 3 * (KEY + 8);
const MAX_BYTES: usize = 256 * 1024;

pub(super) async fn check(
    crawler: &Crawler,
    statement: &LinkStatement,
    asset: &str,
    signature: Option<&str>,
    now: Timestamp,
) -> Result<LinkProof, CheckFailure> {
    let Registered { registry, owner, uri } = match crawler.registry(&statement.subject) {
        Some(reader) => reader.registered(&statement.subject, now).await?,
        None => {
            let account = account(crawler, asset).await?;
            let owner = account.get(OWNER_AT..OWNER_AT + KEY).unwrap_or_default();
            Registered {
                registry: format!("{CHAIN}:{REGISTRY}"),
                owner: bs58::encode(owner).into_string(),
                uri: uri(&account).unwrap_or_default(),
            }
        }
    };
    if let Some(given) = signature {
        wallet::check("solana", &owner, &statement.line(), given)
            .map_err(|why| CheckFailure::not(format!("the wallet that owns the registration did not sign: {why}")))?;
        let signature = Some(given.to_owned());
        return Ok(LinkProof { method: "signature".into(), url: None, digest: None, signature });
    }
    if uri.is_empty() {
        return Err(CheckFailure::not("the registration names no file: sign with its owner's wallet"));
    }
    registration_file::check(crawler, statement, &uri, &registry, asset).await
}

/// The bytes of the registry's account of an asset.
async fn account(crawler: &Crawler, asset: &str) -> Result<Vec<u8>, CheckFailure> {
    let unclear = |why: &str| CheckFailure::Unreachable(format!("the cluster's endpoint {why}"));
    let filter = |offset: usize, bytes: &str| json!({"memcmp": {"offset": offset, "bytes": bytes}});
    let filters = [filter(0, &bs58::encode(DISCRIMINATOR).into_string()), filter(ASSET_AT, asset)];
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "getProgramAccounts",
        "params": [REGISTRY, {"encoding": "base64", "commitment": "finalized", "filters": filters}]});
    let url = Url::parse(ENDPOINT).map_err(|_| CheckFailure::not("no endpoint"))?;
    let build = |url: &Url| {
        let body = call.to_string().into_bytes();
        Ok(Request::post(url.as_str(), HeaderValue::from_static("application/json"), body)?.max_bytes(MAX_BYTES))
    };
    let answer = crawler.send_checked(build, &url).await.map_err(CheckFailure::of)?;
    let answer: Value = serde_json::from_slice(&answer.body).map_err(|_| unclear("does not answer JSON"))?;
    let Some(found) = answer.get("result").and_then(Value::as_array) else {
        return Err(unclear("refuses to look for the registration"));
    };
    let account = match found.as_slice() {
        [] => return Err(CheckFailure::not("the registry knows no such asset")),
        [one] => &one["account"],
        _ => return Err(unclear("shows several accounts of one asset")),
    };
    let data = account["data"][0].as_str().and_then(|text| BASE64.decode(text.as_bytes()).ok()).unwrap_or_default();
    let of = data.get(ASSET_AT..ASSET_AT + KEY).map(|key| bs58::encode(key).into_string());
    let known = account["owner"] == REGISTRY && data.starts_with(&DISCRIMINATOR) && of.as_deref() == Some(asset);
    if known { Ok(data) } else { Err(unclear("shows something other than the asset's account")) }
}

/// The address of the registration file.
fn uri(account: &[u8]) -> Option<String> {
    let after_option = |at: usize| match account.get(at)? {
        0 => Some(at + 1),
        1 => Some(at + 1 + KEY),
        _ => None,
    };
    let at = after_option(after_option(OPTIONS_AT)? + DIGESTS)? + 2;
    let length = u32::from_le_bytes(account.get(at..at + 4)?.try_into().ok()?);
    let text = account.get(at + 4..(at + 4).checked_add(usize::try_from(length).ok()?)?)?;
    String::from_utf8(text.to_vec()).ok()
}
