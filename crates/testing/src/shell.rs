//! A folder to run `credence` in, and what tests put into an authority.

use std::{
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
};

use credence_protocol::{Audience, EntityId, SecretKey, Signal, SignalDraft, Tag, Timestamp};
use serde_json::Value;

use crate::binary;

/// A folder to run `credence` in.
pub struct Shell {
    /// The folder, which goes with the test.
    pub folder: tempfile::TempDir,
}

/// What a run gave.
#[derive(Debug)]
pub struct Ran {
    /// `None` where a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Default for Shell {
    fn default() -> Self {
        Self::new()
    }
}

impl Shell {
    /// An empty folder.
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `credence` with these arguments, not yet run, free of the caller's settings.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(args).current_dir(self.folder.path()).env("NO_COLOR", "1");
        command.env_remove("CREDENCE_DATA");
        // Not the configuration of who runs the tests.
        command.env("XDG_CONFIG_HOME", self.folder.path().join("config"));
        // Runs in other folders do not wait for those of this one.
        command.env("XDG_STATE_HOME", self.folder.path().join("state"));
        command
    }

    /// Runs it with this on standard input.
    pub fn run_with(&self, args: &[&str], input: &str) -> Ran {
        let mut child =
            self.command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        let writer = std::thread::spawn(move || {
            let _ = stdin.write_all(input.as_bytes());
        });
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs it with nothing on standard input.
    pub fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, "")
    }

    /// Must succeed.
    pub fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        ran.stdout
    }

    /// Must succeed; gives its JSON.
    pub fn json(&self, args: &[&str]) -> Value {
        let mut all = args.to_vec();
        all.push("--json");
        serde_json::from_str(&self.ok(&all)).unwrap()
    }

    /// Must fail with exit code 1 and say `what`, on standard error only.
    pub fn fails(&self, args: &[&str], what: &str) {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(1), "{args:?}: {ran:?}");
        assert!(ran.stderr.starts_with("error: ") && ran.stderr.contains(what), "{args:?}: {ran:?}");
        assert_eq!(ran.stdout, "", "{args:?}");
    }

    /// The number of entries in the ledger.
    pub fn size(&self) -> u64 {
        self.json(&["log", "checkpoint"])["size"].as_u64().unwrap()
    }

    /// The ledger passes its audit.
    pub fn audit_passes(&self) {
        let ran = self.run(&["audit"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
}

/// The origin of the log of every authority that tests make.
pub const ORIGIN: &str = "example.org/log";

/// The key of a test source.
pub fn key(source: &str) -> SecretKey {
    let mut seed = [1; 32];
    seed[..source.len()].copy_from_slice(source.as_bytes());
    SecretKey::from_seed(&seed)
}

/// An authority with these sources and agents.
pub fn authority(sources: &[&str], agents: &[&str]) -> Shell {
    let shell = Shell::new();
    shell.ok(&["init", "--origin", ORIGIN]);
    for source in sources {
        shell.ok(&["source", "add", source]);
        shell.ok(&["keys", "add", source, &key(source).public().did_key()]);
    }
    for agent in agents {
        shell.ok(&["agent", "add", agent]);
    }
    shell
}

/// A measurement of long ago, not yet signed.
pub fn draft(agent: &str, source: &str, tag: &str, value: f64) -> SignalDraft {
    let at: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    let id = |text: &str| EntityId::new(text).unwrap();
    let draft = SignalDraft::new(id(agent), id(source), vec![Tag::new(tag).unwrap()], value, 1.0, at);
    draft.to(Audience::new(ORIGIN).unwrap())
}

/// The time of day.
pub fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Timestamp::from_micros(since.as_micros().try_into().unwrap()).unwrap()
}

/// A measurement of long ago, signed with the source's test key.
pub fn signed(agent: &str, source: &str, tag: &str, value: f64) -> Signal {
    draft(agent, source, tag, value).sign(&key(source)).unwrap()
}
