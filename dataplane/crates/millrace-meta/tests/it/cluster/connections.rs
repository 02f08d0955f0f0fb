//! Connections that hang, brokers that stand still, and leases that begin late.

use std::{sync::Arc, time::Duration};

use millrace_meta::{
    ClusterStore, MetaStore,
    postgres::{PostgresMeta, PostgresOptions},
};
use tokio::time::{sleep, timeout};

use super::{A_WHILE, Cluster, Locks, joining};

/// Shorter than a connection pool would wait for a connection that hangs.
const SOON: Duration = Duration::from_millis(800);

async fn open_with_lease(address: &str, lease_ttl: Duration) -> Arc<PostgresMeta> {
    let options = PostgresOptions {
        lease_ttl,
        ..PostgresOptions::default()
    };
    Arc::new(PostgresMeta::open(address, options).await.expect("opens"))
}

#[tokio::test]
async fn renewals_that_are_cut_off_keep_no_place_in_the_pool() {
    let cluster = Cluster::new().await;
    let (one, two) = (cluster.join(1, "a").await, cluster.join(2, "b").await);
    let meta = &cluster.meta;
    let _locks = Locks::take(&cluster, "SELECT FROM nodes WHERE node_id = 1 FOR UPDATE").await;
    // As many as the pool has connections for leases.
    let hanging = async || timeout(A_WHILE, meta.renew_lease(one)).await;
    let all = tokio::join!(hanging(), hanging(), hanging());
    assert!(
        all.0.is_err() && all.1.is_err() && all.2.is_err(),
        "{all:?}"
    );
    let renewed = timeout(SOON, meta.renew_lease(two)).await;
    renewed.expect("on a new connection").expect("renews");
}

#[tokio::test]
async fn a_renewal_needs_no_connection_that_hangs() {
    let cluster = Cluster::new().await;
    let one = cluster.join(1, "a").await;
    cluster.meta.renew_lease(one).await.expect("renews");
    cluster.server.silence(&cluster.address).await;
    let renewed = timeout(A_WHILE, cluster.meta.renew_lease(one)).await;
    assert!(renewed.is_err(), "{renewed:?}");
    let renewed = timeout(SOON, cluster.meta.renew_lease(one)).await;
    renewed.expect("on a new connection").expect("renews");
}

#[tokio::test]
async fn a_judge_does_not_wait_for_a_connection_that_hangs() {
    let cluster = Cluster::new().await;
    let one = cluster.join(1, "a").await;
    let lease_ttl = Duration::from_millis(500);
    let meta = open_with_lease(&cluster.address, lease_ttl).await;
    meta.fence_expired(one).await.expect("judges");
    cluster.server.silence(&cluster.address).await;
    let judged = timeout(lease_ttl + SOON, meta.fence_expired(one)).await;
    let failed = judged.expect("fails by itself").expect_err("no answer");
    assert!(format!("{failed:?}").contains("no answer"), "{failed:?}");
    meta.fence_expired(one).await.expect("on a new connection");
}

/// The statement that begins a transaction was sent, and its caller stopped waiting before the answer came.
#[tokio::test]
async fn a_beginning_that_is_cut_off_leaves_no_transaction_open() {
    let cluster = Cluster::new().await;
    let options = PostgresOptions {
        connections_max: 1,
        ..PostgresOptions::default()
    };
    let meta = PostgresMeta::open(&cluster.address, options).await;
    let meta = meta.expect("opens");
    let mut listing = meta.brokers();
    let mut other = cluster.connect().await;
    loop {
        if timeout(Duration::ZERO, &mut listing).await.is_ok() {
            // The server was slow, and its state was read too early.
            listing = meta.brokers();
            continue;
        }
        sleep(A_WHILE).await;
        let has_begun: bool = sqlx::query_scalar(
            "SELECT EXISTS (SELECT FROM pg_stat_activity
                            WHERE datname = current_database() AND state = 'idle in transaction')",
        )
        .fetch_one(&mut other)
        .await
        .expect("reads");
        if has_begun {
            break;
        }
    }
    drop(listing);
    meta.put_kv("name", b"value").await.expect("writes");
    let value = cluster.meta.get_kv("name").await.expect("reads");
    assert_eq!(value.as_deref(), Some(&b"value"[..]), "it is committed");
}

/// A broker that stands still in a transaction would keep the others from fencing it.
#[tokio::test]
async fn a_transaction_is_idle_for_no_longer_than_a_lease() {
    let cluster = Cluster::new().await;
    let one = cluster.join(1, "a").await;
    let meta = open_with_lease(&cluster.address, A_WHILE).await;
    let locks = Locks::take(&cluster, "SELECT FROM nodes FOR KEY SHARE").await;
    let mut leave = Box::pin(meta.leave(one));
    let left = timeout(A_WHILE, &mut leave).await;
    assert!(left.is_err(), "it waits for its row: {left:?}");
    // Now it has its row, and does not go on.
    locks.release().await;
    let renewed = timeout(A_WHILE * 10, cluster.meta.renew_lease(one)).await;
    renewed.expect("it was ended").expect("renews");
    leave.await.expect_err("its transaction was ended");
}

/// The time that it waits for its own row is no part of the lease.
#[tokio::test]
async fn a_renewal_that_waits_gives_a_whole_lease() {
    let cluster = Cluster::new().await;
    let one = cluster.join(1, "a").await;
    let locks = Locks::take(&cluster, "SELECT FROM nodes WHERE node_id = 1 FOR UPDATE").await;
    let renewal = tokio::spawn({
        let meta = Arc::clone(&cluster.meta);
        async move { meta.renew_lease(one).await }
    });
    sleep(A_WHILE).await;
    assert!(!renewal.is_finished(), "it waits for its row");
    let released = locks.release().await;
    renewal.await.expect("ends").expect("renews");
    assert!(lease_begin(&cluster, 1).await >= released);
}

/// When the lease of a node was renewed last, by the database's clock.
async fn lease_begin(cluster: &Cluster, node: i64) -> f64 {
    let until: f64 = sqlx::query_scalar(
        "SELECT extract(epoch FROM lease_until)::float8 FROM nodes WHERE node_id = $1",
    )
    .bind(node)
    .fetch_one(&mut cluster.connect().await)
    .await
    .expect("reads");
    until - super::TTL.as_secs_f64()
}

/// A lease that was late before others saw it would get the broker fenced as soon as it has joined.
#[tokio::test]
async fn a_join_that_waits_begins_with_a_whole_lease() {
    let cluster = Cluster::new().await;
    // The last lock of every change.
    let locks = Locks::take(
        &cluster,
        "SELECT FROM sequences WHERE name = 'revision' FOR UPDATE",
    )
    .await;
    let join = tokio::spawn({
        let meta = Arc::clone(&cluster.meta);
        async move { meta.join(&joining(1, "a")).await }
    });
    sleep(A_WHILE).await;
    assert!(!join.is_finished(), "it waits for the revision");
    let released = locks.release().await;
    join.await.expect("ends").expect("joins");
    assert!(lease_begin(&cluster, 1).await >= released);
}
