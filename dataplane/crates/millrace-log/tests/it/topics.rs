//! Topics: created, grown, deleted, and served once the backup of the metadata has them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    broker::{Broker, MIB, append, batch, create, name, open, open_with, pair, partition},
    world::{World, small},
};
use futures_util::future::join_all;
use millrace_log::{
    LogDefaults,
    error::{
        AppendError, CreatePartitionsError, CreateTopicError, DeleteTopicError, ReadError,
        TrimError,
    },
};
use millrace_meta::{MetaStore, NewTopic};
use millrace_model::{TopicId, TopicName};

#[tokio::test]
async fn topics_are_created_as_asked_or_not_at_all() {
    let world = World::new(9, small(), 16 * MIB).await;
    let broker = open(&world).await;
    let logs = &broker.logs;
    let (a, b) = (name("a"), name("b"));
    let configs = BTreeMap::from([("retention.ms".to_owned(), "5".to_owned())]);
    let topic = logs
        .create_topic(&a, Some(3), configs)
        .await
        .expect("created");
    assert_eq!((topic.partitions.len(), topic.config.retention_ms), (3, 5));
    logs.create_topic(&b, None, BTreeMap::new())
        .await
        .expect("created");
    let exists = logs
        .create_topic(&a, None, BTreeMap::new())
        .await
        .expect_err("taken");
    assert!(matches!(exists, CreateTopicError::Exists(_)));
    let none = logs
        .create_topic(&name("c"), Some(0), BTreeMap::new())
        .await
        .expect_err("none");
    assert!(matches!(
        none,
        CreateTopicError::InvalidPartitions { requested: 0, .. }
    ));
    let wrong = BTreeMap::from([("colour".to_owned(), "red".to_owned())]);
    let unknown = logs
        .validate_topic(&name("c"), None, &wrong)
        .expect_err("no such config");
    assert!(matches!(unknown, CreateTopicError::InvalidConfig(_)));
}

#[tokio::test]
async fn a_topic_whose_creation_failed_half_way_is_finished_by_the_next_attempt() {
    let world = World::new(23, small(), 16 * MIB).await;
    let broker = open(&world).await;
    // What is left when the partitions of a recorded topic could not be opened.
    let recorded = NewTopic {
        name: name("half"),
        id: TopicId(uuid::Uuid::from_u128(7)),
        partitions: 2,
        configs: BTreeMap::new(),
    };
    world.meta.create_topic(recorded).await.expect("recorded");
    let half = name("half");
    let again = broker.logs.create_topic(&half, Some(1), BTreeMap::new());
    let again = again.await;
    assert!(
        matches!(again, Err(CreateTopicError::Exists(_))),
        "{again:?}"
    );
    let topic = broker.logs.topic(&half).expect("usable");
    assert_eq!(topic.partitions.len(), 2);
    let written = append(topic.log(1).expect("served"), batch(None, &[5])).await;
    assert_eq!(written.expect("appended").base_offset, 0);
    broker.logs.delete_topic(&half).await.expect("gone");
    broker.close().await;
}

#[tokio::test]
async fn a_topic_grows_and_stays_so() {
    let world = World::new(14, small(), 16 * MIB).await;
    let broker = open(&world).await;
    let (logs, a) = (&broker.logs, name("a"));
    let old = create(&broker, "a", &[("retention.ms", "5")]).await;
    append(&old, batch(None, &[1])).await.expect("appended");
    let grown = logs.create_partitions(&a, 5).await.expect("grown");
    assert_eq!(grown.partitions.len(), 5);
    assert!(
        Arc::ptr_eq(grown.log(0).expect("served"), &old),
        "the old ones stay open"
    );
    let fewer = logs.create_partitions(&a, 5).await.expect_err("not more");
    assert!(matches!(
        fewer,
        CreatePartitionsError::InvalidTotal { current: 5, .. }
    ));
    let offsets = logs
        .internal_topic("__consumer_offsets")
        .await
        .expect("created");
    assert!(offsets.is_internal() && !grown.is_internal());
    assert!(Arc::ptr_eq(
        &offsets,
        &logs
            .internal_topic("__consumer_offsets")
            .await
            .expect("the same")
    ));
    let id = grown.id;
    drop((old, grown, offsets));
    broker.close().await;
    let broker = open(&world).await;
    let topics = broker.logs.topics();
    let found = topics
        .iter()
        .map(|topic| (topic.name.as_str(), topic.partitions.len()));
    assert!(
        found.eq([("__consumer_offsets", 8), ("a", 5)]),
        "{topics:?}"
    );
    assert_eq!(
        broker
            .logs
            .topic_by_id(id)
            .expect("known")
            .config
            .retention_ms,
        5
    );
}

