//! Changes of the membership that meet other changes.

use std::sync::Arc;

use millrace_meta::{
    ClusterError, ClusterStore, Leader, MetaStore, Move, Preferred, postgres::PostgresMeta,
};
use millrace_model::{NodeId, TopicPartition};
use tokio::time::{sleep, timeout};

use super::{A_WHILE, Cluster, Locks, joining, partition, streams_of};

const ALL_PARTITIONS: &str = "SELECT FROM partitions FOR UPDATE";
const NODE_EPOCHS: &str = "SELECT FROM sequences WHERE name = 'node_epoch' FOR UPDATE";
const REVISION: &str = "SELECT FROM sequences WHERE name = 'revision' FOR UPDATE";

/// Makes two changes, the second one while the first one waits for these locks. Both go on when both wait.
async fn at_once<One, Two, T: Send + 'static, U: Send + 'static>(
    cluster: &Cluster,
    locks: &'static str,
    one: impl FnOnce(Arc<PostgresMeta>) -> One,
    two: impl FnOnce(Arc<PostgresMeta>) -> Two,
) -> (T, U)
where
    One: Future<Output = T> + Send + 'static,
    Two: Future<Output = U> + Send + 'static,
{
    let locks = Locks::take(cluster, locks).await;
    let one = tokio::spawn(one(Arc::clone(&cluster.meta)));
    sleep(A_WHILE).await;
    assert!(!one.is_finished(), "it waits");
    let two = tokio::spawn(two(Arc::clone(&cluster.meta)));
    sleep(A_WHILE).await;
    assert!(!two.is_finished(), "the other one waits as well");
    locks.release().await;
    (one.await.expect("ends"), two.await.expect("ends"))
}

/// Closes the connections, whose counts are complete then.
async fn assert_no_deadlock(cluster: &Cluster) {
    cluster.meta.close().await;
    sleep(A_WHILE).await;
    let deadlocks: i64 = sqlx::query_scalar(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()",
    )
    .fetch_one(&mut cluster.connect().await)
    .await
    .expect("the server's own view");
    assert_eq!(deadlocks, 0);
}

async fn leader(cluster: &Cluster) -> Leader {
    cluster.led().await[0].leaders[0]
}

fn to(partition: &TopicPartition, node: u32) -> Vec<Move> {
    vec![Move {
        partition: partition.clone(),
        to: NodeId(node),
    }]
}

#[tokio::test]
async fn brokers_that_leave_at_once_do_not_block_each_other() {
    let cluster = Cluster::new().await;
    let (one, two) = (cluster.join(1, "a").await, cluster.join(2, "b").await);
    cluster.join(3, "c").await;
    cluster.topic("t", 6).await;
    let left = at_once(
        &cluster,
        ALL_PARTITIONS,
        async move |meta| meta.leave(one).await,
        async move |meta| meta.leave(two).await,
    );
    let left = left.await;
    assert!(left.0.is_ok() && left.1.is_ok(), "{left:?}");
    assert_eq!(cluster.counts([1, 2, 3]).await, [0, 0, 6]);
    assert_no_deadlock(&cluster).await;
}

#[tokio::test]
async fn a_broker_joins_while_another_one_is_fenced() {
    let cluster = Cluster::new().await;
    cluster.join(1, "a").await;
    cluster.join(2, "b").await;
    let three = cluster.join(3, "c").await;
    cluster.topic("t", 6).await;
    cluster.expire(&[1]).await;
    let (joined, fenced) = at_once(
        &cluster,
        NODE_EPOCHS,
        async |meta| meta.join(&joining(2, "b")).await,
        async move |meta| meta.fence_expired(three).await,
    )
    .await;
    joined.expect("joins");
    assert_eq!(fenced.expect("judges").len(), 1);
    assert_eq!(cluster.counts([1, 2, 3]).await, [0, 3, 3]);
    assert_no_deadlock(&cluster).await;
}

/// A partition of the one is on its way to the other.
#[tokio::test]
async fn a_broker_drains_while_another_one_is_fenced() {
    let cluster = Cluster::new().await;
    cluster.join(1, "a").await;
    let topic = cluster.topic("t", 1).await;
    let (two, three) = (cluster.join(2, "b").await, cluster.join(3, "c").await);
    let moves = to(&partition(&topic, 0), 2);
    let planned = cluster.meta.plan_moves(&moves, Preferred::Keep).await;
    planned.expect("plans");
    cluster.expire(&[1]).await;
    let (fenced, drains) = at_once(
        &cluster,
        ALL_PARTITIONS,
        async move |meta| meta.fence_expired(three).await,
        async move |meta| meta.begin_drain(two).await,
    )
    .await;
    assert_eq!(fenced.expect("judges").len(), 1);
    drains.expect("begins");
    assert_eq!(leader(&cluster).await.moving_to, None);
    assert_no_deadlock(&cluster).await;
}

/// Otherwise a broker that drains while another one is fenced would lose its own lease.
#[tokio::test]
async fn a_broker_that_begins_to_drain_renews_its_lease() {
    let cluster = Cluster::new().await;
    cluster.join(1, "a").await;
    let topic = cluster.topic("t", 1).await;
    let two = cluster.join(2, "b").await;
    let moves = to(&partition(&topic, 0), 2);
    let planned = cluster.meta.plan_moves(&moves, Preferred::Keep).await;
    planned.expect("plans");
    let (drains, renewed) = at_once_but_the_second_does_not_wait(
        &cluster,
        ALL_PARTITIONS,
        async move |meta| meta.begin_drain(two).await,
        async move |meta| meta.renew_lease(two).await,
    )
    .await;
    drains.expect("begins");
    renewed.expect("renews");
    assert_eq!(leader(&cluster).await.moving_to, None);
}

