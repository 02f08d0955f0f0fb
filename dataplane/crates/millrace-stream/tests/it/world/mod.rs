//! A broker's storage that can crash: a simulated disk, a bucket that fails on demand, metadata in
//! SQLite. Disk, bucket and metadata outlive the store, as they would outlive the process.
#![allow(dead_code, reason = "each test uses its part")]

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use millrace_blockcache::{BlockCache, BlockCacheConfig};
use millrace_meta::{
    MetaStore, NewTopic,
    sqlite::{SqliteMeta, SqliteOptions},
};
use millrace_model::{NodeId, Offset, StreamId, TopicId, TopicName};
use millrace_objects::{
    ObjectStorage,
    bucket::{BucketUri, RetryPolicy, StoreBucket, TimeoutPolicy},
};
use millrace_stream::{
    AppendError, AppendTicket, CompactionConfig, Entry, Permit, RecoveredLog, Stream, StreamConfig,
    StreamParts, StreamStore,
};
use millrace_tasks::Supervisor;
use millrace_testkit::{FaultyBucket, SimDisk};
use millrace_time::{SeededRandom, SharedClock, SharedRandom, SystemClock};
use millrace_wal::{Wal, WalConfig, device::BlockDevice};
use tempfile::TempDir;
use tokio::time::timeout;

pub(crate) struct World {
    pub(crate) disk: SimDisk,
    pub(crate) bucket: FaultyBucket,
    pub(crate) meta: SqliteMeta,
    pub(crate) random: SharedRandom,
    pub(crate) clock: SharedClock,
    pub(crate) config: StreamConfig,
    pub(crate) block_cache_bytes: u64,
    /// How long the bucket may take.
    pub(crate) timeout: TimeoutPolicy,
    topics: std::sync::atomic::AtomicU32,
    folder: TempDir,
}

/// Small enough that a few kilobytes seal blocks, split objects and evict.
pub(crate) fn small() -> StreamConfig {
    StreamConfig {
        cache_bytes: 256 * 1024,
        upload_threshold_bytes: 16 * 1024,
        upload_interval: Duration::from_millis(50),
        object_block_bytes: 4 * 1024,
        stream_object_split_bytes: 8 * 1024,
        reserve_wait: Duration::from_secs(5),
        close_wait: Duration::from_secs(5),
        retry_pause_min: Duration::from_millis(1),
        retry_pause_max: Duration::from_millis(10),
        reclaim_interval: Duration::from_millis(20),
        compaction: CompactionConfig {
            interval: Duration::ZERO,
            object_bytes_max: 64 * 1024,
            set_bytes_max: 256 * 1024,
            inputs_max: 16,
            inputs_min: 2,
            copy_from_bytes: 6 * 1024,
            ..CompactionConfig::default()
        },
        ..StreamConfig::default()
    }
}

/// In memory where the machine has such a folder: these tests are not about this disk.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a folder")
}

impl World {
    pub(crate) async fn new(seed: u64, config: StreamConfig, wal_bytes: u64) -> Self {
        let folder = folder();
        let uri: BucketUri = format!("0@file://{}/bucket", folder.path().display())
            .parse()
            .expect("legal");
        let bucket = StoreBucket::open(&uri).expect("opens");
        Self::over(seed, config, wal_bytes, (folder, bucket, Duration::ZERO)).await
    }

    /// A world whose bucket is in memory, and so copies ranges by itself. What is retired stays for
    /// `retired_retention`.
    pub(crate) async fn in_memory(
        seed: u64,
        config: StreamConfig,
        wal_bytes: u64,
        retired_retention: Duration,
    ) -> Self {
        let bucket = (folder(), StoreBucket::memory(), retired_retention);
        Self {
            block_cache_bytes: 4 * 1024 * 1024,
            ..Self::over(seed, config, wal_bytes, bucket).await
        }
    }

    async fn over(
        seed: u64,
        config: StreamConfig,
        wal_bytes: u64,
        (folder, bucket, retired_retention): (TempDir, StoreBucket, Duration),
    ) -> Self {
        let (random, clock) = (SeededRandom::shared(seed), SystemClock::shared());
        let options = SqliteOptions {
            retired_retention,
            ..SqliteOptions::default()
        };
        let path = folder.path().join("meta.db");
        Self {
            disk: SimDisk::new(wal_bytes, Duration::from_micros(300), random.clone()),
            bucket: FaultyBucket::new(bucket, random.clone()),
            meta: SqliteMeta::open(&path, options, clock.clone())
                .await
                .expect("opens"),
            random,
            clock,
            config,
            block_cache_bytes: 64 * 1024,
            timeout: TimeoutPolicy::default(),
            topics: 0.into(),
            folder,
        }
    }

