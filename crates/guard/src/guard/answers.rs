//! What people answered about kept results, taken up by the guard: the engine learns from it, the ledger records it.
//!
//! An answer waits in the journal of operations until both the ledger's entry and the engine's state that has learned from it are on
//! disk. The engine must learn from it once, also where the guard is killed in between. So beside the engine's state lies a file that
//! says, for a state with this SHA-256, which of the waiting answers it has learned from. It is written before the state is, with
//! the line of the former state kept: whichever of the two states is there after a crash, its line is.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{PoisonError, atomic::Ordering::Relaxed},
};

use credence_protocol::{Uuid, receipt::Exact};
use credence_receipts::{
    OperationAction, OperationRecord,
    folder::{self, Place},
};
use credence_verify::{Call, Mode, Origin};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Guard, judging::name_of_text, model::engine_file};
use crate::{
    Error,
    answer::{Answer, AnswerParts},
    content,
    quarantine::KeptItem,
    warn,
};

/// Which answers the engine's state has learned from.
const ANSWERS_FILE: &str = "answers.json";

/// Answers that are in the journal of operations and that the engine has learned from.
#[derive(Default)]
pub(super) struct TakenAnswers {
    learned: BTreeSet<Uuid>,
    /// Those of them that the state on disk has learned from.
    saved: BTreeSet<Uuid>,
    /// Those of them that are in the ledger.
    recorded: BTreeSet<Uuid>,
    /// As [`Line::state`], of the state on disk.
    state: Option<String>,
    /// Lines that nobody wrote were told of.
    warned: bool,
}

/// A state of the engine and the answers it has learned from.
#[derive(Serialize, Deserialize)]
struct Line {
    /// SHA-256 of the state's file, in base64url.
    state: String,
    answers: BTreeSet<Uuid>,
}

impl TakenAnswers {
    /// As far as the state in the place has them.
    pub fn open(place: &Place, suffix: &str) -> Self {
        let Ok(state) = std::fs::read(engine_file(place, suffix)) else { return Self::default() };
        let state = digest(&state);
        let lines = std::fs::read(place.folder.join(ANSWERS_FILE)).ok();
        let lines: Vec<Line> = lines.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        let learned = lines.into_iter().find(|line| line.state == state).map(|line| line.answers).unwrap_or_default();
        Self { saved: learned.clone(), learned, state: Some(state), ..Self::default() }
    }
}

fn digest(state: &[u8]) -> String {
    data_encoding::BASE64URL_NOPAD.encode(&Sha256::digest(state))
}

impl Guard {
    /// Takes up what people answered meanwhile.
    fn take_up_answers(&self) -> Result<(), Error> {
        let Some(book) = &self.book else { return Ok(()) };
        let journal = book.operation_journal();
        if journal.is_empty() {
            return Ok(());
        }
        let mut taken = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = journal.read()?;
        match waiting.trouble() {
            Some(trouble) if !taken.warned => {
                let aside = journal.put_aside()?;
                warn(&format!("{trouble}; they are put aside as {}", aside.display()));
                taken.warned = true;
            }
            Some(_) => {}
            // Another time it is said again.
            None => taken.warned = false,
        }
        for operation in &waiting.operations {
            if taken.learned.insert(operation.id) {
                self.learn_from(operation);
                self.counts.since_saved.fetch_add(1, Relaxed);
            }
        }
        let unrecorded: Vec<OperationRecord> =
            waiting.operations.iter().filter(|one| !taken.recorded.contains(&one.id)).cloned().collect();
        if !unrecorded.is_empty() {
            book.record_operations(&unrecorded)?;
            taken.recorded.extend(unrecorded.iter().map(|one| one.id));
        }
        // In the ledger and in the state on disk: nobody needs the lines any more.
        if waiting.operations.iter().all(|one| taken.saved.contains(&one.id)) && journal.clear(&waiting)? {
            taken.learned.clear();
            taken.recorded.clear();
        }
        Ok(())
    }

