//! Configurations of groups and of subscriptions to client metrics.

use super::{Inner, begin, failure};
use crate::{ResourceConfigChange, ResourceConfigRow, StoreFailure, number::from_sql};

/// A row of `resource_configs`.
type Row = (i64, String, String, String);

impl Inner {
    pub(super) async fn resource_configs(&self) -> Result<Vec<ResourceConfigRow>, StoreFailure> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT resource_type, resource_name, config_name, config_value
             FROM resource_configs ORDER BY resource_type, resource_name, config_name",
        )
        .fetch_all(&self.readers)
        .await?;
        let config = |(resource_type, resource_name, name, value): Row| {
            Ok(ResourceConfigRow {
                resource_type: from_sql(resource_type)?,
                resource_name,
                name,
                value,
            })
        };
        rows.into_iter().map(config).collect()
    }

    pub(super) async fn change_resource_configs(
        &self,
        changes: Vec<ResourceConfigChange>,
    ) -> Result<(), StoreFailure> {
        let mut writer = self.writer().await?;
        let mut tx = begin(&mut writer).await?;
        for change in changes {
            let statement = match change {
                ResourceConfigChange::Put(row) => sqlx::query(
                    "INSERT INTO resource_configs
                       (resource_type, resource_name, config_name, config_value)
                     VALUES ($1, $2, $3, $4)
                     ON CONFLICT (resource_type, resource_name, config_name)
                     DO UPDATE SET config_value = excluded.config_value",
                )
                .bind(i64::from(row.resource_type))
                .bind(row.resource_name)
                .bind(row.name)
                .bind(row.value),
                ResourceConfigChange::Remove {
                    resource_type,
                    resource_name,
                    name,
                } => sqlx::query(
                    "DELETE FROM resource_configs
                     WHERE resource_type = $1 AND resource_name = $2 AND config_name = $3",
                )
                .bind(i64::from(resource_type))
                .bind(resource_name)
                .bind(name),
            };
            statement.execute(&mut *tx).await.map_err(failure)?;
        }
        self.commit(tx, |_| ()).await
    }
}
