//! The client library against a whole broker.

use std::{collections::BTreeMap, time::Duration};

use millrace_broker::Broker;
use millrace_client::{
    Admin, Client, ClientConfig, Compression, ErrorCode, Producer, ProducerConfig, ProducerRecord,
    TopicPartition,
    admin::{ConfigChange, ConfigResource, ConfigSource, NewTopic, OffsetSpec},
    consumer::CommittedOffset,
    producer::Acks,
    transport::BrokerAddress,
};

use crate::support::{Home, address, client as raw_client, values};

const PATIENCE: Duration = Duration::from_secs(20);
const ALL: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

fn client(broker: &Broker) -> Client {
    let address = address(broker);
    let bootstrap = BrokerAddress::new(&address.ip().to_string(), address.port());
    Client::new(ClientConfig::with_addresses(vec![bootstrap]))
}

async fn create(client: &Client, name: &str, partitions: i32) {
    let topic = NewTopic::new(name).partitions(partitions);
    let results = Admin::new(client).create_topics(&[topic]).await;
    let results = results.expect("the broker answers");
    assert!(results[name].is_ok(), "{results:?}");
}

/// The values of a partition, in the order of the log.
async fn read(broker: &Broker, topic: &str, partition: i32, count: usize) -> Vec<String> {
    let mut raw = raw_client(broker).await;
    let mut read: Vec<(i64, String)> = Vec::new();
    while read.len() < count {
        let next = i64::try_from(read.len()).expect("few");
        let fetched = raw.fetch(topic, partition, next, PATIENCE).await;
        let new = values(&fetched)
            .into_iter()
            .filter(|(offset, _)| *offset >= next);
        let before = read.len();
        read.extend(new);
        assert!(read.len() > before, "{before} of {count} records");
    }
    assert!(
        (0..)
            .zip(&read)
            .all(|(expected, (offset, _))| expected == *offset)
    );
    read.into_iter().map(|(_, value)| value).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_every_compression_and_acks_are_stored_in_order() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let client = client(&broker);
    create(&client, "t", 1).await;
    let mut expected = Vec::new();
    for compression in ALL {
        for acks in [Acks::All, Acks::Leader] {
            let mut config = ProducerConfig::default();
            config.compression = compression;
            config.acks = acks;
            config.idempotence = acks == Acks::All;
            config.batch_size = 2_000;
            let producer = Producer::new(&client, config).expect("legal");
            let mut deliveries = Vec::new();
            for number in 0..200 {
                let value = format!("{compression:?} {acks:?} {number}");
                let record = ProducerRecord::to("t").key(b"k").value(value.as_bytes());
                deliveries.push(producer.send(record).await.expect("accepted"));
                expected.push(value);
            }
            let first = expected.len() - deliveries.len();
            for (offset, delivery) in (first..).zip(deliveries) {
                let metadata = delivery.await.expect("stored");
                assert_eq!(
                    metadata.offset,
                    i64::try_from(offset).ok(),
                    "{compression:?}"
                );
            }
            producer.close().await;
        }
    }
    assert_eq!(read(&broker, "t", 0, expected.len()).await, expected);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_under_load_loses_and_repeats_nothing() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let listener = format!("listeners=PLAINTEXT://{}", address(&broker));
    let client = client(&broker);
    create(&client, "t", 3).await;
    let mut config = ProducerConfig::default();
    config.batch_size = 500;
    config.linger = Duration::from_millis(1);
    let producer = Producer::new(&client, config).expect("legal");
    let sending = tokio::spawn({
        let producer = producer.clone();
        async move {
            let mut deliveries = Vec::new();
            for number in 0..3_000_usize {
                let value = number.to_string();
                let partition = i32::try_from(number % 3).expect("few");
                let record = ProducerRecord::to("t")
                    .partition(partition)
                    .value(value.as_bytes());
                deliveries.push(producer.send(record).await.expect("accepted"));
                if number % 10 == 0 {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
            for delivery in deliveries {
                delivery.await.expect("stored");
            }
        }
    });
    let mut broker = broker;
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        broker.stop().await;
        broker = home.start(&[&listener]).await;
    }
    sending.await.expect("no panic");
    for partition in 0..3_usize {
        let expected: Vec<_> = (partition..3_000)
            .step_by(3)
            .map(|n| n.to_string())
            .collect();
        let index = i32::try_from(partition).expect("few");
        assert_eq!(read(&broker, "t", index, expected.len()).await, expected);
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_are_administered() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let client = client(&broker);
    let admin = Admin::new(&client);
    let topic = NewTopic::new("t")
        .partitions(2)
        .config("retention.ms", "1000000");
    let checked = admin.validate_topics(std::slice::from_ref(&topic)).await;
    assert!(checked.expect("an answer")["t"].is_ok());
    assert!(admin.list_topics().await.expect("an answer").is_empty());
    let created = admin
        .create_topics(std::slice::from_ref(&topic))
        .await
        .expect("an answer");
    let id = *created["t"].as_ref().expect("created");
    assert!(id.is_some());
    let again = admin.create_topics(&[topic]).await.expect("an answer");
    let error = again["t"].as_ref().expect_err("it exists");
    assert_eq!(error.code, ErrorCode::TOPIC_ALREADY_EXISTS);

    let totals = BTreeMap::from([("t".to_owned(), 5)]);
    let grown = admin.create_partitions(&totals).await.expect("an answer");
    assert!(grown["t"].is_ok(), "{grown:?}");
    let listed = admin.list_topics().await.expect("an answer");
    assert_eq!(
        (&*listed[0].name, listed[0].id, listed[0].partitions),
        ("t", id, 5)
    );
    let described = admin.describe_topics(&["t", "u"]).await.expect("an answer");
    assert_eq!(described["t"].as_ref().expect("known").partitions.len(), 5);
    let error = described["u"].as_ref().expect_err("unknown");
    assert_eq!(error.code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);

    assert_eq!(
        admin
            .describe_cluster()
            .await
            .expect("an answer")
            .brokers
            .len(),
        1
    );
    let deleted = admin.delete_topics(&["t", "u"]).await.expect("an answer");
    assert!(deleted["t"].is_ok(), "{deleted:?}");
    assert!(deleted["u"].is_err(), "{deleted:?}");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn configurations_are_changed_one_by_one() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let client = client(&broker);
    let admin = Admin::new(&client);
    let topic = NewTopic::new("t").config("retention.ms", "1000000");
    let created = admin.create_topics(&[topic]).await.expect("an answer");
    assert!(created["t"].is_ok(), "{created:?}");
    let resource = ConfigResource::Topic("t".to_owned());
    let change = |change| {
        let changes = BTreeMap::from([("retention.ms".to_owned(), change)]);
        BTreeMap::from([(resource.clone(), changes)])
    };
    let retention = || async {
        let configs = admin
            .describe_configs(std::slice::from_ref(&resource))
            .await;
        let configs = configs.expect("an answer")[&resource]
            .clone()
            .expect("known");
        let entry = configs["retention.ms"].clone();
        (entry.value.unwrap_or_default(), entry.source)
    };
    assert_eq!(
        retention().await,
        ("1000000".to_owned(), ConfigSource::Topic)
    );
    let altered = admin
        .alter_configs(&change(ConfigChange::Set("2000000".to_owned())))
        .await;
    assert!(altered.expect("an answer")[&resource].is_ok());
    assert_eq!(retention().await.0, "2000000");
    let altered = admin.alter_configs(&change(ConfigChange::Delete)).await;
    assert!(altered.expect("an answer")[&resource].is_ok());
    assert_ne!(retention().await.1, ConfigSource::Topic);

    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_are_administered() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let client = client(&broker);
    let admin = Admin::new(&client);
    create(&client, "t", 2).await;
    let producer = Producer::new(&client, ProducerConfig::default()).expect("legal");
    for number in 0..10 {
        let record = ProducerRecord::to("t")
            .partition(0)
            .timestamp_ms(1_000_000 + number)
            .value(b"v");
        drop(producer.send(record).await.expect("accepted"));
    }
    producer.close().await;
    let at = |partition| TopicPartition::new("t", partition);
    let ask = |spec| BTreeMap::from([(at(0), spec), (at(1), spec)]);
    let offsets = |spec| {
        let admin = admin.clone();
        async move {
            let listed = admin.list_offsets(ask(spec)).await.expect("an answer");
            let offset = |partition| listed[&at(partition)].clone().expect("known").offset;
            (offset(0), offset(1))
        }
    };
    assert_eq!(offsets(OffsetSpec::Earliest).await, (Some(0), Some(0)));
    assert_eq!(offsets(OffsetSpec::Latest).await, (Some(10), Some(0)));
    assert_eq!(
        offsets(OffsetSpec::Timestamp(1_000_004)).await,
        (Some(4), None)
    );
    let unknown = BTreeMap::from([(at(7), OffsetSpec::Latest), (at(1), OffsetSpec::Latest)]);
    let listed = admin.list_offsets(unknown).await.expect("an answer");
    let error = listed[&at(7)].as_ref().expect_err("no such partition");
    assert_eq!(error.code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    assert!(listed[&at(1)].is_ok());

    let deleted = admin.delete_records(BTreeMap::from([(at(0), 3)])).await;
    assert_eq!(deleted.expect("an answer")[&at(0)], Ok(3));
    assert_eq!(offsets(OffsetSpec::Earliest).await, (Some(3), Some(0)));

    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_are_administered() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let client = client(&broker);
    let admin = Admin::new(&client);
    create(&client, "t", 2).await;
    let at = |partition| TopicPartition::new("t", partition);
    assert!(admin.list_groups().await.expect("an answer").is_empty());
    let committed = BTreeMap::from([(at(0), CommittedOffset::new(5))]);
    let altered = admin
        .alter_group_offsets("g", &committed)
        .await
        .expect("an answer");
    assert_eq!(altered[&at(0)], Ok(()));
    assert_eq!(
        admin.group_offsets("g").await.expect("an answer"),
        committed
    );
    let listed = admin.list_groups().await.expect("an answer");
    assert_eq!(
        listed.iter().map(|group| &*group.id).collect::<Vec<_>>(),
        ["g"]
    );
    let described = admin.describe_group("g").await.expect("an answer");
    assert_eq!((&*described.state, described.members.len()), ("Empty", 0));
    admin.delete_group("g").await.expect("it has no members");
    assert!(
        admin
            .group_offsets("g")
            .await
            .expect("an answer")
            .is_empty()
    );
    let error = admin.delete_group("g").await.expect_err("it is gone");
    assert_eq!(error.code(), Some(ErrorCode::GROUP_ID_NOT_FOUND));
    broker.stop().await;
}
