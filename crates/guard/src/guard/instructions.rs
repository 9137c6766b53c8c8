//! The signal `content_injection` in the guard: what it remembers of each tool, in `places.json` beside the engine's state.

use std::{
    path::Path,
    sync::{Mutex, PoisonError, RwLock},
};

use credence_protocol::receipt::CallOutcome;
use credence_receipts::folder;

use crate::{
    Error,
    answer::AnswerParts,
    injection::{Finding, Places, Subject, ToolNames, scan, scan_in_place},
    pending::StartedCall,
    settings::Settings,
    warn,
};

/// What each member of each tool usually says, in the guard's place.
const PLACES_FILE: &str = "places.json";

/// Looks for text that instructs the model.
pub(super) struct Instructions {
    /// Whether anybody asked for it.
    enabled: bool,
    places: Mutex<Places>,
    tools: RwLock<ToolNames>,
}

impl Instructions {
    /// Reads what was learned: by this guard, or else by the first one of the same server.
    pub fn open(settings: &Settings, folder: &Path) -> Self {
        let first = settings.state.join(&settings.name).join("1");
        let mut places = None;
        for folder in [folder, &first].into_iter().filter(|_| settings.content_injection) {
            let path = folder.join(PLACES_FILE);
            let Ok(bytes) = std::fs::read(&path) else { continue };
            match serde_json::from_slice(&bytes) {
                Ok(read) => {
                    places = Some(read);
                    break;
                }
                Err(error) => {
                    let path = path.display();
                    warn(&format!("{path} cannot be read ({error}): what tools usually say where is learned anew"));
                }
            }
        }
        Self {
            enabled: settings.content_injection,
            places: Mutex::new(places.unwrap_or_default()),
            tools: RwLock::default(),
        }
    }

    /// Takes in the name of a tool that the server has.
    pub fn learn_tool(&self, name: &str) {
        if self.enabled {
            self.tools.write().unwrap_or_else(PoisonError::into_inner).add(name);
        }
    }

    /// Looks at a result; `learn` where its tool may be known by it.
    pub fn look(&self, started: &StartedCall, parts: &AnswerParts, learn: bool) -> Option<Finding> {
        if !self.enabled || parts.texts.is_empty() {
            return None;
        }
        let Some(value) = &parts.value else {
            return Some(scan(parts.texts.iter().map(String::as_str)));
        };
        let subject = Subject {
            tool: &started.tool,
            value,
            content: parts.differing.as_ref().and_then(|text| text.value.as_ref()),
            arguments: started.arguments.as_ref().map_or("", |arguments| arguments.get()),
            is_error: parts.outcome == CallOutcome::ToolError,
        };
        let tools = self.tools.read().unwrap_or_else(PoisonError::into_inner);
        Some(scan_in_place(&self.places, &tools, subject, learn))
    }

    /// Keeps what was learned.
    pub fn save(&self, folder: &Path) -> Result<(), Error> {
        if !self.enabled {
            return Ok(());
        }
        let places = serde_json::to_vec(&*self.places.lock().unwrap_or_else(PoisonError::into_inner));
        let places = places.map_err(|e| Error::Content(e.to_string()))?;
        Ok(folder::replace_file(&folder.join(PLACES_FILE), &places)?)
    }
}
