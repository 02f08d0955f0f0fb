//! The shape of `/v1/status`.

use serde::Serialize;

use super::log_compaction::LogCompactionStatus;

/// What `/v1/status` answers.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Status {
    /// The program's version.
    pub(crate) version: &'static str,
    /// `starting`, `running` or `stopping`.
    pub(crate) phase: &'static str,
    /// Kafka's cluster id.
    pub(crate) cluster_id: String,
    /// `node.id`
    pub(crate) node_id: u32,
    /// Counts the starts of this node.
    pub(crate) node_epoch: u64,
    /// Milliseconds since the start.
    pub(crate) uptime_ms: u64,
    /// What clients are told, as `NAME://host:port`.
    pub(crate) listeners: Vec<String>,
    /// Topics, internal ones included.
    pub(crate) topics: usize,
    /// Partitions of those.
    pub(crate) partitions: usize,
    /// Open client connections.
    pub(crate) connections: usize,
    /// Requests whose responses have not been written.
    pub(crate) requests_in_flight: usize,
    /// The one bound on memory, and which part has how much of it.
    pub(crate) memory: MemoryStatus,
    /// The control link; `null` where `control.link.address` is not set.
    pub(crate) control_link: Option<ControlLinkStatus>,
    /// Consumer groups; `null` until clients are served.
    pub(crate) groups: Option<GroupStatus>,
    /// The storage engine; `null` until clients are served.
    pub(crate) storage: Option<StorageStatus>,
    /// Log compaction; `null` until clients are served.
    pub(crate) log_compaction: Option<LogCompactionStatus>,
    /// Why nothing is uploaded or deleted: the bucket has not been checked since the start. `null` where
    /// it has.
    pub(crate) uploads_wait_for: Option<String>,
    /// Partitions that did not open and are not served, [`LISTED_MAX`] of them at most.
    pub(crate) offline_partitions: Vec<OfflinePartition>,
    /// How many there are.
    pub(crate) offline_partitions_total: usize,
    /// Parts of objects that are not what was written, [`LISTED_MAX`] of them at most.
    pub(crate) corrupt_parts: Vec<CorruptPartStatus>,
    /// How many there are.
    pub(crate) corrupt_parts_total: usize,
}

/// Entries of one list in `/v1/status`: bounds the answer, which a worker asks for every few seconds.
pub(crate) const LISTED_MAX: usize = 100;

/// The control link in `/v1/status`.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ControlLinkStatus {
    /// `connected` or `disconnected`.
    pub(crate) state: &'static str,
    /// Since when, as RFC 3339 in UTC.
    pub(crate) since: String,
    /// `control.link.address`
    pub(crate) address: String,
    /// Why the link, or the last attempt to dial it, ended last; `null` where none has.
    pub(crate) last_error: Option<String>,
}

/// A partition that is not served, in `/v1/status`.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct OfflinePartition {
    /// Its topic.
    pub(crate) topic: String,
    /// Its index.
    pub(crate) partition: u32,
    /// `corrupt`, `gone` or `rejected`.
    pub(crate) class: &'static str,
    /// Why, for the operator.
    pub(crate) reason: String,
}

/// A corrupt part of an object, in `/v1/status`.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct CorruptPartStatus {
    /// The object's key in the bucket.
    pub(crate) object: String,
    /// `block`, `index`, `footer` or `truncated`.
    pub(crate) part: &'static str,
    /// The stream that cannot be read because of it, where that is known.
    pub(crate) stream: Option<u64>,
    /// The first offset that cannot be read.
    pub(crate) from_offset: Option<u64>,
    /// One past the last such offset.
    pub(crate) to_offset: Option<u64>,
    /// What the check found.
    pub(crate) reason: String,
}

/// The memory in `/v1/status`. All in bytes.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct MemoryStatus {
    /// What the machine, or the control group, has; `null` where that cannot be told.
    pub(crate) machine_bytes: Option<u64>,
    /// What the whole broker may have.
    pub(crate) bound_bytes: u64,
    /// The parts; their bounds sum up to `bound_bytes` at most.
    pub(crate) parts: Vec<MemoryPartStatus>,
}

/// One part of the memory.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct MemoryPartStatus {
    /// `log_cache`, `block_cache`, `network`, `groups`, `producers`, `partitions` or `work`.
    pub(crate) name: &'static str,
    /// The setting that bounds it, if one does.
    pub(crate) setting: Option<&'static str>,
    /// What it may have.
    pub(crate) bound_bytes: u64,
    /// What it has; `null` where that is not counted, or clients are not served yet.
    pub(crate) used_bytes: Option<u64>,
}

/// Consumer groups in `/v1/status`.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct GroupStatus {
    /// Groups.
    pub(crate) groups: usize,
    /// How many there may be.
    pub(crate) groups_max: usize,
    /// Their members.
    pub(crate) members: usize,
    /// Their committed offsets.
    pub(crate) committed_offsets: usize,
}

/// The storage engine in `/v1/status`. All in bytes but the last.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct StorageStatus {
    /// The write-ahead log's ring.
    pub(crate) wal_capacity_bytes: u64,
    /// What of it is needed.
    pub(crate) wal_used_bytes: u64,
    /// How long the rest lasts at the present rate, in seconds; at most a day.
    pub(crate) wal_seconds_left: f64,
    /// Entries in the log cache.
    pub(crate) log_cache_used_bytes: u64,
    /// The log cache's bound.
    pub(crate) log_cache_capacity_bytes: u64,
    /// What is not in objects yet.
    pub(crate) upload_pending_bytes: u64,
    /// Open streams.
    pub(crate) streams: u64,
}
