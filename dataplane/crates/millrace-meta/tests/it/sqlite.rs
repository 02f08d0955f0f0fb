//! What SQLite adds to the contract: it survives crashes, and the index in memory always agrees with
//! the file.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::Path,
    sync::Arc,
    time::Duration,
};

use millrace_meta::{
    CommitError, Compaction, MetaStore, NewTopic, StreamMeta, StreamObject, StreamSetObject,
    Upload,
    sqlite::{
        Floors, MetaIdentity, ObjectRecord, ObjectRecords, ObjectState, OpenError, SqliteMeta,
        SqliteOptions, read_identity, read_object_records, unknown_streams,
    },
};
use millrace_model::{
    NodeEpoch, NodeId, ObjectId, Offset, StreamId, StreamRange, TopicId, TopicName,
};
use millrace_time::ManualClock;
use proptest::prelude::*;
use tempfile::TempDir;
use uuid::Uuid;

async fn open(path: &Path) -> SqliteMeta {
    let options = SqliteOptions {
        retired_retention: Duration::ZERO,
        ..SqliteOptions::default()
    };
    SqliteMeta::open(path, options, ManualClock::shared())
        .await
        .expect("opens")
}

/// The file as a power cut would leave it: what has reached the database and its journal, without
/// the shared memory, `journal_len` bytes of the journal.
fn crash_image(path: &Path, into: &TempDir, journal_len: u64) -> std::path::PathBuf {
    let image = into.path().join("image.db");
    let _ = fs::remove_file(into.path().join("image.db-shm"));
    fs::copy(path, &image).expect("copied");
    let (from, to) = (
        path.with_extension("db-wal"),
        image.with_extension("db-wal"),
    );
    fs::copy(from, &to).expect("copied");
    let journal = fs::OpenOptions::new().write(true).open(to).expect("opened");
    journal.set_len(journal_len).expect("cut");
    image
}

async fn create_stream(store: &SqliteMeta, nth: u128) -> StreamId {
    let name = TopicName::new(format!("t{nth}")).expect("legal");
    let id = TopicId(Uuid::from_u128(nth + 1));
    let topic = NewTopic {
        name,
        id,
        partitions: 1,
        configs: BTreeMap::new(),
    };
    store.create_topic(topic).await.expect("creates").partitions[0].data
}

fn one_object(
    node_epoch: NodeEpoch,
    id: ObjectId,
    stream: StreamId,
    start: Offset,
    end: Offset,
) -> Upload {
    let range = StreamRange { stream, start, end };
    let stream_objects = vec![StreamObject {
        id,
        size: 100,
        range,
    }];
    Upload {
        node_epoch,
        stream_set: None,
        stream_objects,
    }
}

async fn commit_one(
    store: &SqliteMeta,
    node_epoch: NodeEpoch,
    stream: StreamId,
    start: Offset,
    end: Offset,
) -> Result<(), CommitError> {
    let id = store.reserve_objects(node_epoch, 1).await.expect("an id");
    store
        .commit_upload(one_object(node_epoch, id, stream, start, end))
        .await
}

#[tokio::test]
async fn what_was_committed_survives_a_crash_at_any_point() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("meta.db");
    let store = open(&path).await;
    let node_epoch = store.register_node(NodeId(1)).await.expect("registers");
    let stream = create_stream(&store, 1).await;
    store.open_stream(stream, node_epoch).await.expect("opens");
    let journal = path.with_extension("db-wal");
    let journal_len = || fs::metadata(&journal).expect("there").len();

    // How long the journal was when each commit had returned.
    let base = journal_len();
    let mut lens = Vec::new();
    for nth in 0..10 {
        commit_one(&store, node_epoch, stream, nth, nth + 1)
            .await
            .expect("commits");
        lens.push(journal_len());
    }
    let last = *lens.last().expect("ten");
    let cuts = (base..=last).step_by(1_501).chain(lens.iter().copied());
    for cut in cuts {
        let into = tempfile::tempdir().expect("a folder");
        let image = crash_image(&path, &into, cut);
        let reopened = open(&image).await;
        let next_epoch = reopened.register_node(NodeId(1)).await.expect("registers");
        assert!(next_epoch > node_epoch, "epochs never repeat");
        let meta = reopened
            .open_stream(stream, next_epoch)
            .await
            .expect("opens");
        let returned = lens.iter().filter(|len| **len <= cut).count() as u64;
        assert!(
            meta.end >= returned,
            "cut at {cut}: {} of {returned} commits",
            meta.end
        );
        let ranges = reopened.objects_of(stream, 0, 100).await.expect("found");
        let ranges: Vec<_> = ranges
            .iter()
            .map(|r| (r.range.start, r.range.end))
            .collect();
        assert_eq!(
            ranges,
            (0..meta.end).map(|nth| (nth, nth + 1)).collect::<Vec<_>>()
        );
        reopened.close().await;
    }
}

