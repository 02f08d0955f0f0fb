//! The backup over a bucket that fails on purpose: whatever happens, what is restored is a state that was
//! committed, and not older than what the backup had promised.

use std::{collections::BTreeMap, path::Path, time::Duration};

use metrics_exporter_prometheus::PrometheusBuilder;
use millrace_meta::{
    MetaStore, NewTopic,
    sqlite::{SqliteMeta, SqliteOptions},
};
use millrace_model::{NodeEpoch, NodeId, TopicId, TopicName};
use millrace_objects::{
    ObjectStorage,
    bucket::{RetryPolicy, StoreBucket, TimeoutPolicy},
    chain::{Chain, ChainOwner, ClaimError, PutItemError},
};
use millrace_testkit::{BucketFaults, FaultyBucket};
use millrace_time::{SeededRandom, SharedRandom, SystemClock};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::recover::restored_revision;

/// Some of everything.
const FAULTS: BucketFaults = BucketFaults {
    fail_permille: 150,
    lose_reply_permille: 150,
    conflict_permille: 50,
    repeat_permille: 50,
    stall_permille: 0,
    stall: Duration::ZERO,
    flip_permille: 0,
    delay: Duration::ZERO,
    down: false,
    read_only: false,
};

struct World {
    folder: TempDir,
    bucket: FaultyBucket,
    storage: ObjectStorage,
    random: SharedRandom,
}

impl World {
    fn new(seed: u64) -> Self {
        let random = SeededRandom::shared(seed);
        let bucket = FaultyBucket::new(StoreBucket::memory(), random.clone());
        let retry = RetryPolicy {
            delay_base: Duration::from_millis(1),
            delay_max: Duration::from_millis(4),
            ..RetryPolicy::default()
        };
        let timeouts = TimeoutPolicy::default();
        let clock = SystemClock::shared();
        let storage = ObjectStorage::over(bucket.clone(), retry, timeouts, clock, random.clone());
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            bucket,
            storage,
            random,
        }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn chain(&self) -> Chain {
        Chain::new(self.storage.clone(), NodeId(1))
    }

    /// Starts a node on the metadata `name`, and its backup.
    async fn start(&self, name: &str) -> Start {
        let meta = open(&self.path(name)).await;
        let source = meta.begin_backup();
        meta.cluster_id("c").await.expect("stored");
        let generation = meta.register_node(NodeId(1)).await.expect("registers");
        let owner = ChainOwner {
            cluster_id: "c".into(),
            node_id: NodeId(1),
            wal_id: 5,
            generation,
            nonce: self.random.next_u64(),
        };
        let writer = loop {
            let agree = |_: Option<&millrace_objects::chain::Tail>| Ok::<_, ClaimError>(());
            let claim = self
                .chain()
                .claim_agreed(&owner, meta.revision(), 0, agree)
                .await;
            match claim {
                Ok(writer) => break writer,
                Err(error) => tracing::debug!(%error, "claiming again"),
            }
        };
        let (claimed, parts) = parts(source);
        assert!(claimed.send(writer).is_ok(), "it is awaited");
        let backup = Backup::claimed(parts).await.expect("claimed");
        Start {
            meta,
            generation,
            task: AbortOnDropHandle::new(tokio::spawn(backup.run())),
        }
    }

    /// The topics that a recovery from the bucket gives, and its revision.
    async fn restored(&self) -> (u64, Vec<String>) {
        self.bucket.set(BucketFaults::default());
        let target = self.path("restored.db");
        let revision = restored_revision(&self.chain(), &target)
            .await
            .expect("restores");
        let meta = open(&target).await;
        meta.check_integrity().await.expect("sound");
        assert_eq!(meta.revision(), revision);
        let topics = topics(&meta).await;
        meta.close().await;
        (revision, topics)
    }
}

fn parts(source: BackupSource) -> (oneshot::Sender<ChainWriter>, BackupParts) {
    let (sender, claimed) = oneshot::channel();
    let parts = BackupParts {
        source,
        claimed,
        ends: Box::new(Vec::new),
        clock: SystemClock::shared(),
        window: Duration::from_secs(600),
    };
    (sender, parts)
}

struct Start {
    meta: SqliteMeta,
    generation: NodeEpoch,
    task: AbortOnDropHandle<PutItemError>,
}

async fn open(path: &Path) -> SqliteMeta {
    let options = SqliteOptions::default();
    SqliteMeta::open(path, options, SystemClock::shared())
        .await
        .expect("opens")
}

