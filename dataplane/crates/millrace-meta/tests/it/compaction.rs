//! What every metadata store promises about compaction, whatever keeps it.

use std::{collections::BTreeMap, future::Future, sync::Arc, time::Duration};

use millrace_meta::{
    Compaction, CompactionError, Fenced, MetaStore, NewTopic, ObjectKind, ReserveError,
    StreamObject, StreamSetObject, StreamSummary, Upload,
    postgres::{PostgresMeta, PostgresOptions},
    sqlite::{SqliteMeta, SqliteOptions},
};
use millrace_model::{
    NodeEpoch, NodeId, ObjectId, Offset, StreamId, StreamRange, TopicId, TopicName,
};
use millrace_time::ManualClock;
use uuid::Uuid;

use millrace_testkit::PostgresServer;

type Store = Arc<dyn MetaStore>;

/// Runs every promise on a fresh store. `open` gives one that keeps retired objects for no time.
async fn keeps_the_contract<F: Future<Output = Store>>(open: impl Fn() -> F) {
    objects_are_replaced_at_once(Two::new(open().await).await).await;
    the_same_compaction_counts_once(Two::new(open().await).await).await;
    nothing_may_be_lost_or_be_there_twice(Two::new(open().await).await).await;
    only_what_is_committed_is_replaced(Two::new(open().await).await).await;
    what_was_trimmed_meanwhile_may_be_missing(Two::new(open().await).await).await;
    what_was_deleted_meanwhile_is_forgotten(Two::new(open().await).await).await;
    a_replaced_start_compacts_nothing(Two::new(open().await).await).await;
    ids_that_are_not_used_are_retired(Two::new(open().await).await).await;
    candidates_are_listed_in_pages(Two::new(open().await).await).await;
}

#[tokio::test]
async fn sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let next = std::sync::atomic::AtomicU32::new(0);
    keeps_the_contract(|| async {
        let number = next.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let path = folder.path().join(format!("{number}.db"));
        let options = SqliteOptions {
            retired_retention: Duration::ZERO,
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
            retired_retention: Duration::ZERO,
            ..PostgresOptions::default()
        };
        let opened = PostgresMeta::open(&server.database().await, options).await;
        Arc::new(opened.expect("opens")) as Store
    })
    .await;
}

fn range(stream: StreamId, start: Offset, end: Offset) -> StreamRange {
    StreamRange { stream, start, end }
}

/// A store with two streams, `a` of topic `t0` and `b` of topic `t1`:
/// a set with a 0–10 and b 0–10, an object with a 10–20, a set with a 20–30 and b 10–20.
struct Two {
    store: Store,
    node_epoch: NodeEpoch,
    a: StreamId,
    b: StreamId,
    sets: [ObjectId; 2],
    single: ObjectId,
}

impl Two {
    async fn new(store: Store) -> Self {
        let node_epoch = store.register_node(NodeId(1)).await.expect("registers");
        let mut streams = Vec::new();
        for nth in 0..2 {
            let topic = NewTopic {
                name: TopicName::new(format!("t{nth}")).expect("legal"),
                id: TopicId(Uuid::from_u128(nth + 1)),
                partitions: 1,
                configs: BTreeMap::new(),
            };
            let topic = store.create_topic(topic).await.expect("creates");
            streams.push(topic.partitions[0].data);
        }
        store
            .open_streams(&streams, node_epoch)
            .await
            .expect("opens");
        let [a, b] = streams[..] else {
            panic!("two streams")
        };
        let id = ObjectId(0);
        let mut two = Self {
            store,
            node_epoch,
            a,
            b,
            sets: [id, id],
            single: id,
        };
        two.sets[0] = two.upload(&[range(a, 0, 10), range(b, 0, 10)]).await;
        two.single = two.upload(&[range(a, 10, 20)]).await;
        two.sets[1] = two.upload(&[range(a, 20, 30), range(b, 10, 20)]).await;
        two
    }

    async fn id(&self) -> ObjectId {
        let id = self.store.reserve_objects(self.node_epoch, 1).await;
        id.expect("an id")
    }

    /// Uploads one object, a set where it has several ranges.
    async fn upload(&self, ranges: &[StreamRange]) -> ObjectId {
        let id = self.id().await;
        let (stream_set, stream_objects) = output(id, ranges);
        let upload = Upload {
            node_epoch: self.node_epoch,
            stream_set,
            stream_objects,
        };
        self.store.commit_upload(upload).await.expect("commits");
        id
    }

