//! Builds batches: for records that the broker itself writes, for producers, and for tests.

use bytes::{Bytes, BytesMut};

use crate::{
    compression::Compression,
    header::{
        ATTRIBUTES_AT, CONTROL_BIT, CRC_AT, HEADER_BYTES, LENGTH_END, MAGIC, MAGIC_AT,
        MAX_TIMESTAMP_AT, PRODUCER_AT, TRANSACTIONAL_BIT,
    },
    varint,
};

/// Bytes of the fixed and variable-length fields that stand in front of a record's key: five
/// numbers, of which one is 64 bits wide, and the attributes.
const RECORD_FIELDS_BYTES_MAX: usize = 1 + 10 + 4 * 5;

/// Collects records into one batch, in the form in which they are sent: a record is copied once.
///
/// ```
/// use millrace_record::{BatchBuilder, Compression, records};
///
/// let mut builder = BatchBuilder::new(Compression::None);
/// builder.push(1_700_000_000_000, Some(b"key"), Some(b"value"), &[]);
/// let batch = builder.build().freeze();
/// let record = records(&batch).unwrap().next().unwrap().unwrap();
/// assert_eq!(record.value.as_deref(), Some(&b"value"[..]));
/// ```
#[derive(Debug, Clone)]
pub struct BatchBuilder {
    compression: Compression,
    attributes: i16,
    base_offset: i64,
    producer: (i64, i16, i32),
    base_timestamp: Option<i64>,
    max_timestamp: i64,
    count: i32,
    /// Room for the header, then the records.
    buffer: BytesMut,
}

/// A batch without a producer: see [`sign_batch`].
#[derive(Debug)]
pub struct ClosedBatch {
    /// The batch, complete but for its producer and its CRC.
    pub bytes: BytesMut,
    /// The memory of the records that were compressed, to be used again.
    pub spare: Option<BytesMut>,
}

impl BatchBuilder {
    /// An empty batch at offset 0 without a producer.
    #[must_use]
    pub fn new(compression: Compression) -> Self {
        Self::with_buffer(compression, BytesMut::new())
    }

    /// As [`Self::new`], in memory that the caller brings; what it holds is dropped.
    #[must_use]
    pub fn with_buffer(compression: Compression, mut buffer: BytesMut) -> Self {
        buffer.clear();
        buffer.resize(HEADER_BYTES, 0);
        Self {
            compression,
            attributes: compression as i16,
            base_offset: 0,
            producer: (-1, -1, -1),
            base_timestamp: None,
            max_timestamp: -1,
            count: 0,
            buffer,
        }
    }

    /// Sets the idempotent producer's id, epoch and the sequence of the first record.
    #[must_use]
    pub fn producer(mut self, id: i64, epoch: i16, base_sequence: i32) -> Self {
        self.producer = (id, epoch, base_sequence);
        self
    }

    /// Sets the first record's offset, which the broker replaces anyway.
    #[must_use]
    pub fn base_offset(mut self, offset: i64) -> Self {
        self.base_offset = offset;
        self
    }

    /// Marks the batch as part of a transaction.
    #[must_use]
    pub fn transactional(mut self) -> Self {
        self.attributes |= TRANSACTIONAL_BIT;
        self
    }

    /// Marks the batch as a control batch.
    #[must_use]
    pub fn control(mut self) -> Self {
        self.attributes |= CONTROL_BIT;
        self
    }

