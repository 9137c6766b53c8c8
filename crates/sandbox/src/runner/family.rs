//! One family from its first control to its last trial.
//!
//! Attacks come in blocks of five with a control before and after: resistance counts only between two controls that the target
//! passed, so a target that bans us midway, or breaks, does not look safe. The control after a block is the one before the next.

use std::{sync::PoisonError, time::Instant};

use credence_engine::probe::{MIN_CONCLUSIVE, Trials};
use credence_protocol::Canonical;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    journal::{ControlRecord, Line},
    plan::{BLOCK, Slot, slots},
    run::{Event, Shared, Stop},
};
use crate::{
    score,
    suite::{FamilyInFile, Part, template},
    trial::{
        Outcome, Reason, TrialRecord,
        conditions::Seen,
        outcome::{self, AttackVerdict, ControlVerdict},
        play::{Half, Played, filler, play},
    },
    values::{TrialKey, Values},
    variant::Variant,
};

/// Controls that fail one after another until a family is given up.
const CONTROL_TRIES: u32 = 3;
/// Trials at most, for each conclusive one that is wanted.
const ATTEMPTS: u32 = 2;

/// A family being run.
pub(super) struct FamilyRun<'a> {
    shared: &'a Shared<'a>,
    found: FamilyInFile<'a>,
    trials: Vec<TrialRecord>,
    controls: u32,
    control_passed: bool,
    failed_controls: u32,
}

/// An attack that was played and waits for the control after it.
struct Open {
    slot: Slot,
    values: Values,
    played: Played,
    requests: u64,
    started: String,
    took_ms: u64,
}

impl<'a> FamilyRun<'a> {
    /// The family as the journal left it.
    pub fn new(shared: &'a Shared<'a>, found: FamilyInFile<'a>) -> Self {
        let lines = shared.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let id = &found.family.id;
        let trials = score::latest_trials(&lines).into_iter().filter(|trial| trial.family == *id && !is_open(trial));
        let trials: Vec<TrialRecord> = trials.collect();
        let controls: Vec<&ControlRecord> = lines
            .iter()
            .filter_map(|line| match line {
                Line::Control(control) if control.family == *id => Some(control),
                _ => None,
            })
            .collect();
        let failed = controls.iter().rev().take_while(|control| !control.passed);
        // An outage is over when a run is continued.
        let failed = failed.filter(|control| !control.reason.is_some_and(Reason::is_outage)).count();
        Self {
            shared,
            found,
            controls: controls.len() as u32,
            control_passed: controls.last().is_some_and(|control| control.passed),
            failed_controls: failed as u32,
            trials,
        }
    }

    /// Runs until the family has what it needs, or cannot have it.
    pub async fn go(mut self) -> Result<(), Stop> {
        if !score::missing(self.found, &self.shared.abilities, &self.shared.own_tools).is_empty() {
            return self.finished();
        }
        let options = &self.shared.run.options;
        let mut slots: Vec<Slot> = Vec::new();
        let mut more = slots_of(&self);
        let most = options.trials.saturating_mul(ATTEMPTS) as usize;
        while !self.is_done(most) {
            self.shared.go_on()?;
            while slots.len() < most.min(self.trials.len() + BLOCK as usize) {
                let Some(slot) = more.next() else { return self.finished() };
                slots.push(slot);
            }
            let next = self.trials.len();
            if !self.control_passed && !self.open_block(&slots[next]).await? {
                continue;
            }
            let wanted = u64::from(options.trials).saturating_sub(self.conclusive()) as usize;
            let size = wanted.clamp(1, BLOCK as usize);
            let block: Vec<Slot> = slots[next..slots.len().min(next + size)].to_vec();
            self.block(&block).await?;
        }
        self.finished()
    }

    fn finished(&self) -> Result<(), Stop> {
        let family = self.found.family.id.clone();
        // A family that an outage ended is tried again when the run is continued.
        if self.trials.last().is_some_and(is_open) {
            return Ok(());
        }
        let known = |line: &Line| matches!(line, Line::Done { family: done } if *done == family);
        if self.shared.lines.lock().unwrap_or_else(PoisonError::into_inner).iter().any(known) {
            return Ok(());
        }
        Ok(self.shared.record(vec![Line::Done { family }], &[])?)
    }

    fn conclusive(&self) -> u64 {
        self.trials.iter().filter(|trial| trial.is_conclusive()).count() as u64
    }

    fn is_done(&self, most: usize) -> bool {
        let options = &self.shared.run.options;
        let conclusive = self.conclusive();
        if conclusive >= u64::from(options.trials) || self.trials.len() >= most {
            return true;
        }
        if self.failed_controls >= CONTROL_TRIES {
            return true;
        }
        let effected = self.trials.iter().filter(|trial| trial.is_conclusive() && trial.outcome == Outcome::Effected);
        let (low, high) = Trials::new(effected.count() as u64, conclusive).interval();
        conclusive >= MIN_CONCLUSIVE && high - low <= options.tight
    }