    /// A compaction of `inputs` into one object per list, of which one may be a set.
    async fn compaction(&self, inputs: &[ObjectId], outputs: &[&[StreamRange]]) -> Compaction {
        let mut compaction = Compaction {
            node_epoch: self.node_epoch,
            inputs: inputs.to_vec(),
            stream_set: None,
            stream_objects: Vec::new(),
        };
        for ranges in outputs {
            let (set, singles) = output(self.id().await, ranges);
            compaction.stream_set = compaction.stream_set.or(set);
            compaction.stream_objects.extend(singles);
        }
        compaction
    }

    async fn compact(
        &self,
        inputs: &[ObjectId],
        outputs: &[&[StreamRange]],
    ) -> Result<(), CompactionError> {
        let compaction = self.compaction(inputs, outputs).await;
        self.store.commit_compaction(compaction).await
    }

    fn all(&self) -> [ObjectId; 3] {
        [self.sets[0], self.single, self.sets[1]]
    }

    async fn found(&self, stream: StreamId) -> Vec<(Offset, Offset)> {
        let ranges = self.store.objects_of(stream, 0, 100).await.expect("found");
        let bounds = ranges
            .iter()
            .map(|found| (found.range.start, found.range.end));
        bounds.collect()
    }

    async fn retired(&self) -> Vec<ObjectId> {
        let retired = self.store.retired_objects(self.node_epoch, 100).await;
        retired.expect("a list")
    }

    async fn trim(&self, stream: StreamId, to: Offset) {
        let trimmed = self.store.trim_stream(stream, self.node_epoch, to).await;
        trimmed.expect("trims");
    }

    async fn is_as_uploaded(&self) {
        assert_eq!(self.found(self.a).await, [(0, 10), (10, 20), (20, 30)]);
        assert_eq!(self.found(self.b).await, [(0, 10), (10, 20)]);
        assert_eq!(self.retired().await, []);
    }
}

fn output(id: ObjectId, ranges: &[StreamRange]) -> (Option<StreamSetObject>, Vec<StreamObject>) {
    let size = 600;
    match ranges {
        &[range] => (None, vec![StreamObject { id, size, range }]),
        ranges => {
            let ranges = ranges.to_vec();
            (Some(StreamSetObject { id, size, ranges }), Vec::new())
        }
    }
}

async fn objects_are_replaced_at_once(two: Two) {
    let (a, b) = (two.a, two.b);
    let small = [range(a, 0, 10), range(a, 20, 30), range(b, 0, 20)];
    two.compact(&two.sets, &[&small]).await.expect("commits");
    assert_eq!(two.found(a).await, [(0, 10), (10, 20), (20, 30)]);
    assert_eq!(two.found(b).await, [(0, 20)]);
    assert_eq!(two.retired().await, two.sets);

    let merged = two.store.objects_of(b, 0, 1).await.expect("found")[0];
    assert_eq!((merged.kind, merged.size), (ObjectKind::StreamSet, 600));
    let inputs = [merged.object, two.single];
    let split: [&[StreamRange]; 3] = [&[range(a, 0, 25)], &[range(a, 25, 30)], &[range(b, 0, 20)]];
    two.compact(&inputs, &split).await.expect("commits");
    assert_eq!(two.found(a).await, [(0, 25), (25, 30)]);
    assert_eq!(two.found(b).await, [(0, 20)]);
    let next = two.upload(&[range(a, 30, 40), range(b, 20, 30)]).await;
    assert_eq!(two.found(a).await, [(0, 25), (25, 30), (30, 40)]);

    two.trim(a, 30).await;
    two.trim(b, 30).await;
    two.trim(a, 40).await;
    let mut retired = two.retired().await;
    retired.sort_unstable();
    assert_eq!(retired.len(), 8, "every object of both streams");
    assert!(retired.contains(&next));
}

async fn the_same_compaction_counts_once(two: Two) {
    let whole: [&[StreamRange]; 2] = [&[range(two.a, 0, 30)], &[range(two.b, 0, 20)]];
    let compaction = two.compaction(&two.all(), &whole).await;
    for _ in 0..2 {
        let committed = two.store.commit_compaction(compaction.clone()).await;
        committed.expect("commits, or has committed");
        assert_eq!(two.found(two.a).await, [(0, 30)]);
    }
    let retired = two.retired().await;
    two.store
        .mark_deleted(two.node_epoch, &retired)
        .await
        .expect("forgets");
    let again = two.store.commit_compaction(compaction).await;
    again.expect("has committed, even where the inputs are forgotten");

    let second = two.compact(&two.all(), &whole).await;
    assert!(
        matches!(second, Err(CompactionError::Differs { .. })),
        "the inputs hold nothing any more: {second:?}"
    );
    assert_eq!(two.found(two.a).await, [(0, 30)]);
}

