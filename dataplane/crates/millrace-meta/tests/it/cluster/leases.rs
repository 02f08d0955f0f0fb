//! Leases that run out, fencing, and logs that are taken over.

use std::sync::Arc;

use millrace_meta::{ClusterError, ClusterStore, JoinError, MetaStore, OpenStreamError};
use millrace_model::NodeId;
use sqlx::Connection;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use millrace_testkit::PostgresServer;

use super::{A_WHILE, Cluster, joining, led_by, open, streams_of, upload};

#[tokio::test]
async fn a_broker_whose_lease_runs_out_is_fenced() {
    let cluster = Cluster::new().await;
    let (one, two) = (cluster.join(1, "a").await, cluster.join(2, "b").await);
    let three = cluster.join(3, "c").await;
    cluster.topic("t", 9).await;
    let of_one = led_by(&cluster.led().await[0], 1);
    assert_eq!(of_one.len(), 6);
    let meta = &cluster.meta;
    meta.open_streams(&of_one, one).await.expect("opens");
    cluster.expire(&[1]).await;

    let fenced = meta.fence_expired(two).await.expect("judges");
    assert_eq!(fenced.len(), 1);
    assert_eq!((fenced[0].node, fenced[0].partitions_moved), (NodeId(1), 3));
    assert_eq!(cluster.counts([1, 2, 3]).await, [0, 5, 4]);
    let again = meta.fence_expired(three).await.expect("judges");
    assert!(again.is_empty(), "once is enough: {again:?}");

    // It wakes: nothing that it does counts.
    let renewed = meta.renew_lease(one).await;
    assert!(
        matches!(renewed, Err(ClusterError::Fenced(_))),
        "{renewed:?}"
    );
    let reserved = meta.reserve_objects(one, 1).await;
    assert!(reserved.is_err(), "{reserved:?}");
    // The new leader waits for the log.
    let refused = meta.open_streams(&of_one[..2], two).await;
    assert!(
        matches!(&refused, Ok(opened) if opened.is_empty()),
        "{refused:?}"
    );
}

/// The database was away for a little less than a lease. Whoever gets through first must not fence those that wait behind it.
#[tokio::test]
async fn a_renewal_that_comes_late_makes_no_judge() {
    let cluster = Cluster::new().await;
    let epochs = [cluster.join(1, "a").await, cluster.join(2, "b").await];
    let late = "UPDATE nodes SET held_since = now() - INTERVAL '1 day';
                UPDATE nodes SET lease_until = now() + INTERVAL '1 minute' WHERE node_id = 1;
                UPDATE nodes SET lease_until = now() - INTERVAL '1 second' WHERE node_id = 2";
    PostgresServer::execute(&cluster.address, late).await;
    // Its own lease is only the last one to run out.
    let fenced = cluster.meta.fence_expired(epochs[0]).await.expect("judges");
    assert!(fenced.is_empty(), "before its renewal: {fenced:?}");
    cluster.meta.renew_lease(epochs[0]).await.expect("renews");
    let fenced = cluster.meta.fence_expired(epochs[0]).await.expect("judges");
    assert!(fenced.is_empty(), "{fenced:?}");
    cluster.meta.renew_lease(epochs[1]).await.expect("renews");
}

/// A cluster that has just started notices a dead broker as soon as an older one does.
#[tokio::test]
async fn a_broker_that_joins_a_sound_cluster_judges_at_once() {
    let cluster = Cluster::new().await;
    cluster.join(1, "a").await;
    let two = cluster.join(2, "b").await;
    let dead = "UPDATE nodes SET lease_until = now() - INTERVAL '1 second' WHERE node_id = 1";
    PostgresServer::execute(&cluster.address, dead).await;
    // After an outage of the database, it may be the first that gets through.
    let three = cluster.join(3, "c").await;
    let fenced = cluster.meta.fence_expired(three).await.expect("judges");
    assert!(
        fenced.is_empty(),
        "joined while a lease was late: {fenced:?}"
    );
    let fenced = cluster.meta.fence_expired(two).await.expect("judges");
    let fenced: Vec<_> = fenced.into_iter().map(|broker| broker.node).collect();
    assert_eq!(fenced, [NodeId(1)]);
}

