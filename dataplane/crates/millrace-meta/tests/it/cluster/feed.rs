//! The feed of changes.

use std::collections::BTreeMap;

use millrace_meta::{
    AclRow, ChangedTopics, Changes, ClusterStore, LedTopic, MetaStore, Move, NewTopic,
};
use millrace_model::{NodeId, TopicId, TopicName};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::{Cluster, open, partition, streams_of};

/// What a broker that follows the feed knows.
#[derive(Debug, Default, PartialEq, Eq)]
struct View {
    revision: u64,
    topics: BTreeMap<TopicId, LedTopic>,
    brokers: Vec<millrace_meta::Broker>,
    security_changes: u32,
}

impl View {
    fn apply(&mut self, changes: Changes) {
        self.revision = changes.revision;
        match changes.topics {
            ChangedTopics::All(topics) => {
                self.topics = topics.into_iter().map(|of| (of.topic.id, of)).collect();
            }
            ChangedTopics::Some { named, present } => {
                self.topics.retain(|id, _| !named.contains(id));
                self.topics
                    .extend(present.into_iter().map(|of| (of.topic.id, of)));
            }
        }
        self.brokers = changes.brokers.unwrap_or(std::mem::take(&mut self.brokers));
        self.security_changes += u32::from(changes.security);
    }
}

#[tokio::test]
async fn who_follows_the_feed_knows_what_who_reads_everything_knows() {
    let cluster = Cluster::new().await;
    let mut view = View::default();
    let mut follow = async |what: &str| {
        view.apply(
            cluster
                .meta
                .changes_since(view.revision)
                .await
                .expect("reads"),
        );
        let mut whole = View::default();
        whole.apply(cluster.meta.changes_since(0).await.expect("reads"));
        assert_eq!(view.topics, whole.topics, "{what}");
        assert_eq!(view.brokers, whole.brokers, "{what}");
        assert_eq!(view.revision, whole.revision, "{what}");
        (view.revision, view.security_changes)
    };
    follow("empty").await;
    let one = cluster.join(1, "a").await;
    follow("one joined").await;
    let topic = cluster.topic("t", 3).await;
    cluster.topic("u", 2).await;
    let (revision, _) = follow("topics created").await;
    assert_eq!(revision, 3, "one each");
    let two = cluster.join(2, "b").await;
    cluster
        .meta
        .create_partitions(&topic.name, 6)
        .await
        .expect("grows");
    follow("grown").await;
    cluster
        .meta
        .open_streams(&streams_of(&topic), one)
        .await
        .expect("opens");
    let at = partition(&topic, 1);
    let to = NodeId(2);
    let moves = [Move { partition: at, to }];
    cluster.hand_over(&moves, one).await;
    let (_, none) = follow("handed over").await;
    cluster
        .meta
        .delete_topic(&topic.name)
        .await
        .expect("deletes");
    let acl = AclRow {
        resource_type: 2,
        resource_name: "t".to_owned(),
        pattern_type: 3,
        principal: "User:a".to_owned(),
        host: "*".to_owned(),
        operation: 2,
        permission: 3,
    };
    cluster
        .meta
        .change_acls(vec![acl], Vec::new())
        .await
        .expect("changes");
    let (_, some) = follow("deleted").await;
    assert_eq!(some, none + 1);
    cluster.expire(&[1]).await;
    cluster.meta.fence_expired(two).await.expect("judges");
    let (last, _) = follow("fenced").await;
    assert_eq!(last, cluster.meta.cluster_revision().await.expect("reads"));
    // A revision that never was, as after the database was restored from an older backup: all is read.
    let beyond = cluster.meta.changes_since(last + 5).await.expect("reads");
    assert!(matches!(beyond.topics, ChangedTopics::All(_)), "{beyond:?}");
}

#[tokio::test]
async fn revisions_have_no_gap_whoever_writes() {
    let cluster = Cluster::new().await;
    cluster.join(1, "a").await;
    let before = cluster.meta.cluster_revision().await.expect("reads");
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        let meta = open(&cluster.address).await;
        writers.spawn(async move {
            for nth in 0..25_u128 {
                let topic = NewTopic {
                    name: TopicName::new(format!("t{writer}-{nth}")).expect("legal"),
                    id: TopicId(Uuid::from_u128(writer * 100 + nth + 1)),
                    partitions: 1,
                    configs: BTreeMap::new(),
                };
                meta.create_topic(topic).await.expect("creates");
            }
        });
    }
    let mut view = View::default();
    while view.topics.len() < 100 {
        let changes = cluster
            .meta
            .changes_since(view.revision)
            .await
            .expect("reads");
        view.apply(changes);
    }
    writers.join_all().await;
    assert_eq!(view.revision, before + 100);
}
