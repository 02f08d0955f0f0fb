//! Delegation tokens.

use super::{Inner, begin, failure};
use crate::{DelegationTokenChange, DelegationTokenRow, StoreFailure};

/// A row of `delegation_tokens`.
type Row = (String, String, String, String, i64, i64, i64);

impl Inner {
    pub(super) async fn delegation_tokens(&self) -> Result<Vec<DelegationTokenRow>, StoreFailure> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT token_id, owner, requester, renewers, issued_ms, max_ms, expires_ms
             FROM delegation_tokens ORDER BY token_id",
        )
        .fetch_all(&self.readers)
        .await?;
        let token = |(id, owner, requester, renewers, issued_ms, max_ms, expires_ms): Row| {
            let renewers = serde_json::from_str(&renewers).map_err(|error| {
                StoreFailure::Corrupt(format!("the renewers of a delegation token: {error}"))
            })?;
            Ok(DelegationTokenRow {
                id,
                owner,
                requester,
                renewers,
                issued_ms,
                max_ms,
                expires_ms,
            })
        };
        rows.into_iter().map(token).collect()
    }

    pub(super) async fn change_delegation_tokens(
        &self,
        changes: Vec<DelegationTokenChange>,
    ) -> Result<(), StoreFailure> {
        let mut writer = self.writer().await?;
        let mut tx = begin(&mut writer).await?;
        for change in changes {
            match change {
                DelegationTokenChange::Put(row) => {
                    let renewers = serde_json::to_string(&row.renewers);
                    sqlx::query(
                        "INSERT OR REPLACE INTO delegation_tokens
                             (token_id, owner, requester, renewers, issued_ms, max_ms, expires_ms)
                         VALUES ($1, $2, $3, $4, $5, $6, $7)",
                    )
                    .bind(row.id)
                    .bind(row.owner)
                    .bind(row.requester)
                    .bind(renewers.expect("a list of texts is always JSON"))
                    .bind(row.issued_ms)
                    .bind(row.max_ms)
                    .bind(row.expires_ms)
                    .execute(&mut *tx)
                    .await
                    .map_err(failure)?
                }
                DelegationTokenChange::Remove(id) => {
                    sqlx::query("DELETE FROM delegation_tokens WHERE token_id = $1")
                        .bind(id)
                        .execute(&mut *tx)
                        .await
                        .map_err(failure)?
                }
            };
        }
        self.commit(tx, |_| ()).await
    }
}
