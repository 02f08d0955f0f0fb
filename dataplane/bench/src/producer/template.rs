//! Batches that cost almost nothing to make: the records are encoded and summed once, each batch
//! takes a prefix of them under a header of its own.

use bytes::BufMut;
use millrace_record::{
    BatchBuilder, Compression,
    header::{ATTRIBUTES_AT, HEADER_BYTES, LENGTH_END, MAGIC},
};

/// Who an idempotent producer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerIdentity {
    /// The producer id.
    pub id: i64,
    /// Its epoch.
    pub epoch: i16,
}

/// What differs between batches of one template.
#[derive(Debug, Clone, Copy)]
pub struct Stamp {
    /// Create time of all its records, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The idempotent producer; `None` for a producer that is not.
    pub producer: Option<ProducerIdentity>,
    /// Sequence of the first record; not used without a producer.
    pub base_sequence: i32,
}

/// Records that batches of any length up to [`records_max`](Self::records_max) begin with.
#[derive(Debug)]
pub struct BatchTemplate {
    /// Encoded records, back to back.
    records: Vec<u8>,
    /// For n records: where they end, and their CRC32C.
    prefixes: Vec<Prefix>,
}

#[derive(Debug)]
struct Prefix {
    end: usize,
    crc: u32,
    /// What `end` bytes do to the CRC of what stands before them.
    shift: Shift,
}

/// The CRC of `a` followed by `b` is the CRC of `b`, with that of `a` moved on by the length of `b`
/// added to it. Moving is linear: it is known once it is known of each bit, and then costs a few
/// instructions where finding it out costs tens of microseconds.
#[derive(Debug, Clone, Copy)]
struct Shift([u32; u32::BITS as usize]);

impl Shift {
    fn by(bytes: usize) -> Self {
        Self(std::array::from_fn(|bit| {
            crc32c::crc32c_combine(1 << bit, 0, bytes)
        }))
    }

    fn apply(&self, crc: u32) -> u32 {
        let bits = self.0.iter().enumerate();
        let moved = bits.filter(|&(bit, _)| crc >> bit & 1 == 1);
        moved.fold(0, |sum, (_, moved)| sum ^ moved)
    }

    fn then(&self, next: &Self) -> Self {
        Self(self.0.map(|moved| next.apply(moved)))
    }
}

/// The prefixes of `records`, which end at `ends`.
fn prefixes_of(records: &[u8], ends: &[usize]) -> Vec<Prefix> {
    let (mut start, mut crc, mut shift) = (0, 0, Shift::by(0));
    // Most records are as long as the one before.
    let mut last = (0, shift);
    let prefix = |&end: &usize| {
        let record = end - start;
        if record != last.0 {
            last = (record, Shift::by(record));
        }
        crc = crc32c::crc32c_append(crc, &records[start..end]);
        shift = shift.then(&last.1);
        start = end;
        Prefix { end, crc, shift }
    };
    ends.iter().map(prefix).collect()
}

impl BatchTemplate {
    /// As many records of `record_bytes` random bytes without a key as fit into a batch of
    /// `batch_bytes_max`, header included; at least one. Equal seeds give equal bytes.
    #[must_use]
    pub fn random(record_bytes: usize, batch_bytes_max: usize, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut value = vec![0; record_bytes];
        let values = std::iter::from_fn(move || {
            random.fill(&mut value);
            Some(value.clone())
        });
        Self::of(values, batch_bytes_max)
    }

