//! The metadata that several brokers share.

use std::{fmt, ops::RangeInclusive, time::Duration};

use super::reader::Reader;

const DATABASE: &str = "metadata.database.url";
const SESSION_TIMEOUT: &str = "broker.session.timeout.ms";
const BALANCE_INTERVAL: &str = "leader.balance.interval.ms";

/// Shorter, and a pause of the machine looks like a death. Longer than an hour, and nobody is ever replaced.
const SESSION_TIMEOUT_MS: RangeInclusive<i64> = 1_000..=3_600_000;

/// Several brokers are one cluster: they share their metadata in a PostgreSQL database.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterConfig {
    /// `metadata.database.url`, with its password.
    pub database_url: String,
    /// `broker.session.timeout.ms`: a broker that has not renewed its lease for so long is replaced.
    pub session_timeout: Duration,
    /// `leader.balance.interval.ms`: how often it is looked whether some brokers lead more partitions than others; 0 never
    /// moves any for that.
    pub balance_interval: Duration,
}

impl fmt::Debug for ClusterConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterConfig")
            .field("session_timeout", &self.session_timeout)
            .finish_non_exhaustive()
    }
}

/// `None` where the broker is alone.
pub(super) fn read_cluster(r: &mut Reader<'_>) -> Option<ClusterConfig> {
    let database_url = r.secret(DATABASE);
    let session_timeout = r.millis(SESSION_TIMEOUT, Duration::from_secs(3), SESSION_TIMEOUT_MS);
    let balance_interval = r.millis(BALANCE_INTERVAL, Duration::from_secs(30), 0..=3_600_000);
    Some(ClusterConfig {
        balance_interval,
        database_url: database_url?,
        session_timeout,
    })
}
