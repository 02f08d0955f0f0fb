//! What every metadata store promises, whatever keeps it.

mod lookups;
mod security;

use std::{collections::BTreeMap, future::Future, sync::Arc};

use millrace_meta::{
    CommitError, CreatePartitionsError, CreateTopicError, Fenced, MetaStore, NewTopic, ObjectKind,
    ObjectRange, OpenStreamError, ReserveError, StreamObject, StreamSetObject, SweepError, Topic,
    TopicError, TrimError, Upload,
    postgres::{PostgresMeta, PostgresOptions},
    sqlite::{SqliteMeta, SqliteOptions},
};
use millrace_model::{
    NodeEpoch, NodeId, ObjectId, Offset, StreamId, StreamRange, TopicId, TopicName,
    limits::TOPIC_PARTITIONS_MAX,
};
use millrace_time::ManualClock;
use uuid::Uuid;

use millrace_testkit::PostgresServer;

type Store = Arc<dyn MetaStore>;

/// Runs every promise on a fresh store. `open` gives one that keeps retired objects for no time.
async fn keeps_the_contract<F: Future<Output = Store>>(open: impl Fn() -> F) {
    ids_are_never_given_twice(open().await).await;
    topics_come_and_go(open().await).await;
    partitions_can_only_be_added(open().await).await;
    refused_topics_leave_nothing(open().await).await;
    streams_have_one_owner(open().await).await;
    uploads_extend_streams(open().await).await;
    ranges_are_found_by_offset(open().await).await;
    lookups::each_of_many_lookups_has_its_own_answer(open().await).await;
    uploads_that_do_not_fit_change_nothing(open().await).await;
    the_same_upload_counts_once(open().await).await;
    a_replaced_start_is_refused_everywhere(open().await).await;
    trims_move_forward_and_retire(open().await).await;
    trims_reach_beyond_what_is_committed(open().await).await;
    deleted_topics_retire_their_objects(open().await).await;
    what_was_reserved_and_left_is_retired(open().await).await;
    only_retired_objects_are_forgotten(open().await).await;
    values_are_kept(open().await).await;
    security::credentials_are_kept(open().await).await;
    security::acls_are_kept(open().await).await;
    security::delegation_tokens_are_kept(open().await).await;
    security::quotas_are_kept(open().await).await;
    security::resource_configs_are_kept(open().await).await;
}

#[tokio::test]
async fn sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let next = std::sync::atomic::AtomicU32::new(0);
    keeps_the_contract(|| async {
        let number = next.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let path = folder.path().join(format!("{number}.db"));
        let options = SqliteOptions {
            retired_retention: std::time::Duration::ZERO,
            ..SqliteOptions::default()
        };
        let opened = SqliteMeta::open(&path, options, ManualClock::shared()).await;
        Arc::new(opened.expect("opens")) as Store
    })
    .await;
}

#[tokio::test]
async fn postgres() {
    let server = PostgresServer::start();
    keeps_the_contract(|| async {
        let options = PostgresOptions {
            connections_max: 2,
            retired_retention: std::time::Duration::ZERO,
            ..PostgresOptions::default()
        };
        let opened = PostgresMeta::open(&server.database().await, options).await;
        Arc::new(opened.expect("opens")) as Store
    })
    .await;
}

fn name(text: &str) -> TopicName {
    TopicName::new(text).expect("legal")
}

fn new_topic(text: &str, partitions: u32) -> NewTopic {
    let id = text.bytes().fold(1, |id, byte| id * 257 + u128::from(byte));
    let id = TopicId(Uuid::from_u128(id));
    NewTopic {
        name: name(text),
        id,
        partitions,
        configs: BTreeMap::new(),
    }
}

fn range(stream: StreamId, start: Offset, end: Offset) -> StreamRange {
    StreamRange { stream, start, end }
}

