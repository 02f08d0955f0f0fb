//! Access control lists.

use sqlx::{Sqlite, query::Query, sqlite::SqliteArguments};

use super::{Inner, begin, failure, number::from_sql};
use crate::{AclRow, StoreFailure};

/// A row of `acls`.
type Row = (i64, String, i64, String, String, i64, i64);

const INSERT: &str = "INSERT INTO acls
    (resource_type, resource_name, pattern_type, principal, host, operation, permission)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT DO NOTHING";
const DELETE: &str = "DELETE FROM acls
    WHERE resource_type = $1 AND resource_name = $2 AND pattern_type = $3 AND principal = $4
      AND host = $5 AND operation = $6 AND permission = $7";

impl Inner {
    pub(super) async fn acls(&self) -> Result<Vec<AclRow>, StoreFailure> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT resource_type, resource_name, pattern_type, principal, host, operation, permission
             FROM acls",
        )
        .fetch_all(&self.readers)
        .await?;
        let rule = |row: Row| {
            let (
                resource_type,
                resource_name,
                pattern_type,
                principal,
                host,
                operation,
                permission,
            ) = row;
            Ok(AclRow {
                resource_type: from_sql(resource_type)?,
                resource_name,
                pattern_type: from_sql(pattern_type)?,
                principal,
                host,
                operation: from_sql(operation)?,
                permission: from_sql(permission)?,
            })
        };
        rows.into_iter().map(rule).collect()
    }

    pub(super) async fn change_acls(
        &self,
        added: Vec<AclRow>,
        removed: Vec<AclRow>,
    ) -> Result<(), StoreFailure> {
        let mut writer = self.writer().await?;
        let mut tx = begin(&mut writer).await?;
        let added = added.into_iter().map(|row| (INSERT, row));
        let removed = removed.into_iter().map(|row| (DELETE, row));
        for (sql, row) in added.chain(removed) {
            let done = bound(sql, row).execute(&mut *tx).await;
            done.map_err(failure)?;
        }
        self.commit(tx, |_| ()).await
    }
}

fn bound(sql: &'static str, row: AclRow) -> Query<'static, Sqlite, SqliteArguments> {
    sqlx::query(sql)
        .bind(i64::from(row.resource_type))
        .bind(row.resource_name)
        .bind(i64::from(row.pattern_type))
        .bind(row.principal)
        .bind(row.host)
        .bind(i64::from(row.operation))
        .bind(i64::from(row.permission))
}
