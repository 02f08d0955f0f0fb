//! A panic in any supervised task ends the broker, and takes no acknowledged record along.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use millrace_broker::{Broker, BrokerFailure, Seams, StartError, StorageError, Supervisor, Task};
use millrace_record::{BatchBuilder, Compression};
use millrace_testkit::KafkaClient;
use millrace_wire::{
    StrBytes,
    messages::{
        FindCoordinatorRequest, GroupId, IncrementalAlterConfigsRequest, MetadataRequest,
        ShareFetchRequest, ShareGroupHeartbeatRequest, TopicName,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
        share_fetch_request::{FetchPartition, FetchTopic},
    },
};
use parking_lot::Mutex;
use tokio::{runtime::Runtime, time::timeout};
use tokio_util::context::TokioContext;

use crate::support::{Home, TOKEN, address, batch, client, get, values};

/// From the panic to the end of the broker.
const END_WITHIN: Duration = Duration::from_secs(2);
/// Until a task runs that is not always there.
const SOON: Duration = Duration::from_secs(20);
/// Brokers at a time: they mostly wait.
const AT_ONCE: usize = 4;
const OLD_RECORDS: usize = 8;
const OLD_RECORD_BYTES: usize = 128 * 1024;
const LARGE_RECORD_BYTES: usize = 12 << 20;
const BROKER: i8 = 4;

/// What was acknowledged: values by offset.
type Acknowledged = Arc<Mutex<BTreeMap<i64, String>>>;

/// The settings with which the task runs, where it does not in every broker.
fn settings(home: &Home, task: Task) -> Vec<String> {
    let log = |parameters: &str| {
        let home = home.path().display();
        let file = format!("0@file://{home}/wal/wal?capacity=67108864");
        format!("s3.wal.path={file}&{parameters}")
    };
    match task {
        Task::WalCompletions => vec![log("iodepth=4&backend=io_uring")],
        Task::WalIo => vec![log("iodepth=4&backend=threads")],
        Task::WalPacing => vec![log("iodepth=4&iops=20")],
        Task::WalShape => vec![log("iodepth=4&shape_write_ms=2")],
        Task::WalWindow => vec![
            log("iodepth=1"),
            "message.max.bytes=16777216".to_owned(),
            "socket.request.max.bytes=33554432".to_owned(),
        ],
        Task::WalTrim => vec!["s3.wal.upload.interval.ms=100".to_owned()],
        Task::CertificateReload => {
            let pem = home.path().join("server.pem");
            std::fs::write(&pem, crate::support::certificate().0).expect("writable");
            vec![
                "listeners=PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0".to_owned(),
                format!("ssl.keystore.location={}", pem.display()),
            ]
        }
        Task::ControlLink => vec![
            "control.link.address=127.0.0.1:1".to_owned(),
            "control.link.credential.file=/nowhere".to_owned(),
        ],
        Task::TokenKeys => {
            let keys = home.path().join("keys.json");
            vec![
                "listeners=PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0".to_owned(),
                "sasl.enabled.mechanisms=OAUTHBEARER".to_owned(),
                format!(
                    "sasl.oauthbearer.jwks.endpoint.url=file://{}",
                    keys.display()
                ),
            ]
        }
        Task::LimiterGrant => vec!["s3.network.egress.baseline.bandwidth=1048576".to_owned()],
        _ => Vec::new(),
    }
}

/// Stands for the process of one broker: what still runs, and what it holds, ends with it.
struct Process(Option<Runtime>);

impl Process {
    fn new() -> Self {
        Self(Some(Runtime::new().expect("threads")))
    }

    async fn start(
        &self,
        home: &Home,
        settings: &[String],
        tasks: &Supervisor,
    ) -> Result<Broker, StartError> {
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let seams = Seams {
            tasks: tasks.clone(),
            ..Seams::system()
        };
        let starting = Broker::start_with(home.config(&settings), seams);
        let runtime = self.0.as_ref().expect("it has not ended");
        TokioContext::new(starting, runtime.handle().clone()).await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0
            .take()
            .into_iter()
            .for_each(Runtime::shutdown_background);
    }
}

/// Leaves records in the bucket that no cache has when the next broker starts.
async fn write_old_records(home: &Home, acknowledged: &Acknowledged) {
    let broker = home.start(&[]).await;
    let mut client = client(&broker).await;
    assert_eq!(client.create_topic("t", 1).await, 0);
    for n in 0..OLD_RECORDS {
        let value = format!("old {n} {}", "x".repeat(OLD_RECORD_BYTES));
        let offset = client.produce("t", 0, batch(&[&value], Compression::None));
        let offset = offset.await.expect("acknowledged");
        acknowledged.lock().insert(offset, value);
    }
    drop(client);
    broker.stop().await;
}

