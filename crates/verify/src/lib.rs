//! Is this tool result believable? (seed 2; DESIGN, *Verification engine*.)
//!
//! The engine judges one tool result at a time: [`Decision::Accept`], `Flag` or `Block`, with the posterior probability
//! that the result was fabricated, what each check said, and a sentence that explains it. It needs no network and no
//! model; what it knows it learned from the calls before.
//!
//! ```
//! use credence_verify::{Call, Decision, Engine, ToolProfile};
//! use serde_json::json;
//!
//! let engine = Engine::builder().build();
//! engine.register("get_weather", ToolProfile::builder()
//!     .expected_latency_ms(100.0, 5000.0)
//!     .required_fields(["temperature", "humidity"])
//!     .build()?)?;
//!
//! let (args, result) = (json!({"city": "London"}), json!({"temperature": 18, "humidity": 65}));
//! let verdict = engine.verify(&Call::new("get_weather", &result).args(&args).execution_time_ms(350.0))?;
//! assert_eq!(verdict.decision, Decision::Accept);
//! assert!((verdict.posterior - 0.12709710218607015).abs() < 1e-12);
//! # Ok::<(), credence_verify::Error>(())
//! ```
//!
//! Mode [`Fixed`](Mode::Fixed) is the seed's engine to the letter, with the corrections DESIGN settles (a check that could
//! not be evaluated is left out, blocked results are not learned, memory is bounded): eight [checks](Check) in two [stages](Stage)
//! feed the [combiner](posterior); a block by stage 0 skips stage 1. Mode [`Adaptive`](Mode::Adaptive), the default, starts from
//! the same table and learns what each tool's results look like (docs/adr/0006), without being taught lies (docs/adr/0005).
//!
//! # What changes
//!
//! A tool that changes is not a liar (docs/adr/0024). What is odd in a result and comes again is flagged a few times, then
//! believed, and [`Verdict::changes`] says so. A guard should:
//!
//! | [`ChangeStage`] | what it means | what to do |
//! |---|---|---|
//! | `Recurring` | the same oddity for the second time; it is believed if it goes on | raise an alarm, show the result to a person |
//! | `Learned` | one doubtful result was learned | count it, show it in the status |
//! | `Believed` | it is part of the tool from now on | raise an alarm, record it |
//! | `LockedOut` | five results in a row were blocked; from now on they are flagged | raise an alarm: the tool changed, or is under attack |
//!
//! A person's answer goes to [`Engine::confirm`] or [`Engine::reject`], with the call as it was. A guard that read the result from
//! the server itself says so ([`Origin::Upstream`]), and passes on `isError` ([`Call::is_error`]).
//!
//! One engine is one memory: explanations can name what earlier results had, so callers who must not learn of each other's
//! results get an engine each.

mod calibration;
mod call;
mod change;
mod check;
mod combiner;
mod consistency;
mod engine;
mod error;
pub mod evaluate;
mod evaluation;
pub mod fabricate;
mod fields;
pub mod fit;
pub mod infer;
pub mod inspect;
mod learned;
pub mod measure;
mod memory;
mod profile;
mod readable;
mod schema_cost;
mod snapshot;
mod spc;
mod state;
mod stats;
mod text;
mod verdict;

pub use calibration::{Calibration, Calibrations};
pub use call::{Call, Origin};
pub use change::{Change, ChangeStage};
pub use check::Check;
pub use combiner::{Evidence, posterior};
pub use credence_protocol::{Decision, Stake, Timestamp};
pub use engine::{Builder, Canary, Engine, Feedback, Memory, Mode, Recall};
pub use error::Error;
pub use memory::Trimmed;
pub use profile::{ProfileBuilder, ToolProfile};
pub use spc::Rule;
pub use state::Limits;
pub use verdict::{CheckResult, Stage, Verdict, decide_by_default};
