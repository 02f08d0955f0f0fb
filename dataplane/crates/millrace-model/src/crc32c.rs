//! CRC32C (Castagnoli, RFC 3720 B.4): the checksum of record batches, of the write-ahead log and of
//! objects.
//!
//! A small record batch passes here three times on its way to the bucket, a large one once: its own
//! sum is combined into those of the log and of the object. `crc-fast` multiplies polynomials
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

/// From so many bytes on, [`crc32c_combine`] is cheaper than to sum the bytes once more.
pub const COMBINE_BYTES_MIN: usize = 32 * 1024;

/// The CRC32C of some bytes whose CRC32C is `first`, followed by `length` bytes whose CRC32C is `second`.
/// Takes about a microsecond, whatever the length.
#[must_use]
pub fn crc32c_combine(first: u32, second: u32, length: u64) -> u32 {
    multiply(shift_by(length), first) ^ second
}

/// The polynomial of CRC32C, without its highest term, the lowest power in the highest bit.
const POLYNOMIAL: u32 = 0x82F6_3B78;
/// The polynomials 1 and x in that order of bits.
const ONE: u32 = 1 << 31;
const X: u32 = 1 << 30;

/// x to the power of 8 × 2^n, for each n that a length can have.
const SHIFTS: [u32; 64] = {
    let mut shifts = [0; 64];
    let mut power = X;
    // x^8.
    let mut squared = 0;
    while squared < 3 {
        power = multiply(power, power);
        squared += 1;
    }
    let mut n = 0;
    while n < 64 {
        shifts[n] = power;
        power = multiply(power, power);
        n += 1;
    }
    shifts
};

/// What a sum is multiplied with where so many bytes follow: x to the power of their bits.
fn shift_by(bytes: u64) -> u32 {
    let powers = (0..64).filter(|n| bytes >> n & 1 == 1);
    powers.fold(ONE, |shift, n| multiply(shift, SHIFTS[n]))
}

/// The product of two polynomials, modulo that of CRC32C.
const fn multiply(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    let mut power = ONE;
    while power != 0 {
        if a & power != 0 {
            product ^= b;
        }
        b = (b >> 1) ^ (POLYNOMIAL & (b & 1).wrapping_neg());
        power >>= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, bit by bit: reflected polynomial 0x82F63B78.
    fn by_definition(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(u32::MAX, |sum, &byte| {
            (0..8).fold(sum ^ u32::from(byte), |sum, _| {
                (sum >> 1) ^ (POLYNOMIAL & (sum & 1).wrapping_neg())
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

        #[test]
        fn the_sums_of_two_parts_give_the_sum_of_both(
            bytes in prop::collection::vec(any::<u8>(), 0..3_000), cut in 0_usize..3_000,
        ) {
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            let length = second.len() as u64;
            let combined = crc32c_combine(crc32c(first), crc32c(second), length);
            prop_assert_eq!(combined, crc32c(&bytes));
        }
    }

    #[test]
    fn long_parts_are_combined() {
        let bytes: Vec<u8> = (0..9_000_001_u32).map(|n| (n >> 3) as u8).collect();
        let (first, second) = bytes.split_at(1_000);
        let combined = crc32c_combine(crc32c(first), crc32c(second), second.len() as u64);
        assert_eq!(combined, crc32c(&bytes));
    }
}
