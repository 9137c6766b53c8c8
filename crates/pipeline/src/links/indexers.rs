//! Indexers of a registry that we write to ourselves. An indexer repeats what the registry says, our own attestations included: an agent
//! that we attested would be rated by our own word. So indexers are not asked about it, and what they said is withdrawn.
//!
//! A source that reads the chain itself is no indexer: it leaves our addresses out.

use std::collections::BTreeSet;

use credence_ledger::{Transaction, View};
use credence_protocol::{EntityId, Root};

use super::{crawled_signals, withdraw};
use crate::{
    Result,
    attestations::has_attestation,
    registrations,
    tables::{self, SourceRow},
};

/// The registries that we write to.
const REGISTRIES: [&str; 2] = ["erc8004", "solana8004"];

/// The registered sources that are indexers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Indexers(BTreeSet<String>);

impl Indexers {
    /// Reads them.
    pub fn read(view: &(impl View + ?Sized)) -> Result<Self> {
        let sources = tables::all::<SourceRow>(view, tables::SOURCES)?;
        let indexers = sources.into_iter().filter(|(source, row)| repeats_registry(source, &row.roots));
        Ok(Self(indexers.map(|(source, _)| source).collect()))
    }

    /// Whether `source` is left out for `agent`.
    pub fn leave_out(&self, view: &(impl View + ?Sized), agent: &EntityId, source: &EntityId) -> Result<bool> {
        Ok(self.0.contains(source.as_str()) && has_attestation(view, agent)?)
    }
}

/// Whether a source with these roots repeats a registry that we write to.
fn repeats_registry(source: &str, roots: &[Root]) -> bool {
    let of_registry = |root: &Root| root.and_what_covers_it().any(|name| REGISTRIES.contains(&name));
    !registrations::is_reader(source) && roots.iter().any(of_registry)
}

/// Withdraws what indexers said of an agent, in the unit of work that records its first confirmed attestation. Gives how many signals.
pub(crate) fn withdraw_indexed(tx: &mut dyn Transaction, agent: &EntityId) -> Result<usize> {
    let indexers = Indexers::read(tx)?;
    let mut withdrawn = 0;
    for crawled in crawled_signals(tx, agent)? {
        if indexers.0.contains(crawled.source.as_str()) {
            withdraw(tx, agent, &crawled)?;
            withdrawn += 1;
        }
    }
    Ok(withdrawn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_repeats_a_registry() {
        let repeats = |source: &str, roots: &[&str]| {
            let roots: Vec<Root> = roots.iter().map(|root| Root::new(root).unwrap()).collect();
            repeats_registry(source, &roots)
        };
        assert!(repeats("crawler-8004scan", &["erc8004"]));
        assert!(repeats("crawler-other", &["hol", "erc8004:eip155:8453"]));
        assert!(!repeats("chain-eip155-8453", &["erc8004:eip155:8453"]), "a reader leaves our own out");
        assert!(!repeats("crawler-github", &["github"]));
        assert!(!repeats("crawler-x", &["erc8004x"]));
    }
}
