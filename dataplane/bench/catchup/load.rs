//! The topics, what is written to them, and what they hold: alike for every broker.

use std::{net::SocketAddr, path::Path, time::Duration};

use millrace_bench::{
    latencies,
    producer::{ClientError, Connection},
};
use millrace_wire::{StrBytes, messages::FindCoordinatorRequest};
use rustix::fs::statvfs;

use crate::{
    arguments::Load,
    readers::Backlog,
    report::Fields,
    writers::{self, Writers},
};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const CLIENT_ID: &str = "bench-catchup";
/// What is left on the disk when everything is written.
const SPARE_BYTES: u64 = 12 << 30;
/// Profiles write for about so long.
const WRITTEN: Duration = Duration::from_secs(600);

pub(crate) fn connect(broker: SocketAddr) -> Result<Connection, String> {
    let connected = Connection::connect(broker, CLIENT_ID, PATIENCE);
    connected.map_err(|error| error.to_string())
}

impl Load {
    pub(crate) fn topic_names(&self) -> Vec<String> {
        let names = (0..self.topics).map(|n| format!("catchup-{n:03}"));
        names.collect()
    }

    /// How many records the backlog has.
    pub(crate) fn backlog_records(&self) -> u64 {
        self.backlog_send_rate as u64 * self.backlog_duration.as_secs()
    }

    pub(crate) fn backlog_bytes(&self) -> u64 {
        self.backlog_records() * self.record_bytes as u64
    }

    /// The backlog, and what all profiles write beside the readers.
    pub(crate) fn written_bytes_max(&self) -> u64 {
        let steady = self.send_rate as u64 * WRITTEN.as_secs();
        self.backlog_bytes() + steady * self.record_bytes as u64
    }

    /// Producers at the send rate.
    pub(crate) fn writers(&self, broker: SocketAddr) -> writers::Plan {
        writers::Plan {
            broker,
            topics: self.topic_names(),
            partitions_per_topic: self.partitions_per_topic,
            producers_per_topic: self.producers_per_topic,
            record_bytes: self.record_bytes,
            records_per_s: self.send_rate,
            records_max: None,
            is_first: false,
        }
    }
}

/// Fails where the disk of `folder` has no room for so much, and some more.
pub(crate) fn check_space(folder: &Path, bytes: u64) -> Result<(), String> {
    let wanted = bytes + SPARE_BYTES;
    let found = statvfs(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let free = found.f_bavail * found.f_frsize;
    if free >= wanted {
        return Ok(());
    }
    Err(format!(
        "{} has {} GiB left, {} are wanted; name another folder with --work, or less to write",
        folder.display(),
        free >> 30,
        wanted >> 30
    ))
}

/// What groups commit has a place only after somebody has asked where it is.
pub(crate) fn ask_for_coordinator(connection: &mut Connection) -> Result<(), ClientError> {
    let request = FindCoordinatorRequest::default()
        .with_coordinator_keys(vec![StrBytes::from_static_str(CLIENT_ID)]);
    connection.call(&request).map(|_| ())
}

/// What each partition of a topic holds.
pub(crate) fn find_backlog(
    connection: &mut Connection,
    topic: &str,
    partitions: usize,
) -> Result<Vec<Backlog>, String> {
    let partitions = 0..i32::try_from(partitions).unwrap_or(i32::MAX);
    let backlog = partitions.map(|partition| {
        let end = connection.end_offset(topic, partition);
        Ok(Backlog {
            topic: topic.to_owned(),
            partition,
            end: end.map_err(|error| error.to_string())?,
        })
    });
    backlog.collect()
}

/// As many records are there as were acknowledged.
pub(crate) fn check_records<'a>(
    acked: u64,
    backlogs: impl IntoIterator<Item = &'a Backlog>,
) -> Result<(), String> {
    let held: i64 = backlogs.into_iter().map(|backlog| backlog.end).sum();
    if u64::try_from(held) == Ok(acked) {
        return Ok(());
    }
    Err(format!(
        "{acked} records were acknowledged, {held} are there"
    ))
}

/// Of the records that came due within `windows`.
pub(crate) fn latencies_in(writers: &Writers, windows: &[(Duration, Duration)]) -> Fields {
    let mut shown = serde_json::Map::new();
    latencies::describe(&writers.latencies(windows), &mut shown);
    let of = |key: &'static str| Some((key, shown.get(key)?.as_f64()?));
    let keys = ["avg_ms", "p50_ms", "p99_ms", "p999_ms", "max_ms"];
    keys.into_iter().filter_map(of).collect()
}