#[tokio::test]
async fn ids_go_on_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("meta.db");
    let (mut objects, mut streams, mut producers) = (0, 0, 0);
    for start in 0..4 {
        let store = open(&path).await;
        assert_eq!(
            store.cluster_id(&format!("c{start}")).await.expect("an id"),
            "c0"
        );
        let node_epoch = store.register_node(NodeId(1)).await.expect("registers");
        let object = store
            .reserve_objects(node_epoch, 5)
            .await
            .expect("ids")
            .get();
        let stream = create_stream(&store, start).await.get();
        let producer = store.allocate_producer_ids(7).await.expect("ids").start;
        assert!(start == 0 || (object >= objects + 5 && stream > streams + 1));
        assert!(start == 0 || producer == producers + 7);
        (objects, streams, producers) = (object, stream, producer);
        if start % 2 == 0 {
            store.close().await;
        }
    }
}

#[tokio::test]
async fn a_caller_who_stops_waiting_leaves_the_index_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder.path().join("meta.db")).await;
    let node_epoch = store.register_node(NodeId(1)).await.expect("registers");
    let stream = create_stream(&store, 1).await;
    store.open_stream(stream, node_epoch).await.expect("opens");
    for nth in 0..50 {
        let id = store.reserve_objects(node_epoch, 1).await.expect("an id");
        let upload = one_object(node_epoch, id, stream, nth, nth + 1);
        let patience = Duration::from_micros(nth * 40);
        let _gave_up = tokio::time::timeout(patience, store.commit_upload(upload.clone())).await;
        store
            .commit_upload(upload)
            .await
            .expect("committed now or before");
    }
    let ranges = store.objects_of(stream, 0, 100).await.expect("found");
    assert_eq!(ranges.len(), 50);
}

#[tokio::test]
async fn retired_objects_stay_for_as_long_as_a_read_may_take() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = ManualClock::shared();
    let options = SqliteOptions {
        retired_retention: Duration::from_secs(600),
        ..SqliteOptions::default()
    };
    let path = folder.path().join("meta.db");
    let store = SqliteMeta::open(&path, options, clock.clone())
        .await
        .expect("opens");
    clock.advance(Duration::from_secs(1_000_000));
    let node_epoch = store.register_node(NodeId(1)).await.expect("registers");
    let stream = create_stream(&store, 1).await;
    store.open_stream(stream, node_epoch).await.expect("opens");
    commit_one(&store, node_epoch, stream, 0, 10)
        .await
        .expect("commits");
    store
        .trim_stream(stream, node_epoch, 10)
        .await
        .expect("trims");
    let retired = async || {
        store
            .retired_objects(node_epoch, 10)
            .await
            .expect("a list")
            .len()
    };
    assert_eq!(retired().await, 0);
    clock.advance(Duration::from_millis(599_999));
    assert_eq!(retired().await, 0);
    clock.advance(Duration::from_millis(1));
    assert_eq!(retired().await, 1);

    // Another process cannot know how long a reader has been there: it starts counting again.
    drop(store);
    let store = SqliteMeta::open(&path, options, clock.clone()).await;
    let store = store.expect("opens");
    let retired = async || {
        let retired = store.retired_objects(node_epoch, 10).await;
        retired.expect("a list").len()
    };
    assert_eq!(retired().await, 0);
    clock.advance(Duration::from_secs(600));
    assert_eq!(retired().await, 1);
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("meta.db");
    open(&path).await.close().await;
    let url = format!("sqlite://{}", path.display());
    let pool = sqlx::SqlitePool::connect(&url).await.expect("connects");
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, \
                 execution_time) VALUES (9999, 'from the future', TRUE, x'00', 0)";
    sqlx::query(newer).execute(&pool).await.expect("inserted");
    pool.close().await;
    let opened = SqliteMeta::open(&path, SqliteOptions::default(), ManualClock::shared()).await;
    assert!(matches!(opened, Err(OpenError::Newer(9_999))), "{opened:?}");
}