/// An upload of stream objects, one per range, with reserved ids.
async fn upload(store: &Store, node_epoch: NodeEpoch, ranges: &[StreamRange]) -> Upload {
    let first = store
        .reserve_objects(node_epoch, ranges.len() as u32)
        .await
        .expect("ids");
    let objects = (first.get()..)
        .zip(ranges)
        .map(|(id, &range)| StreamObject {
            id: ObjectId(id),
            size: 1_000 + id,
            range,
        });
    Upload {
        node_epoch,
        stream_set: None,
        stream_objects: objects.collect(),
    }
}

/// A node epoch and the open data streams of a topic.
async fn opened(store: &Store, partitions: u32) -> (NodeEpoch, Vec<StreamId>) {
    let node_epoch = store.register_node(NodeId(1)).await.expect("registers");
    let topic = store
        .create_topic(new_topic("t", partitions))
        .await
        .expect("creates");
    let streams: Vec<_> = topic
        .partitions
        .iter()
        .map(|partition| partition.data)
        .collect();
    let opened = store
        .open_streams(&streams, node_epoch)
        .await
        .expect("opens");
    assert_eq!(opened.len(), streams.len());
    (node_epoch, streams)
}

async fn end_of(store: &Store, stream: StreamId, node_epoch: NodeEpoch) -> Offset {
    store
        .open_stream(stream, node_epoch)
        .await
        .expect("opens")
        .end
}

async fn found(store: &Store, stream: StreamId, from: Offset) -> Vec<(Offset, Offset)> {
    let ranges = store.objects_of(stream, from, 1_000).await.expect("found");
    ranges
        .iter()
        .map(|found| (found.range.start, found.range.end))
        .collect()
}

async fn ids_are_never_given_twice(store: Store) {
    assert_eq!(store.cluster_id("first").await.expect("an id"), "first");
    assert_eq!(store.cluster_id("second").await.expect("an id"), "first");

    let mut epochs = Vec::new();
    for node in [1, 2, 1, 1] {
        epochs.push(store.register_node(NodeId(node)).await.expect("registers"));
    }
    assert!(
        epochs.is_sorted_by(|earlier, later| earlier < later),
        "{epochs:?}"
    );

    let first = store.allocate_producer_ids(1_000).await.expect("ids");
    let second = store.allocate_producer_ids(10).await.expect("ids");
    assert_eq!((first, second), (0..1_000, 1_000..1_010));

    let first = store.reserve_objects(epochs[3], 3).await.expect("ids");
    let second = store.reserve_objects(epochs[1], 1).await.expect("ids");
    assert!(second.get() >= first.get() + 3);
    let too_many = store.reserve_objects(epochs[3], u32::MAX).await;
    assert!(matches!(
        too_many,
        Err(ReserveError::TooMany {
            asked: u32::MAX,
            ..
        })
    ));
}

async fn topics_come_and_go(store: Store) {
    let configs = BTreeMap::from([("retention.ms".to_owned(), "1".to_owned())]);
    let new = NewTopic {
        configs: configs.clone(),
        ..new_topic("b", 3)
    };
    let b = store.create_topic(new.clone()).await.expect("creates");
    let a = store
        .create_topic(new_topic("a", 1))
        .await
        .expect("creates");
    assert_eq!(
        (&b.name, b.id, &b.configs),
        (&new.name, new.id, &new.configs)
    );
    assert_eq!(
        b.partitions.iter().map(|p| p.index).collect::<Vec<_>>(),
        [0, 1, 2]
    );
    let mut streams = streams_of(&[&a, &b]);
    assert_eq!(streams.len(), 8);
    assert_eq!(
        store.topics().await.expect("topics"),
        [a.clone(), b.clone()]
    );

    let changed = BTreeMap::from([("x".to_owned(), "ü".to_owned())]);
    let after = store
        .set_topic_configs(&a.name, changed.clone())
        .await
        .expect("changes");
    assert_eq!(
        after,
        Topic {
            configs: changed,
            ..a.clone()
        }
    );
    assert_eq!(store.topics().await.expect("topics"), [after, b.clone()]);

    assert_eq!(store.delete_topic(&b.name).await.expect("deletes"), b);
    let again = store.delete_topic(&b.name).await;
    assert!(matches!(again, Err(TopicError::Unknown(gone)) if gone == b.name));
    let reborn = NewTopic {
        id: TopicId(Uuid::from_u128(99)),
        ..new_topic("b", 3)
    };
    let reborn = store
        .create_topic(reborn)
        .await
        .expect("the name is free again");
    streams.extend(streams_of(&[&reborn]));
    streams.sort_unstable();
    streams.dedup();
    assert_eq!(streams.len(), 14, "stream ids are never reused");
}

