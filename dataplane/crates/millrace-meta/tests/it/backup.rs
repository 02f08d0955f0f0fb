//! What the store gives to its backup, put together again, is the store.

use std::{collections::BTreeMap, path::Path, time::Duration};

use millrace_meta::{
    MetaStore, NewTopic, Topic,
    sqlite::{BackupSource, Captured, Restore, SqliteMeta, SqliteOptions},
};
use millrace_model::{NodeEpoch, NodeId, ObjectId, TopicId, TopicName};
use millrace_time::{ManualClock, SeededRandom};
use uuid::Uuid;

async fn open(path: &Path) -> SqliteMeta {
    let options = SqliteOptions::default();
    SqliteMeta::open(path, options, ManualClock::shared())
        .await
        .expect("opens")
}

async fn create(store: &SqliteMeta, nth: u64, partitions: u32) {
    let topic = NewTopic {
        name: TopicName::new(format!("t{nth}")).expect("legal"),
        id: TopicId(Uuid::from_u128(u128::from(nth) + 1)),
        partitions,
        configs: BTreeMap::new(),
    };
    store.create_topic(topic).await.expect("creates");
}

/// What a restored file says.
async fn read(path: &Path) -> (u64, Vec<Topic>) {
    let copy = path.with_extension("copy");
    std::fs::copy(path, &copy).expect("copied");
    let store = open(&copy).await;
    store.check_integrity().await.expect("sound");
    let said = (store.revision(), store.topics().await.expect("reads"));
    store.close().await;
    said
}

/// Puts what is captured into the file, parts of a snapshot included.
async fn apply(
    source: &mut BackupSource,
    captured: Captured,
    target: &mut Option<Restore>,
    path: &Path,
) {
    if let Some(changes) = captured.changes {
        let target = target.as_mut().expect("changes follow a snapshot");
        target.apply(&changes.body).expect("applied");
    }
    if captured.snapshot.is_some() {
        let mut fresh = Restore::create(path).expect("created");
        while let Some(part) = source.next_part().await.expect("reads") {
            fresh.write_part(part.offset, &part.bytes).expect("written");
        }
        *target = Some(fresh);
    }
}

#[tokio::test]
async fn snapshots_and_changes_together_are_the_database_at_every_moment() {
    for seed in 0..2 {
        let random = SeededRandom::shared(seed);
        let folder = tempfile::tempdir().expect("a folder");
        let (path, restored) = (
            folder.path().join("meta.db"),
            folder.path().join("restored.db"),
        );
        let store = open(&path).await;
        store.cluster_id("c").await.expect("stored");
        let mut source = store.begin_backup();
        let (mut target, mut topics, mut given) = (None, 0, 0);
        for step in 0..20 {
            for _ in 0..random.below(4) {
                topics += 1;
                let partitions = 1 + u32::try_from(random.below(60)).expect("small");
                create(&store, topics, partitions).await;
            }
            if random.below(5) == 0 && topics > 0 {
                let name = TopicName::new(format!("t{}", 1 + random.below(topics))).expect("legal");
                // It may be gone already.
                let _ = store.delete_topic(&name).await;
            }
            let captured = source
                .capture(random.below(6) == 0)
                .await
                .expect("captures");
            if let Some(changes) = &captured.changes {
                assert_eq!(
                    changes.first_revision,
                    given + 1,
                    "seed {seed}, step {step}"
                );
            }
            apply(&mut source, captured, &mut target, &restored).await;
            given = store.revision();
            let expected = (given, store.topics().await.expect("reads"));
            assert_eq!(read(&restored).await, expected, "seed {seed}, step {step}");
        }
    }
}

#[tokio::test]
async fn changes_go_on_while_a_snapshot_is_read_and_belong_on_top_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, restored) = (
        folder.path().join("meta.db"),
        folder.path().join("restored.db"),
    );
    let store = open(&path).await;
    // More than one part.
    store
        .put_kv("large", &vec![7; 9 << 20])
        .await
        .expect("stored");
    let mut source = store.begin_backup();
    let captured = source.capture(false).await.expect("captures");
    let start = captured.snapshot.expect("each backup begins with one");
    let mut target = Restore::create(&restored).expect("created");
    let (mut bodies, mut parts) = (Vec::new(), 0);
    while let Some(part) = source.next_part().await.expect("reads") {
        target
            .write_part(part.offset, &part.bytes)
            .expect("written");
        parts += 1;
        create(&store, parts, 50).await;
        // Whatever the journal has, the file must stand still.
        let captured = source.capture(false).await.expect("captures");
        assert_eq!(captured.snapshot, None);
        bodies.push(captured.changes.expect("a change"));
    }
    assert!(parts > 1, "{} bytes in {parts} part", start.file_bytes);
    assert_eq!(
        bodies.first().map(|first| first.first_revision),
        Some(start.revision + 1)
    );
    for changes in &bodies {
        target.apply(&changes.body).expect("applied");
    }
    let expected = (store.revision(), store.topics().await.expect("reads"));
    assert_eq!(read(&restored).await, expected);
}

#[tokio::test]
async fn a_journal_that_another_program_gave_back_begins_the_backup_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("meta.db");
    let store = open(&path).await;
    let mut source = store.begin_backup();
    assert!(
        source
            .capture(false)
            .await
            .expect("captures")
            .snapshot
            .is_some()
    );
    while source.next_part().await.expect("reads").is_some() {}
    create(&store, 1, 1).await;
    let other = sqlx::SqlitePool::connect(path.to_str().expect("text"))
        .await
        .expect("opens");
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)")
        .execute(&other)
        .await
        .expect("runs");
    other.close().await;
    create(&store, 2, 1).await;
    let captured = source.capture(false).await.expect("captures");
    assert_eq!(captured.changes, None, "a change is missing");
    assert_eq!(
        captured.snapshot.map(|start| start.revision),
        Some(store.revision())
    );
}

#[tokio::test]
async fn whoever_waits_for_the_backup_waits_for_what_was_changed_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder.path().join("meta.db")).await;
    create(&store, 1, 1).await;
    assert_eq!(store.backed_up().await, 1, "without a backup nobody waits");
    let source = store.begin_backup();
    let waits = |store: SqliteMeta| tokio::spawn(async move { store.backed_up().await });
    let first = waits(store.clone());
    tokio::task::yield_now().await;
    create(&store, 2, 1).await;
    let second = waits(store.clone());
    source.backed_up_to(1);
    assert_eq!(first.await.expect("no panic"), 1);
    let timeout = tokio::time::timeout(Duration::from_millis(20), second);
    timeout
        .await
        .expect_err("the second change is not backed up");
}

#[tokio::test]
async fn unknown_objects_are_retired_and_known_ones_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = SqliteOptions {
        retired_retention: Duration::ZERO,
        ..SqliteOptions::default()
    };
    let clock = ManualClock::shared();
    let store = SqliteMeta::open(&folder.path().join("meta.db"), options, clock).await;
    let store = store.expect("opens");
    let epoch: NodeEpoch = store.register_node(NodeId(1)).await.expect("registers");
    let known = store.reserve_objects(epoch, 1).await.expect("reserves");
    let unknown = ObjectId(known.get() + 7);
    store
        .retire_unknown(vec![known, unknown])
        .await
        .expect("retires");
    let retired = store.retired_objects(epoch, 9).await.expect("lists");
    assert_eq!(retired, [unknown]);
}
