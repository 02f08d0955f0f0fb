//! Connecting, and what bounds every statement.

use std::time::Duration;

use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

use crate::StoreFailure;

/// What can be set.
#[derive(Debug, Clone, Copy)]
pub struct PostgresOptions {
    /// Connections of this process for changes. Leases and lookups have five more. PostgreSQL allows 100 in all unless it
    /// is told otherwise.
    pub connections_max: u32,
    /// How long a change waits for a connection, of the pool or to the database.
    pub connect_timeout: Duration,
    /// A statement that runs for longer is cancelled.
    pub statement_timeout: Duration,
    /// A statement that waits for a lock for longer is cancelled.
    pub lock_timeout: Duration,
    /// How long a retired object stays readable, by the database's clock. Must be longer than the longest read, since
    /// a reader may hold a range that it was given just before the object was retired.
    pub retired_retention: Duration,
    /// How long a broker counts as alive after it has renewed its lease, by the database's clock.
    pub lease_ttl: Duration,
}

impl Default for PostgresOptions {
    /// The retention is that of [`SqliteOptions`](crate::sqlite::SqliteOptions), for the same reason.
    fn default() -> Self {
        Self {
            connections_max: 5,
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(10),
            lock_timeout: Duration::from_secs(5),
            retired_retention: Duration::from_secs(600),
            lease_ttl: Duration::from_secs(3),
        }
    }
}

/// Why the metadata could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address cannot be read. It may hold a password, so it is not repeated here.
    #[error(
        "the address of the metadata database is not of the form postgres://user:password@host:port/database"
    )]
    Address,
    /// The tables were migrated by a newer version of this program: start that one.
    #[error("the metadata has migration {0}, which this version does not know")]
    Newer(i64),
    /// A migration failed; the tables are as they were before it.
    #[error("cannot migrate the metadata")]
    Migration(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The database cannot be reached or read.
    #[error(transparent)]
    Store(#[from] StoreFailure),
}

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// Connections for leases alone: two renew that of this broker, where one hangs; one judges those of the others. A renewal must not wait
/// behind uploads that an outage has held up.
const LEASE_CONNECTIONS: u32 = 3;

/// Connections for [`Lookups`](super::lookups::Lookups) alone.
pub(super) const LOOKUP_CONNECTIONS: u32 = 2;

/// The connections of a store, by what they are for.
#[derive(Debug)]
pub(super) struct Pools {
    pub(super) changes: PgPool,
    pub(super) leases: PgPool,
    pub(super) lookups: PgPool,
}

pub(super) async fn pools(url: &str, options: &PostgresOptions) -> Result<Pools, OpenError> {
    let of = |connections_max| PostgresOptions {
        connections_max,
        ..*options
    };
    // Statistics lag behind the table's growth, and a sequential scan reads the arrays of every object.
    let by_index = [("enable_seqscan", "off")];
    Ok(Pools {
        changes: pool(url, options, &[]).await?,
        leases: pool(url, &of(LEASE_CONNECTIONS), &[]).await?,
        lookups: pool(url, &of(LOOKUP_CONNECTIONS), &by_index).await?,
    })
}

async fn pool(
    url: &str,
    options: &PostgresOptions,
    settings: &[(&str, &str)],
) -> Result<PgPool, OpenError> {
    // The driver takes an address of any scheme for its own.
    if !SCHEMES.iter().any(|scheme| url.starts_with(scheme)) {
        return Err(OpenError::Address);
    }
    let address: PgConnectOptions = url.parse().map_err(|_| OpenError::Address)?;
    let address = address.application_name("millrace broker").options([
        ("statement_timeout", millis(options.statement_timeout)),
        ("lock_timeout", millis(options.lock_timeout)),
        // A broker that stands still must not hold locks that the others wait for when they fence it.
        (
            "idle_in_transaction_session_timeout",
            millis(options.statement_timeout.min(options.lease_ttl)),
        ),
    ]);
    let address = address.options(settings.iter().copied());
    let pool = PgPoolOptions::new()
        .max_connections(options.connections_max)
        .acquire_timeout(options.connect_timeout)
        .connect_with(address)
        .await
        .map_err(StoreFailure::from)?;
    Ok(pool)
}

fn millis(time: Duration) -> String {
    time.as_millis().to_string()
}
