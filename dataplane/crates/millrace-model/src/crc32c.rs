//! CRC32C (Castagnoli, RFC 3720 B.4): the checksum of record batches, of the write-ahead log and of
//! objects.
//!
//! Every byte passes here three times on its way to the bucket. `crc-fast` multiplies polynomials
//! in vector registers beside the processor's own CRC instruction, which is twice the speed of the
//! instruction alone for what is in the cache, and a memory's full speed for what is not.

use crc_fast::{CrcAlgorithm, Digest};

/// The CRC32C of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The CRC32C of some bytes whose CRC32C is `sum`, followed by `bytes`.
#[must_use]
pub fn crc32c_append(sum: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!sum));
    digest.update(bytes);
    u32::try_from(digest.finalize()).expect("a CRC32C has 32 bits")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, bit by bit: reflected polynomial 0x82F63B78.
    fn by_definition(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(u32::MAX, |sum, &byte| {
            (0..8).fold(sum ^ u32::from(byte), |sum, _| {
                (sum >> 1) ^ (0x82F6_3B78 & (sum & 1).wrapping_neg())
            })
        })
    }

    #[test]
    fn the_check_value_of_the_standard() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(b""), 0);
        assert_eq!(crc32c_append(0, b"123456789"), 0xE306_9283);
        // RFC 3720 B.4: 32 bytes of zeros, of ones.
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_sum_by_definition(
            bytes in prop::collection::vec(any::<u8>(), 0..3_000),
            cuts in prop::collection::vec(0_usize..3_000, 0..4),
        ) {
            let expected = by_definition(&bytes);
            prop_assert_eq!(crc32c(&bytes), expected);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let sum = cuts.windows(2).fold(0, |sum, cut| crc32c_append(sum, &bytes[cut[0]..cut[1]]));
            prop_assert_eq!(sum, expected);
        }
    }
}
