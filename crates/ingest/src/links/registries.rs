//! Registries of chains that are read through a node of the operator's own, where one is configured. Others are read at public endpoints.

use std::{future::Future, pin::Pin, sync::Arc};

use credence_protocol::{ExternalSubject, Timestamp};

use super::CheckFailure;

/// What a registry says of a registration, in a block that stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// The registry, as registration files name it: `eip155:8453:0x…`, `solana:…:PROGRAM`.
    pub registry: String,
    /// Who holds the registration, as an address of the chain.
    pub owner: String,
    /// Where its file is. Empty where it names none.
    pub uri: String,
}

/// An answer that is on its way.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Registered, CheckFailure>> + Send + 'a>>;

/// Reads the registries of one chain.
pub trait RegistryReader: Send + Sync {
    /// Whether the registration is in a registry that this one reads.
    fn reads(&self, registration: &ExternalSubject) -> bool;

    /// What the registry says of it.
    fn registered<'a>(&'a self, registration: &'a ExternalSubject, now: Timestamp) -> Answering<'a>;
}

/// Those that the operator configured.
pub type Registries = Arc<[Arc<dyn RegistryReader>]>;
