//! The private database: `reports.db` beside the ledger, of mode 0600. It holds the text of drafts, which is nobody else's business,
//! and of reports that were published.
//!
//! Its constraints say what the types say: a row begins as a draft, its contents never change, it is approved and published by
//! tokens other than the one that drafted it, and it is not published without an approval of just its contents. Code that goes round
//! them with a file editor changes nothing that is public: a row counts as far as the ledger says the same.

use std::{
    fs::OpenOptions,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use credence_pipeline::reports::{ReportAction, ReportRow, ReportState, TokenHolder};
use credence_protocol::{EntityId, Uuid};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use crate::{Error, Result, states::Sheet};

/// "CRER", in the database header.
const APPLICATION_ID: i64 = 0x4352_4552;
const FORMAT: i64 = 1;
const BUSY: Duration = Duration::from_secs(10);

const SCHEMA: &str = "
    CREATE TABLE reports (
        id TEXT PRIMARY KEY,
        agent TEXT NOT NULL,
        contents TEXT NOT NULL,
        digest TEXT NOT NULL CHECK (length(digest) = 64),
        drafter TEXT NOT NULL CHECK (length(drafter) > 0),
        drafter_token TEXT NOT NULL CHECK (length(drafter_token) > 0),
        drafted_at INTEGER NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('draft', 'approved', 'rejected', 'published', 'withdrawn')),
        approver TEXT CHECK (approver <> drafter),
        approver_token TEXT CHECK (approver_token <> drafter_token),
        approved_digest TEXT,
        approval INTEGER,
        document TEXT,
        publisher TEXT CHECK (publisher <> drafter),
        publisher_token TEXT CHECK (publisher_token <> drafter_token),
        publication INTEGER,
        CONSTRAINT approved_by_another CHECK (state IN ('draft', 'rejected') OR (
            approver IS NOT NULL AND approver_token IS NOT NULL AND approval IS NOT NULL AND approved_digest IS digest)),
        CONSTRAINT published_by_another CHECK (state NOT IN ('published', 'withdrawn') OR (
            document IS NOT NULL AND publisher IS NOT NULL AND publisher_token IS NOT NULL AND ifnull(publication > approval, 0)))
    ) STRICT;
    CREATE INDEX reports_by_state ON reports (state, drafter);
    CREATE TRIGGER reports_begin_as_drafts BEFORE INSERT ON reports
        WHEN NEW.state <> 'draft' OR coalesce(NEW.approver, NEW.approver_token, NEW.approved_digest, NEW.approval,
            NEW.document, NEW.publisher, NEW.publisher_token, NEW.publication) IS NOT NULL
        BEGIN SELECT RAISE(ABORT, 'a report begins as a draft'); END;
    CREATE TRIGGER drafts_never_change BEFORE UPDATE OF id, agent, contents, digest, drafter, drafter_token, drafted_at ON reports
        BEGIN SELECT RAISE(ABORT, 'a draft is never changed: draft it again'); END;
    CREATE TRIGGER reports_go_one_way BEFORE UPDATE OF state ON reports
        WHEN OLD.state || '>' || NEW.state NOT IN ('draft>approved', 'draft>rejected', 'approved>approved', 'approved>rejected',
            'approved>published', 'published>withdrawn')
        BEGIN SELECT RAISE(ABORT, 'only an approved report can be published'); END;
    CREATE TRIGGER approvals_stay BEFORE UPDATE OF approver, approver_token, approved_digest, approval ON reports
        WHEN OLD.state NOT IN ('draft', 'approved')
        BEGIN SELECT RAISE(ABORT, 'what was decided stays'); END;
    CREATE TRIGGER documents_follow_approvals BEFORE UPDATE OF document, publisher, publisher_token, publication ON reports
        WHEN OLD.state <> 'approved'
        BEGIN SELECT RAISE(ABORT, 'only an approved report can be published'); END;
    CREATE TRIGGER decided_reports_stay BEFORE DELETE ON reports WHEN OLD.state NOT IN ('draft', 'rejected')
        BEGIN SELECT RAISE(ABORT, 'what was decided stays'); END;
";

const COLUMNS: &str = "id, agent, contents, digest, drafter, drafter_token, state, document";

/// Where a row says that a report stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredState {
    /// Nobody decided.
    Draft,
    /// Approved.
    Approved,
    /// Rejected.
    Rejected,
    /// Published.
    Published,
    /// Withdrawn.
    Withdrawn,
}

