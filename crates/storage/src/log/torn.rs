//! What a loss of power or a kill leaves of the last writes, told from bytes that were changed later.
//!
//! A write that was not synced is there in whole sectors or not at all: the file ends within it, or a part of it reads as
//! zeros. A batch of which every byte is there and whose checksum does not match was whole once.

use fencepost_records::{HEADER_BYTES, MAGIC};
use fencepost_types::Offset;

use crate::disk::{DiskFile, DiskResult};
use crate::scan::Scan;

/// A medium writes whole sectors of this size: after a loss of power each of them is the old one or the new one.
const SECTOR_BYTES: u64 = 512;
/// So many zeros in a row at the end of a file were never written. No batch of records ends like that.
const ZEROS_AT_END_MIN: u64 = 16;
/// So many zeros where a batch should begin were never written: they cover the whole base offset.
const ZEROS_AT_START_MIN: u64 = 8;
const LENGTH_AT: u64 = 8;
const MAGIC_AT: usize = 16;
const CRC_AT: usize = 17;
const CHECKSUMMED_FROM: u64 = 21;
/// Bytes read at a time.
const CHUNK_BYTES: u64 = 64 * 1024;
/// A whole batch is looked for at every byte of so many behind a broken one: about a second.
const SEARCHED_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// No batch behind a broken one is further ahead in offsets: a segment has no more.
const OFFSETS_AHEAD_MAX: i64 = i32::MAX as i64;

/// Whether what stands from `position` on, where the batch of `offset` should be and is not, up to the `end` of the file is
/// the rest of writes that were not synced: then no client was told that they are durable, and they may be cut off. Else
/// something changed bytes that were there.
///
/// Whole batches may follow a hole, since sectors reach the medium in any order. Bytes at the end of the file that are not like a
/// batch in anything count as torn, too: a file system without a journal of data may show what was in its blocks before.
pub(super) fn is_torn_tail(file: &dyn DiskFile, position: u64, end: u64, offset: Offset) -> DiskResult<bool> {
    match whole_batch_after(file, position + 1, end, offset)? {
        Some((next, _)) => has_hole(file, position, next, None),
        None => Ok(is_torn(file, position, end)? || !is_like_a_batch(file, position, offset)?),
    }
}

/// Where the first whole batch stands, anywhere from `position` on, that is not older than `offset`, and its base offset.
pub(super) fn whole_batch_after(
    file: &dyn DiskFile,
    position: u64,
    end: u64,
    offset: Offset,
) -> DiskResult<Option<(u64, Offset)>> {
    let mut walk = Scan::walk(file, position, end);
    let last = end.saturating_sub(HEADER_BYTES as u64 - 1).min(position + SEARCHED_BYTES_MAX);
    for at in position..last {
        walk.seek(at);
        let Some(placed) = walk.next()? else { continue };
        let found = placed.header.base_offset;
        // Noise that passes for a header is rare enough for its checksum to be looked at.
        let is_plausible =
            placed.magic == MAGIC as u8 && (0..=OFFSETS_AHEAD_MAX).contains(&(found.0 - offset.0));
        if is_plausible && walk.is_intact(&placed)? {
            return Ok(Some((at, found)));
        }
    }
    Ok(None)
}

/// Whether what stands from `position` to the end of the file is what is left of one write that was not synced when the
/// power went: too short, or with sectors that were not written.
pub(super) fn is_torn(file: &dyn DiskFile, position: u64, end: u64) -> DiskResult<bool> {
    let rest = end - position;
    if rest < HEADER_BYTES as u64 {
        return Ok(true);
    }
    let first_sector = (position + 1).next_multiple_of(SECTOR_BYTES).min(end);
    if has_hole(file, position, first_sector, None)? {
        return Ok(true);
    }
    let head = file.read(position, HEADER_BYTES)?;
    // All that the checksum covers is there: something before that was changed, the length perhaps.
    if checksum(file, position + CHECKSUMMED_FROM, end)? == field(&head, CRC_AT) {
        return Ok(false);
    }
    let length = field(&head, LENGTH_AT as usize) as i32;
    if length > 0 && length as u64 + LENGTH_AT + 4 > rest {
        return Ok(true);
    }
    has_hole(file, position, end, Some(end))
}

/// Whether a header is there of which at least the offset or the format is right.
fn is_like_a_batch(file: &dyn DiskFile, position: u64, offset: Offset) -> DiskResult<bool> {
    let head = file.read(position, HEADER_BYTES)?;
    let begins = head.first_chunk::<8>().map(|bytes| i64::from_be_bytes(*bytes));
    Ok(begins == Some(offset.0) || head.get(MAGIC_AT) == Some(&(MAGIC as u8)))
}

fn field(head: &[u8], at: usize) -> u32 {
    let bytes = head.get(at..at + 4).and_then(|bytes| bytes.first_chunk::<4>());
    bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

fn checksum(file: &dyn DiskFile, from: u64, end: u64) -> DiskResult<u32> {
    let mut crc = 0;
    let mut at = from;
    while at < end {
        let chunk = file.read(at, (end - at).min(CHUNK_BYTES) as usize)?;
        if chunk.is_empty() {
            break;
        }
        crc = crc32c::crc32c_append(crc, &chunk);
        at += chunk.len() as u64;
    }
    Ok(crc)
}

/// Whether zeros stand in `[position, end)` as a sector leaves them that was not written. `file_end` is where the file ends,
/// if that is there.
fn has_hole(file: &dyn DiskFile, position: u64, end: u64, file_end: Option<u64>) -> DiskResult<bool> {
    let (mut run_from, mut at) = (position, position);
    while at < end {
        let chunk = file.read(at, (end - at).min(CHUNK_BYTES) as usize)?;
        if chunk.is_empty() {
            break;
        }
        for byte in chunk {
            if byte != 0 {
                if is_hole(position, run_from, at, file_end) {
                    return Ok(true);
                }
                run_from = at + 1;
            }
            at += 1;
        }
    }
    Ok(is_hole(position, run_from, end, file_end))
}

/// Whether zeros from `from` to `to`, in a stretch that begins at `position`, were never written.
fn is_hole(position: u64, from: u64, to: u64, file_end: Option<u64>) -> bool {
    let zeros = to - from;
    let first_sector = from.next_multiple_of(SECTOR_BYTES);
    let has_sector = first_sector + SECTOR_BYTES <= to;
    let ends_sector =
        from == position && zeros >= ZEROS_AT_START_MIN && (from + 1).next_multiple_of(SECTOR_BYTES) <= to;
    let is_no_header = from == position && zeros >= HEADER_BYTES as u64;
    // The last sector may have a byte or two; then so few zeros are all there is to see.
    let ends_file = file_end == Some(to) && (zeros >= ZEROS_AT_END_MIN || first_sector < to);
    has_sector || ends_sector || is_no_header || ends_file
}
