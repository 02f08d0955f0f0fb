//! Memory is short: committed blocks are evicted, and payloads of others are left to the log.
//!
//! The log has every payload until it is committed, so a bucket that does not answer fills the log
//! and not the memory: blocks that wait for their upload are *spilled*, oldest first, because a
//! reader at the tail wants the newest. Uploads that are under way keep theirs, and together they
//! take half of the cache at most, so an entry that fits the other half beside the places of what was
//! spilled gets in whatever the bucket does. While uploads keep up, appends wait for the next commit
//! instead ([`crate::upload::Pace::stalls_in`]).

use std::{sync::Arc, time::Duration};

use super::StoreInner;
use crate::cache::{Block, CachedEntry, LocatedEntry, PLACE_BYTES, Places, SealedBlock};

/// The open block is sealed to be spilled when it, or whoever waits, has this part of the cache:
/// smaller ones would become many small objects.
const OPEN_BLOCK_PART: u64 = 8;

/// The pause before looking again where nothing can be spilled and someone waits.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Leaves payloads to the log whenever someone waits for memory, for ever.
pub(super) async fn run(store: Arc<StoreInner>) {
    loop {
        store.room_wanted.notified().await;
        while store.budget.wanted() > 0 {
            store.evict_wanted();
            if store.budget.wanted() == 0 {
                break;
            }
            let stalls_in = store.pace.stalls_in();
            if !stalls_in.is_zero() {
                // So that there is something to commit, however little payload fills the memory.
                store.seal_to_spill(store.budget.capacity() / OPEN_BLOCK_PART);
                store.commit_within(stalls_in).await;
                continue;
            }
            match store.next_to_spill() {
                Some(sealed) => {
                    // What is not durable cannot be read back.
                    sealed.durability.settled().await;
                    store.spill(&sealed);
                }
                None => tokio::time::sleep(LOOK_AGAIN).await,
            }
        }
    }
}

impl StoreInner {
    /// Frees memory for those who wait: committed blocks are evicted, oldest first; if that is not
    /// enough, payloads are left to the log. If the log is full and no block is on its way, the
    /// open one is sent.
    pub(crate) fn make_room(&self) {
        self.evict_wanted();
        if self.budget.wanted() > 0 {
            self.room_wanted.notify_one();
        }
        if self.log_is_wanted() {
            let mut open = self.open_block.lock();
            if *self.committed.borrow() == open.sequence {
                self.seal(&mut open);
            }
        }
    }

    /// Waits for the next commit, but not longer than `within`.
    async fn commit_within(&self, within: Duration) {
        let mut committed = self.committed.subscribe();
        // Either way the caller looks again.
        let _ = tokio::time::timeout(within, committed.changed()).await;
    }

    fn evict_wanted(&self) {
        while self.budget.wanted() > 0 && self.evict_oldest() {}
    }

    /// Evicts the oldest committed block; false where there is none.
    fn evict_oldest(&self) -> bool {
        let oldest = self.evictable.lock().pop_front();
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

    /// Takes a committed block over: it can be read from objects now. Evicts down to the high mark.
    pub(crate) fn committed(&self, sealed: &SealedBlock, block: Arc<Block>) {
        if block.read_back {
            // Its places are worth nothing once the log is trimmed.
            self.evict(&block);
        } else {
            self.evictable.lock().push_back(block);
        }
        self.wal.trim(sealed.wal_end);
        self.committed.send_replace(sealed.sequence + 1);
        self.pace.committed();
        self.shrink_if_due();
        self.evict_to_high_mark();
        self.make_room();
    }

    /// Evicts committed blocks until there is some room for the next append.
    pub(super) fn evict_to_high_mark(&self) {
        let high_mark = self.sizes.cache_bytes() / 10 * 9;
        while self.budget.used() > high_mark && self.evict_oldest() {}
    }

    /// The oldest block whose payloads can be left to the log.
    fn next_to_spill(&self) -> Option<Arc<SealedBlock>> {
        self.oldest_in_memory().or_else(|| {
            let part = self.budget.capacity() / OPEN_BLOCK_PART;
            // A large entry may not fit beside a small block, and is not followed by many of them.
            let is_large = self.budget.first_in_line() >= part;
            self.seal_to_spill(if is_large { 0 } else { part });
            self.oldest_in_memory()
        })
    }

    fn oldest_in_memory(&self) -> Option<Arc<SealedBlock>> {
        loop {
            let oldest = self.waiting.lock().pop_front()?;
            if oldest.in_hand().is_some() {
                return Some(oldest);
            }
        }
    }

    /// Seals the open block if it costs `cost_min` bytes, or if no other is on its way.
    fn seal_to_spill(&self, cost_min: u64) {
        let mut open = self.open_block.lock();
        if open.charged_bytes() >= cost_min || *self.committed.borrow() == open.sequence {
            self.seal(&mut open);
        }
    }

    /// Leaves a block's payloads to the log, unless an upload has taken them.
    fn spill(&self, sealed: &SealedBlock) {
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
        let charge = Some(self.budget.charge_anyway(bytes));
        if !sealed.spill(Places { entries, charge }) {
            return;
        }
        for (id, run) in &block.streams {
            let state = self.streams.read().get(id).cloned();
            if let Some(state) = state {
                state.lock().cached.spill(run.offsets());
            }
        }
        self.measures.spilled_bytes.increment(block.bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, pin::pin};

    use bytes::Bytes;
    use futures_util::poll;
    use millrace_blockcache::{BlockCache, BlockCacheConfig};
    use millrace_meta::{MetaStore, NewTopic, SqliteMeta, SqliteOptions};
    use millrace_model::{NodeId, TopicId, TopicName};
    use millrace_objects::ObjectStorage;
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

    /// What was committed since somebody began to wait is enough for him; nothing is left to the
    /// log beside it.
    #[tokio::test]
    async fn nothing_is_spilled_where_eviction_was_enough() {
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
        // Large enough that the open block may be spilled.
        let payload = Bytes::from(vec![1; (CACHE_BYTES / OPEN_BLOCK_PART) as usize]);
        let permit = stream.reserve(payload.len()).await.expect("room");
        let entry = Entry {
            base_offset: 0,
            count: 1,
            payload,
        };
        stream.append(permit, entry).await.expect("durable");
        let inner = &store.inner;
        while !inner.pace.stalls_in().is_zero() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        let rest = CACHE_BYTES - inner.budget.used();
        let committed = Block::read_back(0, inner.budget.charge_anyway(rest));
        let mut waiter = pin!(stream.reserve(1_000));
        assert!(poll!(waiter.as_mut()).is_pending(), "the cache is full");
        // Committed before the task that makes room has run.
        inner.evictable.lock().push_back(Arc::new(committed));
        waiter.await.expect("room");
        assert!(
            stream.fetch_cached(0, 1, 1).is_some(),
            "the entry has left memory"
        );
    }
}
