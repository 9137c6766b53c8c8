//! The label of a container image on Docker Hub: token, manifest of `latest` (the first image of an index), configuration, label.

use credence_egress::{HeaderName, HeaderValue, Redirects, Request};
use credence_protocol::{LinkProof, LinkStatement};
use serde_json::Value;
use url::Url;

use super::CheckFailure;
use crate::{Crawler, source::digest};

/// The label that holds the line.
pub(super) const LABEL: &str = "dev.credence.link";
const MAX_BYTES: usize = 4 * 1024 * 1024;
const ACCEPT: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json";

pub(super) async fn check(
    crawler: &Crawler,
    statement: &LinkStatement,
    namespace: &str,
    name: &str,
) -> Result<LinkProof, CheckFailure> {
    let token_url = format!(
        "https://auth.docker.io/token?service=registry.docker.io&scope=repository%3A{namespace}%2F{name}%3Apull"
    );
    let (_, token) = json(crawler, &token_url, None).await?;
    let token = token
        .get("token")
        .and_then(Value::as_str)
        .and_then(|token| HeaderValue::from_str(&format!("Bearer {token}")).ok());
    let token = token.ok_or_else(|| CheckFailure::not("the registry gives no token for this image"))?;
    let base = format!("https://registry-1.docker.io/v2/{namespace}/{name}");
    let (_, mut manifest) = json(crawler, &format!("{base}/manifests/latest"), Some(&token)).await?;
    if let Some(first) = manifest.pointer("/manifests/0/digest") {
        let first = of_digest(first)?;
        manifest = json(crawler, &format!("{base}/manifests/{first}"), Some(&token)).await?.1;
    }
    let config = of_digest(manifest.pointer("/config/digest").unwrap_or(&Value::Null))?;
    let url = format!("{base}/blobs/{config}");
    let (bytes, image) = json(crawler, &url, Some(&token)).await?;
    if digest(&bytes) != config {
        return Err(CheckFailure::not("the image's configuration is not what its manifest names"));
    }
    let label = image.pointer("/config/Labels").and_then(|labels| labels.get(LABEL)).and_then(Value::as_str);
    match label {
        Some(label) if label.trim() == statement.line() => {
            Ok(LinkProof { method: "label".into(), url: Some(url), digest: Some(config), signature: None })
        }
        Some(label) => {
            let other = LinkStatement::parse(label).ok();
            Err(CheckFailure::not(super::not_ours(&format!("the label {LABEL}"), statement, other)))
        }
        None => Err(CheckFailure::not(format!("the image that latest names has no label {LABEL}"))),
    }
}

/// A digest that can stand in an address.
fn of_digest(value: &Value) -> Result<String, CheckFailure> {
    let is_digest = |text: &&str| {
        text.strip_prefix("sha256:").is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    let text = value.as_str().filter(is_digest);
    text.map(str::to_owned).ok_or_else(|| CheckFailure::not("the manifest of the image has another form than known"))
}

async fn json(crawler: &Crawler, url: &str, token: Option<&HeaderValue>) -> Result<(Vec<u8>, Value), CheckFailure> {
    let parsed = Url::parse(url).map_err(|_| CheckFailure::not("the image has no address"))?;
    let build = |url: &Url| {
        let mut request = Request::get(url.as_str())?.max_bytes(MAX_BYTES).redirects(Redirects::Public(2));
        if let Some(token) = token {
            request = request
                .secret(HeaderName::from_static("authorization"), token.clone())
                .header(HeaderName::from_static("accept"), HeaderValue::from_static(ACCEPT));
        }
        Ok(request)
    };
    let body = crawler.send_checked(build, &parsed).await.map_err(CheckFailure::of)?.body;
    let value = serde_json::from_slice(&body).map_err(|_| CheckFailure::not("the registry's answer is not JSON"))?;
    Ok((body, value))
}
