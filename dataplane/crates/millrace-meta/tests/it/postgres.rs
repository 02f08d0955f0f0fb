//! What only a store that several brokers share must do.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use millrace_meta::{
    CommitError, Fenced, MetaStore, NewTopic, OpenStreamError, StreamObject, StreamSetObject,
    TopicError, Upload,
    postgres::{OpenError, PostgresMeta, PostgresOptions},
};
use millrace_model::{
    NodeEpoch, NodeId, ObjectId, Offset, StreamId, StreamRange, TopicId, TopicName,
};
use tokio::task::JoinSet;
use uuid::Uuid;

use millrace_testkit::PostgresServer;

async fn open(address: &str) -> Arc<PostgresMeta> {
    let options = PostgresOptions {
        connections_max: 4,
        retired_retention: Duration::ZERO,
        ..PostgresOptions::default()
    };
    Arc::new(PostgresMeta::open(address, options).await.expect("opens"))
}

fn range(stream: StreamId, start: Offset, end: Offset) -> StreamRange {
    StreamRange { stream, start, end }
}

async fn topic(meta: &PostgresMeta, name: &str, partitions: u32) -> Vec<StreamId> {
    let id = name.bytes().fold(1, |id, byte| id * 257 + u128::from(byte));
    let topic = NewTopic {
        name: TopicName::new(name).expect("legal"),
        id: TopicId(Uuid::from_u128(id)),
        partitions,
        configs: BTreeMap::new(),
    };
    let created = meta.create_topic(topic).await.expect("creates");
    created.partitions.iter().map(|p| p.data).collect()
}

/// An upload of one stream set.
async fn upload(meta: &PostgresMeta, node_epoch: NodeEpoch, ranges: Vec<StreamRange>) -> Upload {
    let id = meta.reserve_objects(node_epoch, 1).await.expect("an id");
    Upload {
        node_epoch,
        stream_set: Some(StreamSetObject {
            id,
            size: 100,
            ranges,
        }),
        stream_objects: Vec::new(),
    }
}

#[tokio::test]
async fn many_brokers_migrate_and_agree_on_the_cluster() {
    let server = PostgresServer::start();
    let address = server.database().await;
    let mut brokers = JoinSet::new();
    for n in 0..6_u32 {
        let address = address.clone();
        brokers.spawn(async move {
            let meta = open(&address).await;
            let id = meta.cluster_id(&format!("c{n}")).await.expect("an id");
            let epoch = meta.register_node(NodeId(n)).await.expect("registers");
            (id, epoch)
        });
    }
    let all = brokers.join_all().await;
    assert!(all.iter().all(|(id, _)| *id == all[0].0), "{all:?}");
    let mut epochs: Vec<_> = all.iter().map(|(_, epoch)| epoch).collect();
    epochs.sort_unstable();
    epochs.dedup();
    assert_eq!(epochs.len(), 6, "each start has an epoch of its own");
}

#[tokio::test]
async fn brokers_that_write_at_once_lose_nothing() {
    const ROUNDS: u64 = 20;
    let server = PostgresServer::start();
    let address = server.database().await;
    let first = open(&address).await;
    let streams = topic(&first, "t", 4).await;
    let mut brokers = JoinSet::new();
    for (n, own) in (0_u32..).zip(streams.chunks_exact(2)) {
        let (address, own) = (address.clone(), own.to_vec());
        brokers.spawn(async move {
            let meta = open(&address).await;
            let epoch = meta.register_node(NodeId(n)).await.expect("registers");
            meta.open_streams(&own, epoch).await.expect("opens");
            for round in 0..ROUNDS {
                let ranges = own.iter().map(|&s| range(s, round, round + 1)).collect();
                let upload = upload(&meta, epoch, ranges).await;
                meta.commit_upload(upload.clone()).await.expect("commits");
                meta.commit_upload(upload)
                    .await
                    .expect("as after a lost answer");
            }
            topic(&meta, &format!("of-{n}"), 3).await;
            epoch
        });
    }
    let epochs = brokers.join_all().await;
    for stream in &streams {
        let found = first.objects_of(*stream, 0, 1_000).await.expect("found");
        let ends: Vec<_> = found.iter().map(|found| found.range.end).collect();
        assert_eq!(ends, (1..=ROUNDS).collect::<Vec<_>>());
    }
    assert_eq!(first.topics().await.expect("topics").len(), 3);
    let foreign = first
        .open_streams(&streams, epochs[0])
        .await
        .expect("opens");
    assert!(foreign.iter().all(|meta| meta.end == ROUNDS));
}

