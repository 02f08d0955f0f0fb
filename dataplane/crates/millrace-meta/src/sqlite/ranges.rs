//! The blob that holds an object's ranges.
//!
//! version 1 (1 byte), then per range: stream 8 | start 8 | end 8, then CRC32C 4 of all before it;
//! big-endian. The checksum is there because SQLite's pages have none.

use millrace_model::{StreamId, StreamRange};

use crate::StoreFailure;

const VERSION: u8 = 1;
const RANGE_BYTES: usize = 24;
const CRC_BYTES: usize = 4;

pub(super) fn encode(ranges: &[StreamRange]) -> Vec<u8> {
    let mut blob = Vec::with_capacity(1 + ranges.len() * RANGE_BYTES + CRC_BYTES);
    blob.push(VERSION);
    for range in ranges {
        blob.extend_from_slice(&range.stream.get().to_be_bytes());
        blob.extend_from_slice(&range.start.to_be_bytes());
        blob.extend_from_slice(&range.end.to_be_bytes());
    }
    blob.extend_from_slice(&millrace_model::crc32c(&blob).to_be_bytes());
    blob
}

pub(super) fn decode(blob: &[u8]) -> Result<Vec<StreamRange>, StoreFailure> {
    let corrupt = |what: &str| StoreFailure::Corrupt(format!("an object's ranges {what}"));
    let (checked, crc) = blob
        .split_last_chunk::<CRC_BYTES>()
        .ok_or_else(|| corrupt("are cut off"))?;
    if millrace_model::crc32c(checked) != u32::from_be_bytes(*crc) {
        return Err(corrupt("fail their checksum"));
    }
    let (version, units) = checked
        .split_first()
        .ok_or_else(|| corrupt("are cut off"))?;
    if *version != VERSION {
        return Err(corrupt("are of a version that this broker does not know"));
    }
    let (units, rest) = units.as_chunks::<RANGE_BYTES>();
    if !rest.is_empty() {
        return Err(corrupt("are cut off"));
    }
    Ok(units.iter().map(decode_range).collect())
}

fn decode_range(unit: &[u8; RANGE_BYTES]) -> StreamRange {
    let (numbers, _) = unit.as_chunks::<8>();
    let number = |at: usize| {
        numbers
            .get(at)
            .map_or(0, |bytes| u64::from_be_bytes(*bytes))
    };
    StreamRange {
        stream: StreamId(number(0)),
        start: number(1),
        end: number(2),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_range() -> impl Strategy<Value = StreamRange> {
        any::<(u64, u64, u64)>().prop_map(|(stream, start, end)| StreamRange {
            stream: StreamId(stream),
            start,
            end,
        })
    }

    proptest! {
        #[test]
        fn what_goes_in_comes_out(ranges in prop::collection::vec(any_range(), 0..50)) {
            prop_assert_eq!(decode(&encode(&ranges)).expect("sound"), ranges);
        }

        #[test]
        fn a_flipped_bit_is_seen(
            ranges in prop::collection::vec(any_range(), 0..5), at in any::<prop::sample::Index>(),
            bit in 0..8_u32,
        ) {
            let mut blob = encode(&ranges);
            let at = at.index(blob.len());
            blob[at] ^= 1_u8 << bit;
            prop_assert!(decode(&blob).is_err());
        }

        #[test]
        fn no_bytes_panic(blob in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = decode(&blob);
        }
    }
}