#[tokio::test]
async fn damaged_ranges_are_refused_and_not_guessed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("meta.db");
    let store = open(&path).await;
    let node_epoch = store.register_node(NodeId(1)).await.expect("registers");
    let stream = create_stream(&store, 1).await;
    store.open_stream(stream, node_epoch).await.expect("opens");
    commit_one(&store, node_epoch, stream, 0, 10)
        .await
        .expect("commits");
    store.close().await;
    let url = format!("sqlite://{}", path.display());
    let pool = sqlx::SqlitePool::connect(&url).await.expect("connects");
    let damage = "UPDATE objects SET ranges = x'010203040506070809'";
    sqlx::query(damage).execute(&pool).await.expect("damaged");
    pool.close().await;
    let opened = SqliteMeta::open(&path, SqliteOptions::default(), ManualClock::shared()).await;
    assert!(matches!(opened, Err(OpenError::Store(_))), "{opened:?}");
}

/// What a test may do to a store of a few streams.
#[derive(Debug, Clone)]
enum Step {
    /// Commit a stream-set object; per stream how far from its end the range begins, and its length.
    Commit(Vec<(usize, i64, u64)>),
    Trim(usize, u64),
    Delete(usize),
    /// Replaces the live objects whose bit is set; `true`: each stretch by an object of its own.
    Compact(u64, bool),
    Reopen,
}

const STREAMS: usize = 4;

fn any_step() -> impl Strategy<Value = Step> {
    let skew = prop_oneof![12 => Just(0_i64), 1 => -3..3_i64];
    let ranges = prop::collection::vec((0..STREAMS, skew, 1..20_u64), 1..4);
    prop_oneof![
        8 => ranges.prop_map(Step::Commit),
        3 => (0..STREAMS, 0..100_u64).prop_map(|(stream, to)| Step::Trim(stream, to)),
        1 => (0..STREAMS).prop_map(Step::Delete),
        3 => any::<(u64, bool)>().prop_map(|(which, split)| Step::Compact(which, split)),
        2 => Just(Step::Reopen),
    ]
}

/// What a stream ought to be.
#[derive(Debug, Clone, Default)]
struct Expected {
    start: Offset,
    end: Offset,
    ranges: Vec<(Offset, Offset, ObjectId)>,
}

/// A store beside a plain model of it.
struct Pair {
    folder: TempDir,
    store: SqliteMeta,
    node_epoch: NodeEpoch,
    streams: Vec<StreamId>,
    model: HashMap<StreamId, Expected>,
    /// Objects that were committed, and those of them that can still be read.
    committed: Vec<ObjectId>,
}

