//! The client library behind a proxy that mistreats its connections: nothing is lost, repeated or
//! reordered.

use std::time::Duration;

use millrace_client::{
    Admin, Client, ClientConfig, Consumer, ConsumerConfig, Producer, ProducerConfig,
    ProducerRecord,
    admin::NewTopic,
    consumer::{AutoCommit, OffsetReset, StartAt},
    transport::BrokerAddress,
};

use crate::support::{Home, address, faulty_proxy::FaultyProxy};

const PARTITIONS: usize = 3;
const COUNT: usize = 6_000;
/// Longer than the faults last, and than a session that a lost JoinGroup leaves behind.
const PATIENCE: Duration = Duration::from_secs(60);
const SEED: u64 = 12;

/// A client that gives up on silent connections soon.
fn client(proxy: &FaultyProxy) -> Client {
    let bootstrap = BrokerAddress::new("127.0.0.1", proxy.address().port());
    let mut config = ClientConfig::with_addresses(vec![bootstrap]);
    config.request_timeout = Duration::from_millis(700);
    config.reconnect_backoff = Duration::from_millis(5);
    config.reconnect_backoff_max = Duration::from_millis(20);
    config.retry_backoff = Duration::from_millis(10);
    config.retry_backoff_max = Duration::from_millis(40);
    Client::new(config)
}

/// Sends `0..COUNT`, each to the partition that it is congruent to; every one must be stored.
async fn produce(client: Client, proxy: &FaultyProxy) {
    let mut config = ProducerConfig::default();
    config.batch_size = 700;
    config.linger = Duration::from_millis(1);
    config.delivery_timeout = PATIENCE;
    let producer = Producer::new(&client, config).expect("legal");
    let mut deliveries = Vec::new();
    for number in 0..COUNT {
        let value = number.to_string();
        let partition = i32::try_from(number % PARTITIONS).expect("few");
        let record = ProducerRecord::to("t")
            .partition(partition)
            .value(value.as_bytes());
        deliveries.push(producer.send(record).await.expect("accepted"));
        if number % 10 == 0 {
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }
    let all_met = async {
        while !proxy.unmet().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let all_met = tokio::time::timeout(PATIENCE, all_met).await;
    assert!(all_met.is_ok(), "unmet: {:?}", proxy.unmet());
    proxy.set_harmless(true);
    for (number, delivery) in deliveries.into_iter().enumerate() {
        let metadata = delivery.await.expect("stored");
        let expected = i64::try_from(number / PARTITIONS).ok();
        assert_eq!(metadata.offset, expected, "record {number}");
    }
    producer.close().await;
}

/// Reads all that is produced. A member of a group may lose its partitions and get them back, and
/// then goes on where it committed; nobody else gets anything twice, and nobody misses anything.
async fn consume(consumer: Consumer, may_repeat: bool) {
    let mut next: Vec<usize> = (0..PARTITIONS).collect();
    let mut read = 0;
    while read < COUNT {
        let record = consumer.next().await.expect("a record");
        let at = usize::try_from(record.partition).expect("few");
        let text = std::str::from_utf8(record.value.as_deref().expect("a value")).expect("text");
        let number: usize = text.parse().expect("a number");
        if number < next[at] && may_repeat {
            continue;
        }
        assert_eq!(number, next[at], "partition {at}");
        next[at] += PARTITIONS;
        read += 1;
    }
    consumer.close().await.expect("committed");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_cut_silent_slow_or_late_cost_no_record() {
    let home = Home::new();
    let proxy = FaultyProxy::listen(SEED).await;
    let advertised = format!("advertised.listeners=PLAINTEXT://{}", proxy.address());
    let broker = home.start(&[&advertised]).await;
    proxy.set_target(address(&broker));

    let topic = NewTopic::new("t").partitions(i32::try_from(PARTITIONS).expect("few"));
    let created = Admin::new(&client(&proxy)).create_topics(&[topic]).await;
    assert!(created.expect("an answer")["t"].is_ok());
    proxy.set_harmless(false);

    let alone = Consumer::new(&client(&proxy), ConsumerConfig::default());
    let all = (0..PARTITIONS).map(|index| ("t", i32::try_from(index).expect("few")));
    alone.assign(all, StartAt::Beginning).expect("manual");
    let mut config = ConsumerConfig::in_group("g");
    config.auto_offset_reset = OffsetReset::Earliest;
    config.auto_commit = AutoCommit::WhenAsked;
    config.auto_commit_interval = Duration::from_millis(50);
    config.session_timeout = Duration::from_secs(6);
    config.heartbeat_interval = Duration::from_millis(100);
    config.rebalance_timeout = Duration::from_secs(1);
    let member = Consumer::new(&client(&proxy), config);
    member.subscribe(&["t"]).expect("a group");

    let readers = (
        tokio::spawn(consume(alone, false)),
        tokio::spawn(consume(member, true)),
    );
    produce(client(&proxy), &proxy).await;
    let read = tokio::time::timeout(PATIENCE, async {
        readers.0.await.expect("every record once, in order");
        readers.1.await.expect("every record, in order");
    });
    read.await.expect("every record in time");
    broker.stop().await;
}
