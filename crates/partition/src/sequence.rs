//! Which sequence a client's batch must begin with (producer-state §4).

use fencepost_types::{ProducerEpoch, Sequence};

use crate::entry::ProducerEntry;
use crate::verification::VerificationEntry;

/// Half the circle of sequences: what lies less than this ahead is ahead, the rest lies behind.
const AHEAD_MAX: i32 = 1 << 30;

/// What the first sequence of a producer's next batch may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// The producer is unknown: its first batch seeds the table (KIP-360).
    Any,
    /// This one alone.
    Exactly(Sequence),
}

/// What a batch of `epoch` (≥ the entry's) must begin with.
///
/// Source: Kafka ProducerAppendInfo.checkSequence.
pub(crate) fn expected_sequence(
    entry: Option<&ProducerEntry>,
    epoch: ProducerEpoch,
    supports_epoch_bump: bool,
) -> Expected {
    let Some(entry) = entry.filter(|entry| entry.producer_epoch != ProducerEpoch::NONE) else {
        // Under transaction version 2 every transaction starts at 0, so anything else is a gap (KAFKA-18202).
        return if supports_epoch_bump { Expected::Exactly(Sequence(0)) } else { Expected::Any };
    };
    match entry.batches.last() {
        Some(batch) if entry.producer_epoch == epoch => Expected::Exactly(batch.last_sequence.next()),
        Some(_) | None => Expected::Exactly(Sequence(0)),
    }
}

/// The sequence that a client's batch should have begun with, where `found` is refused.
///
/// Differs from Kafka: there the lowest sequence under verification keeps out every higher one, even where it can never
/// be accepted itself, and the comparison ignores the wrap; both lock a producer out (producer-state §4). Here a
/// sequence holds up others only while it could still be accepted. Where exactly one sequence can be accepted, the
/// question does not arise: the others are refused anyway. It arises for an unknown producer, whose batches may begin
/// anywhere, so that a later batch must not overtake an earlier one that is tried again (KAFKA-14920).
pub(crate) fn refused_sequence(
    expected: Expected,
    verification: Option<&VerificationEntry>,
    found: Sequence,
) -> Option<Sequence> {
    match expected {
        Expected::Exactly(sequence) => (found != sequence).then_some(sequence),
        Expected::Any => {
            let lowest = verification.and_then(|entry| entry.lowest_sequence)?;
            is_before(lowest, found).then_some(lowest)
        }
    }
}

/// Whether a batch that begins with `sequence` could be accepted now or after others: it is not written yet.
pub(crate) fn could_be_accepted(expected: Expected, sequence: Sequence) -> bool {
    match expected {
        Expected::Any => sequence.0 >= 0,
        Expected::Exactly(next) => sequence.0 >= 0 && distance(next, sequence) < AHEAD_MAX,
    }
}

/// Whether `a` comes before `b` in a producer's stream, across the wrap.
pub(crate) fn is_before(a: Sequence, b: Sequence) -> bool {
    (1..AHEAD_MAX).contains(&distance(a, b))
}

/// Steps forward from `from` to `to` on the circle of 2³¹ sequences.
fn distance(from: Sequence, to: Sequence) -> i32 {
    to.0.wrapping_sub(from.0) & i32::MAX
}

#[cfg(test)]
mod tests;