fn streams_of(topics: &[&Topic]) -> Vec<StreamId> {
    let partitions = topics.iter().flat_map(|topic| &topic.partitions);
    partitions
        .flat_map(|partition| [partition.data, partition.meta])
        .collect()
}

async fn partitions_can_only_be_added(store: Store) {
    let before = store
        .create_topic(new_topic("t", 2))
        .await
        .expect("creates");
    let after = store
        .create_partitions(&before.name, 5)
        .await
        .expect("adds");
    assert_eq!(after.partitions[..2], before.partitions);
    assert_eq!(
        after.partitions.iter().map(|p| p.index).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4]
    );
    assert_eq!(
        store.topics().await.expect("topics"),
        std::slice::from_ref(&after)
    );
    for asked in [5, 1, 0] {
        let fewer = store.create_partitions(&after.name, asked).await;
        let not_more = matches!(fewer,
            Err(CreatePartitionsError::NotMore { current: 5, asked: a }) if a == asked);
        assert!(not_more, "{fewer:?}");
    }
    let many = store
        .create_partitions(&after.name, TOPIC_PARTITIONS_MAX + 1)
        .await;
    assert!(matches!(many, Err(CreatePartitionsError::TooMany { .. })));
    let unknown = store.create_partitions(&name("u"), 2).await;
    assert!(matches!(unknown, Err(CreatePartitionsError::Unknown(_))));
}

async fn refused_topics_leave_nothing(store: Store) {
    let topic = store
        .create_topic(new_topic("t", 1))
        .await
        .expect("creates");
    let other_id = NewTopic {
        id: TopicId(Uuid::from_u128(5)),
        ..new_topic("t", 1)
    };
    let exists = store.create_topic(other_id).await;
    assert!(matches!(exists, Err(CreateTopicError::Exists(taken)) if taken == topic.name));
    for partitions in [0, TOPIC_PARTITIONS_MAX + 1] {
        let refused = store.create_topic(new_topic("u", partitions)).await;
        assert!(matches!(refused, Err(CreateTopicError::Partitions { .. })));
    }
    let unknown = store.set_topic_configs(&name("u"), BTreeMap::new()).await;
    assert!(matches!(unknown, Err(TopicError::Unknown(_))));
    assert_eq!(store.topics().await.expect("topics"), [topic]);
}

async fn streams_have_one_owner(store: Store) {
    let (first, streams) = opened(&store, 2).await;
    let stream = streams[0];
    let once = store.open_stream(stream, first).await.expect("opens");
    let twice = store.open_stream(stream, first).await.expect("opens again");
    assert_eq!((once, once.start, once.end), (twice, 0, 0));

    let second = store.register_node(NodeId(2)).await.expect("registers");
    let taken = store
        .open_streams(&[stream, stream], second)
        .await
        .expect("takes over");
    assert_eq!(taken.len(), 2);
    assert_eq!(taken[0], taken[1]);
    assert_eq!(taken[0].epoch.get(), once.epoch.get() + 1);
    let trim = store.trim_stream(stream, first, 1).await;
    assert!(matches!(trim, Err(TrimError::NotOwner(s)) if s == stream));
    let commit = upload(&store, first, &[range(stream, 0, 1)]).await;
    let commit = store.commit_upload(commit).await;
    assert!(matches!(commit, Err(CommitError::NotOwner(s)) if s == stream));

    let unknown = StreamId(1 << 40);
    let open = store.open_stream(unknown, first).await;
    assert!(matches!(open, Err(OpenStreamError::Unknown(s)) if s == unknown));
    let some = store
        .open_streams(&[unknown, streams[1]], first)
        .await
        .expect("opens one");
    assert_eq!(
        some.iter().map(|meta| meta.id).collect::<Vec<_>>(),
        [streams[1]]
    );
}

