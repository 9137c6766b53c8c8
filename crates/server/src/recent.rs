//! The newest verdicts of each namespace, in memory and bounded: what the dashboard lists.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use credence_protocol::Timestamp;
use credence_verify::{Decision, Verdict};
use serde::{Deserialize, Serialize};

/// Verdicts remembered.
const MAX_VERDICTS: usize = 200;
/// Tools whose verdicts are counted by name; the verdicts on further ones are remembered, not counted.
const MAX_TOOLS: usize = 1_000;

/// A verdict, and when it was given.
#[derive(Debug, Clone)]
pub(crate) struct RecentVerdict {
    /// Counts up within the namespace.
    pub number: u64,
    pub at: Timestamp,
    pub verdict: Verdict,
    pub execution_time_ms: Option<f64>,
    /// What somebody said of it since: that it was fabricated, or not.
    pub answered: Option<bool>,
}

/// Which verdicts are wanted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct VerdictFilter<'a> {
    /// On results of this tool.
    pub tool: Option<&'a str>,
    /// On what this agent reported.
    pub agent: Option<&'a str>,
    /// Only those that were flagged or blocked.
    pub doubtful: bool,
}

/// Why a verdict cannot be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unanswerable {
    /// It is not remembered any more.
    Gone,
    /// Somebody did already.
    Answered,
}

/// How a tool's results were judged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct ToolTally {
    /// Accepted, flagged, blocked.
    pub verdicts: [u64; 3],
    pub last: Timestamp,
}

