//! What a guard has learned of its server: the engine's state, what texts usually do, declared schemas. Together they are the *model*; it
//! belongs to the server's identity ([`crate::identity`]), and is changed as a whole when the server declares another name.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use credence_protocol::is_deceptive;
use credence_receipts::{
    OperationAction, OperationRecord, ReceiptBook,
    book::Recovered,
    folder::{self, Place},
};
use credence_verify::{Calibration, Engine};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Guard;
use crate::{
    Error, Settings,
    agreement::Habits,
    config::AlertKind,
    guard::JudgedCall,
    identity::{self, Declared, file_of_suffix},
    oversight::{Changed, Oversight, Policy},
    schemas::SchemaBook,
    settings::GuardMode,
    warn,
};

/// What the engine has learned, in the guard's place.
const ENGINE_FILE: (&str, &str) = ("engine", "state");
/// What the texts of each tool usually do, beside it.
const HABITS_FILE: (&str, &str) = ("texts", "json");
/// How often the switch and the clock are looked at.
const TICK: Duration = Duration::from_millis(500);
/// How often the file of the metrics is written.
const METRICS_EVERY: Duration = Duration::from_secs(5);
/// Tools with a block rate of their own that are remembered.
const MAX_CALIBRATED: usize = 10_000;

/// The part of an `initialize` result that names the server.
#[derive(Deserialize)]
struct Initialized {
    #[serde(rename = "serverInfo")]
    server: ServerInfo,
}

#[derive(Deserialize)]
struct ServerInfo {
    name: String,
}

impl Guard {
    /// What the operator sets, sees and switches.
    pub fn oversight(&self) -> &Oversight {
        &self.oversight
    }

    /// The strictest mode that holds now for any tool: that of messages which belong to no call.
    pub fn mode(&self) -> GuardMode {
        self.oversight.strictest()
    }

    /// The mode that holds now for a tool.
    pub fn mode_of(&self, tool: &str) -> GuardMode {
        self.oversight.mode_of(&self.oversight.policy(tool))
    }

    /// Takes in the name that the server declares. Where it is another than before, what was learned of the former one is kept for
    /// that one, and the model of this one counts.
    pub fn learn_server(&self, result: &RawValue) {
        if self.oversight.launch().is_none() {
            return;
        }
        let Ok(Initialized { server }) = serde_json::from_str::<Initialized>(result.get()) else { return };
        let Some(folder) = self.place.folder.parent() else { return };
        match identity::declare(folder, &server.name) {
            Ok(Declared::Same) => {}
            Ok(Declared::TooMany) => {
                warn("the server declares ever new names: it is judged by what was learned under the last one");
                self.oversight.alert(AlertKind::Tampering, "server_renamed_too_often", None);
            }
            Ok(Declared::Another { former, suffix }) => {
                let name: String = server.name.chars().filter(|c| !is_deceptive(*c)).collect();
                warn(&format!(
                    "the server declares the name '{name}', and it was '{former}' before: it is judged as another server, by what was \
                     learned under this name"
                ));
                if let Err(error) = self.change_model(folder, &suffix) {
                    warn(&format!("its model cannot be used: {error}"));
                }
                let detail = format!("'{former}' to '{name}'");
                let operation = OperationRecord::by_guard(OperationAction::Renamed, Some(detail));
                if let Some(Err(error)) = self.book().map(|book| book.record_operation(&operation)) {
                    warn(&format!("that the server has another name could not be recorded: {error}"));
                }
                self.oversight.alert(AlertKind::Change, "server_renamed", None);
            }
            Err(error) => warn(&format!("the name that the server declares is not kept: {error}")),
        }
    }

