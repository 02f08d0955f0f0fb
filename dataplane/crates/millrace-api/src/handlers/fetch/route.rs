//! Who answers for a partition: this broker as its leader, this broker with what is in objects, or another one.

use std::sync::Arc;

use millrace_log::{Isolation, Partition, PartitionLog, ReadResult, Topic};
use millrace_model::{Offset, TopicId};
use millrace_wire::{
    error_code::ErrorCode,
    messages::{BrokerId, FetchRequest, fetch_request::FetchPartition},
};

use crate::{
    cold_reads::{Source, SourceLog},
    context::Context,
    topics::{check_leader_epoch, compare_leader_epochs, isolation, partition},
    zones::{BEHIND_BYTES_MIN, ReplicaSelector, Zone},
};

/// Why a partition is not read here.
#[derive(Debug, Clone)]
pub(super) enum NotServed {
    /// There is an error to tell.
    Failed(ErrorCode),
    /// Another broker is to be asked. With what this one knows of the log, if it leads the partition.
    Elsewhere(BrokerId, Option<ReadResult>),
}

impl From<ErrorCode> for NotServed {
    fn from(code: ErrorCode) -> Self {
        Self::Failed(code)
    }
}

/// Who asks, and from where.
#[derive(Debug, Clone, Copy)]
pub(super) struct Router<'a> {
    context: &'a Context,
    connection: u64,
    /// The client's `client.rack`.
    client_rack: Option<&'a str>,
    /// Which records the client wants.
    isolation: Isolation,
    /// The zones of client and broker, where both say theirs and consumers are served across zones.
    racks: Option<(&'a str, &'a str)>,
}

impl<'a> Router<'a> {
    pub(super) fn new(context: &'a Context, connection: u64, request: &'a FetchRequest) -> Self {
        let client_rack = Some(request.rack_id.as_str()).filter(|rack| !rack.is_empty());
        let own = context.config.rack.as_deref();
        let is_enabled = context.config.replica_selector != ReplicaSelector::Leader;
        Self {
            context,
            connection,
            client_rack,
            isolation: isolation(request.isolation_level),
            racks: client_rack.zip(own).filter(|_| is_enabled),
        }
    }

    /// Which way records go to the client.
    pub(super) fn zone(&self) -> Zone {
        Zone::of(self.client_rack, self.context.config.rack.as_deref())
    }

    pub(super) fn route(&self, topic: &Topic, asked: &FetchPartition) -> Result<Source, NotServed> {
        match partition(topic, asked.partition) {
            Ok(log) => self.led(topic.id, log, asked),
            Err(ErrorCode::NotLeaderOrFollower) => {
                let index = usize::try_from(asked.partition).ok();
                let partition = index.and_then(|index| topic.partitions.get(index));
                let committed = partition.and_then(|partition| self.committed(partition, asked));
                committed.unwrap_or(Err(ErrorCode::NotLeaderOrFollower.into()))
            }
            Err(code) => Err(code.into()),
        }
    }

    fn led(
        &self,
        topic: TopicId,
        log: &Arc<PartitionLog>,
        asked: &FetchPartition,
    ) -> Result<Source, NotServed> {
        check_leader_epoch(log, asked.current_leader_epoch)?;
        let offset =
            Offset::try_from(asked.fetch_offset).map_err(|_| ErrorCode::OffsetOutOfRange)?;
        // A reader that has records of an epoch that is not there yet did not get them from this log.
        let read_epoch = asked.last_fetched_epoch;
        if read_epoch >= 0 && log.epoch_end(read_epoch).is_none() {
            return Err(ErrorCode::OffsetOutOfRange.into());
        }
        let source = Source {
            log: SourceLog::Led(Arc::clone(log)),
            offset,
            isolation: self.isolation,
        };
        match self.reader_of(log, offset, (topic, asked.partition)) {
            Some(reader) => Err(NotServed::Elsewhere(reader, source.nothing())),
            None => Ok(source),
        }
    }

    /// The broker in the client's zone that it is sent to, if it is far enough behind what all brokers can read.
    fn reader_of(
        &self,
        log: &PartitionLog,
        offset: Offset,
        partition: (TopicId, i32),
    ) -> Option<BrokerId> {
        let (client, own) = self.racks?;
        if self.isolation == Isolation::ReadCommitted {
            // Other brokers do not know which transactions are open or were aborted.
            return None;
        }
        let committed = log.committed_offset();
        if client == own || offset < log.start_offset() || offset >= committed {
            return None;
        }
        if log.bytes_between(offset, committed) < BEHIND_BYTES_MIN {
            return None;
        }
        let reader = self.context.reader_in(client, partition)?;
        let (topic, index) = partition;
        let (key, now) = ((self.connection, topic, index), self.context.now());
        let goes = self.context.redirects.try_redirect(key, offset, now);
        goes.then_some(reader)
    }

    /// What is in objects of a partition that another broker leads; `None` for clients that only its leader serves. A client of
    /// another zone is sent to the leader, which knows whom to send it to.
    fn committed(
        &self,
        partition: &Partition,
        asked: &FetchPartition,
    ) -> Option<Result<Source, NotServed>> {
        let (client, own) = self.racks?;
        let (log, known) = (partition.committed()?, partition.leader()?);
        if known.node == Some(self.context.config.node_id) || partition.arrival().is_some() {
            // About to be opened here. Its former leader may send the client back at once.
            return None;
        }
        let epoch = i32::try_from(known.epoch).unwrap_or(i32::MAX);
        if let Err(code) = compare_leader_epochs(epoch, asked.current_leader_epoch) {
            return Some(Err(code.into()));
        }
        let leader = self.context.leader_of(partition).map(|(leader, _)| leader);
        let Ok(offset) = Offset::try_from(asked.fetch_offset) else {
            return Some(Err(away(leader)));
        };
        if self.isolation == Isolation::ReadCommitted {
            // Where the last stable offset is, and what was aborted, is in the memory of the leader and in its checkpoints.
            // Neither tells how it is now, so only the leader can answer.
            return Some(Err(away(leader)));
        }
        if client != own && leader.is_some() {
            return Some(Err(away(leader)));
        }
        let log = SourceLog::Committed {
            log: Arc::clone(log),
            leader,
        };
        Some(Ok(Source {
            log,
            offset,
            isolation: self.isolation,
        }))
    }
}

/// Sends a client to the leader; where there is none, it asks for metadata until there is.
pub(super) fn away(leader: Option<BrokerId>) -> NotServed {
    match leader {
        Some(leader) => NotServed::Elsewhere(leader, None),
        None => NotServed::Failed(ErrorCode::NotLeaderOrFollower),
    }
}
