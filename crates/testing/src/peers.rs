//! Other people's programs: the official MCP SDKs, public servers, servers that misbehave on purpose, and agents on public frameworks.

use std::{env, fs, path::PathBuf};

use crate::project_root;

/// Where the programs of peers are.
pub fn program(name: &str) -> PathBuf {
    fs::canonicalize(project_root().join("crates/testing/peers").join(name)).unwrap()
}

/// Where `scripts/peers` has put the SDKs; `None`, visibly, where it was not run. `scripts/test` runs it.
pub fn installed() -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?;
    let folder = cache.join("credence/peers");
    if folder.join("stamp").exists() && folder.join("agents/stamp").exists() {
        return Some(folder);
    }
    assert!(env::var_os("PEER_TESTS").is_none(), "the peers are missing: run scripts/peers");
    eprintln!("SKIPPED: the MCP SDKs are not installed (scripts/peers installs them)");
    None
}
