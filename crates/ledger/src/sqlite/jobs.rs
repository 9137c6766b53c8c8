//! Jobs in their table. Every change runs in a unit of work of the single writer, so claims cannot overlap.

use std::time::Duration;

use credence_protocol::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};

use super::SqliteLedger;
use crate::{Claim, Job, Jobs, NewJob, Queue, Result};

const COLUMNS: &str = "key, payload, due, attempts, leased_until, last_error";
/// Due, and held by nobody.
const CLAIMABLE: &str = "queue = ?1 AND due <= ?2 AND (leased_until IS NULL OR leased_until <= ?2)";

fn job(row: &Row<'_>) -> rusqlite::Result<Job> {
    let time = |at: usize, micros: i64| {
        Timestamp::from_micros(micros).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(at, micros))
    };
    let leased_until: Option<i64> = row.get(4)?;
    Ok(Job {
        key: row.get(0)?,
        payload: row.get(1)?,
        due: time(2, row.get(2)?)?,
        attempts: row.get(3)?,
        leased_until: leased_until.map(|micros| time(4, micros)).transpose()?,
        last_error: row.get(5)?,
    })
}

pub(super) fn read(connection: &Connection, queue: Queue, key: &str) -> Result<Option<Job>> {
    let sql = format!("SELECT {COLUMNS} FROM jobs WHERE queue = ?1 AND key = ?2");
    Ok(connection.prepare_cached(&sql)?.query_row((queue.0, key), job).optional()?)
}

pub(super) fn put(connection: &Connection, jobs: &[NewJob], now: Timestamp) -> rusqlite::Result<()> {
    let sql = "INSERT INTO jobs (queue, key, due, payload, version, lease, attempts) VALUES (?1, ?2, ?3, ?4, 1, 0, 0)
        ON CONFLICT DO UPDATE SET due = excluded.due, payload = excluded.payload, version = version + 1";
    let mut statement = connection.prepare_cached(sql)?;
    for NewJob { queue, key, due, payload } in jobs {
        statement.execute((queue.0, key, due.unwrap_or(now).micros(), payload))?;
    }
    Ok(())
}

pub(super) fn take(connection: &Connection, queue: Queue, limit: usize, now: Timestamp) -> rusqlite::Result<Vec<Job>> {
    let sql = format!("SELECT {COLUMNS} FROM jobs WHERE {CLAIMABLE} ORDER BY due, key LIMIT ?3");
    let mut statement = connection.prepare_cached(&sql)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let jobs: Vec<Job> = statement.query_map((queue.0, now.micros(), limit), job)?.collect::<rusqlite::Result<_>>()?;
    let keys: Vec<&str> = jobs.iter().map(|job| job.key.as_str()).collect();
    delete(connection, queue, &keys)?;
    Ok(jobs)
}

pub(super) fn delete(connection: &Connection, queue: Queue, keys: &[&str]) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached("DELETE FROM jobs WHERE queue = ?1 AND key = ?2")?;
    keys.iter().try_for_each(|key| statement.execute((queue.0, key)).map(drop))
}

fn claim(
    connection: &Connection,
    queue: Queue,
    limit: usize,
    now: Timestamp,
    until: Timestamp,
) -> rusqlite::Result<Vec<Claim>> {
    let sql = format!(
        "UPDATE jobs SET lease = random() & 9223372036854775807, attempts = attempts + 1, leased_until = ?4
         WHERE queue = ?1 AND key IN (SELECT key FROM jobs WHERE {CLAIMABLE} ORDER BY due, key LIMIT ?3)
         RETURNING {COLUMNS}, version, lease"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let claims = statement.query_map((queue.0, now.micros(), limit, until.micros()), |row| {
        Ok(Claim { queue, job: job(row)?, version: row.get(6)?, lease: row.get(7)? })
    })?;
    let mut claims: Vec<Claim> = claims.collect::<rusqlite::Result<_>>()?;
    // RETURNING promises no order.
    claims.sort_by(|one, other| (one.job.due, &one.job.key).cmp(&(other.job.due, &other.job.key)));
    Ok(claims)
}

/// Ends every lease.
fn release_all(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute("UPDATE jobs SET leased_until = NULL WHERE leased_until IS NOT NULL", ())?;
    Ok(())
}

/// Ends a claim: the job is removed, unless it was put again meanwhile or is to be tried again.
fn release(connection: &Connection, claim: &Claim, retry: Option<(Timestamp, &str)>) -> rusqlite::Result<bool> {
    let name = (claim.queue.0, &claim.job.key, claim.lease);
    let sql = "SELECT version FROM jobs WHERE queue = ?1 AND key = ?2 AND lease = ?3 AND leased_until IS NOT NULL";
    let version: Option<u64> = connection.prepare_cached(sql)?.query_row(name, |row| row.get(0)).optional()?;
    let Some(version) = version else { return Ok(false) };
    let put_again = version != claim.version;
    match retry {
        None if !put_again => delete(connection, claim.queue, &[&claim.job.key])?,
        _ => {
            let sql =
                "UPDATE jobs SET leased_until = NULL, last_error = ?4 WHERE queue = ?1 AND key = ?2 AND lease = ?3";
            let error = retry.map(|(_, why)| why);
            connection.prepare_cached(sql)?.execute((name.0, name.1, name.2, error))?;
        }
    }
    // A job that was put again keeps the due time it was put with.
    if let Some((at, _)) = retry.filter(|_| !put_again) {
        let sql = "UPDATE jobs SET due = ?3 WHERE queue = ?1 AND key = ?2";
        connection.prepare_cached(sql)?.execute((name.0, name.1, at.micros()))?;
    }
    Ok(true)
}

impl Jobs for SqliteLedger {
    fn put(&self, jobs: &[NewJob]) -> Result<()> {
        let jobs = jobs.to_vec();
        self.writer()?.change_jobs(move |connection, now| put(connection, &jobs, now))
    }

    fn claim(&self, queue: Queue, limit: usize, lease: Duration) -> Result<Vec<Claim>> {
        self.writer()?.change_jobs(move |connection, now| claim(connection, queue, limit, now, now.plus(lease)))
    }

    fn complete(&self, claim: &Claim) -> Result<bool> {
        let claim = claim.clone();
        self.writer()?.change_jobs(move |connection, _| release(connection, &claim, None))
    }

    fn fail(&self, claim: &Claim, retry_at: Timestamp, why: &str) -> Result<bool> {
        let (claim, why) = (claim.clone(), why.to_owned());
        self.writer()?.change_jobs(move |connection, _| release(connection, &claim, Some((retry_at, &why))))
    }

    fn take_over(&self) -> Result<()> {
        self.writer()?.change_jobs(|connection, _| release_all(connection))
    }

    fn next_due(&self, queue: Queue) -> Result<Option<Timestamp>> {
        let sql = "SELECT min(max(due, coalesce(leased_until, due))) FROM jobs WHERE queue = ?1";
        let reader = self.reader()?;
        let next: Option<i64> = reader.prepare_cached(sql)?.query_row([queue.0], |row| row.get(0))?;
        Ok(next.map(Timestamp::from_micros).transpose()?)
    }
}