impl StoredState {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Draft, "draft"),
        (Self::Approved, "approved"),
        (Self::Rejected, "rejected"),
        (Self::Published, "published"),
        (Self::Withdrawn, "withdrawn"),
    ];

    /// What the ledger says, as a row has it.
    pub(crate) fn of(state: ReportState) -> Self {
        match state {
            ReportState::Approved => Self::Approved,
            ReportState::Rejected => Self::Rejected,
            ReportState::Published => Self::Published,
            ReportState::Withdrawn => Self::Withdrawn,
        }
    }
}

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// Which report.
    pub id: Uuid,
    /// About whom.
    pub agent: String,
    /// Canonical JSON.
    pub contents: String,
    /// Their digest.
    pub digest: String,
    /// Who drafted it.
    pub drafter: TokenHolder,
    /// Where it stands.
    pub state: StoredState,
    /// The signed document.
    pub document: Option<String>,
}

/// The database's file, whether or not it exists yet.
#[derive(Debug, Clone)]
pub struct Store(PathBuf);

impl Store {
    /// In the authority's folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self(folder.join("reports.db"))
    }

    fn failed(&self, why: impl ToString) -> Error {
        Error::Database { place: self.0.display().to_string(), why: why.to_string() }
    }

    fn open(&self) -> Result<Connection> {
        let opened = (|| {
            // Without SQLITE_OPEN_CREATE: a file that others may read is never made here.
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = Connection::open_with_flags(&self.0, flags)?;
            connection.busy_timeout(BUSY)?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            // A draft that the operator deletes is gone.
            connection.pragma_update(None, "secure_delete", true)?;
            Ok(connection)
        })();
        opened.map_err(|e: rusqlite::Error| self.failed(e))
    }

    fn check_ours(&self, connection: &Connection) -> Result<()> {
        let number = |name: &str| connection.pragma_query_value::<i64, _>(None, name, |row| row.get(0));
        let found = (|| Ok((number("application_id")?, number("user_version")?)))();
        match found.map_err(|e: rusqlite::Error| self.failed(e))? {
            (APPLICATION_ID, FORMAT) => Ok(()),
            (APPLICATION_ID, format) => {
                Err(self.failed(format!("it has format {format}, this program knows {FORMAT}: use another program")))
            }
            _ => Err(self.failed("it is a database of another program")),
        }
    }

    /// The database, if there is one.
    fn existing(&self) -> Result<Option<Connection>> {
        if !self.0.exists() {
            return Ok(None);
        }
        let connection = self.open()?;
        self.check_ours(&connection)?;
        Ok(Some(connection))
    }

    /// The database, made if there is none.
    fn made(&self) -> Result<Connection> {
        if let Some(connection) = self.existing_with_schema()? {
            return Ok(connection);
        }
        // Not for others from the first byte on; SQLite gives its journal the same mode.
        let made = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&self.0);
        made.map_err(|e| self.failed(e))?;
        let mut connection = self.open()?;
        let created = (|| {
            let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            // Somebody else may have made it in the meantime.
            if tx.pragma_query_value::<i64, _>(None, "user_version", |row| row.get(0))? == 0 {
                tx.execute_batch(SCHEMA)?;
                tx.pragma_update(None, "application_id", APPLICATION_ID)?;
                tx.pragma_update(None, "user_version", FORMAT)?;
            }
            tx.commit()
        })();
        created.map_err(|e| self.failed(e))?;
        self.check_ours(&connection)?;
        Ok(connection)
    }

    /// An empty file is one whose maker was killed.
    fn existing_with_schema(&self) -> Result<Option<Connection>> {
        let empty = std::fs::metadata(&self.0).is_ok_and(|meta| meta.len() == 0);
        if empty { Ok(None) } else { self.existing() }
    }

    /// Keeps a new draft, unless its drafter has `limit` that wait.
    pub(crate) fn add(&self, sheet: &Sheet, limit: u64) -> Result<()> {
        let (drafter, contents) = (sheet.drafted_by(), sheet.canonical()?);
        let mut connection = self.made()?;
        let added = (|| {
            let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let waiting: u64 = tx.query_row(
                "SELECT count(*) FROM reports WHERE state = 'draft' AND drafter = ?1",
                [drafter.name.as_str()],
                |row| row.get(0),
            )?;
            if waiting >= limit {
                return Ok(false);
            }
            tx.execute(
                "INSERT INTO reports (id, agent, contents, digest, drafter, drafter_token, drafted_at, state)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'draft')",
                params![
                    sheet.report().to_string(),
                    sheet.agent().as_str(),
                    contents.as_str(),
                    sheet.digest(),
                    drafter.name.as_str(),
                    drafter.token,
                    sheet.drafted_at().micros()
                ],
            )?;
            tx.commit()?;
            Ok(true)
        })();
        match added.map_err(|e: rusqlite::Error| self.failed(e))? {
            true => Ok(()),
            false => Err(Error::TooManyDrafts { name: drafter.name.clone(), limit }),
        }
    }

    /// One row.
    pub(crate) fn find(&self, id: Uuid) -> Result<Option<Stored>> {
        let Some(connection) = self.existing_with_schema()? else { return Ok(None) };
        find(&connection, id).map_err(|e| self.failed(e))
    }

    /// Rows that are not public, newest first: of one drafter where one is named, and about one agent.
    pub(crate) fn private(
        &self,
        drafter: Option<&TokenHolder>,
        agent: Option<&EntityId>,
        limit: usize,
    ) -> Result<Vec<Stored>> {
        let Some(connection) = self.existing_with_schema()? else { return Ok(Vec::new()) };
        let listed = (|| {
            let sql = format!(
                "SELECT {COLUMNS} FROM reports WHERE state IN ('draft', 'approved', 'rejected')
                 AND (?2 IS NULL OR drafter = ?2 OR drafter_token = ?3) AND (?4 IS NULL OR agent = ?4)
                 ORDER BY drafted_at DESC, id LIMIT ?1"
            );
            let mut statement = connection.prepare(&sql)?;
            let (name, token) = (drafter.map(|one| one.name.as_str()), drafter.map(|one| &one.token));
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let rows = statement.query_map(params![limit, name, token, agent.map(EntityId::as_str)], stored)?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        })();
        listed.map_err(|e| self.failed(e))
    }

    /// Runs a decision about one report while nobody else decides: other threads and processes wait.
    pub(crate) fn deciding<T>(&self, id: Uuid, decide: impl FnOnce(Stored, &Deciding<'_>) -> Result<T>) -> Result<T> {
        let Some(mut connection) = self.existing_with_schema()? else { return Err(Error::Unknown(id)) };
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(|e| self.failed(e))?;
        let stored = find(&tx, id).map_err(|e| self.failed(e))?.ok_or(Error::Unknown(id))?;
        let decided = decide(stored, &Deciding { tx: &tx, store: self })?;
        tx.commit().map_err(|e| self.failed(e))?;
        Ok(decided)
    }
}