#[tokio::test]
async fn a_deleted_topic_is_gone_and_its_name_free() {
    let world = World::new(13, small(), 16 * MIB).await;
    let broker = open(&world).await;
    let (logs, a) = (&broker.logs, name("a"));
    let old = create(&broker, "a", &[]).await;
    append(&old, batch(None, &[1])).await.expect("appended");
    let id = old.topic_id();
    logs.delete_topic(&a).await.expect("deleted");
    assert!(logs.topic(&a).is_none() && logs.topic_by_id(id).is_none());
    assert_eq!(
        append(&old, batch(None, &[1])).await,
        Err(AppendError::Closed)
    );
    assert_eq!(old.read(0, 1, true).await, Err(ReadError::Closed));
    assert_eq!(old.trim(1).await, Err(TrimError::Closed));
    let gone = logs.delete_topic(&a).await.expect_err("gone");
    assert!(matches!(gone, DeleteTopicError::UnknownTopic(_)));

    let again = logs
        .create_topic(&a, Some(1), BTreeMap::new())
        .await
        .expect("the name is free");
    assert_ne!(again.id, id);
    assert_eq!(partition(&broker, "a").high_watermark(), 0);
    drop(old);
    broker.close().await;
    let broker = open(&world).await;
    let found: Vec<_> = broker
        .logs
        .topics()
        .iter()
        .map(|t| t.name.to_string())
        .collect();
    assert_eq!(found, ["a"]);
    assert_eq!(broker.logs.topic_by_id(again.id).expect("known").name, a);
}

