//! One connection of a consumer.

use std::{io, net::SocketAddr, time::Duration};

use bytes::{BufMut, BytesMut};
use millrace_wire::{
    ApiKey, RequestMessage, StrBytes,
    messages::{
        ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, FetchRequest, FetchResponse,
        GroupId, OffsetCommitRequest,
        fetch_request::{FetchPartition, FetchTopic},
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::producer::{
    ANSWER_BYTES_MAX, ClientError, FETCH_VERSION_MAX, answer_of, frame_of, refuse, topic_name,
};

/// A version of OffsetCommit that every broker since 2.3 serves.
const COMMIT_VERSION: i16 = 7;
/// Members choose their ids from this version on.
const HEARTBEAT_VERSION: i16 = 1;
/// How long a broker may take beyond what it was allowed to wait.
const PATIENCE: Duration = Duration::from_secs(60);
/// Of a group without members.
const NO_GENERATION: i32 = -1;

/// What bounds one fetch; the defaults are those of Kafka's consumer.
#[derive(Debug, Clone, Copy)]
pub struct FetchLimits {
    /// `fetch.max.wait.ms`
    pub wait: Duration,
    /// `fetch.min.bytes`
    pub bytes_min: i32,
    /// `fetch.max.bytes`
    pub bytes_max: i32,
    /// `max.partition.fetch.bytes`
    pub partition_bytes_max: i32,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self {
            wait: Duration::from_millis(500),
            bytes_min: 1,
            bytes_max: 50 << 20,
            partition_bytes_max: 1 << 20,
        }
    }
}

/// Where a partition is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The partition.
    pub partition: i32,
    /// The offset that is read next.
    pub next: i64,
}

/// A consumer of partitions of one topic. After an error it is of no more use.
#[derive(Debug)]
pub struct Consumer {
    stream: TcpStream,
    client_id: String,
    topic: String,
    correlation_id: i32,
    /// Kept for its memory: a fresh one for each answer costs more than its bytes' way through the
    /// socket.
    buffer: BytesMut,
}

impl Consumer {
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens there.
    pub async fn connect(
        address: SocketAddr,
        client_id: &str,
        topic: &str,
    ) -> Result<Self, ClientError> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            client_id: client_id.to_owned(),
            topic: topic.to_owned(),
            correlation_id: 0,
            buffer: BytesMut::new(),
        })
    }

    /// Reads some partitions. Drop the answer before the next call, which uses its memory again.
    ///
    /// # Errors
    /// As [`ClientError`] says; error codes of partitions are the caller's to judge.
    pub async fn fetch(
        &mut self,
        positions: impl IntoIterator<Item = Position>,
        limits: &FetchLimits,
    ) -> Result<FetchResponse, ClientError> {
        let partition = |position: Position| {
            FetchPartition::default()
                .with_partition(position.partition)
                .with_fetch_offset(position.next)
                .with_partition_max_bytes(limits.partition_bytes_max)
        };
        let topic = FetchTopic::default()
            .with_topic(topic_name(&self.topic))
            .with_partitions(positions.into_iter().map(partition).collect());
        let request = FetchRequest::default()
            .with_max_wait_ms(i32::try_from(limits.wait.as_millis()).unwrap_or(i32::MAX))
            .with_min_bytes(limits.bytes_min)
            .with_max_bytes(limits.bytes_max)
            .with_topics(vec![topic]);
        let answer = self
            .call(&request, FETCH_VERSION_MAX, limits.wait + PATIENCE)
            .await?;
        refuse(ApiKey::Fetch, answer.error_code)?;
        Ok(answer)
    }

    /// Commits positions for a group that has no members.
    ///
    /// # Errors
    /// As [`ClientError`] says; a refusal of any partition is one.
    pub async fn commit(
        &mut self,
        group: &str,
        positions: impl IntoIterator<Item = Position>,
    ) -> Result<(), ClientError> {
        let partition = |position: Position| {
            OffsetCommitRequestPartition::default()
                .with_partition_index(position.partition)
                .with_committed_offset(position.next)
        };
        let topic = OffsetCommitRequestTopic::default()
            .with_name(topic_name(&self.topic))
            .with_partitions(positions.into_iter().map(partition).collect());
        let request = OffsetCommitRequest::default()
            .with_group_id(GroupId(StrBytes::from_string(group.to_owned())))
            .with_generation_id_or_member_epoch(NO_GENERATION)
            .with_topics(vec![topic]);
        let answer = self.call(&request, COMMIT_VERSION, PATIENCE).await?;
        let mut partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
        partitions.try_for_each(|partition| refuse(ApiKey::OffsetCommit, partition.error_code))
    }

    /// Sends the heartbeat of a group member (KIP-848).
    ///
    /// # Errors
    /// As [`ClientError`] says; a refusal is one.
    pub async fn heartbeat(
        &mut self,
        request: &ConsumerGroupHeartbeatRequest,
    ) -> Result<ConsumerGroupHeartbeatResponse, ClientError> {
        let answer = self.call(request, HEARTBEAT_VERSION, PATIENCE).await?;
        refuse(ApiKey::ConsumerGroupHeartbeat, answer.error_code)?;
        Ok(answer)
    }

    async fn call<R: RequestMessage>(
        &mut self,
        request: &R,
        version: i16,
        patience: Duration,
    ) -> Result<R::Response, ClientError> {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        let frame = frame_of(request, version, self.correlation_id, &self.client_id)?;
        self.stream.write_all(&frame).await?;
        let read = timeout(patience, self.read_frame()).await;
        read.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let answer = self.buffer.split().freeze();
        answer_of::<R>(answer, version, self.correlation_id)
    }

    /// Reads one answer into the buffer. Nothing can be behind it: one request is under way.
    async fn read_frame(&mut self) -> Result<(), ClientError> {
        let length = self.stream.read_i32().await?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > ANSWER_BYTES_MAX {
            return Err(ClientError::Malformed("an answer's length"));
        }
        self.buffer.reserve(length);
        while self.buffer.len() < length {
            let missing = length - self.buffer.len();
            let mut room = (&mut self.buffer).limit(missing);
            if self.stream.read_buf(&mut room).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
        Ok(())
    }
}
