//! Markers: the control batches that end transactions (KIP-98).
//!
//! A marker is a batch of one record without a sequence, with the control and the transactional bit.
//!
//! ```text
//! key:    i16 version (0) | i16 type     0 abort, 1 commit; all others are not about transactions
//! value:  i16 version (0) | i32 coordinator epoch
//! ```
//!
//! Fields that a later version adds stand behind these, so versions above 0 are read as well.

use bytes::{Buf, Bytes, BytesMut};

use crate::{
    builder::BatchBuilder, compression::Compression, error::InvalidBatch, header::header_of,
    records::records,
};

const VERSION: i16 = 0;
const ABORT: i16 = 0;
const COMMIT: i16 = 1;
/// The sequence of batches that have none.
const NO_SEQUENCE: i32 = -1;

/// What a marker says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionEnd {
    /// Whether the transaction was committed; it was aborted otherwise.
    pub committed: bool,
    /// The epoch of the transaction coordinator that had the marker written.
    pub coordinator_epoch: i32,
}

impl TransactionEnd {
    /// The batch that says so of a producer's transaction. `timestamp` is in milliseconds.
    #[must_use]
    pub fn batch(&self, (producer_id, epoch): (i64, i16), timestamp: i64) -> BytesMut {
        let kind = if self.committed { COMMIT } else { ABORT };
        let mut key = [0; 4];
        key[..2].copy_from_slice(&VERSION.to_be_bytes());
        key[2..].copy_from_slice(&kind.to_be_bytes());
        let mut value = [0; 6];
        value[..2].copy_from_slice(&VERSION.to_be_bytes());
        value[2..].copy_from_slice(&self.coordinator_epoch.to_be_bytes());
        let mut builder = BatchBuilder::new(Compression::None)
            .transactional()
            .control()
            .producer(producer_id, epoch, NO_SEQUENCE);
        builder.push(timestamp, Some(&key), Some(&value), &[]);
        builder.build()
    }

    /// What a batch says, if it is a marker: `None` for data, for control records of another type, and for a control batch
    /// whose record compaction has removed.
    ///
    /// # Errors
    /// The batch cannot be read, or its record is not laid out as a marker's.
    pub fn of(batch: &Bytes) -> Result<Option<Self>, InvalidBatch> {
        if !header_of(batch)?.is_control() {
            return Ok(None);
        }
        let Some(record) = records(batch)?.next() else {
            return Ok(None);
        };
        let record = record?;
        let malformed = |reason| InvalidBatch::Record { index: 0, reason };
        let no_key = |_| malformed("the key of a control record is too short");
        let mut key = record.key.unwrap_or_default();
        let version = key.try_get_i16().map_err(no_key)?;
        if version < VERSION {
            return Err(malformed("the version of a control record is negative"));
        }
        let committed = match key.try_get_i16().map_err(no_key)? {
            ABORT => false,
            COMMIT => true,
            _ => return Ok(None),
        };
        let no_value = |_| malformed("the value of a transaction marker is too short");
        let mut value = record.value.unwrap_or_default();
        if value.try_get_i16().map_err(no_value)? < VERSION {
            return Err(malformed("the version of a transaction marker is negative"));
        }
        let coordinator_epoch = value.try_get_i32().map_err(no_value)?;
        Ok(Some(Self {
            committed,
            coordinator_epoch,
        }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{BatchLimits, split};

    fn control(key: Option<&[u8]>, value: Option<&[u8]>) -> Bytes {
        let mut builder = BatchBuilder::new(Compression::None).control();
        builder.push(1, key, value, &[]);
        builder.build().freeze()
    }

    proptest! {
        #[test]
        fn markers_say_what_they_were_built_with(
            committed: bool, coordinator_epoch: i32, id in 0i64.., epoch in 0i16.., timestamp in 0i64..1 << 41,
        ) {
            let end = TransactionEnd { committed, coordinator_epoch };
            let batch = end.batch((id, epoch), timestamp);
            let batches = split(batch.clone()).expect("one batch");
            let limits = BatchLimits { control: true, ..BatchLimits::default() };
            prop_assert_eq!(batches[0].validate(&limits), Ok(()));
            let header = *batches[0].header();
            prop_assert!(header.is_control() && header.is_transactional());
            prop_assert_eq!(
                (header.producer_id, header.producer_epoch, header.base_sequence, header.max_timestamp),
                (id, epoch, -1, timestamp)
            );
            prop_assert_eq!(TransactionEnd::of(&batch.freeze()), Ok(Some(end)));
        }

        #[test]
        fn no_record_makes_it_panic(
            key in prop::option::of(prop::collection::vec(any::<u8>(), 0..8)),
            value in prop::option::of(prop::collection::vec(any::<u8>(), 0..8)),
        ) {
            let _ = TransactionEnd::of(&control(key.as_deref(), value.as_deref()));
        }
    }

    #[test]
    fn the_layout_is_that_of_kafka() {
        let end = TransactionEnd {
            committed: true,
            coordinator_epoch: 0x0102_0304,
        };
        let batch = end.batch((7, 3), 1).freeze();
        let record = records(&batch).expect("sound").next().expect("one");
        let record = record.expect("sound");
        assert_eq!(record.key.as_deref(), Some(&[0, 0, 0, 1][..]));
        assert_eq!(record.value.as_deref(), Some(&[0, 0, 1, 2, 3, 4][..]));
    }

    #[test]
    fn what_is_no_marker_says_nothing_and_what_is_malformed_is_refused() {
        let mut data = BatchBuilder::new(Compression::None);
        data.push(1, Some(&[0, 0, 0, 1]), Some(&[0; 6]), &[]);
        assert_eq!(TransactionEnd::of(&data.build().freeze()), Ok(None));
        // A leader change of Kafka's own quorum.
        let leader_change = control(Some(&[0, 0, 0, 2]), Some(&[0; 9]));
        assert_eq!(TransactionEnd::of(&leader_change), Ok(None));
        for (key, value) in [
            (None, None),
            (Some(&[0, 0, 0][..]), None),
            (Some(&[0xff, 0xff, 0, 1]), Some(&[0; 6][..])),
            (Some(&[0, 0, 0, 1]), Some(&[0; 5])),
            (Some(&[0, 0, 0, 0]), Some(&[0xff, 0xff, 0, 0, 0, 0])),
        ] {
            let read = TransactionEnd::of(&control(key, value));
            assert!(
                matches!(read, Err(InvalidBatch::Record { .. })),
                "{key:?} {value:?}"
            );
        }
        // A later version may have more fields.
        let later = control(Some(&[0, 1, 0, 1, 9]), Some(&[0, 1, 0, 0, 0, 5, 9]));
        let end = TransactionEnd {
            committed: true,
            coordinator_epoch: 5,
        };
        assert_eq!(TransactionEnd::of(&later), Ok(Some(end)));
    }
}
