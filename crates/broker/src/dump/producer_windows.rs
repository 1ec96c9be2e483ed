//! A `.window`: the batches of producers' windows, beside the snapshot that has the newest of each. The file is our own.

use super::output::{Output, Walked};
use super::problem::Problem;
use super::row::{ProducerRow, Row};
use super::window::FileWindow;

const VERSION: i16 = 1;
const HEADER_BYTES: usize = 22;
const CHECKSUMMED_FROM: u64 = 6;
const ENTRY_HEAD_BYTES: usize = 11;
const BATCH_BYTES: usize = 24;

/// Dumps the file: a producer's row for each batch of its window, the oldest first. Shown only where version and checksum are
/// right.
pub(super) fn dump_producer_windows(mut file: FileWindow, output: &mut Output<'_>) -> Walked {
    let bytes = file.bytes();
    let Some(header) = file.at(0, HEADER_BYTES)? else {
        let text = format!("{bytes} bytes are fewer than the header of producer windows");
        return output.problem(&Problem::error("window-size", text));
    };
    let version = i16::from_be_bytes(number(header, 0));
    let stored = u32::from_be_bytes(number(header, 2));
    let count = i32::from_be_bytes(number(header, 18));
    if version != VERSION {
        let text = format!("the producer windows have version {version}");
        return output.problem(&Problem::error("unknown-version", text));
    }
    let computed = file.crc32c(CHECKSUMMED_FROM, bytes)?;
    if computed != stored {
        let text = format!("the producer windows have checksum {computed}, their header says {stored}");
        return output.problem(&Problem::error("window-crc", text));
    }
    let mut position = HEADER_BYTES as u64;
    for _ in 0..count {
        let Some(head) = file.at(position, ENTRY_HEAD_BYTES)? else {
            let text = format!("{bytes} bytes do not hold the windows of {count} producers");
            return output.problem(&Problem::error("window-size", text));
        };
        let producer_id = i64::from_be_bytes(number(head, 0));
        let producer_epoch = i16::from_be_bytes(number(head, 8));
        let batches = i8::from_be_bytes(number(head, 10));
        position += ENTRY_HEAD_BYTES as u64;
        for _ in 0..batches {
            let Some(batch) = file.at(position, BATCH_BYTES)? else { break };
            position += BATCH_BYTES as u64;
            output.row(&Row::Producer(ProducerRow {
                producer_id,
                producer_epoch,
                last_sequence: i32::from_be_bytes(number(batch, 0)),
                last_offset: i64::from_be_bytes(number(batch, 4)),
                offset_delta: i32::from_be_bytes(number(batch, 12)),
                timestamp: i64::from_be_bytes(number(batch, 16)),
                // The snapshot has these.
                coordinator_epoch: -1,
                current_txn_first_offset: -1,
            }))?;
        }
    }
    Ok(())
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("as many bytes as asked for")
}
