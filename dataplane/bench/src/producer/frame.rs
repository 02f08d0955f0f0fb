//! Produce requests around record bytes that stay where they are.
//!
//! ```text
//! length i32 | api key i16 | version i16 | correlation id i32 | client id string
//! transactional id (null) | acks i16 | timeout i32 | 1 topic: name string | partitions: n i32
//! n times:  partition i32 | records: length i32, batch header, records
//! ```
//!
//! This is version 8, the last one without compact lengths: every broker since 2.4 serves it, and
//! nothing follows the records, so that a request is its fields and its records in turn.

use std::io::IoSlice;

use bytes::BufMut;
use millrace_record::header::HEADER_BYTES;
use millrace_wire::ApiKey;

/// The version in which requests are made.
pub const PRODUCE_VERSION: i16 = 8;
/// For how long a broker may wait for its replicas, in milliseconds; the Java client's default.
const TIMEOUT_MS: i32 = 30_000;
/// A request is answered once it is durable.
const ACKS_ALL: i16 = -1;

/// One Produce request of one topic, kept for its memory: [`begin`](Self::begin) starts the next.
#[derive(Debug)]
pub struct ProduceFrame {
    client_id: String,
    topic: String,
    /// Everything but the records.
    fields: Vec<u8>,
    /// For each partition, where its fields end in `fields` and how many of its template's record
    /// bytes follow there.
    cuts: Vec<Cut>,
    partitions_at: usize,
}

#[derive(Debug, Clone, Copy)]
struct Cut {
    fields_end: usize,
    records_bytes: usize,
}

impl ProduceFrame {
    /// Requests to `topic` from a client that calls itself `client_id`.
    #[must_use]
    pub fn new(client_id: &str, topic: &str) -> Self {
        Self {
            client_id: client_id.to_owned(),
            topic: topic.to_owned(),
            fields: Vec::new(),
            cuts: Vec::new(),
            partitions_at: 0,
        }
    }

    /// Starts a request without partitions.
    ///
    /// # Panics
    /// A name is longer than 32,767 bytes.
    pub fn begin(&mut self, correlation_id: i32) {
        self.cuts.clear();
        let out = &mut self.fields;
        out.clear();
        out.put_i32(0);
        out.put_i16(ApiKey::Produce as i16);
        out.put_i16(PRODUCE_VERSION);
        out.put_i32(correlation_id);
        put_string(out, &self.client_id);
        out.put_i16(-1);
        out.put_i16(ACKS_ALL);
        out.put_i32(TIMEOUT_MS);
        out.put_i32(1);
        put_string(out, &self.topic);
        self.partitions_at = out.len();
        out.put_i32(0);
    }

    /// Adds a batch: its header, and how long its records are, which [`slices`](Self::slices) is
    /// handed.
    ///
    /// # Panics
    /// The request passes what its 32-bit length can say.
    pub fn push(&mut self, partition: i32, header: &[u8; HEADER_BYTES], records_bytes: usize) {
        let out = &mut self.fields;
        out.put_i32(partition);
        let batch = i32::try_from(HEADER_BYTES + records_bytes);
        out.put_i32(batch.expect("a batch stays far below 2 GiB"));
        out.extend_from_slice(header);
        self.cuts.push(Cut {
            fields_end: out.len(),
            records_bytes,
        });
        let partitions = (self.cuts.len() as i32).to_be_bytes();
        let length = i32::try_from(self.len() - 4).expect("a request stays far below 2 GiB");
        self.fields[..4].copy_from_slice(&length.to_be_bytes());
        self.fields[self.partitions_at..self.partitions_at + 4].copy_from_slice(&partitions);
    }

    /// Size of the request in bytes, length prefix included.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a request has fields")]
    pub fn len(&self) -> usize {
        let records: usize = self.cuts.iter().map(|cut| cut.records_bytes).sum();
        self.fields.len() + records
    }

    /// The request's bytes from `skip` on, in order. The records of the batch that was pushed as
    /// the n-th are the first bytes of the n-th of `records`.
    ///
    /// # Panics
    /// Fewer records are given than were promised.
    pub fn slices<'a>(
        &'a self,
        records: impl Iterator<Item = &'a [u8]>,
        mut skip: usize,
        out: &mut Vec<IoSlice<'a>>,
    ) {
        let mut put = |bytes: &'a [u8]| {
            let skipped = skip.min(bytes.len());
            skip -= skipped;
            if skipped < bytes.len() {
                out.push(IoSlice::new(&bytes[skipped..]));
            }
        };
        let mut fields_start = 0;
        let mut pairs = self.cuts.iter().zip(records);
        for (cut, records) in &mut pairs {
            put(&self.fields[fields_start..cut.fields_end]);
            put(&records[..cut.records_bytes]);
            fields_start = cut.fields_end;
        }
        assert_eq!(
            fields_start,
            self.fields.len(),
            "each batch of the request has records"
        );
    }
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    let length = i16::try_from(text.len()).expect("a name of a few bytes");
    out.put_i16(length);
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use millrace_record::{BatchLimits, records, split};
    use millrace_wire::{parse_request, split_produce};

    use super::*;
    use crate::producer::{BatchTemplate, ProducerIdentity, Stamp};

    #[test]
    fn the_broker_reads_what_the_frame_says_wherever_a_write_stopped() {
        let template = BatchTemplate::random(100, 1_000, 7);
        let mut frame = ProduceFrame::new("bench", "topic");
        let stamp = |base_sequence| Stamp {
            timestamp_ms: 1_700_000_000_000,
            producer: Some(ProducerIdentity { id: 5, epoch: 1 }),
            base_sequence,
        };
        frame.begin(77);
        for (partition, count) in [(3, 1), (0, template.records_max())] {
            let header = template.header(count, &stamp(partition));
            frame.push(partition, &header, template.records(count).len());
        }
        let full = || std::iter::repeat(template.records(template.records_max()));
        for skip in [0, 1, 4, 120, frame.len() - 1, frame.len()] {
            let mut slices = Vec::new();
            frame.slices(full(), skip, &mut slices);
            let left: usize = slices.iter().map(|slice| slice.len()).sum();
            assert_eq!(left, frame.len() - skip);
        }
        let mut slices = Vec::new();
        frame.slices(full(), 0, &mut slices);
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        assert_eq!(bytes[..4], (frame.len() as i32 - 4).to_be_bytes());

        let request = parse_request(Bytes::from(bytes).slice(4..)).expect("a request");
        assert_eq!((request.correlation_id, request.version), (77, 8));
        let (message, sets) = split_produce(request).expect("a Produce request");
        assert_eq!(message.acks, -1);
        assert_eq!(&**message.topic_data[0].name, "topic");
        let indexes: Vec<_> = message.topic_data[0]
            .partition_data
            .iter()
            .map(|p| p.index)
            .collect();
        assert_eq!(indexes, [3, 0]);
        for (set, count) in sets.into_iter().flatten().zip([1, template.records_max()]) {
            let batches = split(set).expect("one batch");
            let [batch] = &batches[..] else {
                panic!("one batch, not {}", batches.len())
            };
            assert_eq!(batch.validate(&BatchLimits::default()), Ok(()));
            assert_eq!(batch.count() as usize, count);
            let read = records(&Bytes::copy_from_slice(batch.bytes())).expect("records");
            assert_eq!(read.filter(Result::is_ok).count(), count);
        }
    }
}