/// Produces until the broker has gone.
async fn produce(broker: std::net::SocketAddr, acknowledged: Acknowledged) -> Infallible {
    let mut client = KafkaClient::connect(broker).await;
    for n in 0.. {
        let value = format!("new {n}");
        let answer = client.produce("t", 0, batch(&[&value], Compression::None));
        match answer.await {
            Ok(offset) => drop(acknowledged.lock().insert(offset, value)),
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
    unreachable!("the loop has no end")
}

/// Has work for every task that does not always run.
async fn provoke(broker: std::net::SocketAddr, task: Task) {
    let mut client = KafkaClient::connect(broker).await;
    match task {
        Task::WalWindow => {
            let mut large = BatchBuilder::new(Compression::None);
            large.push(1_000_000, None, Some(&vec![7; LARGE_RECORD_BYTES]), &[]);
            let large: Bytes = large.build().freeze();
            let _ = client.produce("t", 0, large).await;
        }
        Task::TopicChanges | Task::TopicOpening => {
            client.create_topic("another", 1).await;
        }
        Task::GroupLoad => start_coordinator(broker, GROUPS).await,
        Task::TransactionLoad => start_coordinator(broker, TRANSACTIONS).await,
        Task::ShareStateLoad => start_coordinator(broker, SHARES).await,
        Task::ShareGroupStates => join_share_group(&mut client).await,
        Task::SharePartitionLoad | Task::SharePartitionWriter => loop {
            join_share_group(&mut client).await;
            share_fetch(&mut client).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        },
        Task::CacheResize => {
            let text = |text: &str| StrBytes::from_string(text.to_owned());
            let config = |(name, value): (&str, &str)| {
                AlterableConfig::default()
                    .with_name(text(name))
                    .with_value(Some(text(value)))
            };
            let sizes = [
                ("s3.wal.cache.size", "16777216"),
                ("s3.block.cache.size", "33554432"),
            ];
            let resource = AlterConfigsResource::default()
                .with_resource_type(BROKER)
                .with_resource_name(text("0"))
                .with_configs(sizes.into_iter().map(config).collect());
            let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
            client.call(1, &request).await;
        }
        // The first read of a connection is a cold one; the second has what that has found.
        _ => loop {
            client.fetch("t", 0, 0, Duration::from_millis(100)).await;
        },
    }
}

const SHARE_GROUP: StrBytes = StrBytes::from_static_str("share");
const SHARE_MEMBER: StrBytes = StrBytes::from_static_str("m");

/// The coordinator has the state of the topic's partition initialized then.
async fn join_share_group(client: &mut KafkaClient) {
    let topics = vec![TopicName(StrBytes::from_static_str("t"))];
    let joining = ShareGroupHeartbeatRequest::default()
        .with_group_id(GroupId(SHARE_GROUP))
        .with_member_id(SHARE_MEMBER)
        .with_subscribed_topic_names(Some(topics));
    client.call(1, &joining).await;
}

/// The leader of the partition reads its state then, and stores where it begins.
async fn share_fetch(client: &mut KafkaClient) {
    let metadata = client
        .call(12, &MetadataRequest::default().with_topics(None))
        .await;
    let mut topics = metadata.topics.into_iter();
    let topic = topics.find(|topic| topic.name.as_ref().is_some_and(|name| name.as_str() == "t"));
    let topic = FetchTopic::default()
        .with_topic_id(topic.expect("it was created").topic_id)
        .with_partitions(vec![FetchPartition::default()]);
    let request = ShareFetchRequest::default()
        .with_group_id(Some(GroupId(SHARE_GROUP)))
        .with_member_id(Some(SHARE_MEMBER))
        .with_min_bytes(1)
        .with_max_wait_ms(100)
        .with_max_bytes(1 << 20)
        .with_max_records(10)
        .with_batch_size(10)
        .with_topics(vec![topic]);
    client.call(1, &request).await;
}

/// What FindCoordinator asks for.
const GROUPS: i8 = 0;
const TRANSACTIONS: i8 = 1;
const SHARES: i8 = 2;

/// Groups, transactions or share partitions are served from here on, by tasks of their own.
async fn start_coordinator(broker: std::net::SocketAddr, kind: i8) {
    let (version, key) = match kind {
        SHARES => (6, "g:AAAAAAAAAAAAAAAAAAAAAQ:0"),
        _ => (4, "g"),
    };
    let request = FindCoordinatorRequest::default()
        .with_key_type(kind)
        .with_coordinator_keys(vec![StrBytes::from_static_str(key)]);
    let mut client = KafkaClient::connect(broker).await;
    client.call(version, &request).await;
}

async fn check_nothing_is_lost(home: &Home, acknowledged: &Acknowledged, task: Task) {
    let broker = home.start(&[]).await;
    let mut client = client(&broker).await;
    let mut acknowledged = std::mem::take(&mut *acknowledged.lock());
    assert!(acknowledged.len() >= OLD_RECORDS, "{task}");
    let mut next = 0;
    while let Some(&last) = acknowledged.keys().next_back() {
        let found = client.fetch("t", 0, next, SOON).await;
        for (offset, value) in values(&found) {
            next = offset + 1;
            if let Some(promised) = acknowledged.remove(&offset) {
                assert_eq!(value, promised, "{task}: offset {offset}");
            }
        }
        assert!(next <= last + 1 || acknowledged.is_empty(), "{task}");
    }
    broker.stop().await;
}

async fn a_panic_ends_the_broker(task: Task) {
    let (home, acknowledged) = (Home::new(), Acknowledged::default());
    write_old_records(&home, &acknowledged).await;
    let tasks = Supervisor::new();
    tasks.allow_faults();
    let process = Process::new();
    let broker = match process.start(&home, &settings(&home, task), &tasks).await {
        Err(StartError::Storage(StorageError::Device(refused))) if task == Task::WalCompletions => {
            return println!("skipped: no io_uring here: {refused}");
        }
        started => started.unwrap_or_else(|error| panic!("{task}: {error}")),
    };
    let at = address(&broker);
    // It ends as soon as it has read what there is.
    if task != Task::GroupLoad {
        start_coordinator(at, GROUPS).await;
    }
    if task != Task::TransactionLoad {
        start_coordinator(at, TRANSACTIONS).await;
    }
    if task != Task::ShareStateLoad {
        start_coordinator(at, SHARES).await;
    }
    let producing = tokio::spawn(produce(at, Arc::clone(&acknowledged)));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(tasks.failure(), None, "{task}");
    tasks.inject_panic(task);
    let provoking = tokio::spawn(provoke(at, task));
    let failure = timeout(SOON, broker.failed()).await;
    let failure = failure.unwrap_or_else(|_| panic!("{task} has not run"));
    let named = format!("the task {task} panicked: a test injected this panic");
    assert_eq!(failure.to_string(), named);
    assert!(matches!(failure, BrokerFailure::Task(_)), "{failure}");
    if task != Task::AdminHttp {
        let (code, body) = get(&broker, "/readyz", Some(TOKEN)).await;
        assert_eq!((code, body), (503, format!("not ready: {named}\n")));
    }
    let ended = timeout(END_WITHIN, broker.abandon()).await;
    assert!(ended.is_ok(), "{task}: the broker does not end");
    producing.abort();
    provoking.abort();
    // A record that is acknowledged is counted by then, or its client has not seen the answer.
    let _ = (producing.await, provoking.await);
    drop(process);
    check_nothing_is_lost(&home, &acknowledged, task).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_any_task_ends_the_broker_and_loses_no_acknowledged_record() {
    // The first runs only where the bucket is silent at startup; the next test makes it so. The others run only where other
    // brokers share the metadata.
    let elsewhere = [
        Task::BucketCheck,
        Task::LeaseRenewal,
        Task::Failover,
        Task::MetadataFeed,
        Task::LoadReport,
    ];
    let tasks = Task::ALL.iter().filter(|task| !elsewhere.contains(task));
    stream::iter(tasks)
        .for_each_concurrent(AT_ONCE, |task| a_panic_ends_the_broker(*task))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_panics_while_the_broker_starts_ends_the_broker_with_its_name() {
    let home = Home::new();
    home.start(&[]).await.stop().await;
    let silent = "s3.data.buckets=0@s3://b?region=r&endpoint=http://127.0.0.1:1&pathStyle=true";
    for task in [
        Task::AdminHttp,
        Task::TelemetryFold,
        Task::Upload,
        Task::BucketCheck,
    ] {
        let mut settings = vec![format!("test.panic.task={task}")];
        if task == Task::BucketCheck {
            settings.push(silent.to_owned());
        }
        let process = Process::new();
        let started = process.start(&home, &settings, &Supervisor::new()).await;
        // The panic is noticed while the broker starts, or right behind that.
        let failure = match started {
            Err(error) => error.to_string(),
            Ok(broker) => {
                let failure = timeout(SOON, broker.failed()).await.expect("noticed");
                broker.abandon().await;
                failure.to_string()
            }
        };
        let panicked = format!("the task {task} panicked: a test injected this panic");
        assert_eq!(failure, panicked);
    }
    let broker = home.start(&[]).await;
    assert_eq!(get(&broker, "/readyz", Some(TOKEN)).await.0, 200);
    broker.stop().await;
}