#[tokio::test]
async fn a_fenced_brokers_log_is_taken_over_once() {
    let cluster = Cluster::new().await;
    let (one, two) = (cluster.join(1, "a").await, cluster.join(2, "b").await);
    let three = cluster.join(3, "c").await;
    cluster.topic("t", 9).await;
    let streams = led_by(&cluster.led().await[0], 1);
    let meta = &cluster.meta;
    meta.open_streams(&streams, one).await.expect("opens");
    let early = meta.adopt_log(NodeId(1), two).await;
    assert!(matches!(early, Err(ClusterError::NodeNot(..))), "{early:?}");
    cluster.expire(&[1]).await;
    meta.fence_expired(two).await.expect("judges");

    let adoption = meta.adopt_log(NodeId(1), two).await.expect("adopts");
    assert_eq!(adoption.log, "/logs/1");
    let other = meta.adopt_log(NodeId(1), three).await;
    assert!(
        matches!(other, Err(ClusterError::Adopted { adopter, .. }) if adopter == two),
        "{other:?}"
    );
    let back = meta.join(&joining(1, "a")).await;
    assert!(
        matches!(back, Err(JoinError::BeingAdopted { .. })),
        "{back:?}"
    );
    meta.open_streams(&streams, adoption.epoch)
        .await
        .expect("opens");
    upload(meta, adoption.epoch, streams[0], 0, 10).await;
    // A stream may be given up before the others.
    let early = &streams[2..4];
    meta.release_streams(early, adoption.epoch)
        .await
        .expect("releases");
    meta.open_streams(early, three).await.expect("opens");
    meta.leave(adoption.epoch).await.expect("leaves");

    let opened = meta.open_streams(&streams[..1], two).await.expect("opens");
    assert_eq!(opened[0].end, 10, "what was acknowledged is there");
    meta.join(&joining(1, "a"))
        .await
        .expect("the node may come back");
    assert_eq!(cluster.counts([1, 2, 3]).await, [0, 5, 4]);
}

#[tokio::test]
async fn an_adopter_that_dies_is_replaced() {
    let cluster = Cluster::new().await;
    let (one, two) = (cluster.join(1, "a").await, cluster.join(2, "b").await);
    let three = cluster.join(3, "c").await;
    let streams = streams_of(&cluster.topic("t", 1).await);
    cluster
        .meta
        .open_streams(&streams, one)
        .await
        .expect("opens");
    cluster.expire(&[1]).await;
    cluster.meta.fence_expired(three).await.expect("judges");
    let first = cluster
        .meta
        .adopt_log(NodeId(1), two)
        .await
        .expect("adopts");
    cluster
        .meta
        .open_streams(&streams, first.epoch)
        .await
        .expect("opens");
    // It dies before it has uploaded anything.
    cluster.expire(&[2]).await;
    let second = cluster.take_over(1, three, &streams).await;
    let late = cluster.meta.open_streams(&streams, first.epoch).await;
    assert!(matches!(late, Err(OpenStreamError::Fenced(_))), "{late:?}");
    assert!(second > first.epoch);
    let fenced = cluster.meta.fence_expired(three).await.expect("judges");
    assert_eq!(fenced.len(), 1);
    cluster
        .meta
        .open_streams(&streams, three)
        .await
        .expect("opens");
}

#[tokio::test]
async fn after_an_outage_of_the_database_nobody_is_fenced() {
    let cluster = Cluster::new().await;
    let epochs = [cluster.join(1, "a").await, cluster.join(2, "b").await];
    // Nobody could renew for longer than a lease.
    cluster.expire(&[1, 2]).await;
    cluster.meta.renew_lease(epochs[0]).await.expect("renews");
    let fenced = cluster.meta.fence_expired(epochs[0]).await.expect("judges");
    assert!(
        fenced.is_empty(),
        "its own lease had run out as well: {fenced:?}"
    );
    cluster.meta.renew_lease(epochs[1]).await.expect("renews");
    cluster.expire(&[]).await;
    let fenced = cluster.meta.fence_expired(epochs[0]).await.expect("judges");
    assert!(fenced.is_empty(), "the other is back: {fenced:?}");
}

