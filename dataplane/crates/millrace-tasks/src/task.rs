//! The names of all supervised tasks.

use std::{fmt, str::FromStr};

/// Declares the tasks once: variant, name, and the list of all.
macro_rules! tasks {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// A supervised task. Several tasks may run under one name, such as one per partition.
        ///
        /// The list is closed, so that a test can make each of them fail.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Task {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Task {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The name in logs, in `/readyz` and in `test.panic.task`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

tasks! {
    /// Serves the admin HTTP.
    AdminHttp = "admin-http",
    /// Sends waiting block requests to the bucket.
    BlockCacheDispatch = "block-cache-dispatch",
    /// Forgets idle readers of the block cache.
    BlockCacheSweep = "block-cache-sweep",
    /// Grows the block cache after the log cache has shrunk.
    CacheResize = "cache-resize",
    /// Checks and claims a bucket that was silent at startup.
    BucketCheck = "bucket-check",
    /// Measures how far each consumer group is behind.
    CatchUpTracker = "catch-up-tracker",
    /// Reads the certificates of listeners again when their files change.
    CertificateReload = "certificate-reload",
    /// Merges small objects.
    Compaction = "compaction",
    /// Dials the control plane's gateway and serves the admin HTTP to it.
    ControlLink = "control-link",
    /// Follows which logs of consumer groups this broker leads, and reads them.
    GroupLoad = "group-load",
    /// Removes expired consumer groups and offsets.
    GroupSweep = "group-sweep",
    /// Writes the state of one partition of consumer groups.
    GroupWriter = "group-writer",
    /// Grants bandwidth to those who wait for it.
    LimiterGrant = "limiter-grant",
    /// Leaves cached payloads to the log where memory is short.
    LogCacheEviction = "log-cache-eviction",
    /// Writes checkpoints of partitions.
    LogCheckpoint = "log-checkpoint",
    /// Drops records of compacted topics that later ones replace.
    LogCompaction = "log-compaction",
    /// Measures the sizes of partitions.
    LogMeasure = "log-measure",
    /// Deletes records beyond their retention.
    LogRetention = "log-retention",
    /// Trims the log once the metadata is backed up.
    LogTrim = "log-trim",
    /// Backs the metadata up to the bucket.
    MetadataBackup = "metadata-backup",
    /// Accepts connections of one listener.
    NetAccept = "net-accept",
    /// Closes idle connections.
    NetSweep = "net-sweep",
    /// Deletes objects that nothing refers to.
    ObjectDeletion = "object-deletion",
    /// Opens partitions whose lead this broker was given.
    LedPartitionOpening = "led-partition-opening",
    /// Moves partitions to other brokers.
    PartitionMove = "partition-move",
    /// Tells the other brokers what this one has to do.
    LoadReport = "load-report",
    /// Releases streams of partitions that other brokers lead.
    StreamRelease = "stream-release",
    /// Renews the lease of this broker.
    LeaseRenewal = "lease-renewal",
    /// Fences brokers whose lease has run out, and takes over their logs.
    Failover = "failover",
    /// Reads what other brokers have changed in the metadata.
    MetadataFeed = "metadata-feed",
    /// Changes access control lists, client quotas, credentials and delegation tokens.
    SecurityChanges = "security-changes",
    /// Has the states of a share group's partitions initialized or deleted.
    ShareStates = "share-states",
    /// Acknowledges the appends of one stream.
    StreamAcknowledge = "stream-acknowledge",
    /// Opens partitions once the bucket answers that was down at startup.
    PartitionReopening = "partition-reopening",
    /// Follows which logs of share partitions this broker leads, and reads them.
    ShareStateLoad = "share-state-load",
    /// Removes the state of share partitions whose topics are gone.
    ShareStateSweep = "share-state-sweep",
    /// Writes the state of one partition of share partitions.
    ShareStateWriter = "share-state-writer",
    /// Seals blocks that are due, and samples gauges.
    StreamTick = "stream-tick",
    /// Folds metric samples into their buckets.
    TelemetryFold = "telemetry-fold",
    /// Fires timeouts.
    Timers = "timers",
    /// Fetches the keys that tokens are signed with.
    TokenKeys = "token-keys",
    /// Creates, grows and deletes topics.
    TopicChanges = "topic-changes",
    /// Opens new partitions once the metadata is backed up.
    TopicOpening = "topic-opening",
    /// Writes the markers that end transactions.
    TransactionEnd = "transaction-end",
    /// Follows which logs of transactions this broker leads, and reads them.
    TransactionLoad = "transaction-load",
    /// Forgets unused transactional ids.
    TransactionSweep = "transaction-sweep",
    /// Writes the state of one partition of transactions.
    TransactionWriter = "transaction-writer",
    /// Uploads and commits blocks.
    Upload = "upload",
    /// Sets the pace of uploads.
    UploadPace = "upload-pace",
    /// Collects what the write-ahead log's io_uring has completed.
    WalCompletions = "wal-completions",
    /// A thread of the write-ahead log's device, where io_uring is not used.
    WalIo = "wal-io",
    /// Starts writes that the pacer held back.
    WalPacing = "wal-pacing",
    /// The thread that slows the device down, for measurements only.
    WalShape = "wal-shape",
    /// Writes trims of the write-ahead log.
    WalTrim = "wal-trim",
    /// Watches for a failure of the write-ahead log's device.
    WalWatch = "wal-watch",
    /// Enlarges the write-ahead log's window.
    WalWindow = "wal-window",
    /// Writes chunks of the write-ahead log.
    WalWrite = "wal-write",
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No task has this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownTask(pub String);

impl fmt::Display for UnknownTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Task::ALL.iter().map(|task| task.name()).collect();
        let (unknown, names) = (&self.0, names.join(", "));
        write!(f, "there is no task {unknown:?}; the tasks are {names}")
    }
}

impl std::error::Error for UnknownTask {}

impl FromStr for Task {
    type Err = UnknownTask;

    fn from_str(text: &str) -> Result<Self, UnknownTask> {
        let found = Self::ALL.iter().find(|task| task.name() == text);
        found.copied().ok_or_else(|| UnknownTask(text.to_owned()))
    }
}