async fn nothing_may_be_lost_or_be_there_twice(two: Two) {
    let (a, b) = (two.a, two.b);
    let (all_of_a, all_of_b) = (range(a, 0, 30), range(b, 0, 20));
    let wrong: [(&[StreamRange], StreamId, Offset); 7] = [
        (&[all_of_a], b, 0),
        (&[all_of_a, range(b, 0, 19)], b, 19),
        (&[range(a, 1, 30), all_of_b], a, 0),
        (&[range(a, 0, 9), range(a, 10, 30), all_of_b], a, 9),
        (&[range(a, 0, 31), all_of_b], a, 30),
        (&[range(a, 0, 12), range(a, 11, 30), all_of_b], a, 11),
        (&[all_of_a, all_of_a, all_of_b], a, 0),
    ];
    for (ranges, stream, offset) in wrong {
        let outputs: Vec<&[StreamRange]> = ranges.iter().map(std::slice::from_ref).collect();
        let refused = two.compact(&two.all(), &outputs).await;
        assert!(
            matches!(refused, Err(CompactionError::Differs { stream: s, offset: o })
                if (s, o) == (stream, offset)),
            "{ranges:?}: {refused:?}"
        );
        two.is_as_uploaded().await;
    }
    let foreign = two.compact(&two.sets, &[&[all_of_a], &[all_of_b]]).await;
    assert!(
        matches!(foreign, Err(CompactionError::Differs { offset: 10, .. })),
        "what another object holds: {foreign:?}"
    );
    let nothing = two.compact(&two.sets, &[]).await;
    assert!(matches!(nothing, Err(CompactionError::Differs { .. })));
    two.is_as_uploaded().await;
}

async fn only_what_is_committed_is_replaced(two: Two) {
    let (whole_a, whole_b) = ([range(two.a, 0, 30)], [range(two.b, 0, 20)]);
    let whole: [&[StreamRange]; 2] = [&whole_a, &whole_b];
    let prepared = two.id().await;
    let mut inputs = two.all().to_vec();
    inputs.push(prepared);
    let refused = two.compact(&inputs, &whole).await;
    assert!(matches!(refused, Err(CompactionError::NotCommitted(id)) if id == prepared));

    let mut compaction = two.compaction(&two.all(), &whole).await;
    let output = compaction.stream_objects[0].id;
    compaction.inputs.push(output);
    let refused = two.store.commit_compaction(compaction.clone()).await;
    assert!(matches!(refused, Err(CompactionError::NotCommitted(id)) if id == output));

    compaction.inputs.pop();
    compaction.stream_objects[0].id = two.single;
    compaction.inputs.retain(|&id| id != two.single);
    let refused = two.store.commit_compaction(compaction.clone()).await;
    assert!(matches!(refused, Err(CompactionError::Differs { .. })));

    compaction.inputs = two.all().to_vec();
    compaction.stream_objects[0].id = ObjectId(1 << 40);
    let refused = two.store.commit_compaction(compaction.clone()).await;
    assert!(matches!(refused, Err(CompactionError::NotPrepared(id)) if id == ObjectId(1 << 40)));

    let empty = two.compact(&two.all(), &[&[range(two.a, 5, 5)]]).await;
    assert!(matches!(empty, Err(CompactionError::EmptyRange(_))));
    let unknown = StreamId(1 << 40);
    let unknown_range = [range(unknown, 0, 5)];
    let refused = two
        .compact(&two.all(), &[&whole_a, &whole_b, &unknown_range])
        .await;
    assert!(matches!(refused, Err(CompactionError::UnknownStream(s)) if s == unknown));
    two.is_as_uploaded().await;
}

async fn what_was_trimmed_meanwhile_may_be_missing(two: Two) {
    let (a, b) = (two.a, two.b);
    let whole: [&[StreamRange]; 2] = [&[range(a, 5, 30)], &[range(b, 0, 20)]];
    two.trim(a, 5).await;
    let contents = two.store.object_contents(two.all()[0]).await;
    let of_a = contents.expect("answers").expect("is live").live[0];
    assert_eq!((of_a.range, of_a.readable_from), (range(a, 0, 10), 5));
    let planned = two.compaction(&two.all(), &whole).await;
    two.trim(a, 25).await;
    assert_eq!(two.retired().await, [two.single]);
    two.trim(b, 20).await;
    assert_eq!(two.retired().await, [two.sets[0], two.single]);
    two.store.commit_compaction(planned).await.expect("commits");
    assert_eq!(two.found(a).await, [(5, 30)]);
    assert_eq!(two.found(b).await, []);
    // The output of which nothing can be read any more is retired with the inputs.
    assert_eq!(two.retired().await.len(), 4);
    two.upload(&[range(a, 30, 31), range(b, 20, 21)]).await;
    assert_eq!(two.found(b).await, [(20, 21)]);
}

