//! A `.snapshot`: the producers as they stood below one offset.

use super::output::{Output, Walked};
use super::problem::{KafkaSays, Problem};
use super::row::{ProducerRow, Row};
use super::window::FileWindow;

const VERSION: i16 = 1;
const HEADER_BYTES: usize = 10;
const CHECKSUMMED_FROM: u64 = 6;
const ENTRY_BYTES: u64 = 46;

/// Dumps the file. Producers are shown only where version, size and checksum are right.
pub(super) fn dump_snapshot(mut file: FileWindow, output: &mut Output<'_>) -> Walked {
    let bytes = file.bytes();
    let bad_size = |text: String| {
        Problem::error("snapshot-size", text)
            .kafka(KafkaSays::Aside("Snapshot failed schema validation: null".to_owned()))
    };
    let Some(header) = file.at(0, HEADER_BYTES)? else {
        return output.problem(&bad_size(format!("{bytes} bytes are fewer than a snapshot's header")));
    };
    let version = i16::from_be_bytes([header[0], header[1]]);
    let stored = u32::from_be_bytes(*header[2..].first_chunk().expect("ten bytes hold a checksum"));
    let count = i32::from_be_bytes(*header[6..].first_chunk().expect("ten bytes hold a count"));
    if version != VERSION {
        let says = format!("Snapshot contained an unknown file version {version}");
        let text = format!("the snapshot has version {version}");
        return output.problem(&Problem::error("unknown-version", text).kafka(KafkaSays::Aside(says)));
    }
    let entries =
        u64::try_from(count).ok().filter(|count| HEADER_BYTES as u64 + count * ENTRY_BYTES == bytes);
    let Some(entries) = entries else {
        return output.problem(&bad_size(format!("{bytes} bytes do not hold {count} producers")));
    };
    let computed = file.crc32c(CHECKSUMMED_FROM, bytes)?;
    if computed != stored {
        let says = format!(
            "Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: {computed}"
        );
        let text = format!("the snapshot has checksum {computed}, its header says {stored}");
        return output.problem(&Problem::error("snapshot-crc", text).kafka(KafkaSays::Aside(says)));
    }
    for entry in 0..entries {
        let position = HEADER_BYTES as u64 + entry * ENTRY_BYTES;
        let Some(bytes) = file.at(position, ENTRY_BYTES as usize)? else { break };
        let producer = producer(bytes.first_chunk().expect("as many bytes as asked for"));
        output.row(&Row::Producer(producer))?;
        if !is_possible(&producer) {
            let text = format!("producer {} cannot be so", producer.producer_id);
            output.problem(&Problem::error("impossible-producer", text))?;
        }
    }
    Ok(())
}

fn producer(bytes: &[u8; ENTRY_BYTES as usize]) -> ProducerRow {
    fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
        *bytes[at..].first_chunk().expect("the field lies within the entry")
    }
    ProducerRow {
        producer_id: i64::from_be_bytes(number(bytes, 0)),
        producer_epoch: i16::from_be_bytes(number(bytes, 8)),
        last_sequence: i32::from_be_bytes(number(bytes, 10)),
        last_offset: i64::from_be_bytes(number(bytes, 14)),
        offset_delta: i32::from_be_bytes(number(bytes, 22)),
        timestamp: i64::from_be_bytes(number(bytes, 26)),
        coordinator_epoch: i32::from_be_bytes(number(bytes, 34)),
        current_txn_first_offset: i64::from_be_bytes(number(bytes, 38)),
    }
}

fn is_possible(producer: &ProducerRow) -> bool {
    producer.producer_id >= 0
        && producer.offset_delta >= 0
        && producer.last_offset >= -1
        && (producer.last_offset == -1 || i64::from(producer.offset_delta) <= producer.last_offset)
        && producer.current_txn_first_offset >= -1
}
