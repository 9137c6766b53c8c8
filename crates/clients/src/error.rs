//! What can go wrong, in the words of the person who has to put it right.

use std::{fmt, io, path::PathBuf};

use crate::{Client, MAX_CONFIG_BYTES};

/// A place in a configuration file, shown as `FILE:LINE:COLUMN`, both counted from 1; the column counts characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePosition {
    /// The file.
    pub path: PathBuf,
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.path.display(), self.line, self.column)
    }
}

/// Why a configuration could not be found, read, understood or written. No file has been changed when one is returned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No client has this name.
    #[error("no client is called {name:?}: the known ones are {}", Client::names())]
    UnknownClient {
        /// The name as given.
        name: String,
    },
    /// The home folder or the current folder is not known, so the usual places cannot be looked at.
    #[error("the {which} folder is not known: name the configuration with --config FILE")]
    NoFolder {
        /// Which folder: `home` or `current`.
        which: &'static str,
    },
    /// None of these files exists.
    #[error("no configuration here: {}; name another with --config FILE", listed(looked))]
    NotFound {
        /// Where it was looked for.
        looked: Vec<PathBuf>,
    },
    /// The path leads to a folder or a device.
    #[error("{} is not a file: name the configuration with --config FILE", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file is too large to be a configuration.
    #[error("{} has {bytes} bytes; a configuration has at most {MAX_CONFIG_BYTES}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// The file could not be read.
    #[error("{} could not be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file is not text in UTF-8.
    #[error("{at}: not UTF-8; save the file as UTF-8 and try again")]
    NotUtf8 {
        /// The first byte that is not.
        at: FilePosition,
    },
    /// The file is not what its name says: JSON (comments and trailing commas are allowed), TOML or YAML.
    #[error("{at}: not {syntax}: {why}")]
    Malformed {
        /// Where it stops being that.
        at: FilePosition,
        /// `JSON`, `TOML` or `YAML`.
        syntax: &'static str,
        /// What the parser met.
        why: String,
    },
    /// A name occurs twice in an object; clients differ in which of the two they use.
    #[error("{at}: {key:?} is written a second time in the same object; remove one of the two")]
    DuplicateKey {
        /// The second occurrence.
        at: FilePosition,
        /// The name.
        key: String,
    },
    /// The file has no list of servers.
    #[error("{} has no member {member:?}: no MCP server is configured there", path.display())]
    ServersMissing {
        /// The file.
        path: PathBuf,
        /// The member looked for, with dots between the levels.
        member: String,
    },
    /// The list of servers is not an object.
    #[error("{at}: {member:?} is not an object of servers")]
    ServersNotObject {
        /// Where its value starts.
        at: FilePosition,
        /// The member.
        member: String,
    },
    /// A client could not start this executable.
    #[error("{} cannot stand in a configuration: {why}", path.display())]
    Executable {
        /// The executable.
        path: PathBuf,
        /// What is wrong with the path.
        why: &'static str,
    },
    /// `--` among the guard's flags would be taken for the start of the server's command.
    #[error("the guard's flags may not contain `--`: the server's own command follows it")]
    FlagDashes,
    /// The file may not be written.
    #[error("{} is not writable", path.display())]
    NotWritable {
        /// The file.
        path: PathBuf,
    },
    /// The file is another than when the plan was made.
    #[error("{} was changed in the meantime; run the command again", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// All names for a backup are taken.
    #[error("{} has {count} backups already; remove those you do not need", path.display())]
    TooManyBackups {
        /// The file.
        path: PathBuf,
        /// How many there are.
        count: u32,
    },
    /// The backup or the new text could not be written.
    #[error("{} could not be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

fn listed(paths: &[PathBuf]) -> String {
    let shown: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    shown.join(", ")
}
