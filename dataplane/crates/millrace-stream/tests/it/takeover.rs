//! A broker that is cut off goes on writing while another one takes over its log, and nothing that anybody was told is
//! durable is missing afterwards.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use millrace_blockcache::{BlockCache, BlockCacheConfig};
use millrace_meta::{
    ClusterStore, Joining, MetaStore, NewTopic,
    postgres::{PostgresMeta, PostgresOptions},
};
use millrace_model::{NodeEpoch, NodeId, StreamId, TopicId, TopicName};
use millrace_objects::{
    ObjectStorage,
    bucket::{RetryPolicy, StoreBucket, TimeoutPolicy},
};
use millrace_stream::{
    Closed, Entry, OpenError, RecoveredLog, Stream, StreamConfig, StreamParts, StreamStore,
};
use millrace_tasks::Supervisor;
use millrace_testkit::{FaultyBucket, PostgresServer, SimDisk};
use millrace_time::{SeededRandom, SharedRandom, SystemClock};
use millrace_wal::{FenceError, LogFence, SharedPage, UnopenedWal, WalConfig, WalOwner};
use tokio::{task::JoinHandle, time::sleep};
use uuid::Uuid;

use crate::world::{append, read_all, small};

const MIB: u64 = 1024 * 1024;
/// No lease runs out by itself, however busy the machine is.
const TTL: Duration = Duration::from_secs(3_600);
/// How long the broker writes before it is fenced.
const WRITES_FOR: Duration = Duration::from_millis(200);
const ROUNDS: u64 = 3;
const STREAMS: u32 = 3;

/// What a log without a fence would be.
#[derive(Debug)]
struct NoFence;

impl LogFence for NoFence {
    fn acquire(&self, _epoch: NodeEpoch) -> Result<(), FenceError> {
        Ok(())
    }

    fn check(&self, _epoch: NodeEpoch) -> Result<(), FenceError> {
        Ok(())
    }
}

/// What two brokers share.
struct Shared {
    address: String,
    meta: PostgresMeta,
    bucket: FaultyBucket,
    random: SharedRandom,
}

impl Shared {
    async fn new(server: &PostgresServer, seed: u64) -> Self {
        let options = PostgresOptions {
            lease_ttl: TTL,
            ..PostgresOptions::default()
        };
        let address = server.database().await;
        let meta = PostgresMeta::open(&address, options).await;
        let random = SeededRandom::shared(seed);
        Self {
            address,
            meta: meta.expect("opens"),
            bucket: FaultyBucket::new(StoreBucket::memory(), random.clone()),
            random,
        }
    }

    async fn join(&self, node: u32) -> NodeEpoch {
        let joining = Joining {
            node: NodeId(node),
            endpoints: Vec::new(),
            rack: None,
            version: "1".to_owned(),
            log: node.to_string(),
            log_id: u64::from(node),
        };
        self.meta.join(&joining).await.expect("joins")
    }

    async fn topic(&self) -> Vec<StreamId> {
        let topic = NewTopic {
            name: TopicName::new("t").expect("legal"),
            id: TopicId(Uuid::from_u128(1)),
            partitions: STREAMS,
            configs: BTreeMap::new(),
        };
        let topic = self.meta.create_topic(topic).await.expect("creates");
        topic.partitions.iter().map(|p| p.data).collect()
    }

    /// A store on the log, as the start `epoch` of `node`.
    async fn open(
        &self,
        disk: &SimDisk,
        fence: Arc<dyn LogFence>,
        (node, epoch): (NodeId, NodeEpoch),
        stream_config: StreamConfig,
    ) -> Result<StreamStore, OpenError> {
        let config = WalConfig {
            record_bytes_max: 64 * 1024,
            chunk_bytes_max: 64 * 1024,
            reserve_wait_max: Duration::from_secs(5),
            trim_delay: Duration::from_millis(1),
            ..WalConfig::new(7 + u64::from(node.get()))
        };
        // Before the log is read.
        fence.acquire(epoch).expect("no later start");
        let mut recovered = RecoveredLog::default();
        let log = UnopenedWal::read(disk.attach(), config)
            .await
            .expect("reads");
        let scanned = log.scan(&mut |record| recovered.push(&record)).await;
        let owner = WalOwner {
            cluster_id: "c".to_owned(),
            node_id: node,
            generation: epoch,
        };
        let clock = SystemClock::shared();
        let log = scanned.expect("scans").fenced_by(fence);
        let wal = log.open(Some(owner), clock.clone()).await.expect("opens");
        let retry = RetryPolicy {
            tries: 2,
            delay_base: Duration::from_millis(1),
            delay_max: Duration::from_millis(2),
        };
        let (timeout, random) = (TimeoutPolicy::default(), self.random.clone());
        let storage =
            ObjectStorage::over(self.bucket.clone(), retry, timeout, clock.clone(), random);
        let meta: Arc<dyn MetaStore> = Arc::new(self.meta.clone());
        let sources = storage.clone().into();
        let cache = BlockCacheConfig::new("c", 64 * 1024);
        let parts = StreamParts {
            tasks: Supervisor::new(),
            wal,
            recovered,
            background: storage.clone(),
            storage,
            block_cache: BlockCache::new(cache, sources, meta.clone(), clock.clone()),
            meta,
            clock,
            random: self.random.clone(),
            cluster_id: "c".to_owned(),
            node: (node, epoch),
            config: stream_config,
        };
        StreamStore::open(parts).await
    }
}

