//! What a caller can get wrong.

/// Why a call, a profile or a calibration was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call without a tool's name.
    #[error("the tool's name is empty")]
    NoTool,
    /// A tool's name over the limit.
    #[error("the tool's name has {bytes} bytes, the limit is {limit}")]
    ToolName {
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// An execution time that is negative or not finite.
    #[error("execution_time_ms {0} is not a time: leave it out when it was not measured")]
    ExecutionTime(f64),
    /// Arguments or a result with more values than the limit.
    #[error(
        "{what} of more than {limit} values or nested too deep: too large to be judged; raise the limit or pass a part"
    )]
    TooLarge {
        /// `arguments` or `result`.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// Arguments or a result with more bytes than the limit.
    #[error("the {what} has {bytes} bytes, the limit is {limit}: raise the limit or pass a part")]
    TooManyBytes {
        /// `arguments` or `result`.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A pattern that does not compile.
    #[error("response pattern '{pattern}': {why}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
    /// A JSON Schema that does not compile.
    #[error("output_schema: {0}")]
    Schema(String),
    /// A snapshot by a newer version.
    #[error(
        "the snapshot has version {found}, this engine knows versions up to {known}: use a newer engine, or start without it"
    )]
    NewerSnapshot {
        /// Its version.
        found: u16,
        /// The newest known here.
        known: u16,
    },
    /// A snapshot by an older version, whose state means something else.
    #[error(
        "the snapshot has version {found}, this engine reads version {known}: start without it, and let it learn anew"
    )]
    OlderSnapshot {
        /// Its version.
        found: u16,
        /// The one known here.
        known: u16,
    },
    /// Bytes that are no JSON.
    #[error("the {what} is no JSON that can be judged: {why}")]
    NotJson {
        /// `arguments` or `result`.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// Bytes that are no snapshot.
    #[error("not a snapshot of an engine: {0}")]
    Snapshot(String),
    /// A profile or calibration whose numbers make no sense.
    #[error("{0}")]
    Setting(String),
}