/// The newest verdicts of a namespace, and how many there were of each tool.
#[derive(Default)]
pub(crate) struct Recent {
    inner: Mutex<Inner>,
    /// Where the memory of all namespaces is counted.
    total: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Inner {
    /// Memory of what follows.
    bytes: usize,
    verdicts: VecDeque<RecentVerdict>,
    tools: BTreeMap<String, ToolTally>,
    count: u64,
}

impl Recent {
    /// Going on from what was counted before.
    pub(crate) fn from(tools: BTreeMap<String, ToolTally>, total: Arc<AtomicUsize>) -> Self {
        let bytes = tools.keys().map(|name| tally_bytes(name)).sum();
        total.fetch_add(bytes, Ordering::Relaxed);
        Self { inner: Mutex::new(Inner { bytes, tools, ..Inner::default() }), total }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    /// Forgets the verdicts, not the counts.
    pub(crate) fn forget(&self) {
        let mut inner = self.lock();
        let verdicts = std::mem::take(&mut inner.verdicts);
        let bytes: usize = verdicts.iter().map(verdict_bytes).sum();
        inner.bytes -= bytes;
        drop(inner);
        self.total.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, at: Timestamp, verdict: Verdict, execution_time_ms: Option<f64>) {
        let mut inner = self.lock();
        let room = inner.tools.len() < MAX_TOOLS;
        inner.count += 1;
        let decision = verdict.decision as usize;
        let before = inner.bytes;
        match inner.tools.get_mut(&verdict.tool) {
            Some(tool) => {
                tool.verdicts[decision] += 1;
                tool.last = at;
            }
            None if room => {
                let mut tool = ToolTally { verdicts: [0; 3], last: at };
                tool.verdicts[decision] += 1;
                inner.bytes += tally_bytes(&verdict.tool);
                inner.tools.insert(verdict.tool.clone(), tool);
            }
            None => {}
        }
        let number = inner.count;
        // Dropped after the lock is.
        let oldest = if inner.verdicts.len() == MAX_VERDICTS { inner.verdicts.pop_front() } else { None };
        let recent = RecentVerdict { number, at, verdict, execution_time_ms, answered: None };
        inner.bytes += verdict_bytes(&recent);
        inner.bytes -= oldest.as_ref().map_or(0, verdict_bytes);
        inner.verdicts.push_back(recent);
        let after = inner.bytes;
        drop(inner);
        if after > before {
            self.total.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.total.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    /// Those that are wanted, the newest first, at most `limit`.
    pub(crate) fn newest(&self, filter: &VerdictFilter<'_>, limit: usize) -> Vec<RecentVerdict> {
        let inner = self.lock();
        let wanted = |recent: &&RecentVerdict| {
            filter.tool.is_none_or(|tool| recent.verdict.tool == tool)
                && filter.agent.is_none_or(|agent| recent.verdict.agent.as_deref() == Some(agent))
                && (!filter.doubtful || recent.verdict.decision != Decision::Accept)
        };
        inner.verdicts.iter().rev().filter(wanted).take(limit).cloned().collect()
    }

    /// Marks a verdict as answered, once; gives its tool and posterior.
    pub(crate) fn answer(&self, number: u64, fabricated: bool) -> Result<(String, f64), Unanswerable> {
        let mut inner = self.lock();
        let recent = inner.verdicts.iter_mut().find(|recent| recent.number == number).ok_or(Unanswerable::Gone)?;
        if recent.answered.is_some() {
            return Err(Unanswerable::Answered);
        }
        recent.answered = Some(fabricated);
        Ok((recent.verdict.tool.clone(), recent.verdict.posterior))
    }

    /// What was said of a verdict could not be recorded: it can be said again.
    pub(crate) fn retract_answer(&self, number: u64) {
        let mut inner = self.lock();
        if let Some(recent) = inner.verdicts.iter_mut().find(|recent| recent.number == number) {
            recent.answered = None;
        }
    }

    /// Every tool that was judged, by name.
    pub(crate) fn tools(&self) -> BTreeMap<String, ToolTally> {
        self.lock().tools.clone()
    }
}

impl Drop for Recent {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes(), Ordering::Relaxed);
    }
}

/// A name with its counts, and its place in the tree.
fn tally_bytes(name: &str) -> usize {
    name.len() + size_of::<(String, ToolTally)>() + 32
}

fn verdict_bytes(recent: &RecentVerdict) -> usize {
    let verdict = &recent.verdict;
    let details: usize = verdict.checks.iter().map(|check| check.detail.as_ref().map_or(0, String::len)).sum();
    let texts = verdict.tool.len() + verdict.agent.as_ref().map_or(0, String::len);
    size_of::<RecentVerdict>() + size_of_val(verdict.checks.as_slice()) + details + texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use credence_verify::{Call, Engine};
    use serde_json::json;

    #[test]
    fn memory_is_bounded_and_counts_go_on() {
        let engine = Engine::builder().build();
        let recent = Recent::default();
        let at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        for n in 0..MAX_TOOLS + 50 {
            let result = json!(n);
            let tool = format!("tool-{n}");
            recent.add(at, engine.verify(&Call::new(&tool, &result)).unwrap(), None);
        }
        assert_eq!(recent.newest(&VerdictFilter::default(), usize::MAX).len(), MAX_VERDICTS);
        let newest = recent.newest(&VerdictFilter::default(), 1)[0].number;
        assert_eq!(newest, MAX_TOOLS as u64 + 50);
        assert!(recent.answer(newest, false).is_ok());
        assert_eq!(recent.answer(newest, true), Err(Unanswerable::Answered), "once");
        assert_eq!(recent.answer(1, true), Err(Unanswerable::Gone));
        let tools = recent.tools();
        assert_eq!(tools.len(), MAX_TOOLS);
        let total: Arc<AtomicUsize> = Arc::default();
        let again = Recent::from(tools, Arc::clone(&total));
        again.add(at, engine.verify(&Call::new("tool-0", &json!(1))).unwrap(), None);
        assert_eq!(again.tools()["tool-0"].verdicts.iter().sum::<u64>(), 2);
        assert!(again.newest(&VerdictFilter { tool: Some("tool-1"), ..VerdictFilter::default() }, 5).is_empty());
        assert_eq!(total.load(Ordering::Relaxed), again.bytes());
        again.forget();
        assert!(again.newest(&VerdictFilter::default(), 5).is_empty() && again.bytes() > 0);
        drop(again);
        assert_eq!(total.load(Ordering::Relaxed), 0);
    }
}
