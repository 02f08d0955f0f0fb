//! Frees memory: committed blocks are evicted, and payloads of others are offloaded to the log.
//!
//! The log has every payload until it is committed, so a bucket that does not answer fills the log
//! and not the memory: blocks that wait for their upload are *offloaded*, oldest first, because a
//! reader at the tail wants the newest: their payloads leave memory and stay in the log. Uploads that
//! are under way keep theirs, and together they take half of the cache at most, so an entry that fits
//! the other half beside the places of what was offloaded gets in whatever the bucket does. While
//! uploads keep up, appends wait for the next commit instead ([`super::upload::Pace::stalls_in`]).

use std::{collections::VecDeque, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::StoreInner;
use crate::cache::{Block, CachedEntry, LocatedEntry, PLACE_BYTES, Places, SealedBlock};

/// The open block is sealed to be offloaded when it, or whoever waits, has this part of the cache:
/// smaller ones would become many small objects.
const OPEN_BLOCK_PART: u64 = 8;

/// The pause before the next attempt where nothing can be offloaded and someone waits.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// The blocks whose memory can be freed.
#[derive(Default)]
pub(super) struct Evictor {
    /// Sealed blocks that are in memory and that no upload has taken, oldest first.
    offloadable: Mutex<VecDeque<Arc<SealedBlock>>>,
    /// Committed blocks, oldest first, whose entries are still readable in memory.
    evictable: Mutex<VecDeque<Arc<Block>>>,
    /// Notified when someone waits for memory that eviction alone does not free.
    room_wanted: Notify,
}

impl Evictor {
    /// A block was sealed: it may be offloaded until its upload takes it.
    pub(super) fn may_offload(&self, sealed: Arc<SealedBlock>) {
        self.offloadable.lock().push_back(sealed);
    }

    /// The upload of a block takes it.
    pub(super) fn must_not_offload(&self, sealed: &SealedBlock) {
        let is_other = |other: &Arc<SealedBlock>| other.sequence != sealed.sequence;
        self.offloadable.lock().retain(is_other);
    }

    fn oldest_offloadable(&self) -> Option<Arc<SealedBlock>> {
        loop {
            let oldest = self.offloadable.lock().pop_front()?;
            if oldest.in_hand().is_some() {
                return Some(oldest);
            }
        }
    }
}

/// Offloads payloads to the log whenever someone waits for memory. Runs until the store is dropped.
pub(super) async fn run(store: Arc<StoreInner>) {
    loop {
        store.evict.room_wanted.notified().await;
        while store.budget.wanted() > 0 {
            store.evict_wanted();
            if store.budget.wanted() == 0 {
                break;
            }
            let stalls_in = store.upload.pace.stalls_in();
            if !stalls_in.is_zero() {
                // So that there is something to commit, however little payload fills the memory.
                store.seal_for_offload(store.budget.capacity() / OPEN_BLOCK_PART);
                store.upload.commit_within(stalls_in).await;
                continue;
            }
            match store.next_to_offload() {
                Some(sealed) => {
                    // What is not durable cannot be read back.
                    sealed.durability.settled().await;
                    store.offload(&sealed);
                }
                None => tokio::time::sleep(RETRY_PAUSE).await,
            }
        }
    }
}

impl StoreInner {
    /// Frees memory for those who wait: committed blocks are evicted, oldest first; if that is not
    /// enough, payloads are offloaded. If the log is full and no block is on its way, the open one is
    /// sent.
    pub(super) fn make_room(&self) {
        self.evict_wanted();
        if self.budget.wanted() > 0 {
            self.evict.room_wanted.notify_one();
        }
        if self.log_is_wanted() {
            // No block costs so much: sealed only if no other is on its way.
            self.seal_for_offload(u64::MAX);
        }
    }

    fn evict_wanted(&self) {
        while self.budget.wanted() > 0 && self.evict_oldest() {}
    }

    /// Evicts the oldest committed block; false where there is none.
    fn evict_oldest(&self) -> bool {
        let oldest = self.evict.evictable.lock().pop_front();
        oldest.is_some_and(|block| {
            self.evict(&block);
            true
        })
    }

    fn evict(&self, block: &Block) {
        for (id, run) in &block.streams {
            let state = self.streams.read().get(id).cloned();
            if let Some(state) = state {
                state.lock().cached.evict_below(run.end());
            }
        }
    }

    /// A block is committed: objects have its entries. It stays readable in memory until its room is
    /// needed.
    pub(super) fn may_evict(&self, block: Arc<Block>) {
        if block.read_back {
            // Its places are worth nothing once the log is trimmed.
            self.evict(&block);
        } else {
            self.evict.evictable.lock().push_back(block);
        }
    }

    /// Evicts committed blocks until there is some room for the next append.
    pub(super) fn evict_to_high_mark(&self) {
        let high_mark = self.append.cache_bytes() / 10 * 9;
        while self.budget.used() > high_mark && self.evict_oldest() {}
    }

    /// The oldest block whose payloads can be offloaded.
    fn next_to_offload(&self) -> Option<Arc<SealedBlock>> {
        self.evict.oldest_offloadable().or_else(|| {
            let part = self.budget.capacity() / OPEN_BLOCK_PART;
            // A large entry may not fit beside a small block, and is not followed by many of them.
            let is_large = self.budget.first_in_line() >= Some(part);
            self.seal_for_offload(if is_large { 0 } else { part });
            self.evict.oldest_offloadable()
        })
    }

    /// Drops a block's payloads from memory, unless an upload has taken them. The log keeps them.
    fn offload(&self, sealed: &SealedBlock) {
        let Some(block) = sealed.in_hand() else {
            return;
        };
        let mut entries = Vec::new();
        for (&stream, run) in &block.streams {
            let located = |(entry, &wal)| LocatedEntry {
                stream,
                epoch: run.epoch,
                entry: CachedEntry::on_device(entry, wal),
            };
            entries.extend(run.entries.iter().zip(&run.places).map(located));
        }
        let bytes = entries.len() as u64 * PLACE_BYTES;
        let charge = Some(self.budget.take_anyway(bytes));
        if !sealed.offload(Places { entries, charge }) {
            return;
        }
        for (id, run) in &block.streams {
            let state = self.streams.read().get(id).cloned();
            if let Some(state) = state {
                state.lock().cached.offload(run.offsets());
            }
        }
        self.metrics.offloaded_bytes.increment(block.bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, pin::pin};

    use bytes::Bytes;
    use futures_util::poll;
    use millrace_blockcache::{BlockCache, BlockCacheConfig};
    use millrace_meta::{
        MetaStore, NewTopic,
        sqlite::{SqliteMeta, SqliteOptions},
    };
    use millrace_model::{NodeId, TopicId, TopicName};
    use millrace_objects::ObjectStorage;
    use millrace_tasks::Supervisor;
    use millrace_testkit::SimDisk;
    use millrace_time::{SeededRandom, SystemClock};
    use millrace_wal::{Wal, WalConfig};

    use super::*;
    use crate::{Entry, RecoveredLog, StreamConfig, StreamParts, StreamStore};

    const CACHE_BYTES: u64 = 256 * 1024;

    async fn open(meta: &SqliteMeta) -> StreamStore {
        let (random, clock) = (SeededRandom::shared(1), SystemClock::shared());
        let disk = SimDisk::new(4 << 20, Duration::from_micros(300), random.clone());
        let sink = &mut |_| ();
        let wal = Wal::open_with(disk.attach(), WalConfig::new(7), clock.clone(), sink);
        let storage = ObjectStorage::memory(clock.clone(), random.clone());
        let shared: Arc<dyn MetaStore> = Arc::new(meta.clone());
        let cache = BlockCacheConfig::new("c", 64 * 1024);
        let sources = storage.clone().into();
        let epoch = meta.register_node(NodeId(1)).await.expect("registers");
        let parts = StreamParts {
            tasks: Supervisor::new(),
            wal: wal.await.expect("opens"),
            recovered: RecoveredLog::default(),
            block_cache: BlockCache::new(cache, sources, shared.clone(), clock.clone()),
            background: storage.clone(),
            storage,
            meta: shared,
            clock,
            random,
            cluster_id: "c".into(),
            node: (NodeId(1), epoch),
            config: StreamConfig {
                cache_bytes: CACHE_BYTES,
                ..StreamConfig::default()
            },
        };
        StreamStore::open(parts).await.expect("opens")
    }

    /// What was committed since an append began to wait is enough for it; nothing is offloaded.
    #[tokio::test]
    async fn nothing_is_offloaded_where_eviction_was_enough() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("meta.db");
        let meta = SqliteMeta::open(&path, SqliteOptions::default(), SystemClock::shared());
        let meta = meta.await.expect("opens");
        let topic = NewTopic {
            name: TopicName::new("t").expect("legal"),
            id: TopicId(uuid::Uuid::from_u128(1)),
            partitions: 1,
            configs: BTreeMap::new(),
        };
        let topic = meta.create_topic(topic).await.expect("created");
        let store = open(&meta).await;
        let stream = store.open_stream(topic.partitions[0].data).await;
        let stream = stream.expect("opens");
        // Large enough that the open block may be offloaded.
        let payload = Bytes::from(vec![1; (CACHE_BYTES / OPEN_BLOCK_PART) as usize]);
        let permit = stream.reserve(payload.len()).await.expect("room");
        let entry = Entry {
            base_offset: 0,
            count: 1,
            payload,
        };
        stream.append(permit, entry).await.expect("durable");
        let inner = &store.inner;
        while !inner.upload.pace.stalls_in().is_zero() {
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        let rest = CACHE_BYTES - inner.budget.used();
        let committed = Block::read_back(0, inner.budget.take_anyway(rest));
        let mut waiter = pin!(stream.reserve(1_000));
        assert!(poll!(waiter.as_mut()).is_pending(), "the cache is full");
        // Committed before the task that makes room has run.
        inner.evict.evictable.lock().push_back(Arc::new(committed));
        waiter.await.expect("room");
        assert!(
            stream.fetch_cached(0, 1, 1).is_some(),
            "the entry has left memory"
        );
    }
}