async fn topics(meta: &SqliteMeta) -> Vec<String> {
    let topics = meta.topics().await.expect("reads");
    topics.iter().map(|topic| topic.name.to_string()).collect()
}

async fn create(meta: &SqliteMeta, name: &str, partitions: u32) {
    let topic = NewTopic {
        name: TopicName::new(name).expect("legal"),
        id: TopicId(uuid::Uuid::from_u128(u128::from(millrace_model::crc32c(
            name.as_bytes(),
        )))),
        partitions,
        configs: BTreeMap::new(),
    };
    meta.create_topic(topic).await.expect("creates");
}

/// Random changes over a bucket that fails and loses replies, with crashes in between: each time the
/// bucket alone gives a state that was committed, and everything that was said to be backed up.
#[tokio::test]
async fn through_failures_and_lost_replies_a_committed_state_comes_back() {
    for seed in 0..3 {
        let world = World::new(seed);
        // The topics after each revision, over all starts.
        let mut states: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        let mut promised = 0;
        for life in 0..3 {
            world.bucket.set(FAULTS);
            let start = world.start("meta.db").await;
            states.insert(start.meta.revision(), topics(&start.meta).await);
            let steps = 4 + world.random.below(10);
            for step in 0..steps {
                let partitions = 1 + u32::try_from(world.random.below(40)).expect("small");
                create(&start.meta, &format!("t-{life}-{step}"), partitions).await;
                states.insert(start.meta.revision(), topics(&start.meta).await);
                if world.random.below(3) == 0 {
                    start.meta.hurry_backup();
                    promised = start.meta.backed_up().await;
                } else {
                    sleep(Duration::from_millis(world.random.below(60))).await;
                }
            }
            // kill -9: the task goes at any moment, and so do the connections.
            drop(start.task);
            start.meta.close().await;
            let (revision, found) = world.restored().await;
            assert!(
                revision >= promised,
                "seed {seed}: {revision} is older than {promised}"
            );
            let expected = states
                .range(..=revision)
                .next_back()
                .map(|(_, state)| state);
            assert_eq!(
                Some(&found),
                expected,
                "seed {seed}, life {life}, revision {revision}"
            );
        }
    }
}

/// A kill right behind the promise that relies on a snapshot: the start that claims the chain next knows
/// that snapshot, and not only the one before.
#[tokio::test]
async fn what_was_promised_with_a_snapshot_outlives_the_next_claim() {
    let world = World::new(11);
    for life in 0..3 {
        let start = world.start("meta.db").await;
        create(&start.meta, &format!("t{life}"), 1).await;
        let promised = start.meta.backed_up().await;
        drop(start.task);
        start.meta.close().await;
        // Claims, and is killed before it puts anything else.
        let claimed = world.start("meta.db").await;
        drop(claimed.task);
        claimed.meta.close().await;
        let (revision, found) = world.restored().await;
        assert!(revision >= promised, "{revision} is older than {promised}");
        assert_eq!(found.len(), life + 1, "{found:?}");
    }
}

/// Two processes on copies of one disk: the former is fenced before it can spoil anything, and the
/// bucket has the latter's states.
#[tokio::test]
async fn of_two_owners_the_former_ends_and_the_latter_comes_back() {
    let world = World::new(7);
    let former = world.start("meta.db").await;
    create(&former.meta, "common", 3).await;
    former.meta.backed_up().await;
    // A copy of the volume, as a snapshot of it would be.
    for suffix in ["", "-wal"] {
        let (from, to) = (format!("meta.db{suffix}"), format!("copy.db{suffix}"));
        std::fs::copy(world.path(&from), world.path(&to)).expect("copied");
    }
    world.bucket.set(FAULTS);
    let latter = world.start("copy.db").await;
    assert!(latter.generation > former.generation);
    create(&former.meta, "of-the-former", 1).await;
    former.meta.hurry_backup();
    let ended: JoinHandle<PutItemError> = former.task.detach();
    let ended = timeout(Duration::from_secs(30), ended).await;
    let ended = ended.expect("in time").expect("no panic");
    assert!(matches!(ended, PutItemError::Fenced { .. }), "{ended}");
    let waits = timeout(Duration::from_millis(50), former.meta.backed_up()).await;
    waits.expect_err("what the former changed is in no backup");
    create(&latter.meta, "of-the-latter", 1).await;
    latter.meta.hurry_backup();
    latter.meta.backed_up().await;
    let (_, found) = world.restored().await;
    assert_eq!(found, ["common", "of-the-latter"]);
}

