//! The history: day by day, what happened, in the order in which it was written down.
//!
//! The clock stands still while a day's entries are written, so that each day is one batch of signals and one round of scores.

use credence_engine::hcs25::output_verification::Window;
use credence_pipeline::{Rejection, outcomes::NewOutcome};
use credence_protocol::{EntityId, Timestamp, Uuid};

use crate::{
    Error,
    cast::{CAST, Character, FOUND_OUT_ON, REVOKED, REVOKED_ON, STOLEN_ON, STORY_DAYS, THIEFS_FRIEND, THIEFS_VICTIMS},
    setup::STOREFRONT,
    sources::{CAREFUL, DIRECTORY, SOURCES},
    world::{REPORTS_FROM, World, character, new_key},
};

const DAY_SECONDS: i64 = 86_400;
/// Tool results that the providers see of an agent on a day.
const CALLS_A_DAY: u32 = 16;
/// The last days whose tool results the service judges too.
const JUDGED_DAYS: u32 = 14;
/// The last days on which a guard stood in front of some tools.
const GUARDED_DAYS: u32 = 3;
/// Days between two reports of a provider on an agent.
const REPORT_EVERY: u32 = 2;
/// The share of days on which someone says what came of relying on an agent.
const OUTCOMES_A_DAY: f64 = 0.6;

/// Days on which the authority probes agents itself.
const PROBED_ON: [f64; 3] = [20.0, 40.0, 58.0];

/// A day that has come.
#[derive(Clone, Copy)]
pub(crate) struct Day {
    /// Counted from 0.
    pub number: u32,
    /// Of how many.
    pub of: u32,
    /// The day of the story.
    pub story: f64,
    /// Its end: when everything of it is written down.
    pub end: Timestamp,
}

impl Day {
    /// Days of the story that pass today.
    pub fn step(self) -> f64 {
        STORY_DAYS / f64::from(self.of)
    }

    /// Whether the story passes `day` today.
    pub fn brings(self, day: f64) -> bool {
        let before = self.story - self.step();
        (before < day || self.number == 0 && day <= before) && day <= self.story
    }

    /// A moment of it: `share` of it has passed.
    pub fn at(self, share: f64) -> Timestamp {
        self.end.plus_seconds(-((1.0 - share) * DAY_SECONDS as f64) as i64)
    }

    fn is_last(self) -> bool {
        self.number + 1 == self.of
    }
}

impl World {
    /// Lives through `days` that end at `now`.
    pub(crate) fn live_through(&mut self, days: u32, now: Timestamp, lived: &mut dyn FnMut(u32)) -> Result<(), Error> {
        let mut stolen_from = 0;
        for number in 0..days {
            let left = i64::from(days - number - 1);
            let story = STORY_DAYS * f64::from(number + 1) / f64::from(days);
            let day = Day { number, of: days, story, end: now.plus_seconds(-left * DAY_SECONDS) };
            for one in CAST {
                if !self.has_joined(one.id) && one.joins <= day.story {
                    self.join(one)?;
                }
            }
            self.work(day)?;
            self.clock.advance_to(day.end);
            if day.brings(STOLEN_ON) {
                stolen_from = self.authority().ledger().committed()?;
            }
            self.measure(day)?;
            if day.brings(FOUND_OUT_ON) {
                self.find_out(stolen_from)?;
            }
            self.report(day)?;
            self.hand_in()?;
            self.talk(day)?;
            self.publish()?;
            self.record_outcomes(day)?;
            self.decide(day)?;
            self.authority().score_now()?;
            lived(number + 1);
        }
        Ok(self.authority().flush()?)
    }

    /// Agents call tools, and those who look at them judge what came back.
    fn work(&mut self, day: Day) -> Result<(), Error> {
        let judged = day.of - day.number <= JUDGED_DAYS;
        for turn in 0..CALLS_A_DAY {
            let at = day.at((f64::from(turn) + 0.5) / f64::from(CALLS_A_DAY));
            if at > self.clock.now() {
                self.clock.advance_to(at);
            }
            for one in CAST.iter().filter(|one| one.is_active(day.story)) {
                let call = self.act(one, day.story);
                let verdict = self.check(&call, at)?;
                if day.of - day.number <= GUARDED_DAYS {
                    self.receipt(&call, verdict.as_ref(), at)?;
                }
                if judged {
                    let trace = call.trace().to_string();
                    self.app.judge(&self.namespace, trace.as_bytes()).map_err(Error::Judge)?;
                }
            }
        }
        Ok(())
    }

