//! Reads a partition's log back into groups.

use std::{collections::HashMap, time::Duration};

use bytes::Bytes;
use millrace_model::{Classified, Offset, TopicPartition};
use millrace_record::{InvalidBatch, header_of, records};
use tokio::sync::Semaphore;

use crate::{
    consumer::{ConsumerGroup, Parts},
    group::{Group, Now},
    log::{LogFault, StateLog},
    messages::CommittedOffset,
    records::{ConsumerPart, GroupMetadata, GroupRecord, Key, MalformedRecord},
    shard::Ground,
};

/// The first pause before a log that did not answer is read again, and the longest.
const READ_PAUSE_MIN: Duration = Duration::from_millis(100);
const READ_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Why a log could not be read back. The broker must not serve groups from a part of their state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The topic could not be created.
    #[error("__consumer_offsets could not be created: {0}")]
    Create(LogFault),
    /// The log could not be read.
    #[error("__consumer_offsets-{partition} could not be read at offset {offset}: {fault}")]
    Read {
        /// The partition.
        partition: usize,
        /// Where.
        offset: Offset,
        /// Why.
        fault: LogFault,
    },
    /// A record is not in Kafka's format; perhaps a newer broker wrote it.
    #[error(
        "__consumer_offsets-{partition} holds an unreadable record at offset {offset}: {reason}"
    )]
    Record {
        /// The partition.
        partition: usize,
        /// Where.
        offset: Offset,
        /// Why.
        reason: MalformedRecord,
    },
}

/// What the log says of one group.
#[derive(Debug, Default)]
struct Loading {
    metadata: Option<GroupMetadata>,
    /// Of a consumer group.
    parts: Parts,
    offsets: HashMap<TopicPartition, CommittedOffset>,
}

/// What a partition's log holds.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) groups: Vec<Group>,
    /// Records read, live and dead.
    pub(crate) records: u64,
}

/// Reads the log of `partition` from start to end, each time with one of `reads`.
pub(crate) async fn load(
    partition: usize,
    log: &dyn StateLog,
    reads: &Semaphore,
    ground: &Ground,
) -> Result<Loaded, LoadError> {
    let mut loading: HashMap<String, Loading> = HashMap::new();
    let mut count = 0;
    let mut offset = log.start();
    let end = log.end();
    while offset < end {
        let fault = |fault| LoadError::Read {
            partition,
            offset,
            fault,
        };
        let batches = read_patiently(partition, log, reads, offset)
            .await
            .map_err(fault)?;
        let mut next = offset;
        for batch in &batches {
            let last = header_of(batch)
                .map_err(|error| fault(LogFault::corrupt(error)))?
                .last_offset();
            next = next.max(u64::try_from(last).unwrap_or(0) + 1);
            count += apply(partition, batch, &mut loading)?;
        }
        if next == offset {
            let short = "the log ends before its high watermark";
            return Err(fault(LogFault::corrupt(short)));
        }
        offset = next;
    }
    // Sessions begin now, not when a bucket that was away was first asked.
    let now = ground.now();
    let groups = loading
        .into_iter()
        .filter_map(|(id, loading)| loading.group(id, ground, now));
    Ok(Loaded {
        groups: groups.collect(),
        records: count,
    })
}

/// Reads, and again as long as the failure may pass: a broker that gave up while the bucket is down
/// would turn its outage into one of the groups.
async fn read_patiently(
    partition: usize,
    log: &dyn StateLog,
    reads: &Semaphore,
    offset: Offset,
) -> Result<Vec<Bytes>, LogFault> {
    let mut pause = READ_PAUSE_MIN;
    loop {
        let read = {
            let _permit = reads.acquire().await;
            log.read(offset).await
        };
        match read {
            Err(fault) if fault.class().is_transient() => {
                tracing::warn!(partition, %fault, "loading groups waits for the log");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(READ_PAUSE_MAX);
            }
            settled => return settled,
        }
    }
}

fn apply(
    partition: usize,
    batch: &Bytes,
    loading: &mut HashMap<String, Loading>,
) -> Result<u64, LoadError> {
    let fault = |error: InvalidBatch| LoadError::Read {
        partition,
        offset: 0,
        fault: LogFault::corrupt(error),
    };
    let mut count = 0;
    for record in records(batch).map_err(fault)? {
        let record = record.map_err(fault)?;
        count += 1;
        let key = record.key.unwrap_or_default();
        let read = GroupRecord::decode(&key, record.value.as_deref());
        let offset = u64::try_from(record.offset).unwrap_or(0);
        let read = read.map_err(|reason| LoadError::Record {
            partition,
            offset,
            reason,
        })?;
        if let Some(record) = read {
            take(record, loading);
        }
    }
    Ok(count)
}

fn take(record: GroupRecord, loading: &mut HashMap<String, Loading>) {
    match record {
        GroupRecord::Group(Key::Group { group }, metadata) => {
            let loading = loading.entry(group).or_default();
            // A group has one protocol at a time; the last one counts.
            if metadata.is_some() {
                loading.parts.clear();
            }
            loading.metadata = metadata;
        }
        GroupRecord::Consumer(Key::Consumer { group, part }, Some(value)) => {
            let loading = loading.entry(group).or_default();
            if part == ConsumerPart::Group {
                loading.metadata = None;
            }
            loading.parts.insert(part, value);
        }
        GroupRecord::Consumer(Key::Consumer { group, part }, None) => {
            loading.entry(group).or_default().parts.remove(&part);
        }
        GroupRecord::Offset(Key::Offset { group, partition }, Some(committed)) => {
            loading
                .entry(group)
                .or_default()
                .offsets
                .insert(partition, committed);
        }
        GroupRecord::Offset(Key::Offset { group, partition }, None) => {
            loading.entry(group).or_default().offsets.remove(&partition);
        }
        GroupRecord::Group(..) | GroupRecord::Offset(..) | GroupRecord::Consumer(..) => {}
    }
}

impl Loading {
    fn group(self, id: String, ground: &Ground, now: Now) -> Option<Group> {
        let (config, topics) = (ground.config.clone(), ground.topics.clone());
        let consumer = ConsumerGroup::restore(id.clone(), config, topics, self.parts, now);
        if self.metadata.is_none() && consumer.is_none() && self.offsets.is_empty() {
            return None;
        }
        let mut group = Group::new(id, ground.config.clone(), now);
        if let Some(consumer) = consumer {
            group.restore_consumer(consumer);
        }
        if let Some(metadata) = self.metadata {
            group.restore(metadata, now);
        }
        group.restore_offsets(self.offsets);
        Some(group)
    }
}