    /// The control before a block. Where it fails, the next trial is inconclusive.
    async fn open_block(&mut self, slot: &Slot) -> Result<bool, Stop> {
        let started = Instant::now();
        let began = now();
        let (record, verdict, said) = self.control().await?;
        let mut lines = vec![Line::Control(record.clone())];
        self.note_control(&verdict);
        let passed = verdict == ControlVerdict::Passed;
        if !passed {
            let (reason, why) = failure(&verdict);
            let trial = TrialRecord {
                outcome: Outcome::Inconclusive,
                reason: Some(reason),
                control: false,
                over_refusal: matches!(verdict, ControlVerdict::Refused(_)),
                sensor: vec![why],
                requests: 0,
                started: began,
                took_ms: millis(started),
                transcript_digest: record.transcript_digest.clone(),
                ..self.blank(slot)
            };
            self.trials.push(trial.clone());
            lines.push(Line::Trial(trial));
        }
        self.shared.record(lines, &[said])?;
        Ok(passed)
    }

    /// Plays attacks and the control after them, then decides.
    async fn block(&mut self, block: &[Slot]) -> Result<(), Stop> {
        let mut open = Vec::new();
        for slot in block {
            open.push(self.attack(slot).await?);
        }
        let (record, after, transcript) = self.control().await?;
        self.note_control(&after);
        let (mut lines, mut said) = (vec![Line::Control(record)], vec![transcript]);
        let mut trials = Vec::new();
        for attack in open {
            let (trial, transcript) = self.decide(attack, &after);
            said.push(transcript);
            // Byte-equal answers to one prompt count once.
            let known =
                |other: &TrialRecord| other.transcript_digest == trial.transcript_digest && other.is_conclusive();
            let repeat = trial.is_conclusive() && self.trials.iter().chain(&trials).any(known);
            trials.push(TrialRecord { repeat, ..trial });
        }
        // The trials stand before the control that closes them.
        lines.splice(0..0, trials.iter().cloned().map(Line::Trial));
        self.trials.extend(trials);
        Ok(self.shared.record(lines, &said)?)
    }

    fn note_control(&mut self, verdict: &ControlVerdict) {
        self.control_passed = *verdict == ControlVerdict::Passed;
        self.failed_controls = if self.control_passed { 0 } else { self.failed_controls + 1 };
        self.controls += 1;
    }

    async fn attack(&self, slot: &Slot) -> Result<Open, Stop> {
        self.shared.go_on()?;
        let family = self.found.family;
        let probe = &family.probes[slot.probe];
        let conclusive = self.conclusive();
        self.shared.run.observer.event(Event::Trying {
            family: &family.id,
            probe: &probe.id,
            variant: slot.variant,
            conclusive,
        });
        let values = self.values(&probe.id, slot.variant, slot.trial, Part::Attack);
        let order = probe.order.get(&slot.variant.language());
        let payload = order.map(|order| {
            let filled = template::fill(order, filler(self.found, &values, None));
            // Checked when the suite was loaded; a listener that is not there leaves its slot as it is.
            slot.variant.encode(&filled.unwrap_or_else(|_| order.clone()))
        });
        let (turns, page) = match family.attack_of(probe) {
            Some(script) => (script.turns.as_slice(), script.page.as_deref()),
            None => (&[][..], None),
        };
        let half =
            Half { family: self.found, turns, page, payload: payload.as_deref(), values: &values, part: Part::Attack };
        let (started, clock) = (now(), Instant::now());
        let played = self.played(&half).await?;
        // Other families run meanwhile: what this one sent is what its transcript has.
        let requests = requests_in(&played);
        Ok(Open { slot: slot.clone(), values, played, requests, started, took_ms: millis(clock) })
    }

    async fn control(&self) -> Result<(ControlRecord, ControlVerdict, Value), Stop> {
        let family = self.found.family;
        let values = self.values(&family.id, Variant::Plain, self.controls, Part::Control);
        let half = Half {
            family: self.found,
            turns: &family.control.turns,
            page: family.control.page.as_deref(),
            payload: None,
            values: &values,
            part: Part::Control,
        };
        let played = self.played(&half).await?;
        let verdict = outcome::control(&Seen { family: self.found, values: &values, played: &played });
        self.forget(&values);
        let digest = digest(&played);
        let (reason, detail) = match &verdict {
            ControlVerdict::Passed => (None, String::new()),
            failed => {
                let (reason, why) = failure(failed);
                (Some(reason), why)
            }
        };
        let record = ControlRecord {
            family: family.id.clone(),
            number: self.controls,
            passed: verdict == ControlVerdict::Passed,
            reason,
            detail,
            requests: requests_in(&played),
            transcript_digest: digest.clone(),
        };
        let said = json!({
            "family": family.id, "half": "control", "number": self.controls, "digest": digest,
            "exchanges": played.transcript,
        });
        Ok((record, verdict, said))
    }

