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
            None => binary_near(&env::current_exe().unwrap(), &workspace()),
        };
        found.unwrap_or_else(|why| panic!("{why}")).to_str().unwrap().to_owned()
    })
}

/// The folder of this checkout. Asked when the test runs: a target folder that several checkouts share may hold what another compiled.
fn workspace() -> PathBuf {
    let member = env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("."), PathBuf::from);
    member.ancestors().find(|folder| folder.join("Cargo.lock").exists()).unwrap_or(&member).to_owned()
}

/// The binary in the target folder of `test`, which is `target/<profile>/deps/<test>`, if it is newer than its sources in `workspace`.
fn binary_near(test: &Path, workspace: &Path) -> Result<PathBuf, String> {
    let folder = test.parent().and_then(Path::parent).ok_or_else(|| format!("{}: no target folder", test.display()))?;
    let binary = folder.join(format!("credence{}", env::consts::EXE_SUFFIX));
    let Some(built) = modified(&binary) else { return Err(format!("there is no {}: {BUILD}", binary.display())) };
    // What cargo notes of the sources that the binary was made of. Files for tests alone are not among them. A list that another
    // checkout left names that checkout's files; the same files of this one are looked at.
    let sources = fs::read_to_string(folder.join("credence.d")).unwrap_or_default();
    let here = sources_of(&sources).into_iter().map(|source| in_workspace(&source, workspace));
    match here.into_iter().find(|source| modified(source).is_some_and(|changed| changed > built)) {
        Some(source) => Err(format!("{} is older than {}: {BUILD}", binary.display(), source.display())),
        None => Ok(binary),
    }
}

/// `source` as it is in `workspace`: the part from the last `crates` on.
fn in_workspace(source: &Path, workspace: &Path) -> PathBuf {
    let parts: Vec<_> = source.iter().collect();
    match parts.iter().rposition(|part| *part == "crates") {
        Some(at) => workspace.join(parts[at..].iter().collect::<PathBuf>()),
        None => source.to_owned(),
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

    fn dated(path: &Path, seconds: u64) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file = fs::File::create(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }

    #[test]
    fn a_binary_that_is_missing_or_older_than_its_sources_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (binary, source) = (folder.path().join("credence"), folder.path().join("crates/a crate/source.rs"));
        let test = folder.path().join("deps/test");
        let refused = |why: &str| {
            let said = binary_near(&test, folder.path()).unwrap_err();
            assert!(said.contains(why) && said.contains("cargo build -p credence-cli"), "{said}");
        };
        refused("there is no");
        dated(&binary, 1_000);
        let listed = source.to_str().unwrap().replace(' ', "\\ ");
        fs::write(folder.path().join("credence.d"), format!("{}: {listed}\n", binary.display())).unwrap();
        dated(&source, 1_001);
        refused("a crate/source.rs");
        dated(&source, 999);
        assert_eq!(binary_near(&test, folder.path()).unwrap(), binary);
    }

    #[test]
    fn a_list_left_by_another_checkout_is_read_as_this_ones() {
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("credence");
        let test = folder.path().join("deps/test");
        dated(&binary, 1_000);
        fs::write(folder.path().join("credence.d"), "credence: /gone/checkout/crates/cli/src/main.rs\n").unwrap();
        let here = folder.path().join("crates/cli/src/main.rs");
        dated(&here, 999);
        assert_eq!(binary_near(&test, folder.path()).unwrap(), binary);
        dated(&here, 1_001);
        assert!(binary_near(&test, folder.path()).unwrap_err().contains("main.rs"));
    }
}