impl Pair {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(&folder.path().join("meta.db")).await;
        let node_epoch = store.register_node(NodeId(1)).await.expect("registers");
        let mut streams = Vec::new();
        for nth in 0..STREAMS {
            streams.push(create_stream(&store, nth as u128).await);
        }
        store
            .open_streams(&streams, node_epoch)
            .await
            .expect("opens");
        let model = streams
            .iter()
            .map(|&stream| (stream, Expected::default()))
            .collect();
        Self {
            folder,
            store,
            node_epoch,
            streams,
            model,
            committed: Vec::new(),
        }
    }

    async fn apply(&mut self, step: Step) {
        match step {
            Step::Commit(ranges) => self.commit(&ranges).await,
            Step::Trim(nth, to) => self.trim(self.streams[nth], to).await,
            Step::Delete(nth) => {
                let name = TopicName::new(format!("t{nth}")).expect("legal");
                let deleted = self.store.delete_topic(&name).await;
                assert_eq!(
                    deleted.is_ok(),
                    self.model.remove(&self.streams[nth]).is_some()
                );
            }
            Step::Compact(which, split) => self.compact(which, split).await,
            Step::Reopen => {
                self.store = open(&self.folder.path().join("meta.db")).await;
                self.node_epoch = self
                    .store
                    .register_node(NodeId(1))
                    .await
                    .expect("registers");
                self.store
                    .open_streams(&self.streams, self.node_epoch)
                    .await
                    .expect("opens");
            }
        }
    }

    async fn commit(&mut self, planned: &[(usize, i64, u64)]) {
        let mut ends = HashMap::new();
        let mut ranges = Vec::new();
        let mut fits = true;
        for &(nth, skew, len) in planned {
            let stream = self.streams[nth];
            let known = self.model.get(&stream).cloned();
            let known_end = known.as_ref().map_or(0, |known| known.end);
            let end = *ends.get(&stream).unwrap_or(&known_end);
            let start = end.saturating_add_signed(skew);
            ranges.push(StreamRange {
                stream,
                start,
                end: start + len,
            });
            ends.insert(stream, start + len);
            let trimmed = known.as_ref().map_or(0, |known| known.start);
            let gap_is_trimmed = start > end && start <= trimmed;
            fits &= known.is_none() || start == end || gap_is_trimmed;
        }
        let id = self
            .store
            .reserve_objects(self.node_epoch, 1)
            .await
            .expect("an id");
        let set = StreamSetObject {
            id,
            size: 9,
            ranges: ranges.clone(),
        };
        let (node_epoch, stream_objects) = (self.node_epoch, Vec::new());
        let upload = Upload {
            node_epoch,
            stream_set: Some(set),
            stream_objects,
        };
        let outcome = self.store.commit_upload(upload).await;
        assert_eq!(outcome.is_ok(), fits, "{ranges:?}: {outcome:?}");
        if !fits {
            return;
        }
        self.committed.push(id);
        for range in ranges {
            if let Some(known) = self.model.get_mut(&range.stream) {
                known.end = range.end;
                if range.end > known.start {
                    known.ranges.push((range.start, range.end, id));
                }
            }
        }
    }

    /// Merges what lies side by side of the chosen objects.
    async fn compact(&mut self, which: u64, split: bool) {
        let ranges = self.model.values().flat_map(|known| &known.ranges);
        let live: BTreeSet<ObjectId> = ranges.map(|range| range.2).collect();
        let chosen = |nth: usize| which >> (nth % 64) & 1 == 1;
        let chosen = live.iter().enumerate().filter(|&(nth, _)| chosen(nth));
        let inputs: Vec<ObjectId> = chosen.map(|(_, &id)| id).collect();
        let set_id = self.id().await;
        let (mut ranges, mut stream_objects) = (Vec::new(), Vec::new());
        for stream in self.streams.clone() {
            for range in self.merged(stream, &inputs) {
                let id = if split { self.id().await } else { set_id };
                if split {
                    stream_objects.push(StreamObject { id, size: 7, range });
                } else {
                    ranges.push(range);
                }
                let known = self.model.get_mut(&stream).expect("it has ranges");
                known.ranges.push((range.start, range.end, id));
                known.ranges.sort_unstable();
            }
        }
        let stream_set = (!ranges.is_empty()).then_some(StreamSetObject {
            id: set_id,
            size: 8,
            ranges,
        });
        let compaction = Compaction {
            node_epoch: self.node_epoch,
            inputs,
            stream_set,
            stream_objects,
        };
        for _ in 0..2 {
            let committed = self.store.commit_compaction(compaction.clone()).await;
            committed.expect("commits, or has committed");
        }
        let sets = compaction.stream_set.iter().map(|set| set.id);
        let singles = compaction.stream_objects.iter().map(|object| object.id);
        self.committed.extend(sets.chain(singles));
    }

    /// Takes the ranges of `inputs` out of a stream; gives them joined, without what is trimmed.
    fn merged(&mut self, stream: StreamId, inputs: &[ObjectId]) -> Vec<StreamRange> {
        let Some(known) = self.model.get_mut(&stream) else {
            return Vec::new();
        };
        let is_input = |range: &(Offset, Offset, ObjectId)| inputs.contains(&range.2);
        let (taken, rest) = known.ranges.iter().copied().partition(is_input);
        let taken: Vec<(Offset, Offset, ObjectId)> = taken;
        known.ranges = rest;
        let mut merged: Vec<StreamRange> = Vec::new();
        for (start, end, _) in taken {
            match merged.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => merged.push(StreamRange {
                    stream,
                    start: start.max(known.start.min(end - 1)),
                    end,
                }),
            }
        }
        merged
    }

    async fn id(&self) -> ObjectId {
        let id = self.store.reserve_objects(self.node_epoch, 1).await;
        id.expect("an id")
    }

    async fn trim(&mut self, stream: StreamId, to: Offset) {
        let trimmed = self.store.trim_stream(stream, self.node_epoch, to).await;
        let Some(known) = self.model.get_mut(&stream) else {
            assert!(trimmed.is_err());
            return;
        };
        known.start = known.start.max(to);
        known.ranges.retain(|(_, end, _)| *end > known.start);
        assert_eq!(trimmed.expect("trims"), known.start);
    }

    async fn compare(&self) {
        for (&stream, known) in &self.model {
            let StreamMeta { start, end, .. } = self
                .store
                .open_stream(stream, self.node_epoch)
                .await
                .expect("opens");
            assert_eq!((start, end), (known.start, known.end));
            let found = self
                .store
                .objects_of(stream, 0, 1_000)
                .await
                .expect("found");
            let found: Vec<_> = found
                .iter()
                .map(|f| (f.range.start, f.range.end, f.object))
                .collect();
            assert_eq!(found, known.ranges);
            // Gaps may only be where everything has been trimmed.
            for pair in found.windows(2) {
                assert!(pair[0].1 == pair[1].0 || pair[1].0 <= known.start);
            }
        }
        let live: Vec<_> = self
            .model
            .values()
            .flat_map(|known| &known.ranges)
            .map(|range| range.2)
            .collect();
        let retired = self
            .store
            .retired_objects(self.node_epoch, 1_000)
            .await
            .expect("a list");
        for object in &self.committed {
            assert_ne!(
                live.contains(object),
                retired.contains(object),
                "{object} live and retired"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn ranges_stay_contiguous_whatever_happens(
        steps in prop::collection::vec(any_step(), 1..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let mut pair = Pair::new().await;
            for step in steps {
                pair.apply(step).await;
                pair.compare().await;
            }
            pair.apply(Step::Reopen).await;
            pair.compare().await;
        });
    }
}

#[tokio::test]
async fn many_clones_may_write_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Arc::new(open(&folder.path().join("meta.db")).await);
    let tasks = (0..8).map(|task| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let node_epoch = store.register_node(NodeId(task)).await.expect("registers");
            let stream = create_stream(&store, u128::from(task)).await;
            store.open_stream(stream, node_epoch).await.expect("opens");
            for nth in 0..10 {
                commit_one(&store, node_epoch, stream, nth, nth + 1)
                    .await
                    .expect("commits");
            }
            stream
        })
    });
    let streams = futures_util::future::join_all(tasks).await;
    for stream in streams {
        let ranges = store
            .objects_of(stream.expect("no panic"), 0, 100)
            .await
            .expect("found");
        assert_eq!(ranges.len(), 10);
    }
}

