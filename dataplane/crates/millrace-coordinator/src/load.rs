//! Reads a partition's log back into what it keeps.

use std::time::Duration;

use bytes::Bytes;
use millrace_model::{Classified, Offset};
use millrace_record::{InvalidBatch, TransactionEnd, header_of, records};
use tokio::sync::Semaphore;

use crate::{
    kept::{COPY, Found, Kept},
    log::{LogFault, StateLog},
    records::MalformedRecord,
    shard::Ground,
};

/// The first pause before a log that did not answer is read again, and the longest.
const READ_PAUSE_MIN: Duration = Duration::from_millis(100);
const READ_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Why a log could not be read back. The broker must not serve anything from a part of its state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The topic could not be created.
    #[error("{topic} could not be created: {fault}")]
    Create {
        /// Its name.
        topic: &'static str,
        /// Why.
        fault: LogFault,
    },
    /// The log could not be read.
    #[error("{topic}-{partition} could not be read at offset {offset}: {fault}")]
    Read {
        /// The topic.
        topic: &'static str,
        /// The partition.
        partition: usize,
        /// Where.
        offset: Offset,
        /// Why.
        fault: LogFault,
    },
    /// A record is not in Kafka's format; perhaps a newer broker wrote it.
    #[error("{topic}-{partition} holds an unreadable record at offset {offset}: {reason}")]
    Record {
        /// The topic.
        topic: &'static str,
        /// The partition.
        partition: usize,
        /// Where.
        offset: Offset,
        /// Why.
        reason: MalformedRecord,
    },
}

/// What a partition's log holds.
#[derive(Debug)]
pub(crate) struct Loaded<K> {
    pub(crate) kept: Vec<K>,
    /// Records read, live and dead.
    pub(crate) records: u64,
    /// Those of them that abort a transaction.
    pub(crate) aborts: u64,
}

/// What has been read so far.
#[derive(Debug, Default)]
struct Counts {
    records: u64,
    aborts: u64,
}

/// Reads the log of `partition` from start to end, each time with one of `reads`.
pub(crate) async fn load<K: Kept>(
    partition: usize,
    log: &dyn StateLog,
    reads: &Semaphore,
    ground: &Ground<K>,
) -> Result<Loaded<K>, LoadError> {
    let mut loading = K::Loading::default();
    let mut counts = Counts::default();
    let mut offset = log.start();
    let end = log.end();
    while offset < end {
        let fault = |fault| LoadError::Read {
            topic: K::NAMES.topic,
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
            apply::<K>(partition, batch, &mut loading, &mut counts)?;
        }
        if next == offset {
            let short = "the log ends before its high watermark";
            return Err(fault(LogFault::corrupt(short)));
        }
        offset = next;
    }
    // Sessions begin now, not when a bucket that was away was first asked.
    let (config, now) = (&ground.config, ground.now());
    Ok(Loaded {
        kept: K::loaded(loading, config, now),
        records: counts.records,
        aborts: counts.aborts,
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
                tracing::warn!(partition, %fault, "reading the log failed; retrying");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(READ_PAUSE_MAX);
            }
            settled => return settled,
        }
    }
}

fn apply<K: Kept>(
    partition: usize,
    batch: &Bytes,
    loading: &mut K::Loading,
    counts: &mut Counts,
) -> Result<(), LoadError> {
    let topic = K::NAMES.topic;
    let fault = |error: InvalidBatch| LoadError::Read {
        topic,
        partition,
        offset: 0,
        fault: LogFault::corrupt(error),
    };
    let malformed = |offset: i64| {
        move |reason| LoadError::Record {
            topic,
            partition,
            offset: u64::try_from(offset).unwrap_or(0),
            reason,
        }
    };
    let header = header_of(batch).map_err(fault)?;
    let producer = (header.producer_id, header.producer_epoch);
    if header.is_control() {
        if let Some(end) = TransactionEnd::of(batch).map_err(fault)? {
            counts.aborts += u64::from(!end.committed);
            let found = Found::End(producer, end.committed);
            K::load(loading, found).map_err(malformed(header.base_offset))?;
        }
        counts.records += 1;
        return Ok(());
    }
    let producer = header.is_transactional().then_some(producer);
    for record in records(batch).map_err(fault)? {
        let record = record.map_err(fault)?;
        let offset = record.offset;
        counts.records += 1;
        let is_copy = record.headers.iter().any(|header| header.key == COPY);
        let found = match producer {
            None if is_copy => Found::Copy(record),
            producer => Found::Record(producer, record),
        };
        K::load(loading, found).map_err(malformed(offset))?;
    }
    Ok(())
}
