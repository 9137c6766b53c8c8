//! Finds the built `credence`.
//!
//! Cargo names it only to the tests of its own crate. Elsewhere it lies beside the folder of the test's executable, if it was
//! built: `cargo nextest run --workspace` builds it, `cargo nextest run -p credence-server` does not. A binary older than its
//! sources is refused, because a test would pass or fail for code that is not there any more.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::SystemTime,
};

const BUILD: &str = "run `cargo build -p credence-cli`";

/// The path of `credence`: what `TEST_BINARY` says, else the one in the test's own target folder.
pub fn binary() -> &'static str {
    static FOUND: OnceLock<String> = OnceLock::new();
    FOUND.get_or_init(|| {
        let found = match env::var_os("TEST_BINARY") {
            Some(path) => fs::canonicalize(&path).map_err(|e| format!("TEST_BINARY={}: {e}", path.display())),
            None => binary_near(&env::current_exe().unwrap()),
        };
        found.unwrap_or_else(|why| panic!("{why}")).to_str().unwrap().to_owned()
    })
}

/// The binary in the target folder of `test`, which is `target/<profile>/deps/<test>`.
fn binary_near(test: &Path) -> Result<PathBuf, String> {
    let folder = test.parent().and_then(Path::parent).ok_or_else(|| format!("{}: no target folder", test.display()))?;
    let binary = folder.join(format!("credence{}", env::consts::EXE_SUFFIX));
    let Some(built) = modified(&binary) else { return Err(format!("there is no {}: {BUILD}", binary.display())) };
    // What cargo notes of the sources that the binary was made of. Files for tests alone are not among them.
    let sources = fs::read_to_string(folder.join("credence.d")).unwrap_or_default();
    match sources_of(&sources).into_iter().find(|source| modified(source).is_none_or(|changed| changed > built)) {
        Some(source) => Err(format!("{} is older than {}: {BUILD}", binary.display(), source.display())),
        None => Ok(binary),
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|data| data.modified()).ok()
}

/// The files in `target: file file …`, where a space inside a name is written `\ `.
fn sources_of(dep_info: &str) -> Vec<PathBuf> {
    let files = dep_info.lines().filter_map(|line| line.split_once(": ")).map(|(_, files)| files.replace("\\ ", "\0"));
    files.flat_map(|files| files.split(' ').map(|file| file.replace('\0', " ").into()).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_binary_that_is_missing_or_older_than_its_sources_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (binary, source) = (folder.path().join("credence"), folder.path().join("a source.rs"));
        let test = folder.path().join("deps/test");
        let dated = |path: &Path, seconds: u64| {
            let file = fs::File::create(path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        };
        let refused = |why: &str| {
            let said = binary_near(&test).unwrap_err();
            assert!(said.contains(why) && said.contains("cargo build -p credence-cli"), "{said}");
        };
        refused("there is no");
        dated(&binary, 1_000);
        let listed = source.to_str().unwrap().replace(' ', "\\ ");
        fs::write(folder.path().join("credence.d"), format!("{}: {listed}\n", binary.display())).unwrap();
        refused("is older than");
        dated(&source, 1_001);
        refused("a source.rs");
        dated(&source, 999);
        assert_eq!(binary_near(&test).unwrap(), binary);
    }
}
