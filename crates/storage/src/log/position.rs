//! Where an offset lies in the files: for questions that byte counts answer without reading records.

use fencepost_types::Offset;

use super::Log;
use super::read::find_batch;
use crate::error::ReadError;

/// The place of an offset: the segment, and the byte in it at which the batch with this offset starts.
///
/// Source: Kafka LogOffsetMetadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// The offset.
    pub offset: Offset,
    /// The base of its segment.
    pub segment_base: Offset,
    /// Bytes from the segment's start.
    pub position: u64,
}

/// The places that are asked for again and again: they change with every append, and not with every question.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KnownPositions {
    high_watermark: Option<LogPosition>,
    last_stable_offset: Option<LogPosition>,
}

impl Log {
    /// The place of `offset`, or of the first record after it where compaction has removed that. The log end is behind the
    /// last batch. Reads the index and a few batch headers.
    ///
    /// Errors: [`ReadError::OffsetOutOfRange`] below the log start and above the log end.
    pub fn offset_position(&self, offset: Offset) -> Result<LogPosition, ReadError> {
        self.check_range(offset)?;
        if offset < self.log_end_offset {
            for segment in self.segments_from(offset) {
                if let Some(batch) = find_batch(segment, offset)? {
                    let (segment_base, position) = (segment.base_offset, batch.position);
                    return Ok(LogPosition { offset, segment_base, position });
                }
            }
        }
        let (segment_base, position) =
            self.segments.last().map_or((offset, 0), |active| (active.base_offset, active.bytes));
        Ok(LogPosition { offset, segment_base, position })
    }

    /// The place of the high watermark. It is looked up once for each value.
    pub fn high_watermark_position(&mut self) -> Result<LogPosition, ReadError> {
        let offset = self.high_watermark;
        let known = self.known_positions.high_watermark.filter(|known| known.offset == offset);
        let position = known.map_or_else(|| self.offset_position(offset), Ok)?;
        self.known_positions.high_watermark = Some(position);
        Ok(position)
    }

    /// The place of the last stable offset. It is looked up once for each value.
    pub fn last_stable_position(&mut self) -> Result<LogPosition, ReadError> {
        let offset = self.last_stable_offset();
        if offset == self.high_watermark {
            return self.high_watermark_position();
        }
        let known = self.known_positions.last_stable_offset.filter(|known| known.offset == offset);
        let position = known.map_or_else(|| self.offset_position(offset), Ok)?;
        self.known_positions.last_stable_offset = Some(position);
        Ok(position)
    }
}
