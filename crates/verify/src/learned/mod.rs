//! What real traffic needs (DESIGN, *Verification engine*): a model of each tool's results, learned unaided from the calls
//! before, and the evidence that a result is unlike them.
//!
//! [`observe`] lists the values of a result by path, [`model`] knows what each path looked like so far and says how
//! surprising each aspect of the result is, [`evidence`] turns surprises into likelihood ratios: the denominator is how often
//! this tool's genuine results surprised as much. [`oddities`] counts what was odd and comes again, in case it
//! is the tool that has changed; [`ages`] knows after how long answers to equal arguments change, [`lately`] where values were last, [`answers`] keeps what people said.

pub(crate) mod ages;
pub(crate) mod answers;
mod counts;
mod describe;
pub(crate) mod echo;
pub(crate) mod evidence;
mod known;
pub(crate) mod lately;
pub(crate) mod model;
pub(crate) mod observation;
pub(crate) mod observe;
pub(crate) mod oddities;
pub(crate) mod surprise;
mod written;
