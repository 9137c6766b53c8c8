//! The journal of a run: JSON lines, first what run it is, then what happened. A run that ended can be continued from it.
//!
//! Lines are appended in whole batches; a batch that does not fit on the disk is taken back, so the file stays readable. A torn last
//! line (the process was killed in mid-write) is dropped when the journal is opened again. A file lock keeps a second run out. What
//! was said stands in a second file beside it (`run.transcript.jsonl`), which stays with the operator.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    capability::Abilities,
    target::Transport,
    trial::{Reason, TrialRecord},
};

/// The form of the journal.
pub const VERSION: u32 = 1;

/// Which run a journal is of. A run with another header does not continue it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The form of the journal.
    pub version: u32,
    /// The suite's digest.
    pub suite: String,
    /// The seed.
    pub seed: u64,
    /// The target's address, without credentials.
    pub target: String,
    /// Its transport.
    pub transport: Transport,
    /// Threats, families, trials, width: what decides which trials there are.
    pub options: Value,
}

/// A control that was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ControlRecord {
    /// The family's id.
    pub family: String,
    /// Counted from 0 within the family.
    pub number: u32,
    /// Whether the target does the harmless version and the sensor stays quiet.
    pub passed: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// What was seen, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Requests sent for it.
    pub requests: u64,
    /// SHA-256 of its transcript, in hex.
    pub transcript_digest: String,
}

/// One measurement of a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SampleRecord {
    /// Which benchmark: `reliability`, `quality`.
    pub benchmark: String,
    /// Counted from 0 within the benchmark.
    pub number: u32,
    /// What was asked: the task's kind.
    pub task: String,
    /// Whether it went well.
    pub passed: bool,
    /// Why there was no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// How long the answer took.
    pub took_ms: u64,
    /// Requests sent for it.
    pub requests: u64,
}

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Line {
    /// The first line.
    Header(Header),
    /// What the target can do.
    Abilities {
        /// What.
        #[serde(flatten)]
        abilities: Abilities,
        /// Requests sent to find out.
        requests: u64,
    },
    /// A control.
    Control(ControlRecord),
    /// A trial.
    Trial(TrialRecord),
    /// A measurement of a benchmark.
    Sample(SampleRecord),
    /// A family has what it needs, or cannot have it.
    Done {
        /// Which.
        family: String,
    },
    /// The end of a part of the run.
    End {
        /// Whether everything planned was done.
        complete: bool,
        /// Why not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
        /// How long this part took.
        seconds: f64,
        /// Requests that this part sent.
        requests: u64,
    },
}

/// Why there is no journal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Wait for the other run, or use another file.
    #[error("{path} is in use by another run: wait for it, or name another journal")]
    InUse {
        /// The file.
        path: String,
    },
    /// Name another file, or repeat the options of the first run.
    #[error("{path} is the journal of another run: its {what} differs. Name another journal, or use the same options")]
    OtherRun {
        /// The file.
        path: String,
        /// What is different.
        what: &'static str,
    },
    /// The file is damaged, or is something else.
    #[error("{path}, line {line}, is no line of a journal: {why}")]
    Damaged {
        /// The file.
        path: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// Make room, and continue the run with the same journal.
    #[error(
        "{path} could not be written: {why}. What was recorded before is intact; continue the run with the same journal"
    )]
    Write {
        /// The file.
        path: String,
        /// What the system said.
        why: String,
    },
    /// Check the path and its permissions.
    #[error("cannot open {path}: {why}")]
    Open {
        /// The file.
        path: String,
        /// What the system said.
        why: String,
    },
}

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    length: u64,
    transcript: File,
}

