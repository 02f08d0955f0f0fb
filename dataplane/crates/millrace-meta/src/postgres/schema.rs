//! The tables.

use std::borrow::Cow;

use sqlx::{
    PgPool, SqlSafeStr,
    migrate::{MigrateError, Migration, MigrationType, Migrator},
};

use super::OpenError;

/// Version, description and text of each migration; files in `migrations/dataplane/postgres`.
const MIGRATIONS: &[(i64, &str, &str)] = &[
    (
        1,
        "broker metadata",
        include_str!("../../../../../migrations/dataplane/postgres/0001_broker_metadata.sql"),
    ),
    (
        2,
        "brokers",
        include_str!("../../../../../migrations/dataplane/postgres/0002_brokers.sql"),
    ),
    (
        3,
        "log ids and draining",
        include_str!("../../../../../migrations/dataplane/postgres/0003_log_ids_and_draining.sql"),
    ),
    (
        4,
        "events",
        include_str!("../../../../../migrations/dataplane/postgres/0004_events.sql"),
    ),
    (
        5,
        "preferred leaders",
        include_str!("../../../../../migrations/dataplane/postgres/0005_preferred_leaders.sql"),
    ),
    (
        6,
        "broker secret",
        include_str!("../../../../../migrations/dataplane/postgres/0006_broker_secret.sql"),
    ),
    (
        7,
        "broker loads",
        include_str!("../../../../../migrations/dataplane/postgres/0007_broker_loads.sql"),
    ),
    (
        8,
        "lookups",
        include_str!("../../../../../migrations/dataplane/postgres/0008_lookups.sql"),
    ),
    (
        9,
        "resource configs",
        include_str!("../../../../../migrations/dataplane/postgres/0009_resource_configs.sql"),
    ),
];

/// Brings the tables up to date. The migrator holds an advisory lock, so that of many brokers one does it.
pub(super) async fn migrate(pool: &PgPool) -> Result<(), OpenError> {
    let migration = |&(version, description, sql): &(i64, &'static str, &'static str)| {
        let kind = MigrationType::Simple;
        let description = Cow::Borrowed(description);
        Migration::new(version, description, kind, sql.into_sql_str(), false)
    };
    let migrations = Migrator::with_migrations(MIGRATIONS.iter().map(migration).collect());
    migrations.run(pool).await.map_err(|error| match error {
        MigrateError::VersionMissing(version) => OpenError::Newer(version),
        error => OpenError::Migration(Box::new(error)),
    })
}
