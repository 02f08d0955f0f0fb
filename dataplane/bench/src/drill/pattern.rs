//! What is in a record: who wrote it, its place in the writer's order, and bytes that follow from
//! both, so that a record tells by itself whether it is the right one and whole.
//!
//! ```text
//!  u32 producer | i32 partition | u64 sequence | filler, any length, from the seed and the above
//! ```

/// Bytes before the filler.
pub(crate) const HEAD_BYTES: usize = 16;

/// One place in the order of one producer in one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The producer's number.
    pub producer: u32,
    /// The partition.
    pub partition: i32,
    /// Counts the producer's records in this partition, from 0.
    pub sequence: u64,
}

/// Writes the record of `place`, `bytes` long, into `out`.
pub(crate) fn write(seed: u64, place: Place, bytes: usize, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&place.producer.to_be_bytes());
    out.extend_from_slice(&place.partition.to_be_bytes());
    out.extend_from_slice(&place.sequence.to_be_bytes());
    let mut filler = Filler::new(seed, place);
    let mut rest = bytes.saturating_sub(HEAD_BYTES);
    while rest > 0 {
        let word = filler.next().to_le_bytes();
        let taken = rest.min(word.len());
        out.extend_from_slice(&word[..taken]);
        rest -= taken;
    }
}

/// Whose record this is; `None` where it is nobody's, or not what was written.
pub(crate) fn read(seed: u64, value: &[u8]) -> Option<Place> {
    let (head, rest) = value.split_first_chunk::<HEAD_BYTES>()?;
    let (producer, head) = head.split_first_chunk()?;
    let (partition, head) = head.split_first_chunk()?;
    let (sequence, _) = head.split_first_chunk()?;
    let place = Place {
        producer: u32::from_be_bytes(*producer),
        partition: i32::from_be_bytes(*partition),
        sequence: u64::from_be_bytes(*sequence),
    };
    let mut filler = Filler::new(seed, place);
    let whole = rest.chunks(8).all(|chunk| {
        let word = filler.next().to_le_bytes();
        chunk == &word[..chunk.len()]
    });
    whole.then_some(place)
}

/// SplitMix64: fast, and every bit of the state shows in every word.
struct Filler(u64);

impl Filler {
    fn new(seed: u64, place: Place) -> Self {
        let who = u64::from(place.producer) << 32 | u64::from(place.partition.cast_unsigned());
        let mut mixed = Self(seed ^ who);
        let keyed = mixed.next();
        Self(keyed ^ place.sequence.wrapping_mul(0xd6e8_feb8_6659_fd93))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_known_again_and_a_changed_one_is_not() {
        let place = Place {
            producer: 3,
            partition: 5,
            sequence: 1 << 40,
        };
        let mut value = Vec::new();
        for bytes in [HEAD_BYTES, 17, 23, 24, 25, 1_000] {
            write(7, place, bytes, &mut value);
            assert_eq!(value.len(), bytes);
            assert_eq!(read(7, &value), Some(place));
            for at in HEAD_BYTES..bytes {
                value[at] ^= 1;
                assert_eq!(read(7, &value), None, "byte {at} of {bytes}");
                value[at] ^= 1;
            }
        }
        assert_eq!(read(8, &value), None, "another seed");
        assert_eq!(read(7, &value[..HEAD_BYTES - 1]), None);
    }
}