impl Journal {
    /// Opens a journal to write to: a new one, or one of the same run, whose lines are given back.
    pub fn open(path: &Path, header: &Header) -> Result<(Self, Vec<Line>), JournalError> {
        let shown = path.display().to_string();
        let cannot = |path: &Path, e: std::io::Error| JournalError::Open {
            path: path.display().to_string(),
            why: e.to_string(),
        };
        let open = |path: &Path| {
            let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
            options.map_err(|e| cannot(path, e))
        };
        let mut file = open(path)?;
        // A device may be read without end.
        if !file.metadata().map_err(|e| cannot(path, e))?.is_file() {
            return Err(JournalError::Open { path: shown, why: "it is not a file".to_owned() });
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(JournalError::InUse { path: shown }),
            Err(TryLockError::Error(e)) => return Err(cannot(path, e)),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|e| cannot(path, e))?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines = parse(&shown, &bytes[..whole])?;
        let beside = transcript_path(path);
        let mut transcript = open(&beside)?;
        transcript.seek(SeekFrom::End(0)).map_err(|e| cannot(&beside, e))?;
        let mut journal = Self { path: path.to_owned(), file, length: whole as u64, transcript };
        if whole < bytes.len() {
            journal.take_back().map_err(|e| cannot(path, e))?;
        }
        match lines.first() {
            None => {
                journal.write(&[Line::Header(header.clone())], &[])?;
                Ok((journal, Vec::new()))
            }
            Some(Line::Header(found)) => match difference(found, header) {
                Some(what) => Err(JournalError::OtherRun { path: shown, what }),
                None => {
                    journal.file.seek(SeekFrom::Start(journal.length)).map_err(|e| cannot(path, e))?;
                    Ok((journal, lines))
                }
            },
            Some(_) => Err(JournalError::Damaged { path: shown, line: 1, why: "it is no header".to_owned() }),
        }
    }

    /// Appends lines, all or none, after what was said in them.
    pub fn write(&mut self, lines: &[Line], transcripts: &[Value]) -> Result<(), JournalError> {
        let spell = |values: Vec<Result<String, serde_json::Error>>| -> Result<String, std::io::Error> {
            let texts: Vec<String> = values.into_iter().collect::<Result<_, _>>().map_err(std::io::Error::other)?;
            Ok(texts.into_iter().map(|text| text + "\n").collect())
        };
        let said = spell(transcripts.iter().map(serde_json::to_string).collect());
        let text = spell(lines.iter().map(serde_json::to_string).collect());
        let written = said.and_then(|said| self.transcript.write_all(said.as_bytes())).and(text).and_then(|text| {
            self.file.write_all(text.as_bytes())?;
            Ok(text.len() as u64)
        });
        match written {
            Ok(length) => {
                self.length += length;
                Ok(())
            }
            Err(e) => {
                // What cannot be taken back either is a torn line, which the next start drops.
                let _ = self.take_back();
                Err(JournalError::Write { path: self.path.display().to_string(), why: e.to_string() })
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn take_back(&mut self) -> std::io::Result<()> {
        self.file.set_len(self.length)?;
        self.file.seek(SeekFrom::Start(self.length)).map(|_| ())
    }
}

/// Where the transcripts of a journal are.
pub fn transcript_path(journal: &Path) -> PathBuf {
    journal.with_extension("transcript.jsonl")
}

/// Reads a journal, for reports and comparisons. A torn last line is left out.
pub fn read(path: &Path) -> Result<(Header, Vec<Line>), JournalError> {
    let shown = path.display().to_string();
    let bytes = fs::read(path).map_err(|e| JournalError::Open { path: shown.clone(), why: e.to_string() })?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let mut lines = parse(&shown, &bytes[..whole])?.into_iter();
    match lines.next() {
        Some(Line::Header(header)) => Ok((header, lines.collect())),
        _ => Err(JournalError::Damaged { path: shown, line: 1, why: "it is no header".to_owned() }),
    }
}

fn parse(path: &str, bytes: &[u8]) -> Result<Vec<Line>, JournalError> {
    let lines = bytes.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty());
    let parsed = lines.map(|(n, line)| {
        serde_json::from_slice(line).map_err(|e| JournalError::Damaged {
            path: path.to_owned(),
            line: n + 1,
            why: e.to_string(),
        })
    });
    parsed.collect()
}

fn difference(found: &Header, wanted: &Header) -> Option<&'static str> {
    let same = [
        ("version", found.version == wanted.version),
        ("suite", found.suite == wanted.suite),
        ("seed", found.seed == wanted.seed),
        ("target", found.target == wanted.target),
        ("transport", found.transport == wanted.transport),
        ("choice of threats, families or trials", found.options == wanted.options),
    ];
    same.into_iter().find(|(_, same)| !same).map(|(what, _)| what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(seed: u64) -> Header {
        Header {
            version: VERSION,
            suite: "s".into(),
            seed,
            target: "http://127.0.0.1/".into(),
            transport: Transport::Chat,
            options: Value::Null,
        }
    }

    fn end(seconds: f64) -> Line {
        Line::End { complete: false, why: None, seconds, requests: 0 }
    }

    #[test]
    fn a_journal_is_continued_without_its_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        let (mut journal, lines) = Journal::open(&path, &header(1)).unwrap();
        assert!(lines.is_empty());
        journal.write(&[end(1.0)], &[serde_json::json!({ "said": "x" })]).unwrap();
        drop(journal);
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend_from_slice(b"{\"kind\":\"end\",\"compl");
        fs::write(&path, &bytes).unwrap();
        let (mut journal, lines) = Journal::open(&path, &header(1)).unwrap();
        assert_eq!(lines.len(), 2);
        journal.write(&[end(2.0)], &[]).unwrap();
        drop(journal);
        assert_eq!(read(&path).unwrap().1, [end(1.0), end(2.0)]);
        assert_eq!(fs::read_to_string(transcript_path(&path)).unwrap().lines().count(), 1);
    }

    #[test]
    fn two_runs_at_once_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        let (first, _) = Journal::open(&path, &header(1)).unwrap();
        let second = Journal::open(&path, &header(1)).unwrap_err();
        assert!(matches!(second, JournalError::InUse { .. }), "{second}");
        drop(first);
        assert!(Journal::open(&path, &header(1)).is_ok());
    }

