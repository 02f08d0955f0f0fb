use std::collections::VecDeque;

use bytes::Bytes;
use millrace_record::{Compression, records};
use proptest::prelude::*;

use super::*;
use crate::{client::PartitionMetadata, config::ClientConfig, producer::partition::Batch};

const PARTITIONS: i32 = 3;

#[derive(Debug, Clone, Copy)]
enum Op {
    /// A record of so many bytes more than its number needs.
    Append { partition: i32, padding: usize },
    /// The sender takes the next batch of a partition.
    Take { partition: i32 },
    /// The oldest batch in flight is stored.
    Store,
    /// The newest batch in flight failed and is put back.
    Requeue,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (0..PARTITIONS, 0_usize..700)
            .prop_map(|(partition, padding)| Op::Append { partition, padding }),
        3 => (0..PARTITIONS).prop_map(|partition| Op::Take { partition }),
        2 => Just(Op::Store),
        1 => Just(Op::Requeue),
    ]
}

/// An accumulator, and what a sender would do with it.
struct World {
    accumulator: Accumulator,
    topic: Arc<TopicQueue>,
    in_flight: VecDeque<(usize, Batch)>,
    /// Values by partition, as they were accepted and as they were stored.
    accepted: Vec<Vec<Bytes>>,
    stored: Vec<Vec<Bytes>>,
}

impl World {
    fn new(config: ProducerConfig) -> Self {
        let client = Client::new(ClientConfig::with_addresses(Vec::new()));
        let interest = client.interest("t");
        let accumulator = Accumulator::new(client, config);
        let partition = |index| PartitionMetadata {
            index,
            leader: Some(1),
            leader_epoch: None,
            replicas: Vec::new(),
            in_sync_replicas: Vec::new(),
        };
        let told = TopicMetadata {
            name: "t".into(),
            id: None,
            error: None,
            is_internal: false,
            partitions: (0..PARTITIONS).map(partition).collect(),
        };
        let topic = accumulator.add_topic(&told, interest);
        Self {
            accumulator,
            topic,
            in_flight: VecDeque::new(),
            accepted: vec![Vec::new(); 3],
            stored: vec![Vec::new(); 3],
        }
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Append { partition, padding } => self.append(partition, padding),
            Op::Take { partition } => self.take(partition),
            Op::Store => self.store(),
            Op::Requeue => self.requeue(),
        }
        let used = self.accumulator.memory.used();
        assert!(used <= self.accumulator.config().buffer_memory, "{used}");
    }

    fn append(&mut self, partition: i32, padding: usize) {
        let index = usize::try_from(partition).expect("small");
        let number = self.accepted[index].len();
        let value = format!("{number}{}", " ".repeat(padding));
        let record = ProducerRecord::to("t")
            .partition(partition)
            .value(value.as_bytes());
        loop {
            let appended = self.accumulator.append(&self.topic, &record, &mut None);
            match appended.expect("it is open and small") {
                Append::Done(_) => break self.accepted[index].push(value.into()),
                Append::NeedsMetadata => panic!("the partition exists"),
                Append::NeedsMemory(bytes) => {
                    let config = self.accumulator.config();
                    assert!(self.accumulator.memory.used() + bytes > config.buffer_memory);
                    (0..PARTITIONS).for_each(|partition| self.take(partition));
                    self.store();
                }
            }
        }
    }

    fn take(&mut self, partition: i32) {
        let index = usize::try_from(partition).expect("small");
        let queue = Arc::clone(&self.topic.partitions()[index]);
        let mut state = queue.lock();
        if !state.has_ready() {
            state.close_open(&self.accumulator.memory, false);
        }
        if let Some(batch) = state.take(usize::MAX, None) {
            let size = self.accumulator.config().batch_size;
            let is_uncompressed = self.accumulator.config().compression == Compression::None;
            assert!(batch.bytes.len() <= size || batch.count == 1 || !is_uncompressed);
            self.in_flight.push_back((index, batch));
        }
    }

    fn store(&mut self) {
        let Some((index, batch)) = self.in_flight.pop_front() else {
            return;
        };
        self.topic.partitions()[index].lock().landed(&batch);
        let read = records(&batch.bytes).expect("a batch");
        let values = read.map(|record| record.expect("a record").value.expect("a value"));
        // The buffer is used again: what it holds is copied first.
        self.stored[index].extend(values.map(|value| Bytes::copy_from_slice(&value)));
        let outcome = Outcome::Failed(DeliveryError::Closed);
        assert!(self.accumulator.complete(&batch.completion, outcome));
        self.accumulator.memory.recycle_sent(batch.bytes);
    }

    fn requeue(&mut self) {
        if let Some((index, batch)) = self.in_flight.pop_back() {
            let queue = Arc::clone(&self.topic.partitions()[index]);
            let mut state = queue.lock();
            state.landed(&batch);
            state.requeue(batch);
        }
    }
}

fn config() -> impl Strategy<Value = ProducerConfig> {
    let codec = prop::sample::select(&[Compression::None, Compression::Lz4][..]);
    (100_usize..1_000, 1_000_usize..5_000, codec).prop_map(|(batch, memory, compression)| {
        ProducerConfig {
            batch_size: batch,
            buffer_memory: memory,
            compression,
            ..ProducerConfig::default()
        }
    })
}

proptest! {
    #[test]
    fn every_record_is_in_one_batch_in_order_and_memory_is_bounded_and_given_back(
        config in config(),
        ops in prop::collection::vec(op(), 1..200),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        let _entered = runtime.enter();
        let mut world = World::new(config);
        for op in ops {
            world.run(op);
        }
        for partition in 0..PARTITIONS {
            // More often than there can be batches.
            for _ in 0..1_000 {
                world.take(partition);
            }
        }
        while !world.in_flight.is_empty() {
            world.store();
        }
        prop_assert_eq!(&world.stored, &world.accepted);
        prop_assert_eq!(world.accumulator.memory.used(), 0);
        prop_assert!(world.accumulator.is_idle());
    }
}

#[tokio::test]
async fn records_that_an_abort_fails_are_counted() {
    let mut world = World::new(ProducerConfig::default());
    for _ in 0..5 {
        world.append(0, 10);
    }
    world.take(0);
    world.append(0, 10);
    world.append(1, 10);
    world.accumulator.abort(&DeliveryError::Closed);
    assert_eq!(world.accumulator.metrics().failed_records, 7);
    world.accumulator.abort(&DeliveryError::Closed);
    assert_eq!(world.accumulator.metrics().failed_records, 7);
}