/// Nothing is uploaded or deleted for now, so a broker does not learn from the metadata that it was replaced.
fn lazy() -> StreamConfig {
    StreamConfig {
        cache_bytes: 64 * MIB,
        upload_threshold_bytes: 16 * MIB,
        upload_interval: Duration::from_secs(3_600),
        reclaim_interval: Duration::from_secs(3_600),
        ..small()
    }
}

/// Appends until the store refuses or it is told to stop; gives what was acknowledged.
fn write(stream: Stream, stop: Arc<AtomicBool>) -> JoinHandle<Vec<Entry>> {
    tokio::spawn(async move {
        let mut acknowledged = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let Ok(permit) = stream.reserve(700).await else {
                return acknowledged;
            };
            let entry = Entry {
                base_offset: stream.next_offset(),
                count: 1,
                payload: Bytes::from(vec![7; 700]),
            };
            match stream.append(permit, entry.clone()).await {
                Ok(()) => acknowledged.push(entry),
                Err(_) => return acknowledged,
            }
            // The log takes all of it: nothing is uploaded that would make room.
            sleep(Duration::from_millis(1)).await;
        }
        acknowledged
    })
}

fn page(path: &Path, node: u32) -> Arc<dyn LogFence> {
    let path = path.join(node.to_string());
    Arc::new(SharedPage::open(&path, 7 + u64::from(node)).expect("opens"))
}

/// Broker 1 writes, and renews no lease; broker 2 fences it and takes its log over. Gives how many acknowledged entries
/// are missing then, and whether broker 1 has failed.
async fn missing_after_takeover(shared: &Shared, fences: [Arc<dyn LogFence>; 3]) -> (usize, bool) {
    let [of_one, of_adopter, of_two] = fences;
    let disks =
        [1, 2].map(|_| SimDisk::new(64 * MIB, Duration::from_micros(300), shared.random.clone()));
    let (one, two) = (shared.join(1).await, shared.join(2).await);
    let streams = shared.topic().await;
    let cut_off = shared
        .open(&disks[0], of_one, (NodeId(1), one), lazy())
        .await;
    let cut_off = cut_off.expect("opens");
    let opened = cut_off.open_streams(&streams).await.expect("opens");
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = opened
        .into_iter()
        .map(|stream| write(stream, Arc::clone(&stop)))
        .collect();

    let survivor = shared
        .open(&disks[1], of_two, (NodeId(2), two), small())
        .await;
    let survivor = survivor.expect("opens");
    sleep(WRITES_FOR).await;
    PostgresServer::execute(
        &shared.address,
        "UPDATE nodes SET held_since = now() - INTERVAL '1 day';
         UPDATE nodes SET lease_until = now() - INTERVAL '1 second' WHERE node_id = 1",
    )
    .await;
    let fenced = shared.meta.fence_expired(two).await.expect("judges");
    assert_eq!(fenced.len(), 1, "{fenced:?}");
    let early = survivor.open_stream(streams[0]).await.map(drop);
    assert!(
        matches!(early, Err(OpenError::UnknownStream(_))),
        "its newest records are in the log alone: {early:?}"
    );
    let adoption = shared.meta.adopt_log(NodeId(1), two).await.expect("adopts");
    let adopter = (NodeId(1), adoption.epoch);
    let adopted = shared.open(&disks[0], of_adopter, adopter, small()).await;
    let closed = adopted.expect("opens").close().await;
    assert_eq!(closed, Closed::Uploaded);
    shared.meta.leave(adoption.epoch).await.expect("leaves");

    stop.store(true, Ordering::Relaxed);
    let now = survivor.open_streams(&streams).await.expect("opens");
    let mut missing = 0;
    for (stream, writer) in now.iter().zip(writers) {
        let acknowledged = writer.await.expect("ends");
        let found = read_all(stream, 100_000).await;
        missing += acknowledged
            .iter()
            .filter(|entry| !found.contains(entry))
            .count();
        // It goes on where it ended.
        let (_, ticket) = append(stream, 1, 2, 500).await;
        ticket.await.expect("durable");
    }
    survivor.close().await;
    (missing, cut_off.failure().is_some())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_missing_after_a_takeover() {
    let server = PostgresServer::start();
    for round in 0..ROUNDS {
        let folder = tempfile::tempdir().expect("a folder");
        let shared = Shared::new(&server, round).await;
        let fences = [1, 1, 2].map(|node| page(folder.path(), node));
        let (missing, has_failed) = missing_after_takeover(&shared, fences).await;
        assert_eq!(missing, 0, "round {round}");
        assert!(
            has_failed,
            "round {round}: it does not know that it was replaced"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_fence_records_are_lost() {
    let server = PostgresServer::start();
    for round in 0..ROUNDS {
        let shared = Shared::new(&server, round).await;
        let fences = [1, 1, 2].map(|_| Arc::new(NoFence) as Arc<dyn LogFence>);
        if missing_after_takeover(&shared, fences).await.0 > 0 {
            return;
        }
    }
    panic!("the test above does not need the fence that it is about");
}