    #[test]
    fn another_run_and_other_files_are_refused_untouched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        drop(Journal::open(&path, &header(1)).unwrap());
        let before = fs::read(&path).unwrap();
        let error = Journal::open(&path, &header(2)).unwrap_err().to_string();
        assert!(error.contains("seed"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), before);
        let other = folder.path().join("notes.txt");
        fs::write(&other, "Dear diary\n").unwrap();
        assert!(matches!(Journal::open(&other, &header(1)), Err(JournalError::Damaged { line: 1, .. })));
        assert_eq!(fs::read_to_string(&other).unwrap(), "Dear diary\n");
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let error = Journal::open(Path::new("/dev/zero"), &header(1)).unwrap_err().to_string();
        assert!(error.contains("/dev/zero") && error.contains("not a file"), "{error}");
    }

    #[test]
    fn a_batch_that_does_not_fit_is_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        let (mut journal, _) = Journal::open(&path, &header(1)).unwrap();
        journal.write(&[end(1.0)], &[]).unwrap();
        let before = fs::read(&path).unwrap();
        // The disk is full for the transcript, so its lines must not stand in the journal.
        journal.transcript = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let error = journal.write(&[end(2.0)], &[serde_json::json!({})]).unwrap_err().to_string();
        assert!(error.contains("intact") && error.contains("space"), "{error}");
        // Half a batch was written when the disk became full.
        journal.file.write_all(b"{\"kind\":").unwrap();
        journal.file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        assert!(journal.write(&[end(3.0)], &[serde_json::json!({})]).is_err());
        drop(journal);
        assert_eq!(fs::read(&path).unwrap(), before);
        assert_eq!(read(&path).unwrap().1, [end(1.0)]);
    }
}
