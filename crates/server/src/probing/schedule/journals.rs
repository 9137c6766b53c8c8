//! Where scheduled runs are recorded as they go: `probes/` in the authority's folder, two runs of each agent at most.
//!
//! `NAME.jsonl` is the run under way, `NAME.last.jsonl` the one before, each with its transcript beside it. NAME is a digest of the agent's
//! id, which may hold characters that a file's name may not. A run is limited by its budget of requests, and of each answer so much is kept
//! as on the command line.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use credence_protocol::EntityId;
use credence_sandbox::runner::journal;
use sha2::{Digest, Sha256};

/// A run that was broken off longer ago than this begins anew: an agent may have changed meanwhile, and a run is recorded within a day.
const HOLDS: Duration = Duration::from_secs(12 * 3600);

/// The journal of an agent's run: the one that a restart broke off, or a new one.
pub(super) fn current(folder: &Path, agent: &EntityId) -> io::Result<PathBuf> {
    let folder = folder.join("probes");
    fs::create_dir_all(&folder)?;
    let digest = Sha256::digest(agent.as_str().as_bytes());
    let path = folder.join(format!("scheduled-{}.jsonl", data_encoding::HEXLOWER.encode(&digest[..16])));
    let modified = fs::metadata(&path).and_then(|file| file.modified());
    let stale = modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > HOLDS));
    if stale {
        put_away(&path);
    }
    Ok(path)
}

/// The seed of the run that a journal is of.
pub(super) fn seed_of(journal: &Path) -> Option<u64> {
    journal::read(journal).ok().map(|(header, _)| header.seed)
}

/// Keeps a run as the last one, in place of the one before.
pub(super) fn put_away(journal: &Path) {
    let last = journal.with_extension("last.jsonl");
    for (from, to) in [
        (journal::transcript_path(journal), journal.with_extension("last.transcript.jsonl")),
        (journal.to_owned(), last),
    ] {
        // What is not there needs no room. What cannot be moved must not be continued.
        if fs::rename(&from, &to).is_err() {
            drop(fs::remove_file(&from));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_of_an_agent_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let agent = EntityId::new("bot").unwrap();
        let path = current(folder.path(), &agent).unwrap();
        assert_eq!(seed_of(&path), None);
        for run in ["first", "second", "third"] {
            fs::write(&path, run).unwrap();
            fs::write(journal::transcript_path(&path), run).unwrap();
            assert_eq!(current(folder.path(), &agent).unwrap(), path);
            put_away(&path);
        }
        let names = fs::read_dir(folder.path().join("probes")).unwrap();
        let mut kept: Vec<String> = names.map(|name| fs::read_to_string(name.unwrap().path()).unwrap()).collect();
        kept.dedup();
        assert_eq!(kept, ["third"]);
        assert!(!path.exists());
    }
}
