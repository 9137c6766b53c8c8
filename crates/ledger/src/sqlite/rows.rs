//! Writes to the projections' tables.

use rusqlite::Connection;

use super::connection::sql_name;
use crate::RowChange;

/// Writes and removes rows, in order.
pub(super) fn change(connection: &Connection, changes: &[RowChange<'_>]) -> rusqlite::Result<()> {
    for RowChange { table, key, value } in changes {
        let name = sql_name(*table);
        match value {
            Some(value) => {
                let sql =
                    format!("INSERT INTO {name} VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value");
                connection.prepare_cached(&sql)?.execute((key, value))?;
            }
            None => {
                connection.prepare_cached(&format!("DELETE FROM {name} WHERE key = ?1"))?.execute([key])?;
            }
        }
    }
    Ok(())
}
