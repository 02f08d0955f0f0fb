//! The keys that more than one module names: the file's reader, the settings that change at run time,
//! and the budgets of the broker's memory.

/// The bound of the whole broker.
pub(crate) const MEMORY_MAX: &str = "memory.max.bytes";
/// Requests and responses in flight.
pub(crate) const NETWORK: &str = "queued.max.request.bytes";
/// Consumer groups.
pub(crate) const GROUPS: &str = "group.memory.max.bytes";
/// Producers whose sequences are remembered.
pub(crate) const PRODUCERS: &str = "producer.ids.max";
/// Partitions of all topics.
pub(crate) const PARTITIONS: &str = "partitions.max";
pub(crate) const CLEANER: &str = "log.cleaner.dedupe.buffer.size";
/// The log cache.
pub(crate) const LOG_CACHE: &str = "s3.wal.cache.size";
/// How much is uploaded at once.
pub(crate) const UPLOAD_THRESHOLD: &str = "s3.wal.upload.threshold";
/// The block cache.
pub(crate) const BLOCK_CACHE: &str = "s3.block.cache.size";
/// How far one reader is served ahead.
pub(crate) const PREFETCH_MAX: &str = "s3.prefetch.max.bytes";
/// The bandwidth of each direction that has no setting of its own.
pub(crate) const BANDWIDTH: &str = "s3.network.baseline.bandwidth";
/// The bandwidth of what comes in.
pub(crate) const INGRESS: &str = "s3.network.ingress.baseline.bandwidth";
/// The bandwidth of what goes out.
pub(crate) const EGRESS: &str = "s3.network.egress.baseline.bandwidth";
