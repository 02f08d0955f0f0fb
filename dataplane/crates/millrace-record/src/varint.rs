//! Zigzag variable-length integers, as protocol buffers have them.

use bytes::{BufMut, BytesMut};

/// Bytes of the longest 32-bit number.
const VARINT_BYTES_MAX: u32 = 5;
/// Bytes of the longest 64-bit number.
const VARLONG_BYTES_MAX: u32 = 10;

fn read_unsigned(bytes: &mut &[u8], bytes_max: u32) -> Option<u64> {
    let mut value = 0u64;
    for place in 0..bytes_max {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << (place * 7);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Reads a 32-bit number; nothing when the bytes end or the number is longer than 5 bytes.
pub(crate) fn read_i32(bytes: &mut &[u8]) -> Option<i32> {
    let raw = read_unsigned(bytes, VARINT_BYTES_MAX)? as u32;
    Some(((raw >> 1) as i32) ^ -((raw & 1) as i32))
}

/// Reads a 64-bit number; nothing when the bytes end or the number is longer than 10 bytes.
pub(crate) fn read_i64(bytes: &mut &[u8]) -> Option<i64> {
    let raw = read_unsigned(bytes, VARLONG_BYTES_MAX)?;
    Some(((raw >> 1) as i64) ^ -((raw & 1) as i64))
}

/// Writes a number in as few bytes as it needs; 32-bit numbers have the same form.
pub(crate) fn write(out: &mut BytesMut, value: i64) {
    each_byte(value, |byte| out.put_u8(byte));
}

/// Hands out the bytes that [`write`] writes.
pub(crate) fn each_byte(value: i64, mut put: impl FnMut(u8)) {
    let mut raw = zigzag(value);
    while raw >= 0x80 {
        put((raw as u8 & 0x7f) | 0x80);
        raw >>= 7;
    }
    put(raw as u8);
}

/// Bytes that [`write`] writes.
pub(crate) fn len(value: i64) -> usize {
    let bits = u64::BITS - (zigzag(value) | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_round_trip(long: i64, int: i32) {
            let mut out = BytesMut::new();
            write(&mut out, long);
            prop_assert_eq!(out.len(), len(long));
            write(&mut out, i64::from(int));
            let mut bytes = &out[..];
            prop_assert_eq!(read_i64(&mut bytes), Some(long));
            prop_assert_eq!(read_i32(&mut bytes), Some(int));
            prop_assert!(bytes.is_empty());
        }
    }

    #[test]
    fn extremes_take_the_longest_form_and_no_more() {
        let mut out = BytesMut::new();
        write(&mut out, i64::MIN);
        assert_eq!(out.len(), 10);
        assert_eq!(read_i32(&mut &[0xff; 6][..]), None);
        assert_eq!(read_i64(&mut &[0xff; 11][..]), None);
        assert_eq!(read_i64(&mut &[0x80; 3][..]), None);
    }
}
