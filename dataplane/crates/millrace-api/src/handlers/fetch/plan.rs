//! What a fetch asks for, and the reading of what is in memory.

use std::{sync::Arc, time::Duration};

use millrace_log::{LogManager, PartitionLog};
use millrace_model::{Offset, TopicPartition};
use millrace_wire::{
    error_code::ErrorCode,
    messages::{FetchRequest, fetch_request::FetchPartition},
};

use super::{
    TopicKey,
    answer::{Gathered, Part},
};
use crate::{
    call::Reply,
    code,
    context::Context,
    quota::Payer,
    topics::{FIRST_WITH_TOPIC_IDS, check_leader_epoch, find, partition},
};

/// The longest that a fetch waits, whatever the client says; clients ask for 0.5 s, and give up on
/// any request after 30 s.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// One partition that is asked for.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// Its topic's place in [`Plan::topics`].
    pub(super) topic: usize,
    pub(super) index: i32,
    pub(super) bytes_max: usize,
    /// The log and the offset to read from, or why there is nothing to read.
    pub(super) source: Result<Source, ErrorCode>,
}

#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) log: Arc<PartitionLog>,
    pub(super) offset: Offset,
}

/// A whole request.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) topics: Vec<TopicKey>,
    /// In the order of the request, which is the order in which the client wants them served.
    pub(super) partitions: Vec<Wanted>,
    pub(super) bytes_max: usize,
    pub(super) bytes_min: usize,
    pub(super) wait: Duration,
    /// Who pays for the records, if somebody has to.
    pub(super) payer: Option<Payer>,
}

impl Plan {
    pub(super) fn new(
        context: &Context,
        reply: Reply,
        request: &FetchRequest,
        payer: Option<Payer>,
    ) -> Self {
        let by_id = reply.version >= FIRST_WITH_TOPIC_IDS;
        let mut partitions = Vec::new();
        for (at, topic) in request.topics.iter().enumerate() {
            let found = find(&context.logs, by_id, &topic.topic, topic.topic_id);
            for asked in &topic.partitions {
                let log = found.as_ref().map_err(|code| *code);
                let log = log.and_then(|topic| partition(topic, asked.partition));
                partitions.push(Wanted {
                    topic: at,
                    index: asked.partition,
                    bytes_max: size(asked.partition_max_bytes),
                    source: log.and_then(|log| source(log, asked)),
                });
            }
        }
        let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
        // A larger answer would be followed by a long silence.
        let at_once = payer.as_ref().map_or(usize::MAX, Payer::bytes_at_once);
        let bytes_max = size(request.max_bytes)
            .min(context.config.fetch_bytes_max)
            .min(at_once);
        Self {
            topics: request.topics.iter().map(TopicKey::from).collect(),
            partitions,
            bytes_max,
            // More than may be answered cannot be waited for.
            bytes_min: size(request.min_bytes).min(bytes_max),
            wait: wait.min(WAIT_MAX),
            payer,
        }
    }

    /// Reads every partition as far as it is in memory.
    pub(super) fn read_memory(&self) -> Gathered {
        let mut gathered = Gathered::new(self.partitions.len());
        for wanted in &self.partitions {
            let left = self.bytes_max.saturating_sub(gathered.bytes());
            let part = wanted.read_memory(left, gathered.bytes() == 0);
            gathered.push(part);
        }
        gathered
    }

    /// Waits until there is enough to answer, or the client's time is up.
    pub(super) async fn wait(&self, context: &Context) {
        let mut keys: Vec<TopicPartition> = Vec::with_capacity(self.partitions.len());
        let mut watched = Vec::with_capacity(self.partitions.len());
        for wanted in &self.partitions {
            let Ok(source) = &wanted.source else { continue };
            context.wakeups.listen(&source.log);
            keys.push(source.log.id().clone());
            watched.push((source.clone(), wanted.bytes_max));
        }
        let (logs, bytes_min) = (context.logs.clone(), self.bytes_min);
        let ready = move || is_enough(&logs, &watched, bytes_min);
        context.purgatory.wait(&keys, self.wait, ready).await;
    }
}

fn size(bytes: i32) -> usize {
    usize::try_from(bytes).unwrap_or(0)
}

fn source(log: &Arc<PartitionLog>, asked: &FetchPartition) -> Result<Source, ErrorCode> {
    check_leader_epoch(log, asked.current_leader_epoch)?;
    let offset = Offset::try_from(asked.fetch_offset).map_err(|_| ErrorCode::OffsetOutOfRange)?;
    Ok(Source {
        log: Arc::clone(log),
        offset,
    })
}

impl Wanted {
    fn read_memory(&self, left: usize, at_least_one: bool) -> Part {
        let Source { log, offset } = match &self.source {
            Ok(source) => source,
            Err(code) => return Part::Failed(*code),
        };
        if left == 0 {
            return Part::nothing(log);
        }
        match log.try_read_cached(*offset, self.bytes_max.min(left), at_least_one) {
            Ok(Some(read)) => Part::Read(read),
            Ok(None) => Part::Missed,
            Err(error) => Part::Failed(code::of_read(&error)),
        }
    }
}

/// Whether the partitions together have `bytes_min` to read, or one of them has something else to
/// tell: it is gone, or what it has is not in memory.
fn is_enough(logs: &LogManager, watched: &[(Source, usize)], bytes_min: usize) -> bool {
    let mut bytes = 0;
    for (Source { log, offset }, bytes_max) in watched {
        let is_there = logs
            .partition(log.id())
            .is_some_and(|there| Arc::ptr_eq(&there, log));
        if !is_there {
            return true;
        }
        if log.high_watermark() <= *offset {
            continue;
        }
        if bytes_min <= 1 {
            return true;
        }
        match log.try_read_cached(*offset, *bytes_max, false) {
            Ok(Some(read)) => bytes += read.batches.iter().map(bytes::Bytes::len).sum::<usize>(),
            Ok(None) | Err(_) => return true,
        }
        if bytes >= bytes_min {
            return true;
        }
    }
    false
}
