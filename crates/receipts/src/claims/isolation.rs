//! Whether others than the guards could have written the receipts behind the claims.

use std::collections::BTreeMap;

use credence_protocol::receipt::Vantage;

use super::compare::Candidate;
use crate::Archive;

/// One line for each guard whose receipts back claims; the weakest of them counts.
pub(super) fn isolation(archive: &Archive, candidates: &[Candidate]) -> Vec<String> {
    let mut guards: BTreeMap<String, Option<Vantage>> = BTreeMap::new();
    for one in candidates.iter().filter(|one| one.claimed) {
        let vantage = one.found.receipt.vantage;
        let weakest = guards.entry(archive.sources[one.found.source].name()).or_insert(vantage);
        // Unknown is the least, then the same user.
        *weakest = (*weakest).min(vantage);
    }
    let line = |(guard, vantage)| {
        let who = match vantage {
            Some(Vantage::OwnUser) => {
                "the guard ran as a user of its own, so that neither agent nor tool server could write its receipts"
            }
            Some(Vantage::SameUser) => {
                "the guard ran as the user of the agent or the tool server: a program of that user can write receipts in its name"
            }
            None => "it is not known whether others than the guard could write its receipts",
        };
        format!("{guard}: {who}")
    };
    guards.into_iter().map(line).collect()
}
