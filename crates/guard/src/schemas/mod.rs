//! What tools declare of their output, as it was accepted.
//!
//! A declared schema decides what is blocked, and the server that is judged by it can declare another one at any time. So the schema
//! that was declared first holds until one is declared that accepts nothing more. One that accepts more, or may, or that is gone, is
//! kept as *offered*: it is recorded and shown, and results are judged by the accepted one until a person accepts it.
//!
//! One file for all guards of a server, `STATE/NAME/schemas.json`, so that neither a restart nor a second client forgets it.

mod looseness;

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    path::{Path, PathBuf},
};

use credence_protocol::Timestamp;
use credence_receipts::{
    folder::{check_name, create_private, replace_file},
    now,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::Error;
pub use looseness::is_as_strict;

const FILE: &str = "schemas.json";
const LOCK: &str = "schemas.lock";
/// Tools of one server whose schemas are kept.
const MAX_TOOLS: usize = 2_000;
/// Bytes of one schema.
const MAX_SCHEMA: usize = 256 * 1024;
/// Changes that are kept.
const MAX_CHANGES: usize = 200;

/// The schemas of one server's tools.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Schemas {
    /// By tool.
    pub tools: BTreeMap<String, ToolSchema>,
    /// What changed, the newest last.
    pub changes: Vec<Change>,
}

/// What one tool declares.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolSchema {
    /// The schema that results are judged by; none once a person has accepted that there is none.
    pub accepted: Option<Value>,
    /// What the tool declares now, where that is looser.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<Offer>,
}

/// A schema that nobody has accepted yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// The schema; none where the tool declares none any more.
    pub schema: Option<Value>,
    /// Since when.
    pub at: Timestamp,
}

/// What a person accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Acceptance {
    /// The schema that held before.
    pub former: Option<Value>,
    /// The one that holds now.
    pub new: Option<Value>,
}

/// Something that happened to a schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// When.
    pub at: Timestamp,
    /// The tool.
    pub tool: String,
    /// What.
    pub what: What,
    /// SHA-256 of the schema, in hexadecimal; none where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
}

/// What happened to a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// It was declared for the first time.
    Declared,
    /// Another was declared that accepts nothing more; it holds.
    Replaced,
    /// Another was declared that may accept more; it does not hold.
    Loosened,
    /// A person accepted it.
    Accepted,
}

impl Schemas {
    /// Those in a server's folder.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(FILE);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| {
                Error::Content(format!("{}: {e}: restore it, or remove it to begin anew", path.display()))
            }),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(e) => Err(Error::Io(path, e)),
        }
    }

    /// Takes in what a tool declares. Gives what that changed, if anything.
    fn declare(&mut self, tool: &str, declared: Option<&Value>) -> Option<What> {
        let Some(known) = self.tools.get_mut(tool) else {
            let declared = declared?;
            if self.tools.len() >= MAX_TOOLS {
                return None;
            }
            self.tools.insert(tool.to_owned(), ToolSchema { accepted: Some(declared.clone()), offered: None });
            return Some(self.record(tool, What::Declared, Some(declared)));
        };
        if known.accepted.as_ref() == declared {
            known.offered = None;
            return None;
        }
        let strict = match (declared, &known.accepted) {
            (Some(declared), Some(accepted)) => is_as_strict(declared, accepted),
            (Some(_), None) => true,
            (None, _) => false,
        };
        if strict {
            *known = ToolSchema { accepted: declared.cloned(), offered: None };
            return Some(self.record(tool, What::Replaced, declared));
        }
        if known.offered.as_ref().is_some_and(|offer| offer.schema.as_ref() == declared) {
            return None;
        }
        known.offered = Some(Offer { schema: declared.cloned(), at: now() });
        Some(self.record(tool, What::Loosened, declared))
    }

    /// A person accepts what a tool offers.
    fn accept(&mut self, tool: &str) -> Option<Acceptance> {
        let known = self.tools.get_mut(tool)?;
        let offer = known.offered.take()?;
        let former = std::mem::replace(&mut known.accepted, offer.schema.clone());
        self.record(tool, What::Accepted, offer.schema.as_ref());
        Some(Acceptance { former, new: offer.schema })
    }

    fn record(&mut self, tool: &str, what: What, schema: Option<&Value>) -> What {
        let schema = schema.map(|schema| data_encoding::HEXLOWER.encode(&Sha256::digest(schema.to_string())));
        self.changes.push(Change { at: now(), tool: tool.to_owned(), what, schema });
        let old = self.changes.len().saturating_sub(MAX_CHANGES);
        self.changes.drain(..old);
        what
    }
}

/// The schemas of a guard's server, and the file they are in.
pub struct SchemaBook {
    folder: PathBuf,
    known: Schemas,
}

