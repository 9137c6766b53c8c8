//! What is wrong with a source file.

/// A source file that cannot be used. Says which file, which line, what is wrong and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {why}")]
pub struct SourceError {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1 on.
    pub line: usize,
    /// What is wrong.
    pub why: String,
}