#[tokio::test]
async fn a_long_change_of_a_broker_keeps_no_lease_from_being_renewed() {
    let cluster = Cluster::new().await;
    let one = cluster.join(1, "a").await;
    let mut other = sqlx::PgConnection::connect(&cluster.address)
        .await
        .expect("connects");
    let mut change = other.begin().await.expect("begins");
    // As every change of a stream or an object does.
    sqlx::query("SELECT FROM nodes FOR KEY SHARE")
        .execute(&mut *change)
        .await
        .expect("locks");
    let renewed = timeout(A_WHILE * 50, cluster.meta.renew_lease(one)).await;
    renewed.expect("does not wait").expect("renews");
    let restart = tokio::spawn({
        let meta = Arc::clone(&cluster.meta);
        async move { meta.join(&joining(1, "a")).await }
    });
    sleep(A_WHILE).await;
    assert!(!restart.is_finished(), "a new start waits for the change");
    change.commit().await.expect("commits");
    restart.await.expect("ends").expect("joins");
}

/// A judge locked its own row as well, and lost its lease while it waited for the row of a dead node.
#[tokio::test]
async fn a_judge_that_waits_renews_its_lease_and_keeps_no_other_one_waiting() {
    let cluster = Cluster::new().await;
    let (one, two) = (cluster.join(1, "a").await, cluster.join(2, "b").await);
    cluster.join(3, "c").await;
    cluster.expire(&[3]).await;
    let mut other = sqlx::PgConnection::connect(&cluster.address)
        .await
        .expect("connects");
    let mut change = other.begin().await.expect("begins");
    sqlx::query("SELECT FROM nodes WHERE node_id = 3 FOR KEY SHARE")
        .execute(&mut *change)
        .await
        .expect("locks");
    let judging = tokio::spawn({
        let meta = Arc::clone(&cluster.meta);
        async move { meta.fence_expired(one).await }
    });
    sleep(A_WHILE).await;
    assert!(!judging.is_finished(), "it waits for the node's row");
    let renewed = timeout(A_WHILE * 50, cluster.meta.renew_lease(one)).await;
    renewed.expect("does not wait").expect("renews");
    let second = open(&cluster.address).await;
    let judged = timeout(A_WHILE * 50, second.fence_expired(two)).await;
    assert_eq!(judged.expect("does not wait").expect("judges"), []);
    change.commit().await.expect("commits");
    let fenced = judging.await.expect("ends").expect("judges");
    assert_eq!(fenced.len(), 1);
}

#[tokio::test]
async fn two_of_five_die_at_once_and_every_judge_agrees() {
    let cluster = Cluster::new().await;
    let mut epochs = Vec::new();
    for node in 1..=5 {
        epochs.push(cluster.join(node, ["a", "b", "c"][node as usize % 3]).await);
    }
    cluster.topic("t", 100).await;
    cluster.expire(&[4, 5]).await;
    let mut judges = JoinSet::new();
    for &judge in &epochs[..3] {
        let meta = open(&cluster.address).await;
        judges.spawn(async move {
            meta.renew_lease(judge).await.expect("renews");
            meta.fence_expired(judge).await.expect("judges")
        });
    }
    let fenced = judges.join_all().await.concat();
    let nodes: Vec<NodeId> = fenced.iter().map(|broker| broker.node).collect();
    assert_eq!(nodes, [NodeId(4), NodeId(5)], "each once");
    let counts = cluster.counts([1, 2, 3, 4, 5]).await;
    assert_eq!(counts.iter().sum::<usize>(), 100);
    assert!(counts[..3].iter().all(|&count| count >= 33), "{counts:?}");
}
