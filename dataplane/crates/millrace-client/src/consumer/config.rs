//! The settings of a consumer.

use std::time::Duration;

use super::{assignor::Assignor, gate::DecompressionGate};

const MIB: usize = 1024 * 1024;

/// The settings of a [`Consumer`](crate::Consumer). Names and defaults are those of Kafka's Java
/// client where it has them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConsumerConfig {
    /// `group.id`: the group that offsets are committed for, and that `subscribe` joins. None.
    pub group_id: Option<String>,
    /// `group.instance.id`: makes the member static (KIP-345): it keeps its partitions over a
    /// restart that is shorter than `session_timeout`. None.
    pub group_instance_id: Option<String>,
    /// `fetch.min.bytes`: a broker waits until it has so many. 1.
    pub fetch_min_bytes: i32,
    /// `fetch.max.wait.ms`: but not longer than this. 500 ms.
    pub fetch_max_wait: Duration,
    /// `fetch.max.bytes`: the most bytes of one response. 50 MiB.
    pub fetch_max_bytes: usize,
    /// `max.partition.fetch.bytes`: the most bytes of one partition in one response. 1 MiB.
    pub max_partition_fetch_bytes: usize,
    /// The most bytes of records that are fetched and not yet delivered, in all partitions
    /// together. A batch that is larger than its partition's part of this is fetched alone. A
    /// compressed batch counts with its decompressed records from when its first one is delivered
    /// until its last one is; readers may exceed the bound by one such batch each, of at most 64 MiB.
    /// 64 MiB.
    pub prefetch_bytes: usize,
    /// The same for one partition. Where there are many, each may use an equal part of
    /// `prefetch_bytes`, so that none can take another's. 4 MiB.
    pub prefetch_partition_bytes: usize,
    /// For how long fetching goes on for a reader that does not ask for records. After that its
    /// partitions leave the fetch requests until it asks again. 500 ms.
    pub prefetch_idle: Duration,
    /// Where several consumers share little memory: a gate that batches with more decompressed records
    /// than an ordinary one have to pass, one after the other. A reader of such a batch waits for its
    /// turn. None: all readers decompress at once.
    pub decompression_gate: Option<DecompressionGate>,
    /// `auto.offset.reset`: where to begin without a committed offset, and where to go on when the
    /// offset is not in the log. Latest.
    pub auto_offset_reset: OffsetReset,
    /// `isolation.level`: whether records of open and aborted transactions are delivered.
    /// Uncommitted.
    pub isolation_level: IsolationLevel,
    /// `check.crcs`: whether batches are checked against their checksum. True.
    pub check_crcs: bool,
    /// `enable.auto.commit`, and what it follows. When asked.
    pub auto_commit: AutoCommit,
    /// `auto.commit.interval.ms`: 5 s.
    pub auto_commit_interval: Duration,
    /// The most records of one partition that are delivered and not yet reported as processed,
    /// with [`AutoCommit::WhenProcessed`]; at the bound the partition waits. 10,000.
    pub unprocessed_records_max: usize,
    /// For how long a rebalance, or closing, waits for records that are delivered and not yet
    /// reported as processed, with [`AutoCommit::WhenProcessed`]. After that another member gets
    /// them again. 1 s.
    pub revocation_wait: Duration,
    /// `session.timeout.ms`: a member that is silent for so long loses its partitions. 45 s.
    pub session_timeout: Duration,
    /// `heartbeat.interval.ms`: 3 s.
    pub heartbeat_interval: Duration,
    /// How long the group waits for its members in a rebalance; `max.poll.interval.ms` gives it in
    /// Java. 5 min.
    pub rebalance_timeout: Duration,
    /// `partition.assignment.strategy`: assignors of the classic protocol in the order of
    /// preference. Range and cooperative sticky, so that a group can move from one to the other.
    pub assignors: Vec<Assignor>,
    /// `group.protocol`: how members share partitions. Classic.
    pub group_protocol: GroupProtocol,
    /// `group.remote.assignor`: the coordinator's assignor, with [`GroupProtocol::Consumer`]. None,
    /// which is the coordinator's own choice.
    pub group_remote_assignor: Option<String>,
}

impl Default for ConsumerConfig {
    fn default() -> Self {
        Self {
            group_id: None,
            group_instance_id: None,
            fetch_min_bytes: 1,
            fetch_max_wait: Duration::from_millis(500),
            fetch_max_bytes: 50 * MIB,
            max_partition_fetch_bytes: MIB,
            prefetch_bytes: 64 * MIB,
            prefetch_partition_bytes: 4 * MIB,
            prefetch_idle: Duration::from_millis(500),
            decompression_gate: None,
            auto_offset_reset: OffsetReset::Latest,
            isolation_level: IsolationLevel::ReadUncommitted,
            check_crcs: true,
            auto_commit: AutoCommit::WhenAsked,
            auto_commit_interval: Duration::from_secs(5),
            unprocessed_records_max: 10_000,
            revocation_wait: Duration::from_secs(1),
            session_timeout: Duration::from_secs(45),
            heartbeat_interval: Duration::from_secs(3),
            rebalance_timeout: Duration::from_mins(5),
            assignors: vec![Assignor::Range, Assignor::CooperativeSticky],
            group_protocol: GroupProtocol::Classic,
            group_remote_assignor: None,
        }
    }
}

impl ConsumerConfig {
    /// The defaults, as a member of a group.
    #[must_use]
    pub fn in_group(group_id: &str) -> Self {
        Self {
            group_id: Some(group_id.to_owned()),
            ..Self::default()
        }
    }
}

/// How the members of a group share partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupProtocol {
    /// Members rejoin at each rebalance, and one of them assigns, with
    /// [`ConsumerConfig::assignors`].
    Classic,
    /// The coordinator assigns, and members that lose nothing are not disturbed (KIP-848; Apache
    /// Kafka 4.0 and later). Where the coordinator does not offer that, as
    /// [`Classic`](Self::Classic). The coordinator sets the interval of heartbeats and the session
    /// time-out; [`ConsumerConfig::session_timeout`] is after how long without an answer this member
    /// takes its partitions for lost.
    Consumer,
}

/// Where to begin, or to go on, when no offset says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OffsetReset {
    /// At the first record that the log still has.
    Earliest,
    /// Behind the last record.
    Latest,
    /// At the first record that is not older than this (KIP-1106).
    ByDuration(Duration),
    /// Nowhere: it is an error, and the caller seeks.
    None,
}

/// What is delivered of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IsolationLevel {
    /// Everything.
    ReadUncommitted,
    /// What is committed, up to the first transaction that is open.
    ReadCommitted,
}

impl IsolationLevel {
    pub(super) fn code(self) -> i8 {
        match self {
            Self::ReadUncommitted => 0,
            Self::ReadCommitted => 1,
        }
    }
}

/// What commits follow. Each is at least once: a record is committed only after it was processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AutoCommit {
    /// Nothing: the caller commits.
    Off,
    /// Asking for the next record says that the one before is processed, as in Java's poll loop.
    /// Right for a caller that finishes one record (or batch) before it asks for the next.
    WhenAsked,
    /// [`Consumer::processed`](crate::Consumer::processed) says what is processed, in any order;
    /// commits follow the first record that is not. Right for concurrent processing.
    WhenProcessed,
}