/// An object of two streams is retired by whoever trims its last readable range, also where both are trimmed at once.
#[tokio::test]
async fn an_object_that_two_brokers_trim_at_once_is_retired() {
    let server = PostgresServer::start();
    let address = server.database().await;
    let (one, other) = (open(&address).await, open(&address).await);
    for round in 0..20 {
        let node = one.register_node(NodeId(0)).await.expect("registers");
        let streams = topic(&one, &format!("t{round}"), 2).await;
        one.open_streams(&streams, node).await.expect("opens");
        let shared = streams.iter().map(|&s| range(s, 0, 10)).collect();
        let shared = upload(&one, node, shared).await;
        let object = shared.stream_set.as_ref().expect("a set").id;
        one.commit_upload(shared).await.expect("commits");
        let trims = tokio::join!(
            one.trim_stream(streams[0], node, 10),
            other.trim_stream(streams[1], node, 10),
        );
        assert!(trims.0.is_ok() && trims.1.is_ok(), "{trims:?}");
        let retired = one.retired_objects(node, 1_000).await.expect("a list");
        assert!(retired.contains(&object), "round {round}: {retired:?}");
    }
}

#[tokio::test]
async fn a_start_that_was_replaced_by_another_broker_commits_nothing() {
    let server = PostgresServer::start();
    let address = server.database().await;
    let (old, new) = (open(&address).await, open(&address).await);
    let stream = topic(&old, "t", 1).await[0];
    let former = old.register_node(NodeId(0)).await.expect("registers");
    old.open_stream(stream, former).await.expect("opens");
    let late = upload(&old, former, vec![range(stream, 0, 10)]).await;
    let current = new.register_node(NodeId(0)).await.expect("registers");
    let refused = old.commit_upload(late).await;
    assert!(matches!(refused, Err(CommitError::Fenced(Fenced(epoch))) if epoch == former));
    let refused = old.open_stream(stream, former).await;
    assert!(matches!(refused, Err(OpenStreamError::Fenced(_))));
    let opened = new.open_stream(stream, current).await.expect("opens");
    assert_eq!(opened.end, 0);
}

/// A topic goes away while its streams are written: each change is made whole or refused.
#[tokio::test]
async fn deletions_and_uploads_at_once_leave_no_object_behind() {
    let server = PostgresServer::start();
    let address = server.database().await;
    let (one, other) = (open(&address).await, open(&address).await);
    let node = one.register_node(NodeId(0)).await.expect("registers");
    for round in 0..20 {
        let name = format!("t{round}");
        let streams = topic(&one, &name, 3).await;
        one.open_streams(&streams, node).await.expect("opens");
        let ranges: Vec<_> = streams.iter().rev().map(|&s| range(s, 0, 10)).collect();
        let id = one.reserve_objects(node, 1).await.expect("an id");
        let own = StreamObject {
            id,
            size: 1,
            range: range(streams[0], 10, 20),
        };
        let upload = Upload {
            stream_objects: vec![own],
            ..upload(&one, node, ranges).await
        };
        let objects = [id, upload.stream_set.as_ref().expect("a set").id];
        let name = TopicName::new(&name).expect("legal");
        let (committed, deleted) =
            tokio::join!(one.commit_upload(upload), other.delete_topic(&name));
        assert!(
            committed.is_ok() && deleted.is_ok(),
            "{committed:?} {deleted:?}"
        );
        let retired = one.retired_objects(node, 1_000).await.expect("a list");
        let left = |object: &&ObjectId| !retired.contains(object);
        assert_eq!(objects.iter().find(left), None, "round {round}");
        let again = one.delete_topic(&name).await;
        assert!(matches!(again, Err(TopicError::Unknown(_))));
    }
}

#[tokio::test]
async fn a_database_that_does_not_answer_is_an_error_that_says_so() {
    let options = PostgresOptions {
        connect_timeout: Duration::from_millis(500),
        ..PostgresOptions::default()
    };
    let nobody = PostgresMeta::open("postgres://nobody@127.0.0.1:1/none", options).await;
    assert!(matches!(nobody, Err(OpenError::Store(_))));
    let nonsense = PostgresMeta::open("mysql://secret@host", options).await;
    let text = nonsense.expect_err("no address").to_string();
    assert!(
        text.contains("postgres://") && !text.contains("secret"),
        "{text}"
    );
}