    /// Sources measure, each in its own rhythm; a thief with the directory's key says what it likes.
    fn measure(&mut self, day: Day) -> Result<(), Error> {
        let mut signals = Vec::new();
        let stolen = (STOLEN_ON..FOUND_OUT_ON).contains(&day.story);
        for one in CAST.iter().filter(|one| one.is_active(day.story)) {
            for source in SOURCES.iter().filter(|source| one.watched_by.contains(&source.id)) {
                if stolen && source.id == DIRECTORY {
                    continue;
                }
                // Whoever is new is looked at at once.
                let next = self.looks.entry((one.id, source.id)).or_insert(day.story);
                let looks = *next <= day.story;
                if looks {
                    *next = day.story + source.every_days * (0.6 + 0.8 * self.rng.f64());
                }
                let at = day.at(0.2 + 0.75 * self.rng.f64());
                for measure in source.measures.iter().filter(|_| looks) {
                    signals.extend(self.measured(one, source, measure, day.story, at)?);
                }
            }
        }
        if stolen {
            let at = day.at(0.9);
            let said = THIEFS_VICTIMS.iter().map(|victim| (*victim, 3.0)).chain([(THIEFS_FRIEND, 100.0)]);
            for (agent, value) in said {
                for tag in ["third_party_score", "oss_popularity"] {
                    signals.push(self.signal(agent, DIRECTORY, tag, value, 0.0, at)?);
                }
            }
        }
        self.submit(signals)
    }

    /// What the thief signed stops counting, from where it began; the directory gets another key.
    fn find_out(&mut self, stolen_from: u64) -> Result<(), Error> {
        let former = self.keys[DIRECTORY].public().id();
        let reason = "the key was stolen: what it signed from there on is not the directory's word";
        self.authority().revoke_key(former, Some(stolen_from), Some(reason.to_owned()))?;
        let key = new_key(self.authority(), DIRECTORY)?;
        self.keys.insert(DIRECTORY.to_owned(), key);
        Ok(())
    }

    /// Providers report, every other day and at the end on all windows.
    fn report(&mut self, day: Day) -> Result<(), Error> {
        if day.story < REPORTS_FROM || !(day.number.is_multiple_of(REPORT_EVERY) || day.is_last()) {
            return Ok(());
        }
        let windows: &[Window] = if day.is_last() { &Window::ALL } else { &[Window::Week] };
        let (mut reports, aud) = (Vec::new(), self.authority().origin()?);
        for provider in &self.providers {
            let there = |agent: &String| character(agent).is_some_and(|one| one.is_active(day.story));
            for agent in provider.agents().into_iter().filter(there) {
                for window in windows {
                    reports.extend(provider.report(&aud, &agent, *window, day.end)?);
                }
            }
        }
        reports.into_iter().for_each(|report| self.queue(report));
        Ok(())
    }

    /// The guard hands its receipts in.
    fn hand_in(&mut self) -> Result<(), Error> {
        let (Some(batch), Some(store)) = (self.guard.batch()?, self.app.receipts()) else { return Ok(()) };
        let refused = |why: Rejection| Error::Refused { what: "receipts".to_owned(), why: why.to_string() };
        let checked = self.authority().check_receipts(batch)?.map_err(refused)?;
        self.authority().take_receipts(checked, store)?.map(drop).map_err(refused)
    }

    /// Someone relied on an agent, and says how it went: as often well as the agent is good.
    fn record_outcomes(&mut self, day: Day) -> Result<(), Error> {
        let mut outcomes = Vec::new();
        for one in CAST.iter().filter(|one| one.is_active(day.story)) {
            let (told, luck) = (self.rng.f64() < OUTCOMES_A_DAY, self.rng.f64());
            if !told || day.brings(one.joins) || day.number == 0 {
                continue;
            }
            outcomes.push(NewOutcome {
                id: Uuid::now_v7(),
                agent: EntityId::new(one.id)?,
                good: luck < one.goes_well(day.story),
                relied_at: Some(day.at(0.3)),
                reporter: EntityId::new(STOREFRONT)?,
                response: None,
            });
        }
        self.authority().record_outcomes(outcomes)?;
        Ok(())
    }

    /// What the authority itself does: it issues credentials and takes a standing back. Domains are not proved: that would need hosts
    /// that are there.
    fn decide(&mut self, day: Day) -> Result<(), Error> {
        for (on, agent) in [(45.0, "atlas-travel"), (46.0, "ledgerly"), (47.0, REVOKED)] {
            if day.brings(on) {
                self.authority().issue_credential(&self.office, &EntityId::new(agent)?, 90)?;
            }
        }
        for on in PROBED_ON {
            // Those of whom the authority tells something already.
            let probed = |one: &&Character| {
                one.silent_from.is_none() && one.is_active(day.story) && one.watched_by.contains(&CAREFUL)
            };
            for one in CAST.iter().filter(|one| day.brings(on) && probed(one)) {
                self.probe(one, day.story)?;
            }
        }
        if day.brings(REVOKED_ON) {
            let reason = "traded on quotes that no tool had given, and told its customers otherwise";
            self.authority().set_standing(EntityId::new(REVOKED)?, true, Some(reason.to_owned()))?;
        }
        Ok(())
    }
}
