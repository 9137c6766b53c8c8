//! Other people's programs, where `scripts/peers` has put them.

use std::{env, path::PathBuf};

/// The folder of one group of them, such as `evm`; `None`, visibly, where `scripts/peers` was not run. Fails where `PEER_TESTS` is set.
pub fn installed(group: &str) -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?;
    let folder = cache.join("credence/peers").join(group);
    if folder.join("stamp").exists() {
        return Some(folder);
    }
    assert!(env::var_os("PEER_TESTS").is_none(), "the peers for {group} are missing: run scripts/peers");
    eprintln!("SKIPPED: no peers for {group} are installed (scripts/peers installs them)");
    None
}
