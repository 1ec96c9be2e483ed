//! A walk over the batches of a file: headers, checksums, control records. Reads through a buffer of fixed size, whatever a
//! length in the file announces.

use fencepost_partition::{BatchContent, BatchFacts, Marker};
use fencepost_records::{Batch, BatchHeader, EndTxnMarker, HEADER_BYTES, MAGIC};
use fencepost_types::Offset;

use crate::disk::{DiskFile, DiskResult};
use crate::file_name::OFFSET_MAX;

/// Bytes read at a time on a long walk.
const WALK_BUFFER_BYTES: usize = 64 * 1024;
/// Bytes read at a time when looking for one batch: about two index intervals.
const SEARCH_BUFFER_BYTES: usize = 8 * 1024;
/// A transaction marker is 78 to 82 bytes; a control batch larger than this is none.
const MARKER_BATCH_BYTES_MAX: usize = 4 * 1024;
const MAGIC_AT: usize = 16;
const CHECKSUMMED_FROM: u64 = 21;

/// A batch at its place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlacedBatch {
    pub(crate) position: u64,
    pub(crate) header: BatchHeader,
    /// What stands where the format's number should: 2, or what damage made of it.
    pub(crate) magic: u8,
}

impl PlacedBatch {
    pub(crate) fn end(&self) -> u64 {
        self.position + self.header.total_bytes() as u64
    }
}

/// Walks over the batches between two positions of a file.
#[derive(Debug)]
pub(crate) struct Scan<'a> {
    file: &'a dyn DiskFile,
    position: u64,
    end: u64,
    buffer_bytes: usize,
    buffer: Vec<u8>,
    /// Where in the file the buffer begins.
    buffer_at: u64,
    buffered: usize,
    order: Option<Order>,
}

/// Where the offsets of a segment's batches lie: each begins at or after the end of the one before it, and all end below where
/// the segment ends. The base offset stands outside the checksum, so nothing else shows that it was damaged.
#[derive(Clone, Copy, Debug)]
struct Order {
    /// The next batch begins here or later.
    from: Offset,
    /// All batches end below this.
    end: Offset,
    previous: Option<BatchHeader>,
}

impl Order {
    /// Whether the batch may come next. The same one a second time is harmless (see `Log::recover_segment`).
    fn admits(&self, header: &BatchHeader) -> bool {
        let goes_on = header.base_offset >= self.from && header.last_offset() < self.end;
        goes_on || self.previous.as_ref() == Some(header)
    }

    fn pass(&mut self, header: &BatchHeader) {
        (self.from, self.previous) = (header.next_offset(), Some(*header));
    }
}

impl<'a> Scan<'a> {
    /// A long walk over `[position, end)`, which must begin with a batch.
    pub(crate) fn walk(file: &'a dyn DiskFile, position: u64, end: u64) -> Self {
        Self::new(file, position, end, WALK_BUFFER_BYTES)
    }

    /// A search over the batches from `position` on, which ends soon.
    pub(crate) fn search(file: &'a dyn DiskFile, position: u64, end: u64) -> Self {
        Self::new(file, position, end, SEARCH_BUFFER_BYTES)
    }

    fn new(file: &'a dyn DiskFile, position: u64, end: u64, buffer_bytes: usize) -> Self {
        Self { file, position, end, buffer_bytes, buffer: Vec::new(), buffer_at: 0, buffered: 0, order: None }
    }

    /// The walk ends before a batch whose offsets fall behind the one before it, or leave `[base, end)`.
    pub(crate) fn within(self, base: Offset, end: Offset) -> Self {
        Self { order: Some(Order { from: base, end, previous: None }), ..self }
    }

    /// The next batch by its header; `None` at the end, or where no whole batch stands: then [`Self::position`] is below
    /// the end. A format above 2 is read as 2, as Kafka does: its number lies outside the checksum.
    pub(crate) fn next(&mut self) -> DiskResult<Option<PlacedBatch>> {
        if self.end.saturating_sub(self.position) < HEADER_BYTES as u64 {
            return Ok(None);
        }
        let Some(bytes) = self.bytes_at(self.position, HEADER_BYTES)? else { return Ok(None) };
        let mut bytes: [u8; HEADER_BYTES] = *bytes.first_chunk().expect("as many bytes as asked for");
        let magic = bytes[MAGIC_AT];
        if (magic as i8) > MAGIC {
            bytes[MAGIC_AT] = MAGIC as u8;
        }
        let Ok(header) = BatchHeader::parse(&bytes) else { return Ok(None) };
        let batch = PlacedBatch { position: self.position, header, magic };
        let is_possible = (0..=OFFSET_MAX).contains(&header.base_offset.0) && header.last_offset_delta >= 0;
        if batch.end() > self.end || !is_possible {
            return Ok(None);
        }
        if let Some(order) = &mut self.order {
            if !order.admits(&header) {
                return Ok(None);
            }
            order.pass(&header);
        }
        self.position = batch.end();
        Ok(Some(batch))
    }

