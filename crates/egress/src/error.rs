//! Why nothing came back.

use std::{net::IpAddr, time::Duration};

/// Why a request was not sent, or why its answer was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EgressError {
    /// Correct the address: an absolute one, without a user name or password.
    #[error("'{0}' is not an address to ask: use https://host/path, without a user name or password")]
    InvalidUrl(String),
    /// Use https. Plain http is for loopback, where the operator allows it.
    #[error("{0} is not an https address")]
    NotHttps(String),
    /// The host leads to an address inside some network. Nothing was sent. The words leave the address out: an outsider who reads
    /// them must not learn where internal names lead.
    #[error("{host} leads to an address that is not public")]
    NotPublic {
        /// The host as it was given.
        host: String,
        /// The address that is not public.
        address: IpAddr,
    },
    /// A client that was made for one host asks no other.
    #[error("{host} is not {only}, the one host that may be asked here")]
    OtherHost {
        /// The host as it was given.
        host: String,
        /// The host of this client.
        only: String,
    },
    /// Check the name, or try again later.
    #[error("the name {host} could not be resolved: {why}")]
    Unresolved {
        /// The host as it was given.
        host: String,
        /// What the resolver said.
        why: String,
    },
    /// The host could not be reached, or broke off.
    #[error("{host} could not be reached: {why}")]
    Unreachable {
        /// The host.
        host: String,
        /// What happened, without the address's path or query.
        why: String,
    },
    /// The certificate of the host is not valid for it.
    #[error("the certificate of {host} is not valid: {why}")]
    Certificate {
        /// The host.
        host: String,
        /// What is wrong with it.
        why: String,
    },
    /// No whole answer in time.
    #[error("{host} did not answer within {seconds} s")]
    Late {
        /// The host.
        host: String,
        /// The request's deadline.
        seconds: u64,
    },
    /// The answer is longer than the request takes.
    #[error("the answer of {host} is longer than {limit} bytes")]
    TooLarge {
        /// The host.
        host: String,
        /// The request's limit.
        limit: usize,
    },
    /// The answer is compressed although the request takes no compression.
    #[error("the answer of {host} is encoded as '{encoding}': only plain bodies are taken")]
    Encoded {
        /// The host.
        host: String,
        /// What it said.
        encoding: String,
    },
    /// The host sends elsewhere, where the request does not follow.
    #[error("{host} redirects to {to}, and this request does not follow there")]
    Redirected {
        /// The host.
        host: String,
        /// The origin it points to.
        to: String,
    },
    /// The host asked for a pause. Ask again after it.
    #[error("{host} asked to wait: {} s are left", .left.as_secs().max(1))]
    Paused {
        /// The host.
        host: String,
        /// How long it still is.
        left: Duration,
    },
    /// The machine's certificate store or the TLS set-up is broken.
    #[error("no HTTP client could be made: {0}")]
    Setup(String),
}
