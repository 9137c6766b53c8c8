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
pub use credence_protocol::{Decision, Stake};
pub use engine::{Builder, Canary, Engine, Feedback, Memory, Mode, Recall};
pub use error::Error;
pub use memory::Trimmed;
pub use profile::{ProfileBuilder, ToolProfile};
pub use spc::Rule;
pub use state::Limits;
pub use verdict::{CheckResult, Stage, Verdict, decide_by_default};
