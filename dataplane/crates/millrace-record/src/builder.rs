//! Builds batches: for records that the broker itself writes, and for tests.

use bytes::{BufMut, Bytes, BytesMut};

use crate::{
    compression::Compression,
    header::{
        ATTRIBUTES_AT, CONTROL_BIT, CRC_AT, HEADER_BYTES, LENGTH_END, MAGIC, TRANSACTIONAL_BIT,
    },
    varint,
};

/// Collects records into one batch.
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
    records: BytesMut,
    scratch: BytesMut,
}

impl BatchBuilder {
    /// An empty batch at offset 0 without a producer.
    #[must_use]
    pub fn new(compression: Compression) -> Self {
        Self {
            compression,
            attributes: compression as i16,
            base_offset: 0,
            producer: (-1, -1, -1),
            base_timestamp: None,
            max_timestamp: -1,
            count: 0,
            records: BytesMut::new(),
            scratch: BytesMut::new(),
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
        let base = *self.base_timestamp.get_or_insert(timestamp);
        self.max_timestamp = self.max_timestamp.max(timestamp);
        let body = &mut self.scratch;
        body.clear();
        body.put_u8(0);
        varint::write(body, timestamp.wrapping_sub(base));
        varint::write(body, i64::from(self.count));
        put_bytes(body, key);
        put_bytes(body, value);
        varint::write(body, headers.len() as i64);
        for (key, value) in headers {
            put_bytes(body, Some(key.as_bytes()));
            put_bytes(body, *value);
        }
        varint::write(&mut self.records, body.len() as i64);
        self.records.extend_from_slice(body);
        assert!(
            i32::try_from(self.records.len()).is_ok(),
            "batches stay far below 2 GiB"
        );
        self.count += 1;
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
        HEADER_BYTES + self.records.len()
    }

    /// The finished batch, CRC included.
    ///
    /// # Panics
    /// Compression into memory fails only when memory does.
    #[must_use]
    pub fn build(self) -> BytesMut {
        let packed: Bytes = match self.compression {
            Compression::None => self.records.freeze(),
            packing => packing
                .compress(&self.records)
                .expect("writing to memory")
                .into(),
        };
        let size = HEADER_BYTES + packed.len();
        let length = i32::try_from(size - LENGTH_END).expect("batches stay far below 2 GiB");
        let mut out = BytesMut::with_capacity(size);
        out.put_i64(self.base_offset);
        out.put_i32(length);
        out.put_i32(-1);
        out.put_i8(MAGIC);
        out.put_u32(0);
        out.put_i16(self.attributes);
        out.put_i32(self.count - 1);
        out.put_i64(self.base_timestamp.unwrap_or(-1));
        out.put_i64(self.max_timestamp);
        out.put_i64(self.producer.0);
        out.put_i16(self.producer.1);
        out.put_i32(self.producer.2);
        out.put_i32(self.count);
        out.extend_from_slice(&packed);
        let crc = millrace_model::crc32c(&out[ATTRIBUTES_AT..]);
        out[CRC_AT..ATTRIBUTES_AT].copy_from_slice(&crc.to_be_bytes());
        out
    }
}

fn put_bytes(out: &mut BytesMut, bytes: Option<&[u8]>) {
    match bytes {
        None => varint::write(out, -1),
        Some(bytes) => {
            varint::write(out, bytes.len() as i64);
            out.extend_from_slice(bytes);
        }
    }
}