    /// The next batch is looked for at `position`.
    pub(crate) fn seek(&mut self, position: u64) {
        self.position = position;
    }

    /// Where the next batch would start.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Whether the checksum in the header is that of the bytes.
    pub(crate) fn is_intact(&mut self, batch: &PlacedBatch) -> DiskResult<bool> {
        let (mut at, mut crc) = (batch.position + CHECKSUMMED_FROM, 0);
        while at < batch.end() {
            let chunk = self.chunk_at(at, batch.end() - at)?;
            if chunk.is_empty() {
                return Ok(false);
            }
            crc = crc32c::crc32c_append(crc, chunk);
            at += chunk.len() as u64;
        }
        Ok(crc == batch.header.crc)
    }

    /// The whole batch, for looking at its records.
    pub(crate) fn batch(&self, batch: &PlacedBatch) -> DiskResult<Option<Batch>> {
        let bytes = self.file.read(batch.position, batch.header.total_bytes())?;
        Ok(Batch::parse(bytes).ok())
    }

    /// What producer state wants to know of a batch: reads the record of a marker.
    pub(crate) fn facts(&self, batch: &PlacedBatch) -> DiskResult<BatchFacts> {
        let header = &batch.header;
        let is_marker = header.is_control() && header.has_producer_id();
        if !is_marker || header.record_count == 0 || header.total_bytes() > MARKER_BATCH_BYTES_MAX {
            return Ok(batch_facts(header, None));
        }
        let read = self.batch(batch)?;
        // What is no marker, by its type or by damage that the checksum hides, ends no transaction.
        let marker = read.and_then(|batch| EndTxnMarker::from_batch(&batch).ok().flatten());
        let EndTxnMarker { result, coordinator_epoch } = match marker {
            Some(marker) => marker,
            None => return Ok(batch_facts(header, None)),
        };
        Ok(batch_facts(header, Some(Marker { result, coordinator_epoch })))
    }

    /// The header that stands at `at`, if it ends at `end` or before; not looked at.
    pub(crate) fn header_at(&mut self, at: u64, end: u64) -> DiskResult<Option<[u8; HEADER_BYTES]>> {
        if end.saturating_sub(at) < HEADER_BYTES as u64 {
            return Ok(None);
        }
        Ok(self.bytes_at(at, HEADER_BYTES)?.and_then(|bytes| bytes.first_chunk().copied()))
    }

    /// `count` (at most a buffer) bytes of the file; `None` if it ends before.
    fn bytes_at(&mut self, at: u64, count: usize) -> DiskResult<Option<&[u8]>> {
        if self.buffered_from(at) < count {
            self.fill(at)?;
        }
        let from = (at - self.buffer_at) as usize;
        Ok(self.buffer[..self.buffered].get(from..from + count))
    }

    /// At least one and at most `count_max` bytes of the file; none where it has ended.
    fn chunk_at(&mut self, at: u64, count_max: u64) -> DiskResult<&[u8]> {
        if self.buffered_from(at) == 0 {
            self.fill(at)?;
        }
        let from = (at - self.buffer_at) as usize;
        let count = count_max.min((self.buffered - from) as u64) as usize;
        Ok(&self.buffer[from..from + count])
    }

    /// How many bytes from `at` on are in the buffer.
    fn buffered_from(&self, at: u64) -> usize {
        let end = self.buffer_at + self.buffered as u64;
        if (self.buffer_at..end).contains(&at) { (end - at) as usize } else { 0 }
    }

    fn fill(&mut self, at: u64) -> DiskResult<()> {
        let count = self.end.saturating_sub(at).min(self.buffer_bytes as u64) as usize;
        self.buffer.resize(self.buffer.len().max(count), 0);
        self.buffered = self.file.read_at(at, &mut self.buffer[..count])?;
        self.buffer_at = at;
        Ok(())
    }
}

/// The facts of a batch out of its header; `marker` is what its record says, if it ends a transaction.
pub fn batch_facts(header: &BatchHeader, marker: Option<Marker>) -> BatchFacts {
    let content = match marker {
        Some(marker) => BatchContent::Marker(marker),
        None if header.is_control() => BatchContent::OtherControl,
        None => BatchContent::Data,
    };
    BatchFacts {
        base_offset: header.base_offset,
        last_offset_delta: header.last_offset_delta,
        producer_id: header.producer_id,
        producer_epoch: header.producer_epoch,
        base_sequence: header.base_sequence,
        max_timestamp: header.max_timestamp,
        is_transactional: header.is_transactional(),
        content,
    }
}
