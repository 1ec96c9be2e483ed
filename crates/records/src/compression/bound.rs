//! How much a payload can inflate to, told from its framing alone: the decision where a batch is checked must not
//! inflate it.

use super::CompressionType;

/// DEFLATE writes at most 258 bytes for two bits. Source: zlib's technical details.
const GZIP_RATIO_MAX: usize = 1_032;
/// A byte of an LZ4 length adds at most 255 bytes.
const LZ4_RATIO_MAX: usize = 255;
/// A copy of Snappy takes three bytes and writes at most 64.
const SNAPPY_RATIO_MAX: usize = 22;
/// What a block of a Zstandard frame holds at most. Source: RFC 8878 §3.1.1.2.3.
const ZSTD_BLOCK_BYTES_MAX: usize = 128 * 1024;
const ZSTD_MAGIC: u32 = 0xfd2f_b528;
const ZSTD_SKIPPABLE_MAGIC: u32 = 0x184d_2a50;
const ZSTD_CHECKSUM_BYTES: usize = 4;

/// The most plain bytes that a reader makes out of a payload before it knows that the payload is good, or refuses it. Looks at
/// the framing alone; one that is not understood may hold anything.
pub fn inflated_bytes_max(codec: CompressionType, payload: &[u8]) -> usize {
    let by_ratio = |ratio: usize| payload.len().saturating_mul(ratio);
    match codec {
        CompressionType::None => payload.len(),
        CompressionType::Gzip => by_ratio(GZIP_RATIO_MAX),
        CompressionType::Snappy => by_ratio(SNAPPY_RATIO_MAX),
        CompressionType::Lz4 => by_ratio(LZ4_RATIO_MAX),
        CompressionType::Zstd => zstd_bytes_max(payload).unwrap_or(usize::MAX),
    }
}

/// The sum over all blocks; `None` where the framing is not to be trusted.
fn zstd_bytes_max(mut rest: &[u8]) -> Option<usize> {
    let mut bytes = 0_usize;
    while !rest.is_empty() {
        let magic = u32::from_le_bytes(*rest.first_chunk()?);
        rest = rest.get(4..)?;
        if magic & !0x0f == ZSTD_SKIPPABLE_MAGIC {
            let size = u32::from_le_bytes(*rest.first_chunk()?) as usize;
            rest = rest.get(4_usize.checked_add(size)?..)?;
            continue;
        }
        if magic != ZSTD_MAGIC {
            return None;
        }
        let (of_frame, after) = zstd_frame_bytes_max(rest)?;
        bytes = bytes.checked_add(of_frame)?;
        rest = after;
    }
    Some(bytes)
}

/// A frame behind its magic: what it holds at most, and what comes after it. Source: RFC 8878 §3.1.1.
fn zstd_frame_bytes_max(frame: &[u8]) -> Option<(usize, &[u8])> {
    let (&descriptor, rest) = frame.split_first()?;
    let is_single_segment = descriptor & 0x20 != 0;
    let window_bytes = usize::from(!is_single_segment);
    let dictionary_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size_bytes = [usize::from(is_single_segment), 2, 4, 8][usize::from(descriptor >> 6)];
    let mut rest = rest.get(window_bytes + dictionary_bytes + size_bytes..)?;
    let mut bytes = 0_usize;
    loop {
        let header = rest.first_chunk::<3>()?;
        let header = u32::from_le_bytes([header[0], header[1], header[2], 0]);
        let size = (header >> 3) as usize;
        let (stored, plain) = match header >> 1 & 3 {
            0 => (size, size),
            1 => (1, size),
            2 => (size, ZSTD_BLOCK_BYTES_MAX),
            _ => return None,
        };
        bytes = bytes.checked_add(plain)?;
        rest = rest.get(3 + stored..)?;
        if header & 1 != 0 {
            break;
        }
    }
    if descriptor & 0x04 != 0 {
        rest = rest.get(ZSTD_CHECKSUM_BYTES..)?;
    }
    Some((bytes, rest))
}

#[cfg(all(test, feature = "compression"))]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::compression::{Compression, decompress};

    fn plains() -> Vec<Vec<u8>> {
        let mixed = |bytes: usize| {
            let mut state = 7_u32;
            let next = |_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // Long runs, then noise.
                if state >> 28 < 12 { 0 } else { (state >> 24) as u8 }
            };
            (0..bytes).map(next).collect()
        };
        [0, 1, 100, 65_536, 300_000, 3_000_000]
            .into_iter()
            .flat_map(|bytes| [vec![0; bytes], mixed(bytes)])
            .collect()
    }

    /// B10: whatever the codec and its level, a payload inflates to no more than was foretold.
    #[test]
    fn no_payload_inflates_beyond_the_bound() {
        for plain in plains() {
            for codec in CompressionType::ALL {
                for level in [None, Some(1), Some(9), Some(19)] {
                    if level.is_some() && !matches!(codec, CompressionType::Gzip | CompressionType::Zstd) {
                        continue;
                    }
                    let level =
                        if codec == CompressionType::Gzip { level.map(|level| level.min(9)) } else { level };
                    let payload = Compression { codec, level }.compress(&plain).unwrap();
                    assert_eq!(decompress(codec, &payload).unwrap().len(), plain.len());
                    let bound = inflated_bytes_max(codec, &payload);
                    assert!(bound >= plain.len(), "{codec} {level:?}: {bound} for {} bytes", plain.len());
                }
            }
        }
    }

    /// A small batch of zstd is known to be small, though four bytes can stand for 128 KiB; several frames add up.
    #[test]
    fn blocks_are_counted() {
        let one = Compression::new(CompressionType::Zstd).compress(&[7; 10_000]).unwrap();
        let bound = inflated_bytes_max(CompressionType::Zstd, &one);
        assert!((10_000..=ZSTD_BLOCK_BYTES_MAX).contains(&bound), "{bound}");
        let skipped = [&(ZSTD_SKIPPABLE_MAGIC + 3).to_le_bytes()[..], &2_u32.to_le_bytes(), &[1, 2]].concat();
        let three = [&one[..], &skipped, &one, &one].concat();
        assert_eq!(inflated_bytes_max(CompressionType::Zstd, &three), 3 * bound);
    }

    /// Framing that is cut off or foreign is taken for the worst.
    #[test]
    fn what_is_not_understood_is_large() {
        let whole = Compression::new(CompressionType::Zstd).compress(&[7; 400_000]).unwrap();
        for end in 1..whole.len() {
            assert_eq!(inflated_bytes_max(CompressionType::Zstd, &whole[..end]), usize::MAX, "{end}");
        }
        assert_eq!(inflated_bytes_max(CompressionType::Zstd, b"nonsense"), usize::MAX);
    }
}