    /// Streams of a new topic: two per partition.
    pub(crate) async fn create_streams(&self, partitions: u32) -> (TopicName, Vec<StreamId>) {
        let n = self
            .topics
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = TopicName::new(format!("t{n}")).expect("legal");
        let id = TopicId(uuid::Uuid::from_bytes(self.random.next_bytes16()));
        let topic = NewTopic {
            name: name.clone(),
            id,
            partitions,
            configs: BTreeMap::new(),
        };
        let topic = self.meta.create_topic(topic).await.expect("created");
        (
            name,
            topic
                .partitions
                .iter()
                .flat_map(|p| [p.data, p.meta])
                .collect(),
        )
    }

    /// A place for a file of the test.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The bucket as the store uses it.
    pub(crate) fn storage(&self) -> ObjectStorage {
        let retry = RetryPolicy {
            tries: 2,
            delay_base: Duration::from_millis(1),
            delay_max: Duration::from_millis(2),
        };
        let (clock, random) = (self.clock.clone(), self.random.clone());
        ObjectStorage::over(self.bucket.clone(), retry, self.timeout, clock, random)
    }

    pub(crate) async fn open(&self) -> StreamStore {
        self.open_on(self.disk.attach()).await
    }

    pub(crate) async fn open_on(&self, device: Arc<dyn BlockDevice>) -> StreamStore {
        let config = WalConfig {
            record_bytes_max: 64 * 1024,
            chunk_bytes_max: 64 * 1024,
            reserve_wait_max: Duration::from_secs(5),
            trim_delay: Duration::from_millis(1),
            ..WalConfig::new(7)
        };
        let epoch = self.meta.register_node(NodeId(1)).await.expect("registers");
        let mut recovered = RecoveredLog::default();
        let sink = &mut |record| recovered.push(&record);
        let wal = Wal::open_with(device, config, self.clock.clone(), sink);
        let wal = wal.await.expect("recovers");
        let (clock, random) = (self.clock.clone(), self.random.clone());
        let storage = self.storage();
        let meta: Arc<dyn MetaStore> = Arc::new(self.meta.clone());
        let cache = BlockCacheConfig::new("c", self.block_cache_bytes);
        let sources = storage.clone().into();
        let block_cache = BlockCache::new(cache, sources, meta.clone(), clock.clone());
        let parts = StreamParts {
            tasks: Supervisor::new(),
            wal,
            recovered,
            background: storage.clone(),
            storage,
            meta,
            block_cache,
            clock,
            random,
            cluster_id: "c".into(),
            node: (NodeId(1), epoch),
            config: self.config.clone(),
        };
        StreamStore::open(parts).await.expect("opens")
    }
}

/// Bytes that tell where they belong: another offset, another life, another stream differ.
pub(crate) fn payload(stream: StreamId, base: Offset, life: u64, length: usize) -> Bytes {
    let mut out = Vec::with_capacity(length + 24);
    for number in [stream.get(), base, life] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    let mut state = stream.get() ^ base.rotate_left(20) ^ life.rotate_left(40);
    while out.len() < length {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        out.push((state >> 56) as u8);
    }
    out.into()
}

/// Uploads and trims make room; on a busy machine that takes longer than the worlds' short waits.
const ROOM_WITHIN: Duration = Duration::from_secs(60);

async fn reserve(stream: &Stream, bytes: usize) -> Permit {
    loop {
        match stream.reserve(bytes).await {
            Ok(permit) => return permit,
            Err(AppendError::Overloaded(_)) => {}
            Err(error) => panic!("no room: {error:?}"),
        }
    }
}

pub(crate) async fn append(
    stream: &Stream,
    count: u32,
    life: u64,
    length: usize,
) -> (Entry, AppendTicket) {
    let base_offset = stream.next_offset();
    let payload = payload(stream.id(), base_offset, life, length);
    let permit = timeout(ROOM_WITHIN, reserve(stream, payload.len()))
        .await
        .expect("there is room");
    let entry = Entry {
        base_offset,
        count,
        payload,
    };
    (entry.clone(), stream.append(permit, entry))
}

/// Reads everything that can be read, in steps, and checks that it has no gap.
pub(crate) async fn read_all(stream: &Stream, step_bytes: usize) -> Vec<Entry> {
    let (mut at, end) = (stream.start_offset(), stream.confirm_offset());
    let mut all: Vec<Entry> = Vec::new();
    while at < end {
        let found = stream.fetch(at, end, step_bytes).await.expect("readable");
        for entry in found {
            if let Some(last) = all.last() {
                assert_eq!(last.end_offset(), entry.base_offset, "no gap");
            } else {
                assert!(entry.base_offset <= at && at < entry.end_offset());
            }
            at = entry.end_offset();
            all.push(entry);
        }
    }
    all
}
