//! Settings of the cache.

use millrace_objects::ObjectStorage;
use millrace_tasks::Supervisor;

/// How far one reader may prefetch by default, in bytes: 32 MiB keep a store of 100 ms busy at
/// 320 MB/s for a single reader.
const PREFETCH_MAX_BYTES: u64 = 32 * 1024 * 1024;

/// What can be set.
#[derive(Debug, Clone)]
pub struct BlockCacheConfig {
    /// The cluster, whose id is part of the objects' names.
    pub cluster: String,
    /// The memory for data blocks and object indexes, in bytes (`s3.block.cache.size`).
    pub bytes: u64,
    /// How far one reader may prefetch, in bytes (`s3.prefetch.max.bytes`); 0 for not at all.
    pub prefetch_max_bytes: u64,
    /// Which blocks go first (`s3.block.cache.eviction`).
    pub eviction: Eviction,
    /// Supervises the cache's tasks; one of its own by default.
    pub tasks: Supervisor,
}

impl BlockCacheConfig {
    /// A cache of `bytes` for the objects of `cluster`, everything else as by default.
    #[must_use]
    pub fn new(cluster: impl Into<String>, bytes: u64) -> Self {
        Self {
            cluster: cluster.into(),
            bytes,
            prefetch_max_bytes: PREFETCH_MAX_BYTES,
            eviction: Eviction::default(),
            tasks: Supervisor::new(),
        }
    }
}

/// Which blocks go first when room is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Eviction {
    /// A block goes when its last reader has read it; before that only under pressure.
    #[default]
    Watch,
    /// Evicts the least recently used block, even if a reader is about to need it. For comparison only.
    Lru,
}

/// The bucket, as the two uses of this crate see it.
#[derive(Debug, Clone)]
pub struct Sources {
    /// For blocks and indexes that a reader waits for.
    pub miss: ObjectStorage,
    /// For blocks that a reader will want.
    pub prefetch: ObjectStorage,
}

impl From<ObjectStorage> for Sources {
    /// Both uses draw on the same share of the network.
    fn from(storage: ObjectStorage) -> Self {
        Self {
            miss: storage.clone(),
            prefetch: storage,
        }
    }
}