async fn uploads_extend_streams(store: Store) {
    let (node_epoch, streams) = opened(&store, 3).await;
    let [a, b, c] = streams[..] else {
        panic!("three streams")
    };
    let mut first = upload(&store, node_epoch, &[range(c, 0, 1 << 40)]).await;
    let id = store.reserve_objects(node_epoch, 1).await.expect("an id");
    let ranges = vec![range(a, 0, 10), range(b, 0, 20)];
    first.stream_set = Some(StreamSetObject {
        id,
        size: 77,
        ranges,
    });
    store.commit_upload(first.clone()).await.expect("commits");
    let second = upload(&store, node_epoch, &[range(a, 10, 15)]).await;
    store.commit_upload(second.clone()).await.expect("commits");

    let ends = [(a, 15), (b, 20), (c, 1 << 40)];
    for (stream, end) in ends {
        assert_eq!(end_of(&store, stream, node_epoch).await, end);
    }
    let of_set = |range| ObjectRange {
        object: id,
        size: 77,
        range,
        kind: ObjectKind::StreamSet,
    };
    let of_stream = |upload: &Upload| {
        let StreamObject {
            id: object,
            size,
            range,
        } = upload.stream_objects[0].clone();
        ObjectRange {
            object,
            size,
            range,
            kind: ObjectKind::Stream,
        }
    };
    let objects_of = async |stream| store.objects_of(stream, 0, 10).await.expect("found");
    assert_eq!(
        objects_of(a).await,
        [of_set(range(a, 0, 10)), of_stream(&second)]
    );
    assert_eq!(objects_of(b).await, [of_set(range(b, 0, 20))]);
    assert_eq!(objects_of(c).await, [of_stream(&first)]);
}

async fn ranges_are_found_by_offset(store: Store) {
    let (node_epoch, streams) = opened(&store, 1).await;
    let stream = streams[0];
    for nth in 0..10 {
        let next = upload(
            &store,
            node_epoch,
            &[range(stream, nth * 10, nth * 10 + 10)],
        )
        .await;
        store.commit_upload(next).await.expect("commits");
    }
    assert_eq!(found(&store, stream, 0).await.len(), 10);
    assert_eq!(
        found(&store, stream, 79).await,
        [(70, 80), (80, 90), (90, 100)]
    );
    assert_eq!(found(&store, stream, 80).await, [(80, 90), (90, 100)]);
    assert_eq!(found(&store, stream, 99).await, [(90, 100)]);
    assert_eq!(found(&store, stream, 100).await, []);
    assert_eq!(found(&store, stream, u64::MAX).await, []);
    assert_eq!(found(&store, StreamId(1 << 40), 0).await, []);
    let few = store.objects_of(stream, 35, 2).await.expect("found");
    assert_eq!(
        few.iter()
            .map(|found| found.range.start)
            .collect::<Vec<_>>(),
        [30, 40]
    );
}

