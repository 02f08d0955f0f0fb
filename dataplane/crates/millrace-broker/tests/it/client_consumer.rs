//! The client library's consumer against a whole broker: records, groups, rebalances.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use futures_util::StreamExt;
use millrace_broker::Broker;
use millrace_client::{
    Admin, BoxFuture, Client, ClientConfig, Compression, Consumer, ConsumerConfig, Producer,
    ProducerConfig, ProducerRecord, TopicPartition,
    admin::NewTopic,
    consumer::{Assignor, AutoCommit, CommittedOffset, OffsetReset, RebalanceListener, StartAt},
    transport::BrokerAddress,
};
use tokio::sync::mpsc;

use crate::support::{Home, address};

const PATIENCE: Duration = Duration::from_secs(30);

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

/// Sends these numbers, each to the partition that it is congruent to.
async fn produce(client: &Client, partitions: usize, numbers: std::ops::Range<usize>) {
    let mut config = ProducerConfig::default();
    config.batch_size = 1_000;
    config.compression = Compression::Lz4;
    let producer = Producer::new(client, config).expect("legal");
    let mut deliveries = Vec::new();
    for number in numbers {
        let value = number.to_string();
        let partition = i32::try_from(number % partitions).expect("few");
        let record = ProducerRecord::to("t")
            .partition(partition)
            .value(value.as_bytes());
        deliveries.push(producer.send(record).await.expect("accepted"));
    }
    for delivery in deliveries {
        delivery.await.expect("stored");
    }
    producer.close().await;
}

fn group(change: impl FnOnce(&mut ConsumerConfig)) -> ConsumerConfig {
    let mut config = ConsumerConfig::in_group("g");
    config.auto_offset_reset = OffsetReset::Earliest;
    config.session_timeout = Duration::from_secs(6);
    config.heartbeat_interval = Duration::from_millis(200);
    config.rebalance_timeout = Duration::from_secs(10);
    change(&mut config);
    config
}

fn number(value: Option<&[u8]>) -> usize {
    let text = std::str::from_utf8(value.expect("a value")).expect("text");
    text.parse().expect("a number")
}