    /// As [`Self::take_up_answers`], for callers that cannot do anything about a failure.
    pub(crate) fn take_up_answers_or_warn(&self) {
        if let Err(error) = self.take_up_answers() {
            warn(&format!("answers about kept results could not be taken up: {error}"));
        }
    }

    /// Keeps what the engine has learned.
    pub(super) fn save_engine(&self, file: &Path) -> Result<(), Error> {
        let mut taken = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = self.engine.load().snapshot()?;
        let (path, state) = (self.place.folder.join(ANSWERS_FILE), digest(&snapshot));
        if !taken.learned.is_empty() || !taken.saved.is_empty() {
            let former = taken.state.clone().map(|state| Line { state, answers: taken.saved.clone() });
            let next = Line { state: state.clone(), answers: taken.learned.clone() };
            let lines: Vec<Line> = former.into_iter().chain([next]).collect();
            let text = serde_json::to_vec(&lines).map_err(|e| Error::Content(e.to_string()))?;
            folder::replace_file(&path, &text)?;
        }
        folder::replace_file(file, &snapshot)?;
        (taken.saved, taken.state) = (taken.learned.clone(), Some(state));
        Ok(())
    }

    /// Tells the engine what a person said of a result.
    fn learn_from(&self, operation: &OperationRecord) {
        let genuine = match operation.action {
            OperationAction::Accept => true,
            OperationAction::Reject => false,
            _ => return,
        };
        let Some(call) = operation.call else { return };
        let item = self.quarantine.as_ref().map_or(Ok(None), |quarantine| quarantine.read(call));
        let learned = match item {
            Ok(Some(item)) => self.learn_from_item(&item, genuine),
            Ok(None) => Err(Error::Content("it is not kept any more".to_owned())),
            Err(error) => Err(error.into()),
        };
        if let Err(error) = learned {
            warn(&format!("nothing is learned from the answer about call {call}: {error}"));
        }
    }

    fn learn_from_item(&self, item: &KeptItem, genuine: bool) -> Result<(), Error> {
        let Some(result) = &item.result else { return Err(Error::Content("its content is not kept".to_owned())) };
        let arguments = item.arguments.as_deref().and_then(|raw| Exact::of(raw).ok());
        let parts = AnswerParts::parse(Answer::Result(result), arguments.as_ref(), true, &mut None);
        if item.has_instructions() {
            self.instructions.take_answer(&item.tool, &parts, item.arguments.as_deref(), genuine);
        }
        // The engine had nothing against it, told of no change, and has learned it already.
        if !item.concerns_engine() {
            return Ok(());
        }
        if item.posterior.is_none() {
            return Err(Error::Content("it was not judged".to_owned()));
        }
        let value = parts.value.ok_or_else(|| Error::Content("there is nothing in it to judge".to_owned()))?;
        let arguments = arguments.as_ref().and_then(|exact| content::value(exact).ok());
        let engine = self.engine.load();
        let tell = |tool: &str, value: &Value| {
            let mut call = Call::new(tool, value).origin(Origin::Upstream);
            if let Some(arguments) = &arguments {
                call = call.args(arguments);
            }
            if genuine { engine.confirm(&call) } else { engine.reject(&call) }
        };
        tell(&item.tool, &value)?;
        // The text beside a structure has a memory of its own.
        if let Some(text) = parts.differing.filter(|_| parts.structured).and_then(|text| text.value) {
            tell(&name_of_text(&item.tool), &text)?;
        }
        // The seed's feedback moves prior and threshold. Only doubtful results are reviewed, so as a rate it would be far off: the
        // adaptive mode does without it.
        if let Some(posterior) = item.posterior.filter(|_| self.settings.verify == Mode::Fixed) {
            engine.record_feedback(&item.tool, posterior, !genuine)?;
        }
        Ok(())
    }
}
