//! Zig-zag LEB128 numbers over plain slices: the records of a batch are read byte by byte, so no reference counts here.

use alloc::vec::Vec;

/// The most bytes of a 32-bit number.
pub(crate) const VARINT_BYTES_MAX: usize = 5;
/// The most bytes of a 64-bit number.
pub(crate) const VARLONG_BYTES_MAX: usize = 10;

pub(crate) fn decode_zigzag32(raw: u32) -> i32 {
    (raw >> 1) as i32 ^ -((raw & 1) as i32)
}

pub(crate) fn decode_zigzag64(raw: u64) -> i64 {
    (raw >> 1) as i64 ^ -((raw & 1) as i64)
}

pub(crate) fn put_varint(out: &mut Vec<u8>, value: i32) {
    put_raw(out, u64::from(((value << 1) ^ (value >> 31)) as u32));
}

pub(crate) fn put_varlong(out: &mut Vec<u8>, value: i64) {
    put_raw(out, ((value << 1) ^ (value >> 63)) as u64);
}

fn put_raw(out: &mut Vec<u8>, mut raw: u64) {
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

/// Bytes that [`put_varint`] writes.
pub(crate) fn varint_bytes(value: i32) -> usize {
    raw_bytes(u64::from(((value << 1) ^ (value >> 31)) as u32))
}

/// Bytes that [`put_varlong`] writes.
pub(crate) fn varlong_bytes(value: i64) -> usize {
    raw_bytes(((value << 1) ^ (value >> 63)) as u64)
}

fn raw_bytes(raw: u64) -> usize {
    let bits = 64 - (raw | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The announced size is the written one.
        #[test]
        fn sizes_are_exact(a: i32, b: i64) {
            let mut out = Vec::new();
            put_varint(&mut out, a);
            prop_assert_eq!(out.len(), varint_bytes(a));
            out.clear();
            put_varlong(&mut out, b);
            prop_assert_eq!(out.len(), varlong_bytes(b));
        }
    }

    /// Zig-zag: small numbers of either sign are short, the extremes take all the bytes.
    #[test]
    fn sizes_at_the_edges() {
        for (value, bytes) in [(0, 1), (-1, 1), (63, 1), (-64, 1), (64, 2), (i32::MAX, 5), (i32::MIN, 5)] {
            assert_eq!(varint_bytes(value), bytes, "{value}");
        }
        assert_eq!((varlong_bytes(i64::MAX), varlong_bytes(i64::MIN)), (10, 10));
    }
}
