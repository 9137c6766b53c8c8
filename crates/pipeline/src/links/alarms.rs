//! Answers of another form than a source file requires, one row for each question that got one. So a source that changed for some of the
//! agents stays visible while it answers well about others, and one agent's bad document is one agent's.

use std::{collections::BTreeMap, ops::ControlFlow};

use credence_ledger::{Scan, Transaction, View};
use credence_protocol::{EntityId, ExternalSubject, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{Result, tables};

/// An answer that somebody has to look at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AlarmRow {
    /// Why, for counting.
    pub reason: String,
    /// Why, in our words.
    pub why: String,
    /// Since when.
    pub since: Timestamp,
}

/// The alarms of a source for one reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alarm {
    /// Since when.
    pub since: Timestamp,
    /// Why, in our words: of the newest.
    pub why: String,
    /// The agents whose answers are so.
    pub agents: u64,
}

fn place(source: &EntityId, agent: &EntityId, link: &ExternalSubject) -> String {
    format!("{source}/{agent}/{link}")
}

/// Raises the alarm of a question, or ends it.
pub(super) fn set(
    tx: &mut dyn Transaction,
    (source, agent, link): (&EntityId, &EntityId, &ExternalSubject),
    alarm: Option<(&str, &str)>,
    now: Timestamp,
) -> Result<()> {
    let key = place(source, agent, link);
    let former: Option<AlarmRow> = tables::get(tx, tables::CRAWL_ALARMS, &key)?;
    match (alarm, former) {
        (None, None) => Ok(()),
        (None, Some(_)) => Ok(tx.delete(tables::CRAWL_ALARMS, &key)?),
        (Some((reason, why)), former) => {
            let since = former.filter(|row| row.reason == reason).map_or(now, |row| row.since);
            let row = AlarmRow { reason: reason.to_owned(), why: why.to_owned(), since };
            Ok(tables::put(tx, tables::CRAWL_ALARMS, &key, &row)?)
        }
    }
}

/// The alarms of a source, by reason.
pub(super) fn of(view: &(impl View + ?Sized), source: &str) -> Result<BTreeMap<String, Alarm>> {
    let (mut alarms, mut newest, mut last) =
        (BTreeMap::<String, Alarm>::new(), BTreeMap::new(), (String::new(), String::new()));
    let prefix = format!("{source}/");
    tables::scan(view, tables::CRAWL_ALARMS, Scan::prefix(&prefix), |key, row: AlarmRow| {
        let AlarmRow { reason, why, since } = row;
        let agent = key[prefix.len()..].split('/').next().unwrap_or_default().to_owned();
        let alarm = alarms.entry(reason.clone()).or_insert_with(|| Alarm { since, why: why.clone(), agents: 0 });
        let this = (reason.clone(), agent);
        // Keys are in the order of agents.
        alarm.agents += u64::from(this != last);
        last = this;
        alarm.since = alarm.since.min(since);
        let of_newest = newest.entry(reason).or_insert(since);
        if since >= *of_newest {
            (*of_newest, alarm.why) = (since, why);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(alarms)
}
