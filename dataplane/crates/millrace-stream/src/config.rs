//! Settings of the store.

use std::time::Duration;

/// Settings of a [`crate::StreamStore`].
#[derive(Debug, Clone)]
pub struct StreamConfig {
    /// `s3.wal.cache.size`: memory for entries that are not uploaded yet or were a moment ago, bytes.
    pub cache_bytes: u64,
    /// `s3.wal.upload.threshold`: a block is uploaded once it has this many bytes. A quarter of the
    /// cache is the most that takes effect, so that uploads and appends overlap.
    pub upload_threshold_bytes: u64,
    /// A block is uploaded at this age even if it is small; bounds what a restart has to replay.
    pub upload_interval: Duration,
    /// `s3.object.block.size`: size of an object's data blocks, bytes of payload.
    pub object_block_bytes: usize,
    /// `s3.stream.object.split.size`: a stream with this many bytes in a block gets an object of
    /// its own; the others share one.
    pub stream_object_split_bytes: u64,
    /// Blocks that are being uploaded at the same time. Commits are in order in any case.
    pub uploads_in_flight: usize,
    /// `s3.wal.upload.pace.percent`: uploads go at this share of the rate at which blocks filled
    /// lately, above 100 so that they are done first; `None`: as fast as they can.
    pub upload_pace_percent: Option<u64>,
    /// `s3.wal.upload.forced.percent`: the log, or what is not uploaded of the cache, being this
    /// full, uploads go as fast as they can.
    pub upload_forced_percent: u64,
    /// How long an append waits for room before it is refused as overloaded. Below the producers'
    /// usual request timeout of 30 s, so that the client hears the reason.
    pub reserve_wait: Duration,
    /// How long closing waits for the last uploads, and then for the log. What is not uploaded by
    /// then stays in the log, so there is no reason to wait long.
    pub close_wait: Duration,
    /// The first pause before a failed upload or commit is tried again.
    pub retry_pause_min: Duration,
    /// The longest such pause; each is twice the one before, and half of it is random.
    pub retry_pause_max: Duration,
    /// How often objects that nothing refers to any more are looked for and deleted.
    pub reclaim_interval: Duration,
    /// How small objects are merged into large ones.
    pub compaction: CompactionConfig,
}

/// When objects are compacted, and how far.
#[derive(Debug, Clone)]
pub struct CompactionConfig {
    /// `s3.compaction.interval.ms`: the pause between two passes; zero: there are none but those that
    /// are asked for.
    pub interval: Duration,
    /// The pause between opening the store and the first pass: a restart has its own uploads to do.
    pub cool_down: Duration,
    /// `s3.stream.object.compaction.max.size.bytes`: objects of one stream are merged up to this size.
    pub object_bytes_max: u64,
    /// `s3.stream.set.object.compaction.max.size.bytes`: stream-set objects are merged up to this size.
    pub set_bytes_max: u64,
    /// `s3.stream.set.object.compaction.max.num`: at most this many objects are merged at once.
    pub inputs_max: usize,
    /// At least this many are: with fewer, bytes would be written again and again for little.
    pub inputs_min: usize,
    /// Ranges of this size or more are copied by the store, where it can: S3 takes 5 MiB or more.
    pub copy_from_bytes: u64,
    /// Ranges of the inputs of one group: bounds the memory for what is known of them, some 250 bytes
    /// each. A group of more is made smaller.
    pub ranges_max: usize,
    /// A pass ends after so many groups of stream-set objects, and as many of streams; the next one
    /// begins a second later, since others want the metadata too.
    pub groups_per_pass_max: u64,
}

impl Default for CompactionConfig {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(300),
            cool_down: Duration::from_secs(60),
            object_bytes_max: 128 * 1024 * 1024,
            set_bytes_max: 1024 * 1024 * 1024,
            inputs_max: 64,
            inputs_min: 4,
            copy_from_bytes: 5 * 1024 * 1024,
            ranges_max: 100_000,
            groups_per_pass_max: 100,
        }
    }
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
            cache_bytes: 256 * 1024 * 1024,
            upload_threshold_bytes: 64 * 1024 * 1024,
            upload_interval: Duration::from_secs(60),
            object_block_bytes: 512 * 1024,
            stream_object_split_bytes: 8 * 1024 * 1024,
            uploads_in_flight: 4,
            upload_pace_percent: Some(125),
            // A block that fills and one that is uploaded are half of both; more is a backlog.
            upload_forced_percent: 60,
            reserve_wait: Duration::from_secs(10),
            close_wait: Duration::from_secs(5),
            retry_pause_min: Duration::from_millis(100),
            retry_pause_max: Duration::from_secs(10),
            reclaim_interval: Duration::from_secs(10),
            compaction: CompactionConfig::default(),
        }
    }
}
