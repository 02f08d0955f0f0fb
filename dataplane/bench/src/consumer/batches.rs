//! Record batches as a fetch answers them: back to back, the last one perhaps cut off.

use millrace_record::{InvalidBatch, header::ATTRIBUTES_AT, header_of};

/// What was whole in an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// The offset that is read next.
    pub next: i64,
    /// Whole batches.
    pub batches: u64,
    /// Their records.
    pub records: u64,
    /// Their bytes, headers included.
    pub bytes: u64,
}

/// Why an answer is not what a broker may send.
#[derive(Debug, thiserror::Error)]
pub enum Unsound {
    /// The batch does not follow its schema.
    #[error("the batch at {at}: {fault}")]
    Malformed {
        /// The offset that was to come.
        at: i64,
        /// What is wrong.
        fault: InvalidBatch,
    },
    /// The batch is not the one that was to come.
    #[error("got offsets {base} to {last}, expected {at}")]
    Gap {
        /// The offset that was to come.
        at: i64,
        /// The first offset of the batch.
        base: i64,
        /// Its last one.
        last: i64,
    },
    /// The batch is damaged.
    #[error("the batch at {at}: {reason}")]
    Damaged {
        /// Its first offset.
        at: i64,
        /// Which checksum it has, and which it says.
        reason: String,
    },
}

/// Goes through the answer to a fetch at `offset`: each whole batch must be sound, and follow the
/// one before without a gap. Only the first may begin below `offset`, and then holds it.
///
/// # Errors
/// The first thing that is wrong.
pub fn take(mut records: &[u8], offset: i64) -> Result<Taken, Unsound> {
    let mut taken = Taken {
        next: offset,
        ..Taken::default()
    };
    while !records.is_empty() {
        let at = taken.next;
        let header = match header_of(records) {
            Ok(header) => header,
            Err(InvalidBatch::Truncated { .. }) => break,
            Err(fault) => return Err(Unsound::Malformed { at, fault }),
        };
        let Some((batch, rest)) = records.split_at_checked(header.size_bytes()) else {
            break;
        };
        let (base, last) = (header.base_offset, header.last_offset());
        let follows = base == at || (taken.batches == 0 && base < at && at <= last);
        if !follows {
            return Err(Unsound::Gap { at, base, last });
        }
        check_crc(batch).map_err(|reason| Unsound::Damaged { at: base, reason })?;
        taken.next = header.next_offset();
        taken.batches += 1;
        taken.records += u64::try_from(taken.next - base).unwrap_or(0);
        taken.bytes += batch.len() as u64;
        records = rest;
    }
    Ok(taken)
}

/// Compares a batch with its checksum, as consumers do.
///
/// # Errors
/// What is wrong, in words.
pub fn check_crc(batch: &[u8]) -> Result<(), String> {
    let header = header_of(batch).map_err(|error| error.to_string())?;
    let signed = batch.get(ATTRIBUTES_AT..).unwrap_or_default();
    match crc32c::crc32c(signed) {
        crc if crc == header.crc => Ok(()),
        crc => Err(format!(
            "its checksum is {crc:08x}, it says {:08x}",
            header.crc
        )),
    }
}

#[cfg(test)]
mod tests {
    use millrace_record::{BatchBuilder, Compression};

    use super::*;

    /// A batch of `count` records from `base` on.
    fn batch(base: i64, count: usize) -> Vec<u8> {
        let mut builder = BatchBuilder::new(Compression::None);
        for n in 0..count {
            builder.push(1, None, Some(&[n as u8; 40]), &[]);
        }
        let mut bytes = builder.build().to_vec();
        bytes[..8].copy_from_slice(&base.to_be_bytes());
        bytes
    }

    #[test]
    fn whole_batches_are_taken_and_a_cut_one_is_left() {
        let mut answer = [batch(5, 3), batch(8, 1), batch(9, 2)].concat();
        let whole = answer.len();
        let taken = take(&answer, 5).expect("sound");
        assert_eq!((taken.next, taken.batches, taken.records), (11, 3, 6));
        assert_eq!(taken.bytes, whole as u64);
        for cut in [1, 20, 100] {
            answer.truncate(whole - cut);
            assert_eq!(take(&answer, 5).expect("sound").next, 9, "{cut}");
        }
        assert_eq!(take(&[], 7).expect("nothing").next, 7);
    }

    #[test]
    fn only_the_first_batch_may_begin_below_and_must_hold_the_offset() {
        assert_eq!(take(&batch(5, 3), 7).expect("sound").next, 8);
        for (first, asked) in [(5, 8), (9, 8), (5, 4)] {
            let wrong = take(&batch(first, 3), asked);
            assert!(matches!(wrong, Err(Unsound::Gap { .. })), "{first} {asked}");
        }
        for second in [7, 9] {
            let wrong = take(&[batch(5, 3), batch(second, 3)].concat(), 5);
            assert!(matches!(wrong, Err(Unsound::Gap { at: 8, .. })), "{second}");
        }
    }

    #[test]
    fn damage_is_seen_wherever_it_is() {
        let sound = batch(5, 2);
        for at in 16..sound.len() {
            let mut damaged = sound.clone();
            damaged[at] ^= 4;
            assert!(
                take(&damaged, 5).map_or(true, |taken| taken.batches == 0),
                "{at}"
            );
        }
        let mut damaged = sound;
        *damaged.last_mut().expect("bytes") ^= 1;
        assert!(matches!(take(&damaged, 5), Err(Unsound::Damaged { .. })));
    }
}
