//! What a waiting fetch would get of a partition, told by byte counts: nothing is read until it is to be answered.

use std::sync::Arc;

use fencepost_storage::{Log, LogPosition, ReadError};
use fencepost_types::Offset;

use crate::Broker;
use crate::cx::Cx;

/// A fetch that waits at several partitions.
pub(crate) trait FetchWait: Send + Sync {
    /// One of its partitions has `more` bytes for it than when it was last counted. Answers whether all have enough now.
    /// Called under the partition's lock: it takes no other.
    fn count(&self, more: u64) -> bool;

    /// There is enough, or no reason to wait any longer: reads and answers.
    fn wake(self: Arc<Self>, broker: &Arc<Broker>, cx: &mut Cx);

    /// Whether it has been answered and may be forgotten.
    fn is_done(&self) -> bool;
}

/// What a partition has for a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Available {
    /// So many bytes.
    Bytes(u64),
    /// A reason to answer at once, whatever the bytes.
    AnswerNow,
}

/// Where a fetch stands at one partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FetchPoint {
    /// The first offset wanted.
    pub(crate) offset: Offset,
    /// Whether it ends at the last stable offset.
    pub(crate) read_committed: bool,
    /// The most bytes wanted of this partition.
    pub(crate) bytes_max: u64,
    /// Whether one record is enough: then nobody asks where it lies.
    pub(crate) is_any_enough: bool,
    /// Where `offset` lies, once that has been looked up.
    pub(crate) position: Option<LogPosition>,
}

impl FetchPoint {
    /// What `log` has for it. The bytes are the distance of two positions in a segment, as far as the fetch wants them; a
    /// fetch that begins in an older segment than it may read up to is answered at once, as its answer ends with the segment.
    ///
    /// Differs from Kafka: a fetch from beyond its bound, but not beyond the log end, waits until the bound gets there. There it
    /// is answered at once, again and again.
    ///
    /// Source: Kafka DelayedFetch.tryComplete.
    pub(crate) fn available(&mut self, log: &mut Log) -> Available {
        let end = if self.read_committed { log.last_stable_offset() } else { log.high_watermark() };
        if self.offset < log.log_start_offset() || self.offset > log.log_end_offset() {
            return Available::AnswerNow;
        }
        if self.is_any_enough {
            return Available::Bytes(u64::from(self.offset < end));
        }
        // What is wrong with the log, the answer says.
        self.bytes_before_end(log, end).map_or(Available::AnswerNow, |available| available)
    }

    fn bytes_before_end(&mut self, log: &mut Log, end: Offset) -> Result<Available, ReadError> {
        let start = match self.position {
            Some(start) => start,
            None => *self.position.insert(log.offset_position(self.offset)?),
        };
        if self.offset >= end {
            return Ok(Available::Bytes(0));
        }
        let end =
            if self.read_committed { log.last_stable_position()? } else { log.high_watermark_position()? };
        if start.segment_base != end.segment_base {
            return Ok(Available::AnswerNow);
        }
        Ok(Available::Bytes(end.position.saturating_sub(start.position).min(self.bytes_max)))
    }
}

/// A waiting fetch in the list of one of its partitions.
pub(crate) struct FetchWatch {
    wait: Arc<dyn FetchWait>,
    point: FetchPoint,
    counted: u64,
}

impl FetchWatch {
    pub(crate) fn new(wait: Arc<dyn FetchWait>, point: FetchPoint) -> Self {
        Self { wait, point, counted: 0 }
    }

    pub(crate) fn wait(&self) -> &Arc<dyn FetchWait> {
        &self.wait
    }

    /// Counts what has come since the last look. Answers whether the fetch is to be woken. The cost is that of comparing
    /// numbers, whatever the log holds.
    pub(crate) fn is_enough(&mut self, log: &mut Log) -> bool {
        match self.point.available(log) {
            Available::AnswerNow => true,
            Available::Bytes(bytes) => {
                let more = bytes.saturating_sub(self.counted);
                self.counted += more;
                self.wait.count(more)
            }
        }
    }
}
