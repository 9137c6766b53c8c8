//! Whether anything may be signed: the authority's key counts, and the tables say what the ledger says.

use std::sync::{Arc, atomic::Ordering};

use axum::http::StatusCode;
use credence_pipeline::{Error, answer::Refusal, derive, integrity};

use super::App;
use crate::problem::Problem;

/// The check of the whole ledger is not over.
pub(super) const CHECK_RUNS: usize = 0;
/// It found nothing.
pub(super) const CHECK_SAME: usize = 1;
/// It, or a check before a signature, found that a table differs from the ledger.
pub(super) const CHECK_DIFFERS: usize = 2;

impl App {
    /// Whether the authority's key may sign. Asked at the start, and whenever a key or a revocation was recorded.
    pub(super) fn refresh_signing_permission(&self) -> credence_ledger::Result<()> {
        let view = self.authority.ledger().view()?;
        let why = derive::unusable(&*view, &self.office.key)
            .unwrap_or_else(|error| Some(format!("whether the key may sign cannot be seen: {error}")));
        if let Some(why) = &why {
            tracing::error!(why, "nothing can be signed");
        }
        self.unusable.store(why.map(Arc::new));
        Ok(())
    }

    /// Checks the whole ledger against its tables, until it is done or the service is about to stop.
    pub(crate) fn check_ledger(&self) {
        let checked = self.authority.ledger().view().map_err(Error::from).and_then(|view| {
            integrity::check(&*view, &self.log, &self.authority.scoring().tags, &|| !*self.closing.borrow())
        });
        match checked {
            Ok(integrity::Checked::Same { entries }) => {
                tracing::info!(entries, "the tables say what the ledger says");
                self.ledger_check.store(CHECK_SAME, Ordering::Relaxed);
            }
            Ok(integrity::Checked::Differ(findings)) => {
                let first = findings.listed.first().map_or(String::new(), |finding| finding.what.clone());
                self.note_difference(&format!("{} differences, the first: {first}", findings.count));
            }
            Ok(integrity::Checked::Stopped) => {}
            Err(Error::Differs(what)) => self.note_difference(&what),
            // A full temporary folder says nothing of the tables.
            Err(error) => tracing::warn!(%error, "whether the tables say what the ledger says could not be checked"),
        }
    }

    /// From now on nothing is signed.
    pub(crate) fn note_difference(&self, what: &str) {
        tracing::error!(what, "the tables differ from the ledger: nothing is signed any more");
        self.ledger_check.store(CHECK_DIFFERS, Ordering::Relaxed);
        // What was signed before may rest on it too.
        self.answers.clear();
    }

    /// Makes something signed. Where the tables differ from the ledger, nothing is signed any more.
    pub(crate) fn signing<T>(&self, made: Result<T, Refusal>) -> Result<T, Problem> {
        if let Err(Refusal::Pipeline(Error::Differs(what))) = &made {
            self.note_difference(what);
        }
        Ok(made?)
    }

    /// Refuses where nothing can be signed.
    pub(crate) fn signs(&self) -> Result<(), Problem> {
        if self.ledger_check.load(Ordering::Relaxed) == CHECK_DIFFERS {
            return Err(Problem::differs());
        }
        match &*self.unusable.load() {
            None => Ok(()),
            Some(_) => {
                let detail =
                    "the authority's signing key is revoked or not registered: the operator has to install another";
                Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "signing_key_unusable", detail).retry_after(60))
            }
        }
    }
}