/// Another process looks at the file while its owner writes to it, and after the owner has left.
#[tokio::test]
async fn objects_can_be_listed_beside_the_owner_and_after_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("meta.db");
    read_object_records(&path).await.expect_err("no such file");
    assert!(!path.exists(), "looking creates nothing");
    let store = open(&path).await;
    assert_eq!(store.cluster_id("c").await.expect("an id"), "c");
    let node_epoch = store.register_node(NodeId(1)).await.expect("registers");
    let stream = create_stream(&store, 1).await;
    store.open_stream(stream, node_epoch).await.expect("opens");
    commit_one(&store, node_epoch, stream, 0, 10)
        .await
        .expect("commits");
    commit_one(&store, node_epoch, stream, 10, 20)
        .await
        .expect("commits");
    let prepared = store.reserve_objects(node_epoch, 1).await.expect("an id");
    store
        .trim_stream(stream, node_epoch, 10)
        .await
        .expect("trims");
    let record = |object, state, size| ObjectRecord {
        object: ObjectId(object),
        state,
        size,
    };
    let expected = ObjectRecords {
        cluster_id: Some("c".into()),
        next_object: ObjectId(prepared.get() + 1),
        objects: vec![
            record(1, ObjectState::Retired, Some(100)),
            record(2, ObjectState::Committed, Some(100)),
            record(3, ObjectState::Prepared, None),
        ],
    };
    assert_eq!(read_object_records(&path).await.expect("reads"), expected);
    store.close().await;
    assert_eq!(read_object_records(&path).await.expect("reads"), expected);
    fs::write(&path, b"not a database").expect("written");
    read_object_records(&path).await.expect_err("corrupt");
}