#[tokio::test]
async fn a_broker_that_adopts_a_log_renews_its_lease() {
    let cluster = Cluster::new().await;
    cluster.join(1, "a").await;
    let two = cluster.join(2, "b").await;
    cluster.expire(&[1]).await;
    cluster.meta.fence_expired(two).await.expect("judges");
    let (adopted, renewed) = at_once_but_the_second_does_not_wait(
        &cluster,
        REVISION,
        async move |meta| meta.adopt_log(NodeId(1), two).await,
        async move |meta| meta.renew_lease(two).await,
    )
    .await;
    adopted.expect("adopts");
    renewed.expect("renews");
}

/// As [`at_once`], but the locks do not matter to the second change.
async fn at_once_but_the_second_does_not_wait<One, Two, T: Send + 'static, U>(
    cluster: &Cluster,
    locks: &'static str,
    one: impl FnOnce(Arc<PostgresMeta>) -> One,
    two: impl FnOnce(Arc<PostgresMeta>) -> Two,
) -> (T, U)
where
    One: Future<Output = T> + Send + 'static,
    Two: Future<Output = U>,
{
    let locks = Locks::take(cluster, locks).await;
    let one = tokio::spawn(one(Arc::clone(&cluster.meta)));
    sleep(A_WHILE).await;
    assert!(!one.is_finished(), "it waits");
    let two = timeout(A_WHILE * 10, two(Arc::clone(&cluster.meta))).await;
    let two = two.expect("does not wait");
    assert!(!one.is_finished(), "it still waits");
    locks.release().await;
    (one.await.expect("ends"), two)
}

#[tokio::test]
async fn a_move_that_is_planned_while_its_target_begins_to_drain_is_cancelled() {
    let cluster = Cluster::new().await;
    cluster.join(1, "a").await;
    let topic = cluster.topic("t", 1).await;
    let two = cluster.join(2, "b").await;
    let moves = to(&partition(&topic, 0), 2);
    let (planned, drains) = at_once(
        &cluster,
        ALL_PARTITIONS,
        {
            let moves = moves.clone();
            async move |meta| meta.plan_moves(&moves, Preferred::Keep).await
        },
        async move |meta| meta.begin_drain(two).await,
    )
    .await;
    planned.expect("it was first");
    drains.expect("begins");
    assert_eq!(leader(&cluster).await.moving_to, None);
    let refused = cluster.meta.plan_moves(&moves, Preferred::Keep).await;
    assert!(
        matches!(refused, Err(ClusterError::NodeNot(NodeId(2), _))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_partition_that_is_handed_to_a_broker_before_it_drains_is_its_own() {
    let cluster = Cluster::new().await;
    let one = cluster.join(1, "a").await;
    let topic = cluster.topic("t", 1).await;
    let two = cluster.join(2, "b").await;
    let opened = cluster.meta.open_streams(&streams_of(&topic), one).await;
    opened.expect("opens");
    let moves = to(&partition(&topic, 0), 2);
    let planned = cluster.meta.plan_moves(&moves, Preferred::Keep).await;
    planned.expect("plans");
    let (handed, drains) = at_once(
        &cluster,
        ALL_PARTITIONS,
        async move |meta| meta.hand_over(&moves, one).await,
        async move |meta| meta.begin_drain(two).await,
    )
    .await;
    assert_eq!(handed.expect("hands over").len(), 1);
    drains.expect("begins");
    let now = leader(&cluster).await;
    assert_eq!((now.node, now.moving_to), (Some(NodeId(2)), None));
}

/// Otherwise its leader would try again for ever.
#[tokio::test]
async fn a_move_to_a_broker_that_may_not_lead_is_cancelled() {
    let cluster = Cluster::new().await;
    let one = cluster.join(1, "a").await;
    let topic = cluster.topic("t", 1).await;
    cluster.join(2, "b").await;
    let opened = cluster.meta.open_streams(&streams_of(&topic), one).await;
    opened.expect("opens");
    let moves = to(&partition(&topic, 0), 2);
    let planned = cluster.meta.plan_moves(&moves, Preferred::Keep).await;
    planned.expect("plans");
    // An earlier version left such plans behind.
    sqlx::query("UPDATE nodes SET draining = true WHERE node_id = 2")
        .execute(&mut cluster.connect().await)
        .await
        .expect("marks");
    let revision = cluster.meta.cluster_revision().await.expect("reads");
    let handed = cluster.meta.hand_over(&moves, one).await;
    assert_eq!(handed.expect("nothing is handed over"), []);
    let now = leader(&cluster).await;
    assert_eq!((now.node, now.moving_to), (Some(NodeId(1)), None));
    let then = cluster.meta.cluster_revision().await.expect("reads");
    assert_eq!(then, revision + 1, "brokers learn it");
    let again = cluster.meta.hand_over(&moves, one).await;
    assert_eq!(again.expect("nothing is handed over"), []);
    let last = cluster.meta.cluster_revision().await.expect("reads");
    assert_eq!(last, then, "once is enough");
}