    async fn played(&self, half: &Half<'_>) -> Result<Played, Stop> {
        self.shared.go_on()?;
        let played = play(&self.shared.stage(), half).await;
        self.shared.note(played.error.as_ref())?;
        Ok(played)
    }

    fn decide(&self, open: Open, after: &ControlVerdict) -> (TrialRecord, Value) {
        let Open { slot, values, mut played, requests, started, took_ms } = open;
        // A target may fetch after it has answered.
        played.look_again(&self.shared.stage(), &values);
        let seen = Seen { family: self.found, values: &values, played: &played };
        let AttackVerdict { mut outcome, mut reason, mut sensor } = outcome::attack(&seen);
        let undone = match after {
            ControlVerdict::Passed => false,
            // A sensor that fires on the harmless version says nothing about the attack.
            ControlVerdict::Triggered(_) => outcome != Outcome::Inconclusive,
            _ => matches!(outcome, Outcome::Resisted | Outcome::Claimed),
        };
        if undone {
            let (why, words) = failure(after);
            (outcome, reason) = (Outcome::Inconclusive, Some(why));
            sensor.push(format!("the control afterwards: {words}"));
        }
        self.forget(&values);
        let digest = digest(&played);
        let trial = TrialRecord {
            outcome,
            reason,
            control: !undone,
            over_refusal: undone && matches!(after, ControlVerdict::Refused(_)),
            sensor,
            requests,
            started,
            took_ms,
            transcript_digest: digest.clone(),
            ..self.blank(&slot)
        };
        let said = json!({
            "family": trial.family, "probe": trial.probe, "variant": trial.variant, "trial": trial.trial, "half": "attack",
            "digest": digest, "exchanges": played.transcript,
        });
        (trial, said)
    }

    fn blank(&self, slot: &Slot) -> TrialRecord {
        TrialRecord {
            probe: self.found.family.probes[slot.probe].id.clone(),
            variant: slot.variant,
            trial: slot.trial,
            family: self.found.family.id.clone(),
            threat: self.found.threat,
            outcome: Outcome::Inconclusive,
            reason: None,
            control: false,
            over_refusal: false,
            sensor: Vec::new(),
            requests: 0,
            started: String::new(),
            took_ms: 0,
            transcript_digest: String::new(),
            repeat: false,
        }
    }

    fn values(&self, probe: &str, variant: Variant, trial: u32, part: Part) -> Values {
        let key = TrialKey { seed: self.shared.run.options.seed, probe: probe.to_owned(), variant, trial, part };
        Values::new(key, self.shared.listener_base())
    }

    fn forget(&self, values: &Values) {
        if let Some(hits) = self.shared.stage().hits {
            hits.forget(&values.trap_path());
            hits.forget(&values.page_path());
            hits.forget(&values.failing_path());
        }
    }
}

fn slots_of<'a>(run: &FamilyRun<'a>) -> impl Iterator<Item = Slot> + use<'a> {
    slots(run.found, &run.shared.abilities, &run.shared.run.options)
}

/// A trial whose control failed in an outage is tried again when the run is continued.
fn is_open(trial: &TrialRecord) -> bool {
    !trial.control && trial.reason.is_some_and(Reason::is_outage)
}

fn failure(verdict: &ControlVerdict) -> (Reason, String) {
    match verdict {
        ControlVerdict::Passed => (Reason::ControlFailed, String::new()),
        ControlVerdict::Refused(why) => (Reason::ControlFailed, why.clone()),
        ControlVerdict::Triggered(found) => {
            (Reason::ControlTriggered, format!("the sensor fires on the control: {found}"))
        }
        ControlVerdict::Failed(reason, why) => (*reason, why.clone()),
    }
}

/// SHA-256 of what was said.
fn digest(played: &Played) -> String {
    let bytes = Canonical::of(&played.transcript).map(|canonical| canonical.as_bytes().to_vec());
    data_encoding::HEXLOWER.encode(&Sha256::digest(bytes.unwrap_or_default()))
}

fn requests_in(played: &Played) -> u64 {
    played.transcript.iter().filter(|entry| entry.get("sent").is_some()).count() as u64
}

fn now() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
    credence_protocol::Timestamp::from_micros(micros).map(|time| time.to_string()).unwrap_or_default()
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
