//! What opening a log has found: what was cut off its end, what is missing in it, and which files were made anew.

use fencepost_types::Offset;

use super::Log;
use super::torn::whole_batch_after;
use crate::disk::DiskResult;
use crate::segment::Segment;

/// What opening a log has found and done. Worth a warning where it is not [`Self::is_quiet`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// What was cut off the end: a torn tail, and all that stood behind it.
    pub cut: Option<Cut>,
    /// Ranges of offsets that are missing and not known to have been cleaned away; the ends are exclusive.
    pub gaps: Vec<(Offset, Offset)>,
    /// An offset that a checkpoint has as durable, though the log ends before and everything else agrees with its end.
    pub checkpoint_beyond_end: Option<Offset>,
    /// Files that did not fit the log and were made anew out of it, relative to the log directory.
    pub rebuilt: Vec<String>,
}

impl RecoveryReport {
    /// Whether there is nothing to be said.
    pub fn is_quiet(&self) -> bool {
        *self == Self::default()
    }
}

/// The end of a log that was cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The `.log` that ends earlier now, relative to the log directory.
    pub path: String,
    /// Where it ends.
    pub position: u64,
    /// How many bytes went, those of later segments included.
    pub bytes: u64,
    /// How many batches were in them, as far as their headers can be read.
    pub batches: u64,
    /// The log ends here now.
    pub end_offset: Offset,
    /// It reached up to here, as far as the headers of the batches say. Exclusive.
    pub previous_end_offset: Offset,
}

impl Cut {
    /// A cut at `position` of a segment, with nothing behind it yet.
    pub(super) fn new(segment: &Segment, position: u64) -> Self {
        Self {
            path: segment.log_path().to_owned(),
            position,
            bytes: 0,
            batches: 0,
            end_offset: segment.end_offset,
            previous_end_offset: segment.end_offset,
        }
    }

    /// Adds what stands in a segment from `position` on.
    pub(super) fn count(&mut self, segment: &Segment, position: u64) -> DiskResult<()> {
        self.bytes += segment.bytes - position;
        let (mut walk, mut at) = (segment.walk_from(position), Some(position));
        while let Some(from) = at {
            walk.seek(from);
            while let Some(batch) = walk.next()? {
                self.batches += 1;
                self.previous_end_offset = self.previous_end_offset.max(batch.header.next_offset());
            }
            // Behind a hole there may be more of them.
            let next = whole_batch_after(&*segment.log, walk.position() + 1, segment.bytes, self.end_offset)?;
            at = next.map(|(position, _)| position);
        }
        Ok(())
    }
}

impl Log {
    /// What opening it has found.
    pub fn recovery_report(&self) -> &RecoveryReport {
        &self.report
    }
}