async fn what_was_deleted_meanwhile_is_forgotten(two: Two) {
    let (a, b) = (two.a, two.b);
    let planned = two
        .compaction(
            &two.sets,
            &[&[range(a, 0, 10), range(a, 20, 30), range(b, 0, 20)]],
        )
        .await;
    let name = TopicName::new("t0").expect("legal");
    two.store.delete_topic(&name).await.expect("deletes");
    two.store.commit_compaction(planned).await.expect("commits");
    assert_eq!(two.found(a).await, []);
    assert_eq!(two.found(b).await, [(0, 20)]);

    let merged = two.store.objects_of(b, 0, 1).await.expect("found")[0].object;
    let planned = two.compaction(&[merged], &[&[range(b, 0, 20)]]).await;
    let name = TopicName::new("t1").expect("legal");
    two.store.delete_topic(&name).await.expect("deletes");
    two.store
        .commit_compaction(planned.clone())
        .await
        .expect("commits");
    let mut retired = two.retired().await;
    retired.sort_unstable();
    let mut every = two.all().to_vec();
    every.extend([merged, planned.stream_objects[0].id]);
    assert_eq!(retired, every);
}

async fn a_replaced_start_compacts_nothing(two: Two) {
    let whole: [&[StreamRange]; 2] = [&[range(two.a, 0, 30)], &[range(two.b, 0, 20)]];
    let planned = two.compaction(&two.all(), &whole).await;
    let new = two.store.register_node(NodeId(1)).await.expect("registers");
    let fenced = Fenced(two.node_epoch);
    let late = two.store.commit_compaction(planned.clone()).await;
    assert!(matches!(late, Err(CompactionError::Fenced(f)) if f == fenced));
    let release = two.store.release_objects(two.node_epoch, &[]).await;
    assert!(matches!(release, Err(ReserveError::Fenced(f)) if f == fenced));
    let outputs: Vec<ObjectId> = planned.stream_objects.iter().map(|o| o.id).collect();
    let stolen = Compaction {
        node_epoch: new,
        ..planned
    };
    let late = two.store.commit_compaction(stolen).await;
    assert!(matches!(late, Err(CompactionError::NotPrepared(_))));
    let retired = two.store.retired_objects(new, 10).await.expect("a list");
    assert_eq!(retired, outputs, "ids of the old start");
    assert_eq!(two.found(two.a).await, [(0, 10), (10, 20), (20, 30)]);
}

async fn ids_that_are_not_used_are_retired(two: Two) {
    let (used, unused) = (two.single, two.id().await);
    for _ in 0..2 {
        two.store
            .release_objects(two.node_epoch, &[used, unused, ObjectId(1 << 40)])
            .await
            .expect("releases");
        assert_eq!(two.retired().await, [unused]);
    }
    let late = Upload {
        node_epoch: two.node_epoch,
        stream_set: None,
        stream_objects: output(unused, &[range(two.b, 20, 30)]).1,
    };
    let late = two.store.commit_upload(late).await;
    late.expect_err("an id that was given back cannot be committed");
}

async fn candidates_are_listed_in_pages(two: Two) {
    let sets = async |after, limit| {
        let sets = two.store.stream_sets(after, limit).await.expect("a list");
        sets.iter()
            .map(|set| (set.object, set.size, set.live_bytes))
            .collect::<Vec<_>>()
    };
    let [first, second] = two.sets;
    assert_eq!(sets(None, 9).await, [(first, 600, 600), (second, 600, 600)]);
    assert_eq!(sets(None, 1).await, [(first, 600, 600)]);
    assert_eq!(sets(Some(first), 1).await, [(second, 600, 600)]);
    two.trim(two.a, 10).await;
    assert_eq!(sets(None, 1).await, [(first, 600, 300)]);
    two.trim(two.b, 10).await;
    assert_eq!(sets(None, 9).await, [(second, 600, 600)]);

    let streams = async |after, limit| {
        let streams = two.store.stream_summaries(after, limit).await;
        streams.expect("a list")
    };
    // Each partition has a second stream, in which nothing is.
    let all = streams(None, 100).await;
    assert_eq!(all.len(), 4);
    assert_eq!(streams(Some(all[1].stream), 1).await, all[2..3]);
    let of_a = all.iter().find(|summary| summary.stream == two.a);
    let expected = StreamSummary {
        stream: two.a,
        start: 10,
        stream_objects: 1,
    };
    assert_eq!(of_a, Some(&expected));
    two.trim(two.a, 20).await;
    assert_eq!(streams(None, 1).await[0].stream_objects, 0);
    let gone = [first, two.single, ObjectId(1 << 40)];
    for object in gone {
        let contents = two.store.object_contents(object).await;
        assert_eq!(contents.expect("answers"), None);
    }
}