    fn change_model(&self, server: &Path, suffix: &str) -> Result<(), Error> {
        self.save_model()?;
        let mut current = self.suffix.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = identity::folder_of_suffix(server, suffix);
        let engine = engine(&self.settings, server, &self.place, suffix, &self.oversight)?;
        let schemas = SchemaBook::open(&folder)?;
        let known: Vec<String> = schemas.known().tools.keys().cloned().collect();
        *self.habits.lock().unwrap_or_else(PoisonError::into_inner) = habits(&self.place, suffix);
        *self.schemas.lock().unwrap_or_else(PoisonError::into_inner) = schemas;
        self.instructions.change(server, &self.place, suffix);
        self.calibrated.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.engine.store(Arc::new(engine));
        suffix.clone_into(&mut current);
        drop(current);
        self.register_schemas(&known);
        self.oversight.open_wait(&folder, self.book())
    }

    /// Keeps what was learned.
    pub(super) fn save_model(&self) -> Result<(), Error> {
        let suffix = self.suffix.lock().unwrap_or_else(PoisonError::into_inner);
        let path = |(stem, ending): (&str, &str)| self.place.folder.join(file_of_suffix(stem, &suffix, ending));
        self.save_engine(&path(ENGINE_FILE))?;
        let habits = serde_json::to_vec(&*self.habits.lock().unwrap_or_else(PoisonError::into_inner));
        let habits = habits.map_err(|e| Error::Content(e.to_string()))?;
        folder::replace_file(&path(HABITS_FILE), &habits)?;
        self.instructions.save(&self.place, &suffix)
    }

    /// Looks at the switch, the clock and `guard.toml`.
    pub(super) fn tick(&self) {
        if self.oversight.tick(self.book()) == Changed::Policies
            && let Err(error) = self.take_policies()
        {
            warn(&format!("not all of what guard.toml says holds: {error}"));
        }
    }

    /// Has the engine and the wait go by the policies that hold now.
    fn take_policies(&self) -> Result<(), Error> {
        calibrate_all(&self.engine.load(), &self.settings, &self.oversight)?;
        let tools = std::mem::take(&mut *self.calibrated.lock().unwrap_or_else(PoisonError::into_inner));
        for tool in tools {
            let policy = self.oversight.policy(&tool);
            self.set_block_rate(&tool, &policy);
        }
        self.oversight.keep(self.book());
        let Some(server) = self.place.folder.parent() else { return Ok(()) };
        self.oversight.open_wait(&identity::model_folder(server), self.book())
    }

    /// Has the engine keep the block rate that a section sets for this tool.
    pub(super) fn calibrate(&self, tool: &str, policy: &Policy) {
        if policy.block_rate.is_none() {
            return;
        }
        let mut calibrated = self.calibrated.lock().unwrap_or_else(PoisonError::into_inner);
        if calibrated.contains(tool) {
            return;
        }
        if calibrated.len() >= MAX_CALIBRATED {
            calibrated.clear();
        }
        calibrated.insert(tool.to_owned());
        drop(calibrated);
        self.set_block_rate(tool, policy);
    }

    fn set_block_rate(&self, tool: &str, policy: &Policy) {
        let named = |of: Option<&str>| {
            let found = self.settings.calibrations.iter().find(|(one, _)| one.as_deref() == of);
            found.map(|(_, calibration)| calibration.clone()).unwrap_or_default()
        };
        // A file that was named with a flag overrides guard.toml.
        let (own, all) = (named(Some(tool)), named(None));
        let rate = own.max_false_block_rate.or(all.max_false_block_rate).or(policy.block_rate);
        let set = self.engine.load().calibrate(Some(tool), Calibration { max_false_block_rate: rate, ..own });
        if let Err(error) = set {
            warn(&format!("the block rate of '{tool}' cannot be used: {error}"));
        }
    }

