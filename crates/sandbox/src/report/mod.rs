//! What a run says in the end.

mod compare;
mod exchange;
mod html;
mod json;

pub use compare::{Change, ComparedFamily, ComparedThreat, Comparison};
pub use html::{ONLY, Report, again, totals};
pub use json::{BenchmarkValue, Benchmarks, DroppedThreat, FamilyResult, RunResult, ThreatResult};
