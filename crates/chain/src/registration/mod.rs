//! Registrations: the file that a registry names, and whether file, domains and registry name each other. The same on every chain.

mod file;
mod identity;
mod uri;

use credence_egress::Egress;
use url::Url;

pub use uri::Hosts;
pub(crate) use uri::fetch;

use crate::reading::{Reading, Registration};

/// What to read.
pub(crate) struct Asked<'a> {
    pub(crate) egress: &'a Egress,
    /// Where `ipfs://` files are read.
    pub(crate) gateway: Option<&'a Url>,
    /// Where the registry says that the file is.
    pub(crate) uri: &'a str,
    /// The registration's own CAIP id.
    pub(crate) own: &'a str,
    pub(crate) hosts: Hosts<'a>,
}

/// Completes what the registry says with what its file says, and measures `identity_onchain`.
pub(crate) async fn read(asked: &Asked<'_>, mut registration: Registration, reading: &mut Reading) {
    let file = uri::fetch(asked.egress, asked.gateway, asked.uri, asked.hosts).await;
    match file.and_then(|file| identity::accept(&file, asked.hosts).map(|parsed| (file, parsed))) {
        Err(note) => drop(reading.notes.insert(note)),
        Ok((file, parsed)) => {
            match identity::measure(asked.egress, asked.own, &file, &parsed, asked.hosts).await {
                Ok((signal, domains)) => {
                    reading.signals.extend(signal);
                    registration.domains = domains;
                }
                Err(note) => drop(reading.notes.insert(note)),
            }
            registration.endpoints = identity::origins_of(&parsed);
            registration.name_digest = parsed.name_digest;
            registration.points_to = parsed.points_to;
        }
    }
    reading.registration = Some(registration);
}
