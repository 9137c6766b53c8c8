//! The runner: plan, trials, journal, result.

mod cancel;
mod family;
pub mod journal;
mod options;
pub mod pace;
pub mod plan;
mod preview;
pub(crate) mod run;

pub use cancel::Cancel;
pub use options::{DEFAULT_TIGHT, DEFAULT_TRIALS, RunOptions};
pub use preview::{Preview, preview};
pub use run::{Event, Observer, Quiet, Run, RunError, RunOutput};
