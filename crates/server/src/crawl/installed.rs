//! A source that the operator added: a source file, or the reader of a chain.

use std::time::Duration;

use credence_ingest::Source;
use credence_protocol::{EntityId, ExternalSubject, SecretKey};

#[cfg(feature = "chain")]
use super::ChainSource;

/// A source that the operator added, with the key that signs its signals.
pub struct Installed {
    pub(super) asks: Asks,
    pub(super) key: SecretKey,
}

/// How a source is asked.
pub(super) enum Asks {
    /// Over HTTP, as a source file says.
    File(Box<Source>),
    /// A chain's registries, through a node.
    #[cfg(feature = "chain")]
    Chain(Box<ChainSource>),
}

impl Installed {
    /// A source file.
    pub fn file(source: Source, key: SecretKey) -> Self {
        Self { asks: Asks::File(Box::new(source)), key }
    }

    /// The reader of a chain.
    #[cfg(feature = "chain")]
    pub fn chain(source: ChainSource, key: SecretKey) -> Self {
        Self { asks: Asks::Chain(Box::new(source)), key }
    }

    /// Who signs.
    pub fn id(&self) -> &EntityId {
        match &self.asks {
            Asks::File(source) => &source.id,
            #[cfg(feature = "chain")]
            Asks::Chain(source) => source.id(),
        }
    }

    /// The source file, where it is one.
    pub(super) fn source(&self) -> Option<&Source> {
        match &self.asks {
            Asks::File(source) => Some(source),
            #[cfg(feature = "chain")]
            Asks::Chain(_) => None,
        }
    }

    /// Whether it can be asked about `link`.
    pub(super) fn speaks_of(&self, link: &ExternalSubject) -> bool {
        match &self.asks {
            Asks::File(source) => source.speaks_of(link),
            #[cfg(feature = "chain")]
            Asks::Chain(source) => source.speaks_of(link),
        }
    }

    /// How long an answer holds.
    pub(super) fn ttl(&self) -> Duration {
        match &self.asks {
            Asks::File(source) => source.ttl,
            #[cfg(feature = "chain")]
            Asks::Chain(_) => ChainSource::TTL,
        }
    }

    /// Raised with every change of what an answer means.
    pub(super) fn version(&self) -> u32 {
        match &self.asks {
            Asks::File(source) => source.version,
            #[cfg(feature = "chain")]
            Asks::Chain(_) => ChainSource::VERSION,
        }
    }
}
