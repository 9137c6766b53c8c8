//! What a person does with kept results: look at them, say what they are, take one out, remove them.
//!
//! Each of these is written into the guard's journal of operations ([`credence_receipts::operation_journal`]) before it takes effect, with
//! the user and the terminal. The guard takes it up from there: within a second or so where it runs, when it starts where it does not.

use std::{
    collections::BTreeSet,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use credence_protocol::{EntityId, SecretKey, Uuid};
use credence_receipts::{
    Archive, OperationAction, OperationRecord, Operator, archive::Source, now, operation_journal::OperationJournal,
};

use super::{
    KeptItem, QuarantineError as Error,
    cipher::{QuarantineKey, key_file},
    operator,
    store::{self, Answer, Listed, Status, Store},
};

/// The kept results of every guard in a state folder.
pub struct Reviewer {
    guards: Vec<Guarded>,
    archive: Archive,
    key_file: PathBuf,
    operator: Operator,
    /// What else is known of the operator.
    detail: Option<String>,
}

/// One guard's.
struct Guarded {
    server: String,
    name: String,
    place: PathBuf,
    store: Option<Store>,
    journal: OperationJournal,
    running: bool,
    /// What is in the journal, read once.
    on_its_way: OnceLock<Vec<OperationRecord>>,
}

/// A kept result and what was said of it.
#[derive(Debug)]
pub struct Reviewed {
    /// The result.
    pub item: KeptItem,
    /// What a person said of it.
    pub answer: Option<Answer>,
    /// Whether its guard runs.
    pub running: bool,
}

/// Something that a person did to a guard.
#[derive(Debug, serde::Serialize)]
pub struct DoneOperation {
    /// The guard's server and place.
    pub guard: String,
    /// What was done.
    pub operation: OperationRecord,
    /// It is in the guard's ledger.
    pub taken_up: bool,
}

/// What is kept, and what cannot be read of it.
#[derive(Debug, Default)]
pub struct Review {
    /// The oldest first.
    pub items: Vec<Reviewed>,
    /// In words.
    pub problems: Vec<String>,
}

/// What became of kept results that a person had removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Results that were removed.
    pub removed: usize,
    /// Those of them with an answer that no guard had taken up: without the result nothing can be learned from it.
    pub unlearned: usize,
}

/// How much waits for an answer in one guard's quarantine.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct QuarantineCounts {
    /// Kept results that nobody has answered.
    pub waiting: usize,
    /// Kept results.
    pub kept: usize,
    /// Bytes on disk.
    pub bytes: u64,
    /// Bounds and losses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
}

/// How much waits for an answer in the guard's place; `None` where nothing was ever kept.
pub fn waiting(place: &Path) -> Result<Option<QuarantineCounts>, Error> {
    let (kept, status) = (store::list(place)?, Status::read(place));
    if kept.is_empty() && status.is_none() {
        return Ok(None);
    }
    let keep = status.as_ref().map(|status| Duration::from_secs(status.keep_seconds));
    let kept: Vec<Listed> =
        kept.into_iter().filter(|one| !keep.is_some_and(|keep| store::is_old(one.call, keep))).collect();
    Ok(Some(QuarantineCounts {
        waiting: kept.iter().filter(|one| !one.answered).count(),
        kept: kept.len(),
        bytes: kept.iter().map(|one| one.bytes).sum(),
        status,
    }))
}

/// Reads what is kept of calls, and changes nothing.
pub struct KeptReader(Option<Arc<QuarantineKey>>);

impl KeptReader {
    /// For the guards in `state`; without their key it knows of nothing.
    pub fn open(state: &Path) -> Self {
        Self(QuarantineKey::open(state).ok().flatten().map(Arc::new))
    }

    /// What the guard called `name` (server and number) in `place` keeps of a call.
    pub fn read(&self, place: &Path, name: &str, call: Uuid) -> Option<KeptItem> {
        Store::new(place, name, Arc::clone(self.0.as_ref()?)).read(call).ok().flatten()
    }
}

/// Refuses the folder of another user: files of this one in it would be in that guard's way.
pub fn check_owner(state: &Path) -> Result<(), Error> {
    let owner = std::fs::metadata(state).map_err(|e| Error::Io(state.to_owned(), e))?.uid();
    let uid = rustix::process::geteuid().as_raw();
    if owner == uid {
        return Ok(());
    }
    let name = operator::user_name(owner).unwrap_or_else(|| format!("#{owner}"));
    Err(Error::OtherUser { path: state.to_owned(), owner: name, uid })
}