    /// Appends a record.
    ///
    /// # Panics
    /// The batch would pass what its 32-bit fields can say: the caller bounds its batches far
    /// below 2 GiB.
    pub fn push(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&str, Option<&[u8]>)],
    ) {
        let pushed = self.push_within(usize::MAX, timestamp, key, value, headers);
        debug_assert!(pushed.is_some(), "without a bound every record fits");
    }

    /// Appends a record if the batch has at most `size_max` bytes with it, before compression. By
    /// how many bytes the batch grew; nothing where the record does not fit.
    ///
    /// # Panics
    /// As [`Self::push`].
    pub fn push_within(
        &mut self,
        size_max: usize,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&str, Option<&[u8]>)],
    ) -> Option<usize> {
        let delta = timestamp.wrapping_sub(self.base_timestamp.unwrap_or(timestamp));
        let body = body_bytes(delta, self.count, key, value, headers);
        let bytes = varint::len(body as i64) + body;
        if self.buffer.len() + bytes > size_max {
            return None;
        }
        self.base_timestamp.get_or_insert(timestamp);
        self.max_timestamp = self.max_timestamp.max(timestamp);
        let mut fields = Fields::default();
        fields.put(body as i64);
        fields.put_attributes();
        fields.put(delta);
        fields.put(i64::from(self.count));
        fields.put(length_of(key));
        // Exactly what the record takes: a caller's buffer that is large enough is not replaced.
        self.buffer.reserve(bytes);
        self.buffer.extend_from_slice(fields.bytes());
        self.buffer.extend_from_slice(key.unwrap_or_default());
        varint::write(&mut self.buffer, length_of(value));
        self.buffer.extend_from_slice(value.unwrap_or_default());
        varint::write(&mut self.buffer, headers.len() as i64);
        for (key, value) in headers {
            varint::write(&mut self.buffer, key.len() as i64);
            self.buffer.extend_from_slice(key.as_bytes());
            varint::write(&mut self.buffer, length_of(*value));
            self.buffer.extend_from_slice(value.unwrap_or_default());
        }
        assert!(
            i32::try_from(self.buffer.len()).is_ok(),
            "batches stay far below 2 GiB"
        );
        self.count += 1;
        Some(bytes)
    }

    /// Bytes of a batch with one record, before compression.
    #[must_use]
    pub fn bytes_with_one(
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&str, Option<&[u8]>)],
    ) -> usize {
        let body = body_bytes(0, 0, key, value, headers);
        HEADER_BYTES + varint::len(body as i64) + body
    }

    /// Number of records so far.
    #[must_use]
    pub fn count(&self) -> i32 {
        self.count
    }

    /// Whether there is no record yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Size of the batch so far, before compression.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// The finished batch, CRC included.
    ///
    /// # Panics
    /// Compression into memory fails only when memory does.
    #[must_use]
    pub fn build(self) -> BytesMut {
        let (id, epoch, base_sequence) = self.producer;
        let mut batch = self.close().bytes;
        sign_batch(&mut batch, id, epoch, base_sequence);
        batch
    }

    /// Compresses the records and writes the header, but for what [`sign_batch`] writes.
    ///
    /// # Panics
    /// Compression into memory fails only when memory does.
    #[must_use]
    pub fn close(self) -> ClosedBatch {
        let (mut bytes, spare) = match self.compression {
            Compression::None => (self.buffer, None),
            packing => {
                let room = vec![0; HEADER_BYTES];
                let packed = packing.compress_onto(&self.buffer[HEADER_BYTES..], room, None);
                let packed = Bytes::from(packed.expect("writing to memory"));
                (BytesMut::from(packed), Some(self.buffer))
            }
        };
        let length = i32::try_from(bytes.len() - LENGTH_END).expect("batches stay far below 2 GiB");
        let base_timestamp = self.base_timestamp.unwrap_or(-1);
        write(&mut bytes, 0, self.base_offset.to_be_bytes());
        write(&mut bytes, 8, length.to_be_bytes());
        write(&mut bytes, LENGTH_END, (-1_i32).to_be_bytes());
        write(&mut bytes, MAGIC_AT, MAGIC.to_be_bytes());
        write(&mut bytes, ATTRIBUTES_AT, self.attributes.to_be_bytes());
        write(
            &mut bytes,
            ATTRIBUTES_AT + 2,
            (self.count - 1).to_be_bytes(),
        );
        write(
            &mut bytes,
            MAX_TIMESTAMP_AT - 8,
            base_timestamp.to_be_bytes(),
        );
        write(
            &mut bytes,
            MAX_TIMESTAMP_AT,
            self.max_timestamp.to_be_bytes(),
        );
        write(&mut bytes, HEADER_BYTES - 4, self.count.to_be_bytes());
        ClosedBatch { bytes, spare }
    }
}

/// Writes the producer of a whole batch (-1 each for none) and the CRC that depends on it. A batch
/// may be signed again, for a retry with another epoch.
///
/// # Panics
/// The bytes are shorter than a batch's header.
pub fn sign_batch(batch: &mut [u8], producer_id: i64, epoch: i16, base_sequence: i32) {
    write(batch, PRODUCER_AT, producer_id.to_be_bytes());
    write(batch, PRODUCER_AT + 8, epoch.to_be_bytes());
    write(batch, PRODUCER_AT + 10, base_sequence.to_be_bytes());
    let crc = millrace_model::crc32c(&batch[ATTRIBUTES_AT..]);
    write(batch, CRC_AT, crc.to_be_bytes());
}

