//! The one door out: everything that Credence sends to a host it does not run goes through this client.
//!
//! An agent's owner, a registry or a redirect can name any address, the cloud's metadata service or a printer included. So:
//!
//! - A name is resolved once; every address it has must be public ([`is_public`]); the connection goes to the addresses that were
//!   checked, and a name that resolves to something else a moment later changes nothing.
//! - https only. Loopback, with http, only where the operator says so ([`Settings::loopback`]); no other private address ever.
//! - Redirects are followed only as the request says ([`Redirects`]), each target is checked as if it were asked for, and headers
//!   that hold a secret stay behind.
//! - Size, time and rate per host are bounded ([`Request`], [`Rate`]); a host that asks for a pause gets it (`Retry-After`).
//! - No proxy, no cookies, no compressed bodies (a few kilobytes can unpack to gigabytes), and a User-Agent that says who asks.
//!
//! ```
//! use credence_egress::{Egress, Request, Settings};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let egress = Egress::new(Settings::for_purpose("crawl"))?;
//! let refused = egress.send(Request::get("https://169.254.169.254/latest/meta-data")?).await;
//! assert!(refused.unwrap_err().to_string().contains("not public"));
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod address;
mod answer;
mod client;
mod error;
mod politeness;
mod request;
mod resolve;

pub use address::is_public;
pub use answer::Answer;
pub use client::{Egress, Settings};
pub use error::EgressError;
pub use politeness::Rate;
pub use request::{Redirects, Request, Validators};
pub use reqwest::{
    Method, StatusCode,
    header::{HeaderMap, HeaderName, HeaderValue},
};
pub use resolve::{Destination, Names, SystemNames};
