//! The logs of one broker over a world that outlives it, and what tests do with their partitions.

use std::sync::Arc;

use crate::world::World;
use bytes::Bytes;
use millrace_log::{
    AppendOrigin, Appended, LogDefaults, LogManager, LogParts, PartitionLog, error::AppendError,
};
use millrace_model::{TopicName, TopicPartition};
use millrace_record::{Batch, BatchBuilder, Compression, header_of, split};
use millrace_stream::StreamStore;
use millrace_tasks::Supervisor;

pub(crate) const MIB: u64 = 1024 * 1024;

pub(crate) struct Broker {
    pub(crate) logs: LogManager,
    pub(crate) store: StreamStore,
}

pub(crate) async fn open(world: &World) -> Broker {
    open_with(world, LogDefaults::default()).await
}

pub(crate) async fn open_with(world: &World, defaults: LogDefaults) -> Broker {
    let store = world.open().await;
    let logs = LogManager::open(LogParts {
        shared: None,
        tasks: Supervisor::new(),
        meta: Arc::new(world.meta.clone()),
        store: store.clone(),
        clock: world.clock.clone(),
        random: world.random.clone(),
        defaults,
    });
    Broker {
        logs: logs.await.expect("opens"),
        store,
    }
}

impl Broker {
    pub(crate) async fn close(self) {
        self.logs.close().await;
        self.store.close().await;
    }
}

pub(crate) fn name(text: &str) -> TopicName {
    TopicName::new(text).expect("legal")
}

pub(crate) fn partition(broker: &Broker, topic: &str) -> Arc<PartitionLog> {
    let id = TopicPartition {
        topic: name(topic),
        partition: 0,
    };
    broker.logs.partition(&id).expect("there")
}

pub(crate) fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

pub(crate) async fn create(
    broker: &Broker,
    topic: &str,
    configs: &[(&str, &str)],
) -> Arc<PartitionLog> {
    let configs = configs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    broker
        .logs
        .create_topic(&name(topic), Some(1), configs)
        .await
        .expect("created");
    partition(broker, topic)
}

/// A batch of an idempotent producer, or of none.
pub(crate) fn batch(producer: Option<(i64, i16, i32)>, timestamps: &[i64]) -> Batch {
    let mut builder = BatchBuilder::new(Compression::None);
    if let Some((id, epoch, sequence)) = producer {
        builder = builder.producer(id, epoch, sequence);
    }
    for (n, &timestamp) in timestamps.iter().enumerate() {
        let value = format!("{producer:?} {n}");
        builder.push(timestamp, Some(b"key"), Some(value.as_bytes()), &[]);
    }
    split(builder.build()).expect("sound").remove(0)
}

pub(crate) async fn append(log: &PartitionLog, batch: Batch) -> Result<Appended, AppendError> {
    log.append(vec![batch], AppendOrigin::Client).await?.await
}

pub(crate) async fn read_all(log: &PartitionLog) -> Vec<Bytes> {
    let mut at = log.start_offset();
    let mut all = Vec::new();
    while at < log.high_watermark() {
        let read = log.read(at, 10_000, true).await.expect("readable");
        for batch in read.batches {
            let header = header_of(&batch).expect("a batch");
            let base = u64::try_from(header.base_offset).expect("not negative");
            assert!(
                if all.is_empty() {
                    base <= at
                } else {
                    base == at
                },
                "no gap"
            );
            at = u64::try_from(header.next_offset()).expect("not negative");
            all.push(batch);
        }
    }
    all
}