fn write<const N: usize>(batch: &mut [u8], at: usize, field: [u8; N]) {
    batch[at..at + N].copy_from_slice(&field);
}

/// Bytes of a record after its length.
fn body_bytes(
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: &[(&str, Option<&[u8]>)],
) -> usize {
    let bytes = |bytes: Option<&[u8]>| varint::len(length_of(bytes)) + bytes.map_or(0, <[u8]>::len);
    let header = |(key, value): &(&str, Option<&[u8]>)| bytes(Some(key.as_bytes())) + bytes(*value);
    1 + varint::len(timestamp_delta)
        + varint::len(i64::from(offset_delta))
        + bytes(key)
        + bytes(value)
        + varint::len(headers.len() as i64)
        + headers.iter().map(header).sum::<usize>()
}

fn length_of(bytes: Option<&[u8]>) -> i64 {
    bytes.map_or(-1, |bytes| bytes.len() as i64)
}

/// The fields in front of a record's key, written to the stack and copied at once.
#[derive(Default)]
struct Fields {
    bytes: [u8; RECORD_FIELDS_BYTES_MAX],
    len: usize,
}

impl Fields {
    fn put(&mut self, value: i64) {
        varint::each_byte(value, |byte| {
            self.bytes[self.len] = byte;
            self.len += 1;
        });
    }

    /// They are always 0.
    fn put_attributes(&mut self) {
        self.len += 1;
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{BatchLimits, records, split};

    type Part = Option<Vec<u8>>;

    fn part() -> impl Strategy<Value = Part> {
        prop::option::of(prop::collection::vec(any::<u8>(), 0..200))
    }

    proptest! {
        #[test]
        fn a_signed_batch_has_the_records_and_each_has_the_size_that_was_told(
            compression in (0_u8..5).prop_map(|id| Compression::from_id(id).expect("known")),
            wanted in prop::collection::vec(
                (0_i64..1 << 41, part(), part(), prop::collection::vec(("[a-z]{0,9}", part()), 0..3)),
                1..50,
            ),
            producer in any::<(i64, i16, i32)>(),
            reused: bool,
        ) {
            let memory = if reused { BytesMut::from(&[7; 5_000][..]) } else { BytesMut::new() };
            let mut builder = BatchBuilder::with_buffer(compression, memory);
            let mut is_first = true;
            for (timestamp, key, value, headers) in &wanted {
                let headers: Vec<_> = headers
                    .iter()
                    .map(|(key, value)| (key.as_str(), value.as_deref()))
                    .collect();
                let (key, value) = (key.as_deref(), value.as_deref());
                let before = builder.size_bytes();
                builder.clone().push(*timestamp, key, value, &headers);
                let bytes = builder.push_within(usize::MAX, *timestamp, key, value, &headers);
                let after = builder.size_bytes();
                prop_assert_eq!(bytes, Some(after - before));
                let mut full = builder.clone();
                let more = full.push_within(after + after - before - 1, *timestamp, key, value, &headers);
                prop_assert_eq!(more, None);
                prop_assert_eq!(full.size_bytes(), after);
                if std::mem::take(&mut is_first) {
                    let one = BatchBuilder::bytes_with_one(key, value, &headers);
                    prop_assert_eq!(builder.size_bytes(), one);
                }
            }
            let ClosedBatch { mut bytes, spare } = builder.close();
            prop_assert_eq!(spare.is_some(), compression != Compression::None);
            sign_batch(&mut bytes, 1, 1, 1);
            sign_batch(&mut bytes, producer.0, producer.1, producer.2);
            let batches = split(bytes.clone()).expect("one batch");
            prop_assert_eq!(batches.len(), 1);
            let (id, _, sequence) = producer;
            if id < 0 || sequence >= 0 {
                prop_assert_eq!(batches[0].validate(&BatchLimits::default()), Ok(()));
            }
            let read = records(&bytes.freeze()).expect("records");
            let header = *read.header();
            prop_assert_eq!(
                (header.producer_id, header.producer_epoch, header.base_sequence),
                producer
            );
            let read: Vec<_> = read.map(|record| record.expect("a record")).collect();
            prop_assert_eq!(read.len(), wanted.len());
            for (record, (timestamp, key, value, headers)) in read.iter().zip(&wanted) {
                prop_assert_eq!(record.timestamp, *timestamp);
                prop_assert_eq!(record.key.as_deref(), key.as_deref());
                prop_assert_eq!(record.value.as_deref(), value.as_deref());
                prop_assert_eq!(record.headers.len(), headers.len());
            }
        }
    }
}