    /// As many of `values` as fit into a batch of `batch_bytes_max`, header included; at least
    /// one.
    ///
    /// # Panics
    /// There is no value, or the batch would pass 2 GiB.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = Vec<u8>>, batch_bytes_max: usize) -> Self {
        let mut builder = BatchBuilder::new(Compression::None);
        let mut ends = Vec::new();
        for value in values {
            // The fields around a value are at most this long: six numbers of varying length.
            let size_max = builder.size_bytes() + value.len() + RECORD_FIELDS_BYTES_MAX;
            if size_max > batch_bytes_max && !ends.is_empty() {
                break;
            }
            builder.push(0, None, Some(&value), &[]);
            ends.push(builder.size_bytes() - HEADER_BYTES);
        }
        assert!(!ends.is_empty(), "a batch has a record");
        let mut records = builder.build().to_vec();
        records.drain(..HEADER_BYTES);
        let prefixes = prefixes_of(&records, &ends);
        Self { records, prefixes }
    }

    /// The most records that a batch can have.
    #[must_use]
    pub fn records_max(&self) -> usize {
        self.prefixes.len()
    }

    /// The encoded records of a batch of `count`.
    ///
    /// # Panics
    /// `count` is 0 or above [`records_max`](Self::records_max).
    #[must_use]
    pub fn records(&self, count: usize) -> &[u8] {
        &self.records[..self.prefixes[count - 1].end]
    }

    /// The header of a batch of `count` records, CRC included.
    ///
    /// # Panics
    /// As [`records`](Self::records).
    #[must_use]
    pub fn header(&self, count: usize, stamp: &Stamp) -> [u8; HEADER_BYTES] {
        let prefix = &self.prefixes[count - 1];
        let count = i32::try_from(count).expect("batches have fewer records");
        let length = i32::try_from(HEADER_BYTES - LENGTH_END + prefix.end);
        let none = ProducerIdentity { id: -1, epoch: -1 };
        let producer = stamp.producer.unwrap_or(none);
        let sequence = stamp.producer.map_or(-1, |_| stamp.base_sequence);

        let mut signed = [0; HEADER_BYTES - ATTRIBUTES_AT];
        let mut out = &mut signed[..];
        out.put_i16(0);
        out.put_i32(count - 1);
        out.put_i64(stamp.timestamp_ms);
        out.put_i64(stamp.timestamp_ms);
        out.put_i64(producer.id);
        out.put_i16(producer.epoch);
        out.put_i32(sequence);
        out.put_i32(count);
        let crc = prefix.shift.apply(crc32c::crc32c(&signed)) ^ prefix.crc;

        let mut header = [0; HEADER_BYTES];
        let mut out = &mut header[..];
        out.put_i64(0);
        out.put_i32(length.expect("a batch stays far below 2 GiB"));
        out.put_i32(-1);
        out.put_i8(MAGIC);
        out.put_u32(crc);
        out.put_slice(&signed);
        header
    }
}

/// Length, attributes, time and offset deltas, the key's and the value's length, and the number of
/// headers.
const RECORD_FIELDS_BYTES_MAX: usize = 5 + 1 + 1 + 5 + 1 + 5 + 1;

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use millrace_record::{BatchLimits, records, split};

    use super::*;

    #[test]
    fn a_batch_of_any_length_is_what_the_builder_would_have_made() {
        let values: Vec<_> = (0..20_u8).map(|n| vec![n; 90 + usize::from(n)]).collect();
        let template = BatchTemplate::of(values.clone(), 1_000);
        assert_eq!(template.records_max(), 9);
        for count in 1..=template.records_max() {
            let mut builder = BatchBuilder::new(Compression::None).producer(9, 2, 40);
            for value in &values[..count] {
                builder.push(1_234, None, Some(value), &[]);
            }
            let stamp = Stamp {
                timestamp_ms: 1_234,
                producer: Some(ProducerIdentity { id: 9, epoch: 2 }),
                base_sequence: 40,
            };
            let made = [&template.header(count, &stamp)[..], template.records(count)].concat();
            assert!(made.len() <= 1_000);
            assert_eq!(made, builder.build());
        }
    }

    #[test]
    fn random_batches_are_legal_and_sixty_four_kib_records_fill_a_mebibyte() {
        let template = BatchTemplate::random(64 << 10, 1 << 20, 3);
        assert_eq!(template.records_max(), 15);
        let stamp = Stamp {
            timestamp_ms: 5,
            producer: None,
            base_sequence: 0,
        };
        let made = [&template.header(15, &stamp)[..], template.records(15)].concat();
        let batches = split(BytesMut::from(&made[..])).expect("one batch");
        let batch = batches.into_iter().next().expect("one batch");
        assert_eq!(batch.validate(&BatchLimits::default()), Ok(()));
        assert!(!batch.header().has_producer_id());
        let read: Vec<_> = records(&batch.freeze()).expect("records").collect();
        assert_eq!(read.len(), 15);
        let values: Vec<_> = read
            .into_iter()
            .map(|record| record.expect("legal").value)
            .collect();
        assert_eq!(values[0].as_ref().map(bytes::Bytes::len), Some(64 << 10));
        assert_ne!(values[0], values[1]);
    }
}
