//! The migrations, compiled in.
//!
//! A list by hand instead of `sqlx::migrate!`: the macro compiles SQLite once more, for the compiler.

use std::borrow::Cow;

use sqlx::{
    SqlSafeStr,
    migrate::{Migration, MigrationType, Migrator},
};

/// Version, description and text of each migration; files in `migrations/dataplane`.
const MIGRATIONS: &[(i64, &str, &str)] = &[
    (
        1,
        "broker metadata",
        include_str!("../../../../../migrations/dataplane/0001_broker_metadata.sql"),
    ),
    (
        2,
        "storage identity",
        include_str!("../../../../../migrations/dataplane/0002_storage_identity.sql"),
    ),
    (
        3,
        "scram credentials",
        include_str!("../../../../../migrations/dataplane/0003_scram_credentials.sql"),
    ),
    (
        4,
        "client quotas",
        include_str!("../../../../../migrations/dataplane/0004_client_quotas.sql"),
    ),
    (
        5,
        "acls",
        include_str!("../../../../../migrations/dataplane/0005_acls.sql"),
    ),
    (
        6,
        "delegation tokens",
        include_str!("../../../../../migrations/dataplane/0006_delegation_tokens.sql"),
    ),
    (
        7,
        "resource configs",
        include_str!("../../../../../migrations/dataplane/0007_resource_configs.sql"),
    ),
];

/// All migrations, ascending.
pub(super) fn all() -> Migrator {
    let migration = |&(version, description, sql): &(i64, &'static str, &'static str)| {
        let kind = MigrationType::Simple;
        Migration::new(
            version,
            Cow::Borrowed(description),
            kind,
            sql.into_sql_str(),
            false,
        )
    };
    Migrator::with_migrations(MIGRATIONS.iter().map(migration).collect())
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::MIGRATIONS;

    #[test]
    fn every_migration_file_is_listed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../migrations/dataplane");
        let files: BTreeSet<String> = fs::read_dir(folder)
            .expect("the folder of migrations")
            .map(|entry| entry.expect("an entry"))
            .filter(|entry| entry.path().is_file())
            .map(|entry| entry.file_name().into_string().expect("UTF-8"))
            .collect();
        let listed = MIGRATIONS.iter().map(|(version, description, _)| {
            format!("{version:04}_{}.sql", description.replace(' ', "_"))
        });
        assert_eq!(listed.collect::<BTreeSet<_>>(), files);
    }
}