fn find(connection: &Connection, id: Uuid) -> rusqlite::Result<Option<Stored>> {
    let sql = format!("SELECT {COLUMNS} FROM reports WHERE id = ?1");
    connection.query_row(&sql, [id.to_string()], stored).optional()
}

fn stored(row: &Row<'_>) -> rusqlite::Result<Stored> {
    let wrong = |column: usize, why: String| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, why.into())
    };
    let text = |column: usize| row.get::<_, String>(column);
    let state = text(6)?;
    let known = StoredState::ALL.iter().find(|(_, name)| *name == state).map(|(state, _)| *state);
    Ok(Stored {
        id: text(0)?.parse().map_err(|_| wrong(0, "no id of a report".to_owned()))?,
        agent: text(1)?,
        contents: text(2)?,
        digest: text(3)?,
        drafter: TokenHolder { name: EntityId::new(&text(4)?).map_err(|e| wrong(4, e.to_string()))?, token: text(5)? },
        state: known.ok_or_else(|| wrong(6, format!("'{state:.20}' is no state of a report")))?,
        document: row.get(7)?,
    })
}

/// A row while its report is decided about.
pub(crate) struct Deciding<'a> {
    tx: &'a Transaction<'a>,
    store: &'a Store,
}

impl Deciding<'_> {
    fn run(&self, sql: &str, values: impl rusqlite::Params) -> Result<()> {
        self.tx.execute(sql, values).map(drop).map_err(|e| self.store.failed(e))
    }

    /// Keeps the document that is about to be published: it must outlive a crash after its entry is written.
    pub(crate) fn keep_document(&self, id: Uuid, document: &str) -> Result<()> {
        self.run("UPDATE reports SET document = ?2 WHERE id = ?1", params![id.to_string(), document])
    }

    /// Brings the row to where the ledger says that its report stands; gives that.
    pub(crate) fn follow(&self, id: Uuid, from: StoredState, row: &ReportRow) -> Result<StoredState> {
        let id = id.to_string();
        let approval = row.newest(ReportAction::Approved);
        if let (Some(event), StoredState::Draft | StoredState::Approved) = (approval, from) {
            self.run(
                "UPDATE reports SET state = 'approved', approver = ?2, approver_token = ?3, approved_digest = ?4, approval = ?5
                 WHERE id = ?1",
                params![id, event.by.name.as_str(), event.by.token, row.digest, event.seq],
            )?;
        }
        if row.state == ReportState::Rejected && from != StoredState::Rejected {
            self.run("UPDATE reports SET state = 'rejected' WHERE id = ?1", [&id])?;
        }
        let is_public = matches!(from, StoredState::Published | StoredState::Withdrawn);
        if let (Some(event), false) = (row.newest(ReportAction::Published), is_public) {
            self.run(
                "UPDATE reports SET state = 'published', publisher = ?2, publisher_token = ?3, publication = ?4 WHERE id = ?1",
                params![id, event.by.name.as_str(), event.by.token, event.seq],
            )?;
        }
        if row.state == ReportState::Withdrawn && from != StoredState::Withdrawn {
            self.run("UPDATE reports SET state = 'withdrawn' WHERE id = ?1", [&id])?;
        }
        Ok(StoredState::of(row.state))
    }
}