/// The bytes of a database and its journal. The third file is an index of the journal without data.
fn stored_bytes(path: &Path) -> [Option<Vec<u8>>; 2] {
    [path.to_owned(), path.with_extension("db-wal")].map(|file| fs::read(file).ok())
}

/// A file as the first version of the program wrote it, with streams 1 and 3 of 1 to 4.
async fn write_first_version(path: &Path, wanted: bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let first = "0001_broker_metadata.sql";
    let migrations = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../migrations/dataplane");
    fs::copy(migrations.join(first), folder.path().join(first)).expect("copied");
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal);
    let pool = sqlx::SqlitePool::connect_with(options)
        .await
        .expect("opens");
    let migrator = sqlx::migrate::Migrator::new(folder.path()).await;
    migrator.expect("found").run(&pool).await.expect("migrates");
    let statements = [
        "INSERT INTO cluster VALUES (1, 'old')",
        "INSERT INTO nodes VALUES (4, 6), (5, 7)",
        "INSERT INTO streams VALUES (1, 1, NULL, 0, 0), (3, 1, NULL, 0, 0)",
        "UPDATE sequences SET next = 5 WHERE name = 'stream'",
        "UPDATE sequences SET next = 8 WHERE name = 'node_epoch'",
    ];
    for statement in statements.iter().take(if wanted { 5 } else { 0 }) {
        sqlx::query(*statement).execute(&pool).await.expect("runs");
    }
    pool.close().await;
}

#[tokio::test]
async fn a_file_of_the_first_version_tells_whose_it_is_before_and_after_its_migration() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("meta.db");
    write_first_version(&path, true).await;
    let before = stored_bytes(&path);
    let expected = MetaIdentity {
        cluster_id: "old".into(),
        node_id: Some(NodeId(5)),
        wal_id: None,
        generation: Some(NodeEpoch(7)),
        revision: 0,
        bucket_claimed: false,
    };
    let found = read_identity(&path).await.expect("reads");
    assert_eq!(found.as_ref(), Some(&expected));
    let streams = [1, 2, 3, 4, 5, u64::MAX].map(StreamId);
    let unknown = unknown_streams(&path, &streams).await.expect("reads");
    assert_eq!(unknown, [StreamId(5), StreamId(u64::MAX)]);
    assert_eq!(stored_bytes(&path), before);
    assert!(!path.with_extension("db-shm").exists());

    let store = open(&path).await;
    assert_eq!(store.identity().await.expect("reads"), Some(expected));
    let unknown = unknown_streams(&path, &streams).await.expect("reads");
    assert_eq!(unknown, [StreamId(5), StreamId(u64::MAX)]);
}

#[tokio::test]
async fn where_no_broker_has_started_there_is_no_identity() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("meta.db");
    assert_eq!(read_identity(&path).await.expect("reads"), None);
    assert!(!path.exists(), "looking creates nothing");
    fs::write(&path, b"").expect("written");
    assert_eq!(read_identity(&path).await.expect("reads"), None);
    write_first_version(&path, false).await;
    assert_eq!(read_identity(&path).await.expect("reads"), None);
    // Closed, not dropped: a log that is still there would be read in place of the file.
    open(&path).await.close().await;
    assert_eq!(read_identity(&path).await.expect("reads"), None);
    fs::write(&path, b"not a database").expect("written");
    read_identity(&path).await.expect_err("corrupt");
}