impl SchemaBook {
    /// Reads those in a server's folder.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        Ok(Self { known: Schemas::read(folder)?, folder: folder.to_owned() })
    }

    /// Nothing is known of the server in `folder`.
    pub fn empty(folder: &Path) -> Self {
        Self { known: Schemas::default(), folder: folder.to_owned() }
    }

    /// What is known.
    pub fn known(&self) -> &Schemas {
        &self.known
    }

    /// Reads the file again: another guard, or a person, may have changed it. Gives the tools whose accepted schema is another.
    pub fn refresh(&mut self) -> Result<Vec<String>, Error> {
        let read = Schemas::read(&self.folder)?;
        let accepted = |schemas: &Schemas, tool: &str| schemas.tools.get(tool).and_then(|one| one.accepted.clone());
        let tools = read.tools.keys().chain(self.known.tools.keys().filter(|tool| !read.tools.contains_key(*tool)));
        let changed = tools.filter(|tool| accepted(&read, tool) != accepted(&self.known, tool)).cloned().collect();
        self.known = read;
        Ok(changed)
    }

    /// Takes in what the tools of a list declare; gives what changed, and keeps it.
    pub fn declare(&mut self, declared: &[(String, Option<Value>)]) -> Result<Vec<(String, What)>, Error> {
        let mut next = self.known.clone();
        let mut changes = Vec::new();
        for (tool, schema) in declared {
            changes.extend(next.declare(tool, schema.as_ref()).map(|what| (tool.clone(), what)));
        }
        if next == self.known {
            return Ok(changes);
        }
        // Under the lock, on what others have written meanwhile.
        let _lock = lock(&self.folder)?;
        let mut next = Schemas::read(&self.folder)?;
        let mut changes = Vec::new();
        for (tool, schema) in declared {
            changes.extend(next.declare(tool, schema.as_ref()).map(|what| (tool.clone(), what)));
        }
        self.known = next;
        write(&self.folder, &self.known)?;
        Ok(changes)
    }
}

/// Whether a schema is too large to be kept, or a tool's name to be one.
pub fn is_too_large(tool: &str, schema: &str) -> bool {
    schema.len() > MAX_SCHEMA || tool.len() > credence_protocol::receipt::MAX_NAME_BYTES
}

/// Accepts what a tool of the server `name` offers; `None` where it offers nothing.
pub fn accept(state: &Path, name: &str, tool: &str, dry_run: bool) -> Result<Option<Acceptance>, Error> {
    check_name(name)?;
    let folder = crate::identity::model_folder(&state.join(name));
    if !folder.is_dir() {
        return Err(Error::Content(format!(
            "no guard of '{name}' has run yet: there is nothing in {}",
            folder.display()
        )));
    }
    let _lock = lock(&folder)?;
    let mut schemas = Schemas::read(&folder)?;
    let accepted = schemas.accept(tool);
    if accepted.is_some() && !dry_run {
        write(&folder, &schemas)?;
    }
    Ok(accepted)
}

/// Held while the file is read and written.
fn lock(folder: &Path) -> Result<File, Error> {
    create_private(folder)?;
    let path = folder.join(LOCK);
    let io = |e| Error::Io(path.clone(), e);
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(io)?;
    file.lock().map_err(io)?;
    Ok(file)
}

fn write(folder: &Path, schemas: &Schemas) -> Result<(), Error> {
    let text = serde_json::to_vec_pretty(schemas).map_err(|e| Error::Content(e.to_string()))?;
    Ok(replace_file(&folder.join(FILE), &text)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn book(state: &Path) -> SchemaBook {
        SchemaBook::open(&state.join("s")).unwrap()
    }

    fn declare(book: &mut SchemaBook, schema: Option<Value>) -> Vec<What> {
        book.declare(&[("t".to_owned(), schema)]).unwrap().into_iter().map(|(_, what)| what).collect()
    }

    #[test]
    fn what_loosens_waits_for_a_person_and_survives_a_restart() {
        let state = tempfile::tempdir().unwrap();
        let strict = json!({"type": "object", "required": ["a"]});
        let stricter = json!({"type": "object", "required": ["a", "b"]});
        let mut one = book(state.path());
        assert_eq!(declare(&mut one, Some(strict.clone())), [What::Declared]);
        assert_eq!(declare(&mut one, Some(strict.clone())), []);
        assert_eq!(declare(&mut one, Some(stricter.clone())), [What::Replaced]);
        for looser in [Some(json!({})), None, Some(strict.clone())] {
            assert_eq!(declare(&mut one, looser.clone()), [What::Loosened], "{looser:?}");
            assert_eq!(declare(&mut one, looser.clone()), [], "told once");
            assert_eq!(book(state.path()).known().tools["t"].accepted, Some(stricter.clone()), "{looser:?}");
        }
        let mut two = book(state.path());
        assert_eq!(declare(&mut two, Some(strict.clone())), [], "also after a restart");
        let accept = |dry_run| accept(state.path(), "s", "t", dry_run).unwrap();
        assert_eq!(accept(true), accept(true), "a dry run changes nothing");
        assert_eq!(accept(false), Some(Acceptance { former: Some(stricter), new: Some(strict.clone()) }));
        assert_eq!(accept(false), None);
        assert_eq!(two.refresh().unwrap(), ["t"]);
        assert_eq!(two.known().tools["t"], ToolSchema { accepted: Some(strict.clone()), offered: None });
        assert_eq!(declare(&mut two, Some(strict)), []);
        let told: Vec<What> = two.known().changes.iter().map(|change| change.what).collect();
        let expected = [What::Declared, What::Replaced, What::Loosened, What::Loosened, What::Loosened, What::Accepted];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_tool_that_returns_to_its_schema_offers_nothing() {
        let state = tempfile::tempdir().unwrap();
        let mut one = book(state.path());
        declare(&mut one, Some(json!({"type": "object"})));
        declare(&mut one, None);
        assert!(one.known().tools["t"].offered.is_some());
        declare(&mut one, Some(json!({"type": "object"})));
        assert!(book(state.path()).known().tools["t"].offered.is_none());
        assert_eq!(declare(&mut book(state.path()), None), [What::Loosened]);
        assert!(super::accept(state.path(), "nobody", "t", false).is_err());
    }
}
