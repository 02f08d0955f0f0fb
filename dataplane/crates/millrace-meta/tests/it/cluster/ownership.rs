//! Who owns a stream.

use millrace_meta::{
    ClusterError, ClusterStore, Fenced, JoinError, Joining, MetaStore, OpenStreamError,
};
use millrace_model::StreamId;

use super::{Cluster, joining, streams_of, upload};

#[tokio::test]
async fn a_stream_of_a_broker_is_no_other_brokers() {
    let cluster = Cluster::new().await;
    let (one, two) = (cluster.join(1, "a").await, cluster.join(2, "b").await);
    let streams = streams_of(&cluster.topic("t", 1).await);
    cluster
        .meta
        .open_streams(&streams, one)
        .await
        .expect("opens");
    let refused = cluster.meta.open_streams(&streams, two).await;
    assert!(
        matches!(&refused, Ok(opened) if opened.is_empty()),
        "{refused:?}"
    );
    // A restart of the owner may open them, the former start may not any more.
    let again = cluster.join(1, "a").await;
    let refused = cluster.meta.open_streams(&streams, one).await;
    assert!(matches!(refused, Err(OpenStreamError::Fenced(Fenced(epoch))) if epoch == one));
    let refused = cluster.meta.open_streams(&streams, two).await;
    assert!(
        matches!(&refused, Ok(opened) if opened.is_empty()),
        "{refused:?}"
    );
    cluster
        .meta
        .open_streams(&streams, again)
        .await
        .expect("opens");
    // Released, they are whoever opens them first.
    cluster
        .meta
        .release_streams(&streams, again)
        .await
        .expect("releases");
    cluster
        .meta
        .open_streams(&streams, two)
        .await
        .expect("opens");
    let refused = cluster.meta.release_streams(&streams, again).await;
    assert!(
        matches!(refused, Err(ClusterError::NotOwner(_))),
        "{refused:?}"
    );
}

/// Its lead was given to others, and nobody has taken its log over before it came back.
#[tokio::test]
async fn a_restart_gives_up_what_its_log_has_nothing_of() {
    let cluster = Cluster::new().await;
    let (one, two) = (cluster.join(1, "a").await, cluster.join(2, "b").await);
    let streams = streams_of(&cluster.topic("t", 3).await);
    let meta = &cluster.meta;
    meta.open_streams(&streams[..4], one).await.expect("opens");
    cluster.expire(&[1]).await;
    meta.fence_expired(two).await.expect("judges");
    let again = cluster.join(1, "a").await;
    let kept = meta.reopen_streams(&streams[2..3], again).await;
    assert_eq!(kept.expect("reopens").len(), 1);
    let opened = meta.open_streams(&streams[..4], two).await.expect("opens");
    let ids: Vec<StreamId> = opened.iter().map(|stream| stream.id).collect();
    assert_eq!(ids, [streams[0], streams[1], streams[3]]);
}

#[tokio::test]
async fn a_restart_opens_what_is_still_its_own() {
    let cluster = Cluster::new().await;
    let (one, two) = (cluster.join(1, "a").await, cluster.join(2, "b").await);
    let streams = streams_of(&cluster.topic("t", 3).await);
    let meta = &cluster.meta;
    meta.open_streams(&streams[..4], one).await.expect("opens");
    meta.release_streams(&streams[..2], one)
        .await
        .expect("releases");
    meta.open_streams(&streams[..1], two).await.expect("opens");
    let again = cluster.join(1, "a").await;
    let reopened = meta.reopen_streams(&streams, again).await.expect("reopens");
    let ids: Vec<StreamId> = reopened.iter().map(|stream| stream.id).collect();
    assert_eq!(
        ids,
        streams[2..4],
        "neither another's, nor one that is free"
    );
}

#[tokio::test]
async fn a_node_whose_log_may_have_the_newest_records_joins_with_that_log_only() {
    let cluster = Cluster::new().await;
    let one = cluster.join(1, "a").await;
    let streams = streams_of(&cluster.topic("t", 1).await);
    let other = Joining {
        log_id: 7,
        ..joining(1, "a")
    };
    // Nothing was written to the former one.
    let meta = &cluster.meta;
    meta.join(&other).await.expect("joins");
    let again = cluster.join(1, "a").await;
    assert!(again > one);
    meta.open_streams(&streams, again).await.expect("opens");
    let refused = meta.join(&other).await;
    assert!(
        matches!(&refused, Err(JoinError::OtherLog { streams: 2, log, expected, .. })
            if log == "/logs/1" && *expected == u64::MAX - 1),
        "{refused:?}"
    );
    let again = cluster.join(1, "a").await;
    meta.leave(again).await.expect("leaves");
    meta.join(&other).await.expect("its log was empty");
}

#[tokio::test]
async fn any_broker_can_ask_how_far_a_stream_is_committed() {
    let cluster = Cluster::new().await;
    let one = cluster.join(1, "a").await;
    let topic = cluster.topic("t", 1).await;
    let streams = streams_of(&topic);
    let (meta, stream) = (&cluster.meta, streams[0]);
    let range = async || {
        let range = meta.committed_range(stream).await.expect("reads");
        range.map(|range| (range.start, range.end))
    };
    assert_eq!(range().await, Some((0, 0)));
    meta.open_streams(&streams, one).await.expect("opens");
    upload(meta, one, stream, 0, 10).await;
    assert_eq!(range().await, Some((0, 10)));
    meta.trim_stream(stream, one, 4).await.expect("trims");
    assert_eq!(range().await, Some((4, 10)));
    // Trimmed before it was uploaded.
    meta.trim_stream(stream, one, 12).await.expect("trims");
    assert_eq!(range().await, Some((12, 10)));
    meta.delete_topic(&topic.name).await.expect("deletes");
    assert_eq!(range().await, None);
}
