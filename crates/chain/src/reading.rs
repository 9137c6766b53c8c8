//! What a registry says about one agent at one block. Registry text is attacker text: only numbers, enums, origins and digests leave.

use std::collections::{BTreeMap, BTreeSet};

use credence_protocol::{ExternalSubject, Tag};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a registry says about one agent at one block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// The registration that was read.
    pub subject: ExternalSubject,
    /// The root of everything measured, `erc8004:eip155:8453` or `solana8004:solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp`.
    pub root: String,
    /// The block's number; on Solana its slot.
    pub block: u64,
    /// The block's hash.
    pub block_hash: String,
    /// What the registration says.
    pub registration: Option<Registration>,
    /// What was measured. Empty: nothing to say, which is not zero.
    pub signals: Vec<Measured>,
    /// What was left out, and why.
    #[serde(default)]
    pub notes: BTreeSet<Note>,
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// What it measures.
    pub tag: Tag,
    /// 0 to 100, 100 is best.
    pub value: f64,
    /// 0 to 50.
    pub stddev: f64,
    /// The evidence: numbers, enums and digests.
    pub numbers: Map<String, Value>,
}

/// What a registry says of a registration. The address of the file is anyone's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// The registry, as registration files name it.
    pub registry: String,
    /// Who holds the registration.
    pub owner: String,
    /// Where its file is. Empty where it names none.
    pub uri: String,
}

/// What a registration says, for consistency across chains: only normalised values and digests, never free text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Registration {
    /// The chain, as a CAIP-2 id.
    pub chain: String,
    /// SHA-256 of the name, trimmed, in lower case.
    pub name_digest: Option<String>,
    /// Origins of its endpoints: `https://host[:port]`.
    pub endpoints: BTreeSet<String>,
    /// Who holds the registration.
    pub owner: Option<String>,
    /// The agent's wallet.
    pub wallet: Option<String>,
    /// The registrations it names, itself included, as CAIP ids.
    pub points_to: BTreeSet<String>,
    /// The domains of its file by their origins, and what the file of each says; `None` where a domain has no file.
    pub domains: BTreeMap<String, Option<Domain>>,
}

/// What a domain's `/.well-known/agent-registration.json` says: as of a [`Registration`], name and endpoints only where it is a whole
/// registration file that names no host without a proven link.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Domain {
    /// SHA-256 of the name.
    pub name_digest: Option<String>,
    /// Origins of its endpoints.
    pub endpoints: BTreeSet<String>,
    /// The registrations it names.
    pub points_to: BTreeSet<String>,
}

/// Why something was left out of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Note {
    /// The registration names no file.
    NoUri,
    /// The file is of a kind that is not read (only https, `data:` and, with a gateway, `ipfs:`).
    UriNotSupported,
    /// The file is on a host that has no proven link with the agent. It was not asked for.
    UriHostNotProven,
    /// The file could not be read: nobody answered, or something other than a document.
    FileUnreachable,
    /// The file is no registration file.
    NotARegistration,
    /// The file names an endpoint on a host that has no proven link with the agent: nothing of it is taken.
    NamesAnotherDomain,
    /// The domain's own file could not be asked for.
    DomainUnreachable,
    /// Logs were not read: no payment proofs, no breadth of raters, no continuity.
    NoLogs,
    /// A client gave more feedback than can be read at once: only its newest was read.
    Flood,
    /// Nobody has rated the agent with a score (Solana).
    NoStatistics,
}