fn t(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

/// Tells of rebalances.
struct Events(mpsc::UnboundedSender<(bool, Vec<TopicPartition>)>);

impl RebalanceListener for Events {
    fn on_assigned<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, ()> {
        Box::pin(async {
            drop(self.0.send((true, partitions.to_vec())));
        })
    }

    fn on_revoked<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, ()> {
        Box::pin(async {
            drop(self.0.send((false, partitions.to_vec())));
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_records_of_all_partitions_are_read_in_order() {
    const COUNT: usize = 6_000;
    let home = Home::new();
    let broker = home.start(&[]).await;
    let client = client(&broker);
    create(&client, "t", 3).await;
    produce(&client, 3, 0..COUNT).await;
    let mut config = ConsumerConfig::default();
    config.max_partition_fetch_bytes = 4_000;
    let consumer = Consumer::new(&client, config);
    let all = [("t", 0), ("t", 1), ("t", 2)];
    consumer.assign(all, StartAt::Beginning).expect("manual");
    let mut next = [0, 1, 2];
    for _ in 0..COUNT {
        let record = consumer.next().await.expect("a record");
        let at = usize::try_from(record.partition).expect("few");
        assert_eq!(number(record.value.as_deref()), next[at]);
        next[at] += 3;
    }
    let ends = consumer
        .end_offsets(&[t(0), t(1), t(2)])
        .await
        .expect("told");
    let third = i64::try_from(COUNT / 3).expect("few");
    assert_eq!(
        ends,
        HashMap::from([(t(0), third), (t(1), third), (t(2), third)])
    );
    // Whatever is appended now is found by the fetch that waits.
    let waiting = tokio::spawn({
        let consumer = consumer.clone();
        async move { consumer.next().await }
    });
    produce(&client, 3, COUNT..COUNT + 1).await;
    let record = waiting.await.expect("no panic").expect("a record");
    assert_eq!(number(record.value.as_deref()), COUNT);
    let metrics = consumer.metrics();
    assert_eq!(metrics.discarded_bytes, 0, "{metrics:?}");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_follow_what_was_asked_for_and_a_new_member_goes_on_there() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let client = client(&broker);
    create(&client, "t", 1).await;
    produce(&client, 1, 0..100).await;
    for round in 0..4 {
        let consumer = Consumer::new(&client, group(|_| {}));
        consumer.subscribe(&["t"]).expect("a group");
        for expected in 25 * round..25 * (round + 1) {
            let record = consumer.next().await.expect("a record");
            assert_eq!(number(record.value.as_deref()), expected);
        }
        // Says that the last record is processed, too.
        consumer.commit().await.expect("a member");
        consumer.close().await.expect("committed");
    }
    let consumer = Consumer::new(&client, group(|_| {}));
    let committed = consumer.committed(&[t(0)]).await.expect("told");
    assert_eq!(committed[&t(0)].offset, 100);
    // Without a commit, the record that was delivered last comes again.
    let offsets = HashMap::from([(t(0), CommittedOffset::new(10))]);
    consumer
        .commit_offsets(&offsets)
        .await
        .expect("no member yet");
    consumer.subscribe(&["t"]).expect("a group");
    for expected in [10, 11] {
        let record = consumer.next().await.expect("a record");
        assert_eq!(number(record.value.as_deref()), expected);
    }
    consumer.close().await.expect("committed");
    let consumer = Consumer::new(&client, group(|_| {}));
    let committed = consumer.committed(&[t(0)]).await.expect("told");
    assert_eq!(
        committed[&t(0)].offset,
        11,
        "11 may not have been processed"
    );
    broker.stop().await;
}

type Rebalances = mpsc::UnboundedReceiver<(bool, Vec<TopicPartition>)>;

/// A member that reads and processes until it is closed.
fn join(
    client: &Client,
    assignors: &[Assignor],
    read: mpsc::UnboundedSender<usize>,
) -> (Consumer, Rebalances, tokio::task::JoinHandle<()>) {
    let config = group(|config| {
        config.assignors = assignors.to_vec();
        config.auto_commit = AutoCommit::WhenProcessed;
        config.auto_commit_interval = Duration::from_millis(100);
    });
    let consumer = Consumer::new(client, config);
    let (events, rebalances) = mpsc::unbounded_channel();
    consumer
        .subscribe_with(&["t"], Events(events))
        .expect("a group");
    let reading = tokio::spawn({
        let consumer = consumer.clone();
        async move {
            while let Ok(record) = consumer.next().await {
                let number = number(record.value.as_deref());
                read.send(number).expect("the test reads them");
                consumer.processed(&record);
            }
        }
    });
    (consumer, rebalances, reading)
}

/// Members come and go; every number is read, and by nobody twice but for what was not committed.
async fn rebalance(assignors: &[Assignor]) {
    const COUNT: usize = 3_000;
    const PARTITIONS: usize = 6;
    let home = Home::new();
    let broker = home.start(&[]).await;
    let client = client(&broker);
    create(&client, "t", i32::try_from(PARTITIONS).expect("few")).await;
    let (read, mut reads) = mpsc::unbounded_channel();
    let member = || join(&client, assignors, read.clone());
    let producing = tokio::spawn({
        let client = client.clone();
        async move {
            for from in (0..COUNT).step_by(100) {
                produce(&client, PARTITIONS, from..from + 100).await;
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
        }
    });
    let (first, mut rebalances, _) = member();
    let (is_assigned, partitions) = rebalances.recv().await.expect("an event");
    assert!(is_assigned && partitions.len() == PARTITIONS);
    let (second, _, second_reading) = member();
    let halves = async {
        while first.assignment().len() != 3 || second.assignment().len() != 3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, halves)
        .await
        .expect("a rebalance");
    if assignors == [Assignor::CooperativeSticky] {
        let (is_assigned, partitions) = rebalances.recv().await.expect("an event");
        assert!(!is_assigned && partitions.len() == 3, "{partitions:?}");
    }
    let (third, _, _) = member();
    tokio::time::sleep(Duration::from_millis(300)).await;
    second.close().await.expect("committed");
    second_reading.await.expect("no panic");
    producing.await.expect("no panic");
    let mut seen: BTreeMap<usize, usize> = BTreeMap::new();
    let all = async {
        while seen.len() < COUNT {
            let number = reads.recv().await.expect("members");
            *seen.entry(number).or_default() += 1;
        }
    };
    tokio::time::timeout(PATIENCE, all)
        .await
        .expect("every number");
    first.close().await.expect("committed");
    third.close().await.expect("committed");
    let repeated = seen.values().filter(|count| **count > 1).count();
    assert_eq!(
        repeated, 0,
        "nobody died, so all that was read was committed"
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_an_eager_group_share_and_lose_nothing() {
    rebalance(&[Assignor::Range]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_a_sticky_group_share_and_lose_nothing() {
    rebalance(&[Assignor::Sticky]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_a_cooperative_group_share_and_lose_nothing() {
    rebalance(&[Assignor::CooperativeSticky]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_member_comes_back_to_its_partitions() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let client = client(&broker);
    create(&client, "t", 4).await;
    let member = |instance: &str| {
        let (events, rebalances) = mpsc::unbounded_channel();
        let consumer = Consumer::new(
            &client,
            group(|config| config.group_instance_id = Some(instance.to_owned())),
        );
        consumer
            .subscribe_with(&["t"], Events(events))
            .expect("a group");
        (consumer, rebalances)
    };
    let (first, mut rebalances) = member("one");
    let (second, _) = member("two");
    let halves = async {
        while first.assignment().len() != 2 || second.assignment().len() != 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, halves)
        .await
        .expect("a rebalance");
    let before: BTreeSet<_> = second.assignment().into_iter().collect();
    while rebalances.try_recv().is_ok() {}
    second.close().await.expect("committed");
    let (second, mut again) = member("two");
    let (is_assigned, partitions) = again.recv().await.expect("an event");
    assert!(is_assigned);
    assert_eq!(partitions.into_iter().collect::<BTreeSet<_>>(), before);
    assert!(rebalances.try_recv().is_err(), "the other one saw nothing");
    drop((first, second));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_partitions_read_side_by_side_and_a_reader_that_stops_costs_no_bytes() {
    const COUNT: usize = 4_000;
    let home = Home::new();
    let broker = home.start(&[]).await;
    let client = client(&broker);
    create(&client, "t", 2).await;
    produce(&client, 2, 0..COUNT).await;
    let mut config = ConsumerConfig::default();
    config.prefetch_bytes = 16_000;
    let consumer = Consumer::new(&client, config);
    consumer
        .assign([("t", 0), ("t", 1)], StartAt::Beginning)
        .expect("manual");
    let mut slow = consumer.partition_stream(&t(0)).expect("assigned");
    let mut fast = consumer.partition_stream(&t(1)).expect("assigned");
    slow.next().await.expect("open").expect("a record");
    for nth in 0..COUNT / 2 {
        let record = fast.next().await.expect("open").expect("a record");
        assert_eq!(number(record.value.as_deref()), 2 * nth + 1);
    }
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let received = |client: &Client| client.metrics().requests["Fetch"].received_bytes;
    let before = received(&client);
    produce(&client, 2, COUNT..COUNT + 100).await;
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    assert_eq!(received(&client), before, "nobody asks");
    for nth in 1..COUNT / 2 + 50 {
        let record = slow.next().await.expect("open").expect("a record");
        assert_eq!(number(record.value.as_deref()), 2 * nth);
    }
    let metrics = consumer.metrics();
    assert_eq!(metrics.discarded_bytes, 0, "{metrics:?}");
    let (consumer, fast) = (Arc::new(consumer), fast);
    drop((consumer, fast));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_dies_is_replaced_and_nothing_is_lost() {
    const COUNT: usize = 400;
    let home = Home::new();
    let broker = home.start(&["group.min.session.timeout.ms=500"]).await;
    let client_of_others = client(&broker);
    create(&client_of_others, "t", 4).await;
    produce(&client_of_others, 4, 0..COUNT).await;
    let config = || {
        group(|config| {
            config.session_timeout = Duration::from_secs(1);
            config.auto_commit = AutoCommit::WhenProcessed;
            config.auto_commit_interval = Duration::from_millis(50);
        })
    };
    // Its tasks end with its runtime, without a word to the broker.
    let doomed = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let (read, mut reads) = mpsc::unbounded_channel();
    let bootstrap = address(&broker).to_string();
    doomed.spawn(async move {
        let config_of_client = ClientConfig::new(&bootstrap).expect("an address");
        let consumer = Consumer::new(&Client::new(config_of_client), config());
        consumer.subscribe(&["t"]).expect("a group");
        loop {
            let record = consumer.next().await.expect("a record");
            let number = number(record.value.as_deref());
            if read.send(number).is_err() {
                return;
            }
            // Every third one is never done: it must come again.
            if !number.is_multiple_of(3) {
                consumer.processed(&record);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    let mut died_with = BTreeSet::new();
    while died_with.len() < 100 {
        died_with.insert(reads.recv().await.expect("a member"));
    }
    doomed.shutdown_background();
    let consumer = Consumer::new(&client_of_others, config());
    consumer.subscribe(&["t"]).expect("a group");
    let mut seen: BTreeSet<_> = died_with
        .iter()
        .copied()
        .filter(|n| !n.is_multiple_of(3))
        .collect();
    let all = async {
        while seen.len() < COUNT {
            let record = consumer.next().await.expect("a record");
            seen.insert(number(record.value.as_deref()));
        }
    };
    let all = tokio::time::timeout(PATIENCE, all).await;
    assert!(all.is_ok(), "{} of {COUNT} numbers", seen.len());
    consumer.close().await.expect("committed");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_reads_on_over_restarts_of_the_broker() {
    const COUNT: usize = 3_000;
    let home = Home::new();
    let mut broker = home.start(&[]).await;
    let listener = format!("listeners=PLAINTEXT://{}", address(&broker));
    let client = client(&broker);
    create(&client, "t", 3).await;
    let consumer = Consumer::new(
        &client,
        group(|config| config.auto_commit_interval = Duration::from_millis(50)),
    );
    consumer.subscribe(&["t"]).expect("a group");
    let reading = tokio::spawn({
        let consumer = consumer.clone();
        async move {
            let mut ends = [0, 1, 2];
            let mut seen = 0;
            while seen < COUNT {
                let record = consumer.next().await.expect("a record");
                let at = usize::try_from(record.partition).expect("few");
                let number = number(record.value.as_deref());
                assert!(number <= ends[at], "{number} instead of {}", ends[at]);
                if number == ends[at] {
                    ends[at] += 3;
                    seen += 1;
                }
            }
        }
    });
    let producing = tokio::spawn({
        let client = client.clone();
        async move {
            for from in (0..COUNT).step_by(100) {
                produce(&client, 3, from..from + 100).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    });
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        broker.stop().await;
        broker = home.start(&[&listener]).await;
    }
    producing.await.expect("no panic");
    let read = tokio::time::timeout(PATIENCE, reading).await;
    read.expect("every number").expect("in order");
    consumer.close().await.expect("committed");
    broker.stop().await;
}
