//! Which results are kept for review, and what of them.

use std::{path::Path, sync::Arc};

use credence_receipts::{folder::Place, segments::origin};
use serde_json::value::RawValue;

use super::{Guard, delivering::Delivery, judging::JudgedCall};
use crate::{
    Settings,
    answer::Answer,
    quarantine::{
        Finding, KeptItem, Quarantine, QuarantineError,
        cipher::QuarantineKey,
        item::Explained,
        store::{Status, Store},
    },
    warn,
};

/// The quarantine of a guard that starts; `None` where it is off, or cannot be opened, which is said.
pub(super) fn open(settings: &Settings, place: &Place) -> Option<Quarantine> {
    let mut status = Status::new(&settings.quarantine);
    if !settings.quarantine.is_on() {
        // Where it never was on, there is nothing to be said.
        if Status::read(&place.folder).is_some() {
            let _ = status.write(&place.folder);
        }
        return None;
    }
    let opened = QuarantineKey::read_or_create(&settings.state).and_then(|key| {
        let name = format!("{}/{}", folder_name(place), place.number);
        let store = Store::new(&place.folder, &name, Arc::new(key));
        Quarantine::open(settings.quarantine, place.folder.clone(), store)
    });
    let failed = |error: QuarantineError| {
        warn(&format!("results that are flagged or withheld are not kept for review: {error}"));
        status.lose(0, &error.to_string());
        let _ = status.write(&place.folder);
    };
    opened.map_err(failed).ok()
}

/// The name of the server's folder, which can be another than the server's label.
fn folder_name(place: &Place) -> String {
    let name = place.folder.parent().and_then(Path::file_name);
    name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

impl Guard {
    /// The name of the guard's log, without the segment.
    pub(crate) fn log_name(&self) -> String {
        origin(&self.settings.provider, &folder_name(&self.place), self.place.number)
    }

    /// Keeps a result that a person should be able to look at.
    pub(super) fn keep_for_review(&self, judged: &JudgedCall, answer: Answer<'_>, no_receipt: Option<&str>) {
        let Some(quarantine) = &self.quarantine else { return };
        let withheld = match judged.delivery() {
            Delivery::Withheld(_) => true,
            Delivery::Error(_) => matches!(answer, Answer::Ambiguous(_) | Answer::TooLarge(_)),
            _ => false,
        };
        if !withheld && !judged.is_for_review() {
            return;
        }
        let instructs = judged.injection.as_ref().filter(|finding| finding.fired);
        let receipt = &judged.new.receipt;
        let Explained { explanation, mut findings } =
            judged.assessment.as_ref().map(|one| one.explained.clone()).unwrap_or_default();
        let known: Vec<String> = findings.iter().map(|one| one.check.clone()).collect();
        findings
            .extend(receipt.checks.iter().filter(|check| !known.contains(check)).map(|check| Finding::named(check)));
        findings.extend(instructs.map(|found| Finding::of_instructions(found.score, found.explanation())));
        let result: Option<&RawValue> = match answer {
            Answer::Result(raw) | Answer::NeedsInput(raw) | Answer::Error(raw) => Some(raw),
            Answer::Ambiguous(_) | Answer::Nothing | Answer::TooLarge(_) => None,
        };
        quarantine.keep(KeptItem {
            call: receipt.call,
            log: no_receipt.is_none().then(|| self.log_name()),
            server: self.settings.name.clone(),
            tool: judged.started.tool.clone(),
            agent: receipt.agent.clone(),
            session: receipt.session.clone(),
            started_at: receipt.started_at,
            execution_ms: receipt.execution_ms,
            mode: judged.mode.name().to_owned(),
            withheld,
            verdict: receipt.verdict,
            posterior: receipt.posterior,
            unjudged: no_receipt.map(|why| format!("no receipt could be written ({why})")).or(receipt.unjudged.clone()),
            explanation,
            findings,
            changes: judged.changes().to_vec(),
            arguments: judged.started.arguments.clone(),
            result: result.map(ToOwned::to_owned),
            omitted_bytes: None,
        });
    }
}
