//! The sources that ship with Credence.

use std::sync::OnceLock;

use crate::{Source, SourceError};

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../sources/", $name, ".toml")))),*]
    };
}

/// Every built-in source file: its name and text.
pub const FILES: &[(&str, &str)] = files![
    "8004scan",
    "a2a-card",
    "deps-dev",
    "docker-hub",
    "github",
    "hol-availability",
    "hol-feedback",
    "hugging-face",
    "mcp-registry",
    "mnemom",
    "observatory",
    "osv",
    "rdap",
    "rnwy",
    "scorecard",
    "security-txt",
    "upptime",
    "x402-bazaar",
];

/// Every built-in source.
pub fn all() -> Result<&'static [Source], SourceError> {
    static ALL: OnceLock<Result<Vec<Source>, SourceError>> = OnceLock::new();
    let parse = || FILES.iter().map(|(name, text)| Source::parse(&format!("{name}.toml"), text)).collect();
    ALL.get_or_init(parse).as_ref().map(Vec::as_slice).map_err(Clone::clone)
}

/// The built-in source with this id.
pub fn find(id: &str) -> Result<Option<&'static Source>, SourceError> {
    Ok(all()?.iter().find(|source| source.id.as_str() == id))
}