async fn uploads_that_do_not_fit_change_nothing(store: Store) {
    let (node_epoch, streams) = opened(&store, 2).await;
    let [a, b] = streams[..] else {
        panic!("two streams")
    };
    let base = upload(&store, node_epoch, &[range(a, 0, 10)]).await;
    store.commit_upload(base.clone()).await.expect("commits");

    for start in [0, 9, 11, 100] {
        // The first range fits; it must not be committed alone.
        let ranges = [range(b, 0, 5), range(a, start, 200)];
        let refused = upload(&store, node_epoch, &ranges).await;
        let refused = store.commit_upload(refused).await;
        let discontinuous = matches!(refused,
            Err(CommitError::Discontinuous { stream, expected: 10, got })
            if stream == a && got == start);
        assert!(discontinuous, "{start}: {refused:?}");
    }
    let with_hole = [range(b, 0, 5), range(b, 6, 7)];
    let refused = upload(&store, node_epoch, &with_hole).await;
    let refused = store.commit_upload(refused).await;
    let expected = CommitError::Discontinuous {
        stream: b,
        expected: 5,
        got: 6,
    };
    assert_eq!(
        format!("{:?}", refused.expect_err("a hole")),
        format!("{expected:?}")
    );

    let empty = upload(&store, node_epoch, &[range(b, 0, 0)]).await;
    let id = empty.stream_objects[0].id;
    let refused = store.commit_upload(empty).await;
    assert!(matches!(refused, Err(CommitError::EmptyRange(object)) if object == id));
    let unknown = upload(&store, node_epoch, &[range(StreamId(1 << 40), 0, 1)]).await;
    let refused = store.commit_upload(unknown).await;
    assert!(matches!(refused, Err(CommitError::UnknownStream(_))));
    let mut unreserved = upload(&store, node_epoch, &[range(b, 0, 5)]).await;
    unreserved.stream_objects[0].id = ObjectId(1 << 40);
    let refused = store.commit_upload(unreserved).await;
    assert!(matches!(refused, Err(CommitError::NotPrepared(ObjectId(id))) if id == 1 << 40));
    let mut taken = upload(&store, node_epoch, &[range(b, 0, 5)]).await;
    taken.stream_objects[0].id = base.stream_objects[0].id;
    let refused = store.commit_upload(taken).await;
    assert!(matches!(refused, Err(CommitError::NotPrepared(_))));

    assert_eq!(found(&store, a, 0).await, [(0, 10)]);
    assert_eq!(found(&store, b, 0).await, []);
    assert_eq!(end_of(&store, b, node_epoch).await, 0);
    let fits = upload(&store, node_epoch, &[range(b, 0, 5), range(b, 5, 9)]).await;
    store
        .commit_upload(fits)
        .await
        .expect("two ranges of one stream");
    assert_eq!(found(&store, b, 0).await, [(0, 5), (5, 9)]);
}

async fn the_same_upload_counts_once(store: Store) {
    let (node_epoch, streams) = opened(&store, 1).await;
    let first = upload(&store, node_epoch, &[range(streams[0], 0, 10)]).await;
    let second = upload(&store, node_epoch, &[range(streams[0], 10, 20)]).await;
    for upload in [&first, &first, &second, &first, &second] {
        store
            .commit_upload(upload.clone())
            .await
            .expect("commits, or has committed");
    }
    assert_eq!(found(&store, streams[0], 0).await, [(0, 10), (10, 20)]);
}

async fn a_replaced_start_is_refused_everywhere(store: Store) {
    let (old, streams) = opened(&store, 1).await;
    let stream = streams[0];
    let under_way = upload(&store, old, &[range(stream, 0, 10)]).await;
    let new = store.register_node(NodeId(1)).await.expect("registers");
    let fenced = Fenced(old);
    let commit = store.commit_upload(under_way.clone()).await;
    assert!(matches!(commit, Err(CommitError::Fenced(f)) if f == fenced));
    let reserve = store.reserve_objects(old, 1).await;
    assert!(matches!(reserve, Err(ReserveError::Fenced(f)) if f == fenced));
    let open = store.open_stream(stream, old).await;
    assert!(matches!(open, Err(OpenStreamError::Fenced(f)) if f == fenced));
    let trim = store.trim_stream(stream, old, 1).await;
    assert!(matches!(trim, Err(TrimError::Fenced(f)) if f == fenced));
    let sweep = store.retired_objects(old, 1).await;
    assert!(matches!(sweep, Err(SweepError::Fenced(f)) if f == fenced));
    let sweep = store.mark_deleted(old, &[]).await;
    assert!(matches!(sweep, Err(SweepError::Fenced(f)) if f == fenced));

    assert_eq!(end_of(&store, stream, new).await, 0);
    let stolen = Upload {
        node_epoch: new,
        ..under_way
    };
    let commit = store.commit_upload(stolen).await;
    assert!(
        matches!(commit, Err(CommitError::NotPrepared(_))),
        "ids are the old start's"
    );
}

