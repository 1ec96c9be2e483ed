//! The order of the batches in a segment, which nothing else protects: offset and epoch stand outside the checksum.

use fencepost_records::BatchHeader;
use fencepost_types::{LeaderEpoch, Offset};

use super::Log;
use crate::file_name::OFFSET_MAX;

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
    cleaned_end: Option<Offset>,
}

impl BatchOrder {
    /// At the start of a segment, in a log in which offsets may be missing up to `cleaned_end`, inclusive.
    pub(crate) fn new(base_offset: Offset, cleaned_end: Option<Offset>) -> Self {
        Self { end_offset: base_offset, leader_epoch: LeaderEpoch::NONE, previous: None, cleaned_end }
    }

    /// At a batch whose place an index confirms, whatever comes before it.
    pub(crate) fn from_named(header: &BatchHeader, cleaned_end: Option<Offset>) -> Self {
        Self::new(header.base_offset, cleaned_end)
    }

    /// Whether the batch may come next.
    pub(crate) fn admits(&self, header: &BatchHeader) -> bool {
        let is_next = header.base_offset == self.end_offset
            || (header.base_offset > self.end_offset && self.may_be_cleaned(header.base_offset));
        (is_next && header.leader_epoch >= self.leader_epoch) || self.previous.as_ref() == Some(header)
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
        self.cleaned_end.is_some_and(|cleaned_end| offset <= cleaned_end)
    }
}

impl Log {
    /// Up to where, inclusive, Kafka's cleaner may have left gaps: its checkpoint, whatever the policy is by now, and in a compacted
    /// log everywhere, since a crash may come before the checkpoint. `None` where nothing was cleaned.
    pub(super) fn cleaned_end(&self) -> Option<Offset> {
        let anywhere = self.config.cleanup_policy.compact.then_some(Offset(OFFSET_MAX));
        anywhere.or(self.cleaner_checkpoint)
    }
}
