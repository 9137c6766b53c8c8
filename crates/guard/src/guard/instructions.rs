//! The signal `content_injection` in the guard: what it remembers of each tool, in `places.json` beside the engine's state.

use std::{
    path::Path,
    sync::{Mutex, PoisonError, RwLock},
};

use credence_protocol::receipt::CallOutcome;
use credence_receipts::folder::{self, Place};
use serde_json::{Value, value::RawValue};

use crate::{
    Error,
    answer::AnswerParts,
    identity::file_of_suffix,
    injection::{Finding, Places, Subject, ToolNames, scan, scan_in_place, take_answer},
    pending::StartedCall,
    warn,
};

/// What each member of each tool usually says, in the guard's place.
const PLACES_FILE: (&str, &str) = ("places", "json");

/// Looks for text that instructs the model.
pub(super) struct Instructions {
    places: Mutex<Places>,
    tools: RwLock<ToolNames>,
}

impl Instructions {
    /// Reads what was learned of the server under the name with this suffix.
    pub fn open(server: &Path, place: &Place, suffix: &str) -> Self {
        Self { places: Mutex::new(read(server, place, suffix)), tools: RwLock::default() }
    }

    /// Goes on with what was learned under another name.
    pub fn change(&self, server: &Path, place: &Place, suffix: &str) {
        *self.places.lock().unwrap_or_else(PoisonError::into_inner) = read(server, place, suffix);
    }

    /// Takes in the name of a tool that the server has.
    pub fn learn_tool(&self, name: &str) {
        self.tools.write().unwrap_or_else(PoisonError::into_inner).add(name);
    }

    /// Looks at a result; `learn` where its tool may be known by it.
    pub fn look(&self, started: &StartedCall, parts: &AnswerParts, learn: bool) -> Option<Finding> {
        if parts.texts.is_empty() {
            return None;
        }
        let Some(value) = &parts.value else {
            return Some(scan(parts.texts.iter().map(String::as_str)));
        };
        let subject = subject(&started.tool, value, parts, started.arguments.as_deref());
        let tools = self.tools.read().unwrap_or_else(PoisonError::into_inner);
        Some(scan_in_place(&self.places, &tools, subject, learn))
    }

    /// Takes in what a person said of a result whose text reads like instructions.
    pub fn take_answer(&self, tool: &str, parts: &AnswerParts, arguments: Option<&RawValue>, genuine: bool) {
        let Some(value) = &parts.value else { return };
        let tools = self.tools.read().unwrap_or_else(PoisonError::into_inner);
        take_answer(&self.places, &tools, subject(tool, value, parts, arguments), genuine);
    }

    /// Keeps what was learned, where there is something.
    pub fn save(&self, place: &Place, suffix: &str) -> Result<(), Error> {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if places.is_empty() {
            return Ok(());
        }
        let bytes = serde_json::to_vec(&*places).map_err(|e| Error::Content(e.to_string()))?;
        drop(places);
        Ok(folder::replace_file(&place.folder.join(file(suffix)), &bytes)?)
    }
}

fn subject<'a>(
    tool: &'a str,
    value: &'a Value,
    parts: &'a AnswerParts,
    arguments: Option<&'a RawValue>,
) -> Subject<'a> {
    Subject {
        tool,
        value,
        content: parts.differing.as_ref().and_then(|text| text.value.as_ref()),
        arguments: arguments.map_or("", RawValue::get),
        is_error: parts.outcome == CallOutcome::ToolError,
    }
}

fn file(suffix: &str) -> String {
    file_of_suffix(PLACES_FILE.0, suffix, PLACES_FILE.1)
}

/// What this guard learned, or else the first one of the same server.
fn read(server: &Path, place: &Place, suffix: &str) -> Places {
    for folder in [&place.folder, &server.join("1")] {
        let path = folder.join(file(suffix));
        let Ok(bytes) = std::fs::read(&path) else { continue };
        match serde_json::from_slice(&bytes) {
            Ok(places) => return places,
            Err(error) => {
                let path = path.display();
                warn(&format!("{path} cannot be read ({error}): what tools usually say where is learned anew"));
            }
        }
    }
    Places::default()
}