async fn trims_move_forward_and_retire(store: Store) {
    let (node_epoch, streams) = opened(&store, 2).await;
    let [a, b] = streams[..] else {
        panic!("two streams")
    };
    let id = store.reserve_objects(node_epoch, 1).await.expect("an id");
    let ranges = vec![range(a, 0, 10), range(b, 0, 10)];
    let set = Some(StreamSetObject {
        id,
        size: 1,
        ranges,
    });
    let shared = Upload {
        node_epoch,
        stream_set: set,
        stream_objects: Vec::new(),
    };
    store.commit_upload(shared).await.expect("commits");
    let own = upload(&store, node_epoch, &[range(a, 10, 20)]).await;
    let own_id = own.stream_objects[0].id;
    store.commit_upload(own).await.expect("commits");

    let trim = async |stream, to| {
        store
            .trim_stream(stream, node_epoch, to)
            .await
            .expect("trims")
    };
    let retired = async || store.retired_objects(node_epoch, 10).await.expect("a list");
    assert_eq!(trim(a, 5).await, 5);
    assert_eq!(
        found(&store, a, 0).await,
        [(0, 10), (10, 20)],
        "half of a range is still read"
    );
    assert_eq!(trim(a, 3).await, 5, "never back");
    assert_eq!(trim(a, 10).await, 10);
    assert_eq!(found(&store, a, 0).await, [(10, 20)]);
    assert_eq!(
        retired().await,
        [],
        "the other stream still needs the object"
    );
    assert_eq!(trim(a, 20).await, 20);
    assert_eq!(retired().await, [own_id]);
    assert_eq!(trim(b, 10).await, 10);
    assert_eq!(retired().await, [id, own_id]);
    let meta = store.open_stream(a, node_epoch).await.expect("opens");
    assert_eq!((meta.start, meta.end), (20, 20));
    let next = upload(&store, node_epoch, &[range(a, 20, 30)]).await;
    store
        .commit_upload(next)
        .await
        .expect("an empty stream goes on where it ended");
    let unknown = store.trim_stream(StreamId(1 << 40), node_epoch, 1).await;
    assert!(matches!(unknown, Err(TrimError::Unknown(_))));
}

async fn trims_reach_beyond_what_is_committed(store: Store) {
    let (node_epoch, streams) = opened(&store, 2).await;
    for &stream in &streams {
        let first = upload(&store, node_epoch, &[range(stream, 0, 10)]).await;
        store.commit_upload(first).await.expect("commits");
        store
            .trim_stream(stream, node_epoch, 50)
            .await
            .expect("trims");
        let meta = store.open_stream(stream, node_epoch).await.expect("opens");
        assert_eq!((meta.start, meta.end), (50, 10));
    }
    let [a, b] = streams[..] else {
        panic!("two streams")
    };
    let all = upload(&store, node_epoch, &[range(a, 10, 70)]).await;
    store
        .commit_upload(all)
        .await
        .expect("what was on its way may come");
    assert_eq!(found(&store, a, 0).await, [(10, 70)]);
    let behind = upload(&store, node_epoch, &[range(b, 51, 70)]).await;
    let behind = store.commit_upload(behind).await;
    assert!(matches!(
        behind,
        Err(CommitError::Discontinuous {
            expected: 10,
            got: 51,
            ..
        })
    ));
    let rest = upload(&store, node_epoch, &[range(b, 50, 70)]).await;
    store
        .commit_upload(rest)
        .await
        .expect("what was trimmed need not come");
    assert_eq!(found(&store, b, 50).await, [(50, 70)]);
}