/// Items are cut, flipped or deleted behind the broker's back: what is restored ends before them, or
/// comes from an older snapshot.
#[tokio::test]
async fn a_damaged_chain_gives_an_older_state_and_never_half_of_one() {
    let world = World::new(9);
    let start = world.start("meta.db").await;
    // The snapshot may have been taken at any revision of the start itself.
    let mut states: BTreeMap<u64, Vec<String>> = (0..=start.meta.revision())
        .map(|revision| (revision, Vec::new()))
        .collect();
    for nth in 0..6 {
        create(&start.meta, &format!("t{nth}"), 2).await;
        states.insert(start.meta.revision(), topics(&start.meta).await);
        start.meta.hurry_backup();
        start.meta.backed_up().await;
    }
    drop(start.task);
    let items = world.chain().items().await.expect("lists");
    let (revision, found) = world.restored().await;
    assert_eq!(states.get(&revision), Some(&found));
    assert_eq!(found.len(), 6);
    // From the end on, one item after the other goes, down to the snapshot.
    let mut seen = vec![revision];
    for item in items.iter().rev() {
        let key = millrace_objects::ObjectKey::chain_item(NodeId(1), item.seq);
        world
            .storage
            .delete(std::slice::from_ref(&key))
            .await
            .expect("deleted");
        let torn = vec![bytes::Bytes::from_static(b"MILLMETA torn")];
        world.storage.put(&key, torn).await.expect("put");
        let target = world.path("restored.db");
        let Ok(revision) = restored_revision(&world.chain(), &target).await else {
            break;
        };
        let meta = open(&target).await;
        let found = topics(&meta).await;
        meta.close().await;
        assert_eq!(
            Some(&found),
            states.get(&revision),
            "revision {revision} was never committed like this"
        );
        seen.push(revision);
    }
    assert!(seen.is_sorted_by(|a, b| a >= b), "{seen:?}");
    assert!(
        seen.len() > 3,
        "the loop saw the chain get shorter: {seen:?}"
    );
}

/// While the bucket was down at the start, the backup waited for its claim and nobody gave the journal
/// back: it grew until the disk was full, and the gauge said 0.
#[tokio::test]
async fn before_the_first_claim_the_journal_is_bounded_and_the_gauge_counts() {
    /// Above the 4 MiB that the file keeps in any case.
    const JOURNAL_BYTES_MAX: u64 = 6 << 20;
    let recorder = PrometheusBuilder::new().build_recorder();
    let gauges = recorder.handle();
    let _recording = ::metrics::set_default_local_recorder(&recorder);
    let world = World::new(13);
    let options = SqliteOptions {
        journal_bytes_max: JOURNAL_BYTES_MAX,
        ..SqliteOptions::default()
    };
    let path = world.path("meta.db");
    let meta = SqliteMeta::open(&path, options, SystemClock::shared());
    let meta = meta.await.expect("opens");
    let (claimed, parts) = parts(meta.begin_backup());
    let waiting = AbortOnDropHandle::new(tokio::spawn(Backup::claimed(parts)));
    let journal_bytes = || {
        std::fs::metadata(world.path("meta.db-wal"))
            .expect("there")
            .len()
    };
    let value = vec![7; 1 << 20];
    while journal_bytes() <= JOURNAL_BYTES_MAX {
        meta.put_kv("large", &value).await.expect("stored");
    }
    let bounded = async {
        while journal_bytes() > JOURNAL_BYTES_MAX {
            sleep(PUT_INTERVAL).await;
            meta.put_kv("small", b"x").await.expect("stored");
        }
    };
    let bounded = timeout(Duration::from_secs(30), bounded).await;
    bounded.expect("the journal is given back");
    let shown = gauges.render();
    let behind = shown
        .lines()
        .find_map(|line| line.strip_prefix("millrace_meta_backup_behind_seconds "))
        .and_then(|seconds| seconds.parse::<f64>().ok());
    assert!(behind.is_some_and(|seconds| seconds >= 1.0), "{shown}");
    drop(claimed);
    let claimed = waiting.await.expect("no panic");
    assert!(claimed.is_none(), "the check of the bucket failed");
    let kept = meta.get_kv("large").await.expect("read");
    assert_eq!(kept, Some(value));
}
