//! Fetch responses, written by hand so that record bytes are not copied.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::{messages::ApiKey, protocol::StrBytes};
use millrace_model::TopicId;

use crate::{
    frame_writer::FrameWriter,
    response::{EncodeError, Response, begin_frame},
};

/// The first version with compact lengths and tagged fields.
const FLEXIBLE_FROM: i16 = 12;
/// The first version that says where leaders are (KIP-951).
const ENDPOINTS_FROM: i16 = 16;
/// A guess at the bytes of one partition's fields, to allocate once.
const PARTITION_BYTES: usize = 64;

/// What to answer to a Fetch.
#[derive(Debug, Clone, Default)]
pub struct FetchAnswer {
    /// Milliseconds by which the answer was delayed for a quota.
    pub throttle_time_ms: i32,
    /// Error of the whole request; told from version 7 on.
    pub error_code: i16,
    /// The fetch session, 0 for none; told from version 7 on.
    pub session_id: i32,
    /// The topics.
    pub topics: Vec<FetchedTopic>,
    /// Where the leaders are that partitions name; told from version 16 on.
    pub endpoints: Vec<FetchEndpoint>,
}

/// Where a leader is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FetchEndpoint {
    /// The node.
    pub node_id: i32,
    /// Its host.
    pub host: StrBytes,
    /// Its port.
    pub port: i32,
    /// Its zone.
    pub rack: Option<StrBytes>,
}

/// One topic's part of the answer.
#[derive(Debug, Clone, Default)]
pub struct FetchedTopic {
    /// Its name; told up to version 12.
    pub topic: StrBytes,
    /// Its id; told from version 13 on.
    pub topic_id: TopicId,
    /// The partitions.
    pub partitions: Vec<FetchedPartition>,
}

/// One partition's part of the answer.
#[derive(Debug, Clone)]
pub struct FetchedPartition {
    /// The partition.
    pub index: i32,
    /// Its error.
    pub error_code: i16,
    /// The high watermark, -1 with an error.
    pub high_watermark: i64,
    /// The last stable offset, -1 with an error.
    pub last_stable_offset: i64,
    /// The log start offset, -1 with an error; told from version 5 on.
    pub log_start_offset: i64,
    /// Aborted transactions among the records; none for a read-uncommitted fetch.
    pub aborted_transactions: Option<Vec<AbortedTransaction>>,
    /// The replica to read from instead, -1 for none; told from version 11 on.
    pub preferred_read_replica: i32,
    /// The leader's id and epoch where the error says that it is elsewhere; told from version 12 on.
    pub current_leader: Option<(i32, i32)>,
    /// Whole batches, back to back.
    pub records: Vec<Bytes>,
}

/// One aborted transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// Whose it was.
    pub producer_id: i64,
    /// Offset of its first record.
    pub first_offset: i64,
}

impl Default for FetchedPartition {
    fn default() -> Self {
        Self {
            index: 0,
            error_code: 0,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            aborted_transactions: None,
            preferred_read_replica: -1,
            current_leader: None,
            records: Vec::new(),
        }
    }
}

/// Writes the answer to a Fetch. Records larger than a few hundred bytes stay segments of their
/// own, shared with whoever else holds them.
///
/// # Errors
/// The answer does not fit into a frame, a name is too long, or the version is not served.
pub fn encode_fetch(
    version: i16,
    correlation_id: i32,
    answer: FetchAnswer,
) -> Result<Response, EncodeError> {
    let partitions: usize = answer
        .topics
        .iter()
        .map(|topic| topic.partitions.len())
        .sum();
    let capacity = (partitions + answer.topics.len() + 1) * PARTITION_BYTES;
    let header = begin_frame(ApiKey::Fetch, version, correlation_id, capacity);
    let mut writer = Writer {
        version,
        frame: FrameWriter::new(ApiKey::Fetch, version, version >= FLEXIBLE_FROM, header),
    };
    writer.message(answer)?;
    let (head, rest) = writer.frame.finish()?;
    let segments = std::iter::once(head.freeze()).chain(rest);
    Ok(Response::from_segments(segments.collect()))
}