async fn deleted_topics_retire_their_objects(store: Store) {
    let (node_epoch, streams) = opened(&store, 1).await;
    let gone = streams[0];
    let kept = store
        .create_topic(new_topic("kept", 1))
        .await
        .expect("creates");
    let kept = kept.partitions[0].data;
    store.open_stream(kept, node_epoch).await.expect("opens");
    let id = store.reserve_objects(node_epoch, 1).await.expect("an id");
    let ranges = vec![range(gone, 0, 10), range(kept, 0, 10)];
    let set = Some(StreamSetObject {
        id,
        size: 1,
        ranges,
    });
    let shared = Upload {
        node_epoch,
        stream_set: set,
        stream_objects: Vec::new(),
    };
    store.commit_upload(shared).await.expect("commits");
    let own = upload(&store, node_epoch, &[range(gone, 10, 20)]).await;
    let late = upload(
        &store,
        node_epoch,
        &[range(gone, 20, 30), range(kept, 10, 20)],
    )
    .await;
    store.commit_upload(own.clone()).await.expect("commits");

    store.delete_topic(&name("t")).await.expect("deletes");
    let retired = async || store.retired_objects(node_epoch, 10).await.expect("a list");
    assert_eq!(retired().await, [own.stream_objects[0].id]);
    assert_eq!(found(&store, gone, 0).await, []);
    let open = store.open_stream(gone, node_epoch).await;
    assert!(matches!(open, Err(OpenStreamError::Unknown(_))));

    store
        .commit_upload(late.clone())
        .await
        .expect("an upload under way is not held up");
    assert_eq!(found(&store, kept, 0).await, [(0, 10), (10, 20)]);
    assert_eq!(
        retired().await,
        [own.stream_objects[0].id, late.stream_objects[0].id]
    );
    store
        .commit_upload(late)
        .await
        .expect("again, as after a lost reply");
}

async fn what_was_reserved_and_left_is_retired(store: Store) {
    let (old, streams) = opened(&store, 1).await;
    let left = store.reserve_objects(old, 2).await.expect("ids");
    let used = upload(&store, old, &[range(streams[0], 0, 10)]).await;
    store.commit_upload(used).await.expect("commits");
    let other = store.register_node(NodeId(2)).await.expect("registers");
    assert_eq!(store.retired_objects(other, 10).await.expect("a list"), []);
    let new = store.register_node(NodeId(1)).await.expect("registers");
    let retired = store.retired_objects(new, 10).await.expect("a list");
    assert_eq!(retired, [left, ObjectId(left.get() + 1)]);
    assert_eq!(found(&store, streams[0], 0).await, [(0, 10)]);
}

async fn only_retired_objects_are_forgotten(store: Store) {
    let (node_epoch, streams) = opened(&store, 1).await;
    let mut ids = Vec::new();
    for start in [0, 10, 20] {
        let next = upload(&store, node_epoch, &[range(streams[0], start, start + 10)]).await;
        ids.push(next.stream_objects[0].id);
        store.commit_upload(next).await.expect("commits");
    }
    store
        .trim_stream(streams[0], node_epoch, 20)
        .await
        .expect("trims");
    let retired = async |limit| {
        store
            .retired_objects(node_epoch, limit)
            .await
            .expect("a list")
    };
    assert_eq!(retired(1).await, ids[..1]);
    assert_eq!(retired(10).await, ids[..2]);
    store
        .mark_deleted(node_epoch, &[ids[0], ids[2]])
        .await
        .expect("forgets");
    assert_eq!(retired(10).await, ids[1..2]);
    assert_eq!(
        found(&store, streams[0], 0).await,
        [(20, 30)],
        "a live object stays"
    );
}

async fn values_are_kept(store: Store) {
    assert_eq!(store.get_kv("a").await.expect("asked"), None);
    store.put_kv("a", b"1").await.expect("kept");
    store.put_kv("b", &[0, 255]).await.expect("kept");
    store.put_kv("a", b"").await.expect("replaced");
    assert_eq!(store.get_kv("a").await.expect("asked"), Some(Vec::new()));
    assert_eq!(store.get_kv("b").await.expect("asked"), Some(vec![0, 255]));
}