#[tokio::test]
async fn every_transaction_counts_once_and_a_crash_takes_none_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("meta.db");
    let store = open(&path).await;
    let revisions = store.revisions();
    assert_eq!(store.revision(), 0);
    store.cluster_id("c").await.expect("an id");
    let node_epoch = store.register_node(NodeId(1)).await.expect("registers");
    let stream = create_stream(&store, 1).await;
    assert_eq!(store.revision(), 3);
    store.open_stream(stream, node_epoch).await.expect("opens");
    commit_one(&store, node_epoch, stream, 0, 10)
        .await
        .expect("commits");
    assert_eq!(store.revision(), 6);
    // A gap is refused: nothing has changed, nothing is counted but the id that was given out.
    commit_one(&store, node_epoch, stream, 11, 12)
        .await
        .expect_err("a gap");
    assert_eq!(store.revision(), 7);
    store.set_wal_id(Some(u64::MAX - 1)).await.expect("stores");
    store.set_wal_id(Some(u64::MAX - 1)).await.expect("stores");
    store.set_bucket_claimed().await.expect("stores");
    store.set_bucket_claimed().await.expect("stores");
    assert_eq!((store.revision(), *revisions.borrow()), (9, 9));

    let journal = fs::metadata(path.with_extension("db-wal"))
        .expect("there")
        .len();
    let into = tempfile::tempdir().expect("a folder");
    let image = crash_image(&path, &into, journal);
    let before = stored_bytes(&image);
    let expected = MetaIdentity {
        cluster_id: "c".into(),
        node_id: Some(NodeId(1)),
        wal_id: Some(u64::MAX - 1),
        generation: Some(node_epoch),
        revision: 9,
        bucket_claimed: true,
    };
    assert_eq!(read_identity(&image).await.expect("reads"), Some(expected));
    assert_eq!(stored_bytes(&image), before);
    assert!(!image.with_extension("db-shm").exists());
    assert_eq!(open(&image).await.revision(), 9);
}

#[tokio::test]
async fn deleted_streams_are_known_until_the_log_has_no_record_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("meta.db");
    let store = open(&path).await;
    for nth in 1..=3 {
        create_stream(&store, nth).await;
    }
    for name in ["t1", "t3"] {
        let name = TopicName::new(name).expect("legal");
        store.delete_topic(&name).await.expect("deletes");
    }
    // Each topic has two streams.
    let streams: Vec<StreamId> = (1..=7).map(StreamId).collect();
    let unknown = async || unknown_streams(&path, &streams).await.expect("reads");
    assert_eq!(unknown().await, [StreamId(7)]);
    store
        .forget_deleted_streams(vec![StreamId(5), StreamId(u64::MAX)])
        .await
        .expect("forgets");
    assert_eq!(unknown().await, [1, 2, 6, 7].map(StreamId));
}

#[tokio::test]
async fn counters_are_raised_above_what_others_have_seen_and_never_fall() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("meta.db");
    let store = open(&path).await;
    let stream = create_stream(&store, 1).await;
    let floors = Floors {
        generation: 40,
        revision: 1_000,
        next_object: 50,
        next_stream: 60,
        next_producer: 70,
        stream_epochs_by: 1_000,
        deleted: [1, 59].map(StreamId).to_vec(),
    };
    store.raise(floors).await.expect("raises");
    assert_eq!(store.revision(), 1_001);
    store
        .raise(Floors::default())
        .await
        .expect("changes nothing");
    assert_eq!(store.revision(), 1_002);
    let unknown = unknown_streams(&path, &[1, 3, 59].map(StreamId)).await;
    assert_eq!(unknown.expect("reads"), [StreamId(3)]);
    let node_epoch = store.register_node(NodeId(1)).await.expect("registers");
    assert_eq!(node_epoch, NodeEpoch(41));
    let opened = store.open_stream(stream, node_epoch).await.expect("opens");
    assert_eq!(opened.epoch.get(), 1_001);
    let object = store.reserve_objects(node_epoch, 1).await.expect("an id");
    assert_eq!(object, ObjectId(50));
    assert_eq!(create_stream(&store, 2).await, StreamId(60));
    let producers = store.allocate_producer_ids(1).await.expect("ids");
    assert_eq!(producers, 70..71);
}
