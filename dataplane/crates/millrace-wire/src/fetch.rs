//! Fetch responses, written by hand so that record bytes are not copied.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::{messages::ApiKey, protocol::StrBytes};
use millrace_model::TopicId;

use crate::response::{EncodeError, LENGTH_BYTES, Response, begin_frame, length_prefix};

/// The first version with compact lengths and tagged fields.
const FLEXIBLE_FROM: i16 = 12;
/// Records up to this size are copied between the fields: cheaper than one more segment.
const INLINE_BYTES_MAX: usize = 512;
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
    let mut writer = Writer {
        version,
        out: begin_frame(ApiKey::Fetch, version, correlation_id, capacity),
        head: None,
        segments: Vec::new(),
    };
    writer.message(answer)?;
    writer.finish()
}

struct Writer {
    version: i16,
    /// What is being written.
    out: BytesMut,
    /// The first segment, kept writable for the length.
    head: Option<BytesMut>,
    /// The segments after it.
    segments: Vec<Bytes>,
}

impl Writer {
    fn message(&mut self, answer: FetchAnswer) -> Result<(), EncodeError> {
        self.out.put_i32(answer.throttle_time_ms);
        if self.version >= 7 {
            self.out.put_i16(answer.error_code);
            self.out.put_i32(answer.session_id);
        }
        self.count(Some(answer.topics.len()))?;
        for topic in answer.topics {
            self.topic(topic)?;
        }
        self.no_tagged_fields();
        Ok(())
    }

    fn topic(&mut self, topic: FetchedTopic) -> Result<(), EncodeError> {
        if self.version >= 13 {
            self.out.put_slice(topic.topic_id.0.as_bytes());
        } else {
            self.string(&topic.topic)?;
        }
        self.count(Some(topic.partitions.len()))?;
        for partition in topic.partitions {
            self.partition(partition)?;
        }
        self.no_tagged_fields();
        Ok(())
    }

    fn partition(&mut self, partition: FetchedPartition) -> Result<(), EncodeError> {
        self.out.put_i32(partition.index);
        self.out.put_i16(partition.error_code);
        self.out.put_i64(partition.high_watermark);
        self.out.put_i64(partition.last_stable_offset);
        if self.version >= 5 {
            self.out.put_i64(partition.log_start_offset);
        }
        self.aborted(partition.aborted_transactions.as_deref())?;
        if self.version >= 11 {
            self.out.put_i32(partition.preferred_read_replica);
        }
        self.records(partition.records)?;
        match partition.current_leader {
            Some(leader) if self.is_flexible() => self.current_leader(leader),
            _ => self.no_tagged_fields(),
        }
        Ok(())
    }

    fn aborted(&mut self, aborted: Option<&[AbortedTransaction]>) -> Result<(), EncodeError> {
        self.count(aborted.map(<[_]>::len))?;
        for transaction in aborted.unwrap_or_default() {
            self.out.put_i64(transaction.producer_id);
            self.out.put_i64(transaction.first_offset);
            self.no_tagged_fields();
        }
        Ok(())
    }

    fn records(&mut self, records: Vec<Bytes>) -> Result<(), EncodeError> {
        self.count(Some(records.iter().map(Bytes::len).sum()))?;
        for batches in records {
            if batches.len() <= INLINE_BYTES_MAX {
                self.out.put_slice(&batches);
            } else {
                self.cut();
                self.segments.push(batches);
            }
        }
        Ok(())
    }

    /// The tagged field 1 of a partition: leader id and epoch, which have no tagged fields.
    fn current_leader(&mut self, (id, epoch): (i32, i32)) {
        const FIELDS: u8 = 1;
        const TAG: u8 = 1;
        const SIZE: u8 = 9;
        self.out.put_slice(&[FIELDS, TAG, SIZE]);
        self.out.put_i32(id);
        self.out.put_i32(epoch);
        self.out.put_u8(0);
    }

    fn is_flexible(&self) -> bool {
        self.version >= FLEXIBLE_FROM
    }

    fn no_tagged_fields(&mut self) {
        if self.is_flexible() {
            self.out.put_u8(0);
        }
    }

    /// The length of a list or of bytes.
    fn count(&mut self, count: Option<usize>) -> Result<(), EncodeError> {
        let Some(count) = count else {
            if self.is_flexible() {
                self.out.put_u8(0);
            } else {
                self.out.put_i32(-1);
            }
            return Ok(());
        };
        let small = i32::try_from(count).map_err(|_| EncodeError::TooLarge(count))?;
        if self.is_flexible() {
            self.unsigned_varint(small.unsigned_abs() + 1);
        } else {
            self.out.put_i32(small);
        }
        Ok(())
    }

    fn string(&mut self, text: &str) -> Result<(), EncodeError> {
        if self.is_flexible() {
            self.count(Some(text.len()))?;
        } else {
            let len = i16::try_from(text.len()).map_err(|_| EncodeError::Field {
                api_key: ApiKey::Fetch,
                version: self.version,
                reason: format!("a topic name of {} bytes", text.len()),
            })?;
            self.out.put_i16(len);
        }
        self.out.put_slice(text.as_bytes());
        Ok(())
    }

    fn unsigned_varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.out.put_u8((value as u8 & 0x7f) | 0x80);
            value >>= 7;
        }
        self.out.put_u8(value as u8);
    }

    /// Ends the segment that is being written.
    fn cut(&mut self) {
        let fields = self.out.split();
        match self.head {
            None => self.head = Some(fields),
            Some(_) if fields.is_empty() => {}
            Some(_) => self.segments.push(fields.freeze()),
        }
    }

    /// Fills in the length, which stands at the beginning of the first segment.
    fn finish(mut self) -> Result<Response, EncodeError> {
        self.cut();
        let mut head = self.head.unwrap_or_default();
        let len = head.len() + self.segments.iter().map(Bytes::len).sum::<usize>();
        head[..LENGTH_BYTES].copy_from_slice(&length_prefix(len)?);
        let segments = std::iter::once(head.freeze()).chain(self.segments);
        Ok(Response::from_segments(segments.collect()))
    }
}

#[cfg(test)]
mod tests;