impl Reviewer {
    /// The kept results in `state`, whose guards sign as `provider` with `key`.
    pub fn open(state: &Path, provider: &EntityId, key: &SecretKey) -> Result<Self, Error> {
        check_owner(state)?;
        let archive = Archive::open(state, provider, key)?;
        let quarantine_key = QuarantineKey::open(state)?.map(Arc::new);
        let guards = archive.sources.iter().map(|source| {
            let (place, name) = (source.place_folder().to_owned(), source.name());
            Guarded {
                store: quarantine_key.as_ref().map(|key| Store::new(&place, &name, Arc::clone(key))),
                journal: source.operation_journal(),
                running: source.running.is_some(),
                on_its_way: OnceLock::new(),
                server: source.server.clone(),
                name,
                place,
            }
        });
        let (operator, detail) = operator::current();
        Ok(Self { guards: guards.collect(), archive, key_file: key_file(state), operator, detail })
    }

    /// Everything that is kept, in the folders of some servers or in all; old results are removed on the way.
    pub fn review(&self, servers: Option<&[String]>) -> Result<Review, Error> {
        let mut review = Review::default();
        for guard in self.guards.iter().filter(|one| servers.is_none_or(|servers| servers.contains(&one.server))) {
            for listed in guard.list()? {
                match self.read(guard, listed.call) {
                    Ok(Some(reviewed)) => review.items.push(reviewed),
                    Ok(None) => {}
                    Err(error) => review.problems.push(format!("{}: {error}", guard.name)),
                }
            }
            if let Some(trouble) = Status::read(&guard.place).and_then(|status| status.trouble()) {
                review.problems.push(format!("{}: {trouble}", guard.name));
            }
        }
        review.items.sort_by_key(|one| one.item.call);
        Ok(review)
    }

    fn read(&self, guard: &Guarded, call: Uuid) -> Result<Option<Reviewed>, Error> {
        let store = guard.store.as_ref().ok_or_else(|| Error::NoKey(self.key_file.clone()))?;
        let Some(item) = store.read(call)? else { return Ok(None) };
        let answer = match store.answer(call)? {
            Some(answer) => Some(answer),
            None => guard.answer_on_its_way(call)?,
        };
        Ok(Some(Reviewed { item, answer, running: guard.running }))
    }

    /// The guard that keeps a call.
    fn guard_of(&self, call: Uuid) -> Result<&Guarded, Error> {
        for guard in &self.guards {
            if guard.list()?.iter().any(|one| one.call == call) {
                return Ok(guard);
            }
        }
        let known = self.archive.find(call)?.is_some() || self.archive.dropped(call)?.is_some();
        Err(if known { Error::NotKept(call) } else { Error::UnknownCall(call) })
    }

    fn found(&self, call: Uuid) -> Result<(&Guarded, Reviewed), Error> {
        let guard = self.guard_of(call)?;
        let reviewed = self.read(guard, call)?.ok_or(Error::NotKept(call))?;
        Ok((guard, reviewed))
    }

    /// The kept result of a call.
    pub fn show(&self, call: Uuid) -> Result<Reviewed, Error> {
        Ok(self.found(call)?.1)
    }

    /// Says that a result is genuine, or that it is not. `change` says it although something else was said before.
    pub fn answer(&self, call: Uuid, genuine: bool, change: bool) -> Result<Reviewed, Error> {
        let (guard, mut reviewed) = self.found(call)?;
        let action = if genuine { OperationAction::Accept } else { OperationAction::Reject };
        if let Some(former) = reviewed.answer.as_ref().filter(|former| !change || former.action == action) {
            let answer = if former.action == OperationAction::Accept { "accepted" } else { "rejected" };
            return Err(Error::Answered { call, answer, at: former.at, by: name_of(&former.by) });
        }
        let operation = self.operation(action, Some(call), Some(&reviewed.item.tool), None);
        guard.journal.append(std::slice::from_ref(&operation))?;
        let answer = Answer { action, at: operation.at, by: self.operator.clone() };
        if let Some(store) = &guard.store {
            store.write_answer(call, &answer)?;
        }
        reviewed.answer = Some(answer);
        Ok(reviewed)
    }

    /// Takes the result of a call out: what the server gave is returned, and that it was taken out is on record.
    pub fn release(&self, call: Uuid) -> Result<Reviewed, Error> {
        let (guard, reviewed) = self.found(call)?;
        if reviewed.item.result.is_none() {
            return Err(Error::NoContent { call, why: reviewed.item.why_no_content() });
        }
        guard.journal.append(&[self.operation(
            OperationAction::Release,
            Some(call),
            Some(&reviewed.item.tool),
            None,
        )])?;
        Ok(reviewed)
    }

