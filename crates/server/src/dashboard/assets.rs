//! What pages need beside their text. Their address changes with what they hold, so that browsers may keep them for ever.

use std::sync::LazyLock;

use axum::{
    extract::Path,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::problem::Problem;

const FOREVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

const PAGE_STYLE: &str = include_str!("../../assets/page.css");
const LIVE: &str = include_str!("../../assets/live.js");
const PROOF: &str = include_str!("../../assets/proof.js");
const MARK: &str = include_str!("../../assets/mark.svg");

/// The stylesheet of pages and charts.
static STYLE: LazyLock<String> = LazyLock::new(|| format!("{}\n{PAGE_STYLE}", credence_charts::STYLE));

static BUILD: LazyLock<String> = LazyLock::new(|| {
    let all = [STYLE.as_str(), LIVE, PROOF, MARK].concat();
    HEXLOWER.encode(&Sha256::digest(all.as_bytes())[..6])
});

/// Changes with what they hold.
pub(super) fn build() -> &'static str {
    &BUILD
}

pub(super) async fn asset(Path(name): Path<String>) -> Response {
    let (kind, text): (&'static str, &'static str) = match name.as_str() {
        "page.css" => ("text/css; charset=utf-8", &STYLE),
        "live.js" => ("text/javascript; charset=utf-8", LIVE),
        "proof.js" => ("text/javascript; charset=utf-8", PROOF),
        "mark.svg" => ("image/svg+xml", MARK),
        _ => return Problem::not_found("no_such_path", "there is no such file").into_response(),
    };
    ([(header::CONTENT_TYPE, HeaderValue::from_static(kind)), (header::CACHE_CONTROL, FOREVER)], text).into_response()
}