#[tokio::test]
async fn a_new_topic_serves_only_once_its_metadata_is_backed_up() {
    let world = World::new(1, small(), 16 * MIB).await;
    let broker = open(&world).await;
    let source = world.meta.begin_backup();
    tokio::time::pause();
    let created = broker
        .logs
        .create_topic(&name("t"), Some(1), BTreeMap::new())
        .await;
    assert!(
        matches!(created, Err(CreateTopicError::NotBackedUp(_))),
        "{created:?}"
    );
    let again = broker
        .logs
        .create_topic(&name("t"), Some(1), BTreeMap::new())
        .await;
    assert!(
        matches!(again, Err(CreateTopicError::Exists(_))),
        "{again:?}"
    );
    assert!(
        broker.logs.topic(&name("t")).is_none(),
        "the bucket does not answer"
    );
    tokio::time::resume();
    source.backed_up_to(world.meta.revision());
    while broker.logs.topic(&name("t")).is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    append(&partition(&broker, "t"), batch(None, &[1]))
        .await
        .expect("served");

    tokio::time::pause();
    let grown = broker.logs.create_partitions(&name("t"), 2).await;
    assert!(
        matches!(grown, Err(CreatePartitionsError::NotBackedUp(_))),
        "{grown:?}"
    );
    let known = broker
        .logs
        .topic(&name("t"))
        .expect("there")
        .partitions
        .len();
    assert_eq!(known, 1);
    tokio::time::resume();
    source.backed_up_to(world.meta.revision());
    while broker
        .logs
        .topic(&name("t"))
        .expect("there")
        .partitions
        .len()
        < 2
    {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    broker.close().await;
}

/// Twenty requests in an outage of the bucket took 200 seconds: each waited for those before it.
#[tokio::test]
async fn changes_of_topics_wait_for_the_bucket_together() {
    let world = World::new(2, small(), 16 * MIB).await;
    let broker = open(&world).await;
    create(&broker, "old", &[]).await;
    let source = world.meta.begin_backup();
    let topics: Vec<TopicName> = (0..20).map(|nth| name(&format!("t-{nth}"))).collect();
    let logs = &broker.logs;
    // None of this waits for the bucket.
    let recorded = async {
        let mut waits = Vec::new();
        for topic in &topics {
            let begun = logs.begin_create_topic(topic, Some(1), BTreeMap::new());
            waits.push(begun.await.expect("recorded"));
        }
        let configs = BTreeMap::from([pair("retention.ms", "7")]);
        let changed = logs.set_topic_configs(&name("old"), configs).await;
        changed.expect("changed");
        logs.delete_topic(&name("old")).await.expect("deleted");
        waits
    };
    let waits = tokio::time::timeout(Duration::from_secs(9), recorded).await;
    let waits = waits.expect("no change waits for another's backup");
    tokio::time::pause();
    let together = tokio::time::timeout(Duration::from_secs(11), join_all(waits)).await;
    for created in together.expect("they wait at the same time") {
        assert!(
            matches!(created, Err(CreateTopicError::NotBackedUp(_))),
            "{created:?}"
        );
    }
    assert!(topics.iter().all(|topic| logs.topic(topic).is_none()));
    assert_eq!(
        logs.metrics().partitions,
        20,
        "they count before they are served"
    );

    tokio::time::resume();
    for topic in &topics {
        while logs.topic(topic).is_none() {
            source.backed_up_to(world.meta.revision());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    assert_eq!(logs.metrics().partitions, 20);
    append(&partition(&broker, "t-19"), batch(None, &[1]))
        .await
        .expect("served");
    broker.close().await;
}

/// What a request has waited for is what its own change needs, not what was changed since.
#[tokio::test]
async fn of_a_topic_that_grows_twice_only_what_is_backed_up_is_served() {
    let world = World::new(3, small(), 16 * MIB).await;
    let broker = open(&world).await;
    create(&broker, "t", &[]).await;
    let (source, topic) = (world.meta.begin_backup(), name("t"));
    let served = |broker: &Broker| broker.logs.topic(&topic).expect("there").partitions.len();
    let first = broker.logs.begin_create_partitions(&topic, 3).await;
    let backed_up = world.meta.revision();
    let configs = BTreeMap::from([pair("retention.ms", "7")]);
    let changed = broker.logs.set_topic_configs(&topic, configs).await;
    changed.expect("changed");
    let second = broker.logs.begin_create_partitions(&topic, 5).await;
    let (first, second) = (first.expect("recorded"), second.expect("recorded"));
    let first = tokio::spawn(first);
    tokio::task::yield_now().await;
    assert_eq!(served(&broker), 1);
    source.backed_up_to(backed_up);
    tokio::task::yield_now().await;
    assert!(served(&broker) <= 3);
    source.backed_up_to(world.meta.revision());
    first.await.expect("no panic").expect("served");
    let grown = second.await.expect("served");
    assert_eq!(grown.partitions.len(), 5);
    assert_eq!(grown.config.retention_ms, 7, "changed in between");
    broker.close().await;
}

/// A client that asked again for a topic that waits for the bucket was refused: its partitions were counted
/// twice.
#[tokio::test]
async fn near_the_bound_a_topic_that_waits_for_the_bucket_may_be_asked_for_again() {
    let world = World::new(4, small(), 16 * MIB).await;
    let defaults = LogDefaults {
        partitions_max: 10,
        ..LogDefaults::default()
    };
    let broker = open_with(&world, defaults).await;
    create(&broker, "old", &[]).await;
    let (logs, source) = (&broker.logs, world.meta.begin_backup());
    let (new, old) = (name("a.new"), name("old"));
    let begin = || logs.begin_create_topic(&new, Some(5), BTreeMap::new());
    let first = begin().await.expect("recorded");
    let again = begin().await.expect("recorded before");
    let valid = logs.validate_topic(&new, Some(5), &BTreeMap::new());
    assert!(
        matches!(valid, Err(CreateTopicError::Exists(_))),
        "{valid:?}"
    );
    let grown = logs.begin_create_partitions(&old, 5).await;
    let grown = grown.expect("recorded");
    assert_eq!(logs.metrics().partitions, 10);
    assert!(logs.validate_growth(&old, 5).is_ok());
    assert!(logs.validate_growth(&old, 6).is_err());
    assert_eq!(logs.colliding_topic(&name("a_new")), Some(new.clone()));
    assert_eq!(logs.colliding_topic(&new), None);
    source.backed_up_to(world.meta.revision());
    let (first, again, grown) = tokio::join!(first, again, grown);
    assert_eq!(first.expect("created").partitions.len(), 5);
    assert!(
        matches!(again, Err(CreateTopicError::Exists(_))),
        "{again:?}"
    );
    assert_eq!(grown.expect("grown").partitions.len(), 5);
    broker.close().await;
}