struct Writer {
    version: i16,
    frame: FrameWriter,
}

impl Writer {
    fn message(&mut self, answer: FetchAnswer) -> Result<(), EncodeError> {
        self.frame.out().put_i32(answer.throttle_time_ms);
        if self.version >= 7 {
            self.frame.out().put_i16(answer.error_code);
            self.frame.out().put_i32(answer.session_id);
        }
        self.frame.count(Some(answer.topics.len()))?;
        for topic in answer.topics {
            self.topic(topic)?;
        }
        if self.version >= ENDPOINTS_FROM && !answer.endpoints.is_empty() {
            return self.endpoints(&answer.endpoints);
        }
        self.frame.no_tagged_fields();
        Ok(())
    }

    /// The tagged field 0 of the answer, in which each endpoint has no tagged fields.
    fn endpoints(&mut self, endpoints: &[FetchEndpoint]) -> Result<(), EncodeError> {
        const FIELDS: u8 = 1;
        const TAG: u8 = 0;
        let mut field = FrameWriter::new(ApiKey::Fetch, self.version, true, BytesMut::new());
        field.count(Some(endpoints.len()))?;
        for endpoint in endpoints {
            field.out().put_i32(endpoint.node_id);
            field.string(&endpoint.host)?;
            field.out().put_i32(endpoint.port);
            match &endpoint.rack {
                Some(rack) => field.string(rack)?,
                None => field.null_string(),
            }
            field.no_tagged_fields();
        }
        let field = field.out().split();
        self.frame.out().put_slice(&[FIELDS, TAG]);
        self.frame.size(field.len())?;
        self.frame.out().put_slice(&field);
        Ok(())
    }

    fn topic(&mut self, topic: FetchedTopic) -> Result<(), EncodeError> {
        if self.version >= 13 {
            self.frame.out().put_slice(topic.topic_id.0.as_bytes());
        } else {
            self.frame.string(&topic.topic)?;
        }
        self.frame.count(Some(topic.partitions.len()))?;
        for partition in topic.partitions {
            self.partition(partition)?;
        }
        self.frame.no_tagged_fields();
        Ok(())
    }

    fn partition(&mut self, partition: FetchedPartition) -> Result<(), EncodeError> {
        let out = self.frame.out();
        out.put_i32(partition.index);
        out.put_i16(partition.error_code);
        out.put_i64(partition.high_watermark);
        out.put_i64(partition.last_stable_offset);
        if self.version >= 5 {
            out.put_i64(partition.log_start_offset);
        }
        self.aborted(partition.aborted_transactions.as_deref())?;
        if self.version >= 11 {
            self.frame.out().put_i32(partition.preferred_read_replica);
        }
        let len = partition.records.iter().map(Bytes::len).sum();
        self.frame.records(partition.records, len)?;
        match partition.current_leader {
            Some(leader) if self.frame.is_flexible() => self.current_leader(leader),
            _ => self.frame.no_tagged_fields(),
        }
        Ok(())
    }

    fn aborted(&mut self, aborted: Option<&[AbortedTransaction]>) -> Result<(), EncodeError> {
        self.frame.count(aborted.map(<[_]>::len))?;
        for transaction in aborted.unwrap_or_default() {
            self.frame.out().put_i64(transaction.producer_id);
            self.frame.out().put_i64(transaction.first_offset);
            self.frame.no_tagged_fields();
        }
        Ok(())
    }

    /// The tagged field 1 of a partition: leader id and epoch, which have no tagged fields.
    fn current_leader(&mut self, (id, epoch): (i32, i32)) {
        const FIELDS: u8 = 1;
        const TAG: u8 = 1;
        const SIZE: u8 = 9;
        let out = self.frame.out();
        out.put_slice(&[FIELDS, TAG, SIZE]);
        out.put_i32(id);
        out.put_i32(epoch);
        out.put_u8(0);
    }
}

#[cfg(test)]
mod tests;
