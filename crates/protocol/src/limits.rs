//! Every limit of the protocol, by name. Each has an error that names it.

/// A signal's canonical form, in bytes.
pub const MAX_SIGNAL_BYTES: usize = 4 * 1024;
/// A signal as received, in bytes: room for white space around a full-sized one.
pub const MAX_SIGNAL_INPUT_BYTES: usize = 4 * MAX_SIGNAL_BYTES;
/// A statement's canonical form, in bytes.
pub const MAX_STATEMENT_BYTES: usize = 32 * 1024;
/// A statement as received, in bytes.
pub const MAX_STATEMENT_INPUT_BYTES: usize = 2 * MAX_STATEMENT_BYTES;
/// Nesting of arrays and objects in any strictly parsed document.
pub const MAX_JSON_DEPTH: usize = 32;
/// The largest integer that a double holds exactly, 2^53 − 1 (I-JSON, RFC 7493 §2.2).
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;
/// Tags on one signal.
pub const MAX_TAGS_PER_SIGNAL: usize = 32;
/// A tag's length, in bytes.
pub const MAX_TAG_BYTES: usize = 64;
/// An entity id's length, in bytes.
pub const MAX_ENTITY_ID_BYTES: usize = 128;
/// An alias' length, in bytes.
pub const MAX_ALIAS_BYTES: usize = 512;
/// A signal's value: 100 is always best.
pub const MAX_VALUE: f64 = 100.0;
/// A signal's standard deviation: the widest a value on 0..=100 can have.
pub const MAX_STDDEV: f64 = 50.0;
/// How far ahead of the authority's clock `observed_at` may lie, in seconds.
pub const MAX_CLOCK_SKEW_SECONDS: i64 = 60;