    /// Removes what is kept of a call, readable or not.
    pub fn forget(&self, call: Uuid) -> Result<Forgotten, Error> {
        let guard = self.guard_of(call)?;
        let unlearned = self.unlearned(guard, &[call])?;
        guard.journal.append(&[self.operation(OperationAction::Forget, Some(call), None, None)])?;
        store::remove(&guard.place, call)?;
        Ok(Forgotten { removed: 1, unlearned })
    }

    /// Removes everything that is kept, in the folders of some servers or in all.
    pub fn forget_all(&self, servers: Option<&[String]>) -> Result<Forgotten, Error> {
        let mut forgotten = Forgotten::default();
        for guard in self.guards.iter().filter(|one| servers.is_none_or(|servers| servers.contains(&one.server))) {
            let kept = store::list(&guard.place)?;
            if kept.is_empty() {
                continue;
            }
            let calls: Vec<Uuid> = kept.iter().map(|one| one.call).collect();
            forgotten.unlearned += self.unlearned(guard, &calls)?;
            let detail = format!("all {} kept results", kept.len());
            guard.journal.append(&[self.operation(OperationAction::Forget, None, None, Some(detail))])?;
            for call in calls {
                forgotten.removed += usize::from(store::remove(&guard.place, call)?);
            }
        }
        Ok(forgotten)
    }

    /// How many of these calls have an answer that the guard has not taken up yet.
    fn unlearned(&self, guard: &Guarded, calls: &[Uuid]) -> Result<usize, Error> {
        let Some(source) = self.archive.sources.iter().find(|source| source.name() == guard.name) else { return Ok(0) };
        let done = self.archive.operations(source, &mut |_| ())?;
        let is_answer = |one: &OperationRecord| matches!(one.action, OperationAction::Accept | OperationAction::Reject);
        let waiting =
            done.into_iter().filter(|(one, taken_up)| !taken_up && is_answer(one)).filter_map(|(one, _)| one.call);
        Ok(waiting.filter(|call| calls.contains(call)).collect::<BTreeSet<Uuid>>().len())
    }

    /// Everything that people did to the guards, of some servers (by their folders) or of all.
    pub fn operations(
        &self,
        servers: Option<&[String]>,
        problem: &mut dyn FnMut(String),
    ) -> Result<Vec<DoneOperation>, Error> {
        let mut all = Vec::new();
        let is_meant = |source: &&Source| servers.is_none_or(|servers| servers.contains(&source.server));
        for source in self.archive.sources.iter().filter(is_meant) {
            let done = self.archive.operations(source, problem)?.into_iter();
            all.extend(done.map(|(operation, taken_up)| DoneOperation { guard: source.name(), operation, taken_up }));
        }
        all.sort_by_key(|done| done.operation.at);
        Ok(all)
    }

    fn operation(
        &self,
        action: OperationAction,
        call: Option<Uuid>,
        tool: Option<&str>,
        detail: Option<String>,
    ) -> OperationRecord {
        let said: Vec<String> = detail.into_iter().chain(self.detail.clone()).collect();
        OperationRecord {
            action,
            at: now(),
            by: Some(self.operator.clone()),
            call,
            detail: (!said.is_empty()).then(|| said.join("; ")),
            id: Uuid::now_v7(),
            tool: tool.map(str::to_owned),
        }
    }
}

impl Guarded {
    /// What is kept and not old; what is old is removed.
    fn list(&self) -> Result<Vec<Listed>, Error> {
        let keep = Status::read(&self.place).map(|status| Duration::from_secs(status.keep_seconds));
        let mut kept = Vec::new();
        for one in store::list(&self.place)? {
            if keep.is_some_and(|keep| store::is_old(one.call, keep)) {
                store::remove(&self.place, one.call)?;
            } else {
                kept.push(one);
            }
        }
        Ok(kept)
    }

    /// An answer that is in the journal and not beside the item: a command was killed in between.
    fn answer_on_its_way(&self, call: Uuid) -> Result<Option<Answer>, Error> {
        let is_answer = |one: &OperationRecord| matches!(one.action, OperationAction::Accept | OperationAction::Reject);
        if self.on_its_way.get().is_none() {
            let _ = self.on_its_way.set(self.journal.read()?.operations);
        }
        let waiting = self.on_its_way.get().map(Vec::as_slice).unwrap_or_default();
        let last = waiting.iter().rev().find(|one| one.call == Some(call) && is_answer(one));
        Ok(last.and_then(|one| Some(Answer { action: one.action, at: one.at, by: one.by.clone()? })))
    }
}

/// A person, in a word.
pub fn name_of(operator: &Operator) -> String {
    let user = operator.user.clone().unwrap_or_else(|| format!("uid {}", operator.uid));
    operator
        .terminal
        .as_ref()
        .map_or_else(|| format!("{user} (no terminal)"), |terminal| format!("{user} on {terminal}"))
}