    /// Tells the operator's side what became of calls.
    pub(super) fn tell_oversight<'a>(&self, judged: impl Iterator<Item = &'a JudgedCall>) {
        let ended: Vec<_> = judged.map(|judged| judged.ended(&self.settings.session)).collect();
        self.oversight.ended(&ended);
    }

    /// Opens the metrics, and looks at the switch and the clock while the guard lives.
    pub(crate) fn start_oversight(self: &Arc<Self>) -> Result<(), Error> {
        let weak = Arc::downgrade(self);
        let name = self.place.folder.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let in_journal = move || Some(weak.upgrade()?.book().map_or(0, ReceiptBook::in_journal));
        // A guard that did not start would take the client's tools away.
        let opened = self.oversight.open_metrics(&name.unwrap_or_default(), self.place.number, Arc::new(in_journal));
        if let Err(error) = opened {
            warn(&format!("no metrics are written: {error}"));
        }
        self.tick();
        let guard = Arc::downgrade(self);
        let spawned = std::thread::Builder::new().name("oversight".to_owned()).spawn(move || {
            let mut written: Option<Instant> = None;
            loop {
                let Some(guard) = guard.upgrade() else { return };
                guard.tick();
                if written.is_none_or(|at| at.elapsed() >= METRICS_EVERY) {
                    guard.oversight.write_metrics(guard.book().map_or(0, ReceiptBook::in_journal));
                    written = Some(Instant::now());
                }
                drop(guard);
                std::thread::sleep(TICK);
            }
        });
        spawned.map(drop).map_err(|e| Error::Io("oversight".into(), e))
    }
}

/// The file of the engine's state in a model with this suffix.
pub(super) fn engine_file(place: &Place, suffix: &str) -> PathBuf {
    place.folder.join(file_of_suffix(ENGINE_FILE.0, suffix, ENGINE_FILE.1))
}

/// What the texts of each tool usually do.
pub(super) fn habits(place: &Place, suffix: &str) -> Habits {
    let bytes = std::fs::read(place.folder.join(file_of_suffix(HABITS_FILE.0, suffix, HABITS_FILE.1))).ok();
    bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// Tells of lines in the journal that this guard did not write, and of a ledger that does not add up.
pub(super) fn alert_of_recovery(oversight: &Oversight, recovered: Recovered) {
    let reasons = [
        (recovered.forged > 0, "journal_forged"),
        (recovered.unreadable > 0, "journal_unreadable"),
        (recovered.unusable_segment.is_some(), "ledger_unusable"),
    ];
    for (_, reason) in reasons.into_iter().filter(|(is, _)| *is) {
        oversight.alert(AlertKind::Tampering, reason, None);
    }
}

/// The engine of the model with this suffix, as it was left.
pub(super) fn engine(
    settings: &Settings,
    server: &Path,
    place: &Place,
    suffix: &str,
    oversight: &Oversight,
) -> Result<Engine, Error> {
    let builder = || Engine::builder().mode(settings.verify);
    let file = file_of_suffix(ENGINE_FILE.0, suffix, ENGINE_FILE.1);
    let own = place.folder.join(&file);
    // A second guard of the same server begins with what the first has learned.
    let first = server.join("1").join(&file);
    let mut engine = None;
    for path in [&own, &first] {
        let Ok(snapshot) = std::fs::read(path) else { continue };
        match builder().restore(&snapshot) {
            Ok(restored) => {
                engine = Some(restored);
                break;
            }
            Err(error) => {
                let aside = path.with_extension("unreadable");
                warn(&format!("{} cannot be used ({error}): put aside, learning begins anew", path.display()));
                let _ = std::fs::rename(path, aside);
            }
        }
    }
    let engine = engine.unwrap_or_else(|| builder().build());
    for (tool, profile) in &settings.profiles {
        engine.register(tool, profile.clone().build()?)?;
    }
    for (tool, calibration) in &settings.calibrations {
        engine.calibrate(tool.as_deref(), calibration.clone())?;
    }
    calibrate_all(&engine, settings, oversight)?;
    Ok(engine)
}

/// Has the engine keep the block rate of the server. A file that was named with a flag overrides guard.toml.
fn calibrate_all(engine: &Engine, settings: &Settings, oversight: &Oversight) -> Result<(), Error> {
    let all = settings.calibrations.iter().find(|(tool, _)| tool.is_none()).map(|(_, all)| all.clone());
    let all = all.unwrap_or_default();
    let rate = all.max_false_block_rate.or(oversight.server_policy().block_rate);
    Ok(engine.calibrate(None, Calibration { max_false_block_rate: rate, ..all })?)
}
