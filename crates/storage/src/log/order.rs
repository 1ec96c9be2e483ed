//! The order of the batches in a segment, which nothing else protects: offset and epoch stand outside the checksum.

use fencepost_records::BatchHeader;
use fencepost_types::{LeaderEpoch, Offset};

use super::Log;
use crate::file_name::OFFSET_MAX;

/// A segment has no more offsets: an index entry counts them with 31 bits.
pub(super) const SEGMENT_OFFSETS_MAX: i64 = i32::MAX as i64 + 1;

/// How the batches of a segment must follow one another.
///
/// The checksum begins behind offset and epoch. A crash may keep a batch from there on and lose what stands before, which
/// then reads as zeros, and a bit may flip there: so neither may fall from one batch to the next, nor does an offset leap but where
/// Kafka's cleaner took whole batches out. No leader appends such a batch. The same batch a second time is harmless, and
/// kept as Kafka keeps it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchOrder {
    end_offset: Offset,
    leader_epoch: LeaderEpoch,
    previous: Option<BatchHeader>,
    gaps: Gaps,
}

/// Where the offsets of a segment end, and where some of them may be missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gaps {
    /// Up to here, inclusive, Kafka's cleaner may have left gaps. `None` where nothing was cleaned.
    cleaned_end: Option<Offset>,
    /// No batch has offsets from here on.
    end_bound: Offset,
}

impl BatchOrder {
    /// At the start of a segment.
    pub(crate) fn new(base_offset: Offset, gaps: Gaps) -> Self {
        Self { end_offset: base_offset, leader_epoch: LeaderEpoch::NONE, previous: None, gaps }
    }

    /// At a batch whose place an index confirms, whatever comes before it.
    pub(crate) fn from_named(header: &BatchHeader, gaps: Gaps) -> Self {
        Self::new(header.base_offset, gaps)
    }

    /// Whether the batch may come next.
    pub(crate) fn admits(&self, header: &BatchHeader) -> bool {
        let is_next = header.base_offset == self.end_offset
            || (header.base_offset > self.end_offset && self.may_be_cleaned(header.base_offset));
        let goes_on = is_next && header.leader_epoch >= self.leader_epoch;
        (goes_on && header.last_offset() < self.gaps.end_bound) || self.previous.as_ref() == Some(header)
    }

    /// Takes in the batch that came next.
    pub(crate) fn pass(&mut self, header: &BatchHeader) {
        self.end_offset = header.next_offset();
        self.leader_epoch = header.leader_epoch;
        self.previous = Some(*header);
    }

    /// The offset after the last batch.
    pub(crate) fn end_offset(&self) -> Offset {
        self.end_offset
    }

    fn may_be_cleaned(&self, offset: Offset) -> bool {
        self.gaps.cleaned_end.is_some_and(|cleaned_end| offset <= cleaned_end)
    }
}

impl Log {
    /// Up to where, inclusive, Kafka's cleaner may have left gaps: its checkpoint, whatever the policy is by now, and in a compacted
    /// log everywhere, since a crash may come before the checkpoint. `None` where nothing was cleaned.
    pub(super) fn cleaned_end(&self) -> Option<Offset> {
        let anywhere = self.config.cleanup_policy.compact.then_some(Offset(OFFSET_MAX));
        anywhere.or(self.cleaner_checkpoint)
    }

    /// What may be missing in a segment, and where it ends: before the next one, if what lies below that one's base was durable.
    /// (Else a crash may have brought back a segment that had been cut off.) In the last segment nothing is missing across the
    /// `durable_end`: a batch that begins beyond it and does not follow the one before has another offset than it had.
    pub(super) fn gaps_of(&self, at: usize, durable_end: Offset) -> Gaps {
        let (base, next) = (self.segments[at].base_offset, self.segments.get(at + 1));
        let cleaned_end = self.cleaned_end();
        let is_active = next.is_none() && base < durable_end;
        let next_base = next.map(|next| next.base_offset).filter(|next| *next <= durable_end);
        Gaps {
            cleaned_end: if is_active { cleaned_end.map(|end| end.min(durable_end)) } else { cleaned_end },
            end_bound: next_base.unwrap_or(Offset(base.0.saturating_add(SEGMENT_OFFSETS_MAX))),
        }
    }
}
