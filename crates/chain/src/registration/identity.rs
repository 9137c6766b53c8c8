//! `identity_onchain`: whether the registration, its file and its domains name each other.
//!
//! Three checks: the file that the chain names can be read; its `registrations[]` names this registration; every domain of its
//! endpoints names it at `/.well-known/agent-registration.json`. `value = 100 · (1 + names it + share of domains that name it) / 3`.
//! A file without a domain has nobody who vouches for it: its third check fails. Where the file or a domain cannot be asked, nothing
//! is measured.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::hex;
use credence_egress::Egress;
use credence_protocol::Tag;
use futures_util::future::join_all;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use url::Url;

use super::{
    file::{RegistrationFile, registrations},
    uri::{self, File, Hosts, host_of},
};
use crate::reading::{Domain, Measured, Note};

/// Where a domain names its agents.
const WELL_KNOWN: &str = "/.well-known/agent-registration.json";
/// Domains that are asked. A file with more of them is refused as a whole.
const MAX_DOMAINS: usize = 8;
/// The checks are facts; what they say of the agent is not certain.
const STDDEV: f64 = 5.0;

/// Takes a file, or says why not.
pub(super) fn accept(file: &File, hosts: Hosts<'_>) -> Result<RegistrationFile, Note> {
    let parsed = RegistrationFile::parse(&file.bytes).ok_or(Note::NotARegistration)?;
    let proven = |origin: &Url| host_of(origin).is_some_and(|host| hosts(&host));
    if !parsed.origins.iter().all(proven) || parsed.origins.len() > MAX_DOMAINS {
        return Err(Note::NamesAnotherDomain);
    }
    Ok(parsed)
}

/// What its domains say, by their origins; `None` where a domain has no file.
pub(super) type Domains = BTreeMap<String, Option<Domain>>;

/// Measures, and gives what the domains say; `own` is the registration's CAIP id.
pub(super) async fn measure(
    egress: &Egress,
    own: &str,
    file: &File,
    parsed: &RegistrationFile,
    hosts: Hosts<'_>,
) -> Result<(Option<Measured>, Domains), Note> {
    let mut domains: BTreeSet<&Url> = parsed.origins.iter().collect();
    if domains.is_empty() {
        domains.extend(&file.origin);
    }
    let asked = domains.iter().map(|domain| ask(egress, domain, hosts));
    let answers: Vec<Option<Domain>> = join_all(asked).await.into_iter().collect::<Result<_, _>>()?;
    let back = answers.iter().flatten().filter(|domain| domain.points_to.contains(own)).count();
    let share = if answers.is_empty() { 0.0 } else { back as f64 / answers.len() as f64 };
    let itself = parsed.points_to.contains(own);
    let numbers = Map::from_iter([
        ("file_sha256".to_owned(), json!(hex::encode(Sha256::digest(&file.bytes)))),
        ("file_names_registration".to_owned(), json!(itself)),
        ("domains".to_owned(), json!(answers.len())),
        ("domains_naming_registration".to_owned(), json!(back)),
    ]);
    let value = 100.0 * (1.0 + f64::from(u8::from(itself)) + share) / 3.0;
    let measured = Tag::new("identity_onchain").ok().map(|tag| Measured { tag, value, stddev: STDDEV, numbers });
    let origins = domains.iter().map(|domain| domain.origin().ascii_serialization());
    Ok((measured, origins.zip(answers).collect()))
}

/// What a domain's file says; `None` where there is none. An error: it could not be asked.
async fn ask(egress: &Egress, domain: &Url, hosts: Hosts<'_>) -> Result<Option<Domain>, Note> {
    let url = domain.join(WELL_KNOWN).map_err(|_| Note::DomainUnreachable)?;
    let Some(bytes) = uri::get(egress, &url).await.map_err(|_| Note::DomainUnreachable)? else { return Ok(None) };
    let Ok(file) = serde_json::from_slice::<Value>(&bytes) else { return Ok(None) };
    let mut said = Domain { points_to: registrations(&file), ..Domain::default() };
    if let Ok(whole) = accept(&File { bytes, origin: None }, hosts) {
        said.endpoints = origins_of(&whole);
        said.name_digest = whole.name_digest;
    }
    Ok(Some(said))
}

/// The origins of a file's endpoints, as text.
pub(super) fn origins_of(file: &RegistrationFile) -> BTreeSet<String> {
    file.origins.iter().map(|url| url.origin().ascii_serialization()).collect()
}
