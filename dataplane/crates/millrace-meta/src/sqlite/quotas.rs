//! Client quotas.

use super::{Inner, begin, failure};
use crate::{QuotaChange, QuotaEntityRow, QuotaRow, StoreFailure};

/// A row of `client_quotas`.
type Row = (Option<String>, Option<String>, Option<String>, String, f64);

impl Inner {
    pub(super) async fn client_quotas(&self) -> Result<Vec<QuotaRow>, StoreFailure> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT user_name, client_id, ip, quota_key, quota_value
             FROM client_quotas ORDER BY user_name, client_id, ip, quota_key",
        )
        .fetch_all(&self.readers)
        .await?;
        let quota = |(user, client_id, ip, key, value): Row| QuotaRow {
            entity: QuotaEntityRow {
                user,
                client_id,
                ip,
            },
            key,
            value,
        };
        Ok(rows.into_iter().map(quota).collect())
    }

    pub(super) async fn change_client_quotas(
        &self,
        changes: Vec<QuotaChange>,
    ) -> Result<(), StoreFailure> {
        let mut writer = self.writer().await?;
        let mut tx = begin(&mut writer).await?;
        for change in changes {
            let (entity, key, value) = match change {
                QuotaChange::Put(QuotaRow { entity, key, value }) => (entity, key, Some(value)),
                QuotaChange::Remove { entity, key } => (entity, key, None),
            };
            sqlx::query(
                "DELETE FROM client_quotas
                 WHERE user_name IS $1 AND client_id IS $2 AND ip IS $3 AND quota_key = $4",
            )
            .bind(&entity.user)
            .bind(&entity.client_id)
            .bind(&entity.ip)
            .bind(&key)
            .execute(&mut *tx)
            .await
            .map_err(failure)?;
            let Some(value) = value else { continue };
            sqlx::query(
                "INSERT INTO client_quotas (user_name, client_id, ip, quota_key, quota_value)
                 VALUES ($1, $2, $3, $4, $5)",
            )
            .bind(entity.user)
            .bind(entity.client_id)
            .bind(entity.ip)
            .bind(key)
            .bind(value)
            .execute(&mut *tx)
            .await
            .map_err(failure)?;
        }
        self.commit(tx, |_| ()).await
    }
}
