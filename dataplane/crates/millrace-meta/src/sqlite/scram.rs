//! Credentials of users.

use super::{
    Inner, begin, failure,
    number::{from_sql, to_sql},
};
use crate::{ScramChange, ScramRow, StoreFailure};

/// A row of `scram_credentials`.
type Row = (String, i64, i64, Vec<u8>, Vec<u8>, Vec<u8>);

impl Inner {
    pub(super) async fn scram_credentials(&self) -> Result<Vec<ScramRow>, StoreFailure> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT user_name, mechanism, iterations, salt, stored_key, server_key
             FROM scram_credentials ORDER BY user_name, mechanism",
        )
        .fetch_all(&self.readers)
        .await?;
        let credential = |(user, mechanism, iterations, salt, stored_key, server_key): Row| {
            Ok(ScramRow {
                user,
                mechanism: from_sql(mechanism)?,
                iterations: from_sql(iterations)?,
                salt,
                stored_key,
                server_key,
            })
        };
        rows.into_iter().map(credential).collect()
    }

    pub(super) async fn change_scram_credentials(
        &self,
        changes: Vec<ScramChange>,
    ) -> Result<(), StoreFailure> {
        let mut writer = self.writer().await?;
        let mut tx = begin(&mut writer).await?;
        for change in changes {
            match change {
                ScramChange::Put(row) => sqlx::query(
                    "INSERT OR REPLACE INTO scram_credentials
                         (user_name, mechanism, iterations, salt, stored_key, server_key)
                     VALUES ($1, $2, $3, $4, $5, $6)",
                )
                .bind(row.user)
                .bind(i64::from(row.mechanism))
                .bind(to_sql(u64::from(row.iterations))?)
                .bind(row.salt)
                .bind(row.stored_key)
                .bind(row.server_key)
                .execute(&mut *tx)
                .await
                .map_err(failure)?,
                ScramChange::Remove { user, mechanism } => sqlx::query(
                    "DELETE FROM scram_credentials WHERE user_name = $1 AND mechanism = $2",
                )
                .bind(user)
                .bind(i64::from(mechanism))
                .execute(&mut *tx)
                .await
                .map_err(failure)?,
            };
        }
        self.commit(tx, |_| ()).await
    }
}
