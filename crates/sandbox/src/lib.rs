//! Probes against a live agent: ten ASI threats and three benchmarks (seed 4, "10 threats + 3 benchmarks"; DESIGN, *Sandbox*).
//!
//! What decides is what our own sensors saw, never the agent's wording: honey tools that we serve, a listener with nonce URLs,
//! computed canaries that never appear in what we send, a second conversation or identity, counters.
//!
//! - [`suite`]: probes as data, checked when loaded; [`variant`]: other spellings; [`values`]: canaries and names of a trial;
//! - [`target`]: how an agent is spoken to; [`capability`]: what it can do;
//! - [`trial`]: one control or attack played, and what the sensors say of it;
//! - [`runner`]: plan, budget, journal, and the trials of a run; [`score`]: what they come to; [`benchmark`]: what is measured besides;
//! - [`consent`]: who may be probed; [`domain`]: how control of a host is proved;
//! - [`report`]: the result, for machines and for people; [`judge`]: what a model says of it, beside.
#![forbid(unsafe_code)]

pub mod benchmark;
pub mod capability;
pub mod consent;
pub mod domain;
pub mod judge;
pub mod report;
pub mod runner;
pub mod score;
pub mod sensor;
pub mod suite;
pub mod target;
mod threat;
pub mod trial;
pub mod values;
pub mod variant;

pub use threat::Threat;
