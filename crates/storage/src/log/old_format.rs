//! Logs of Kafka before 0.11 are told from torn ones.

use crate::error::StorageError;
use crate::segment::Segment;

/// No message of the old formats is taken for one that is longer.
const OLD_MESSAGE_BYTES_MAX: u32 = 16 * 1024 * 1024;

/// A segment that begins with a whole message of format 0 or 1 is old, not torn: cutting it would destroy it.
pub(super) fn refuse_old_format(segment: &Segment) -> Result<(), StorageError> {
    const CHECKSUMMED_FROM: usize = 16;
    let start = segment.log.read(0, CHECKSUMMED_FROM + 1)?;
    let Some(fields) = start.first_chunk::<{ CHECKSUMMED_FROM + 1 }>() else { return Ok(()) };
    let field = |at: usize| u32::from_be_bytes([fields[at], fields[at + 1], fields[at + 2], fields[at + 3]]);
    let (length, stored, format) = (field(8), field(12), fields[16]);
    let may_be_old = matches!(format, 0 | 1) && (14..=OLD_MESSAGE_BYTES_MAX).contains(&length);
    if !may_be_old {
        return Ok(());
    }
    let message = segment.log.read(CHECKSUMMED_FROM as u64, length as usize - 4)?;
    if message.len() == length as usize - 4 && crc32(&message) == stored {
        let problem = format!("message format {format} cannot be read, only format 2");
        return Err(StorageError::Corrupt { path: segment.log_path().to_owned(), problem });
    }
    Ok(())
}

/// The checksum of the old formats (IEEE 802.3). Runs at most once for a segment, and nearly never.
fn crc32(bytes: &[u8]) -> u32 {
    let by_bit = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), by_bit))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of CRC-32.
    #[test]
    fn the_old_checksum() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }
}
