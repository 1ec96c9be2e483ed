//! Whether a transaction marker may be appended (producer-state §7.2).

use fencepost_types::{CoordinatorEpoch, ErrorCode, ProducerEpoch, ProducerId, TransactionVersion};

use crate::batch::AppendOrigin;
use crate::producer_states::ProducerStates;

/// Why a marker is not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MarkerRefusal {
    /// The producer id is negative.
    NegativeProducerId,
    /// The producer epoch is negative.
    NegativeEpoch,
    /// The transaction version is negative.
    NegativeTransactionVersion,
    /// The marker is late: a higher epoch is known, or (version 2) the transaction that is open has this very epoch and
    /// can only be ended by a higher one.
    InvalidProducerEpoch {
        /// The epoch known.
        current: ProducerEpoch,
        /// The marker's epoch.
        found: ProducerEpoch,
    },
    /// A newer coordinator has written a marker of this producer.
    CoordinatorFenced {
        /// The coordinator epoch known.
        current: CoordinatorEpoch,
        /// The marker's coordinator epoch.
        found: CoordinatorEpoch,
    },
}

impl MarkerRefusal {
    /// The code that WriteTxnMarkers answers with.
    pub fn code(self) -> ErrorCode {
        match self {
            Self::NegativeProducerId | Self::NegativeEpoch | Self::NegativeTransactionVersion => {
                ErrorCode::InvalidRequest
            }
            Self::InvalidProducerEpoch { .. } => ErrorCode::InvalidProducerEpoch,
            Self::CoordinatorFenced { .. } => ErrorCode::TransactionCoordinatorFenced,
        }
    }
}

impl core::fmt::Display for MarkerRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::NegativeProducerId => f.write_str("the marker's producer id is negative"),
            Self::NegativeEpoch => f.write_str("the marker's producer epoch is negative"),
            Self::NegativeTransactionVersion => f.write_str("the marker's transaction version is negative"),
            Self::InvalidProducerEpoch { current, found } => {
                write!(f, "the marker's producer epoch {found} is late, the current one is {current}")
            }
            Self::CoordinatorFenced { current, found } => {
                write!(f, "coordinator epoch {found} is fenced, the current one is {current}")
            }
        }
    }
}

impl core::error::Error for MarkerRefusal {}

impl ProducerStates {
    /// Judges one marker; changes nothing. `transaction_version` is the request's field, `None` where its version has
    /// none: the legacy rule then holds (producer-state trap 7). Replication is never refused.
    ///
    /// Differs from Kafka: negative producer ids, epochs and versions are INVALID_REQUEST; there they are
    /// UNKNOWN_SERVER_ERROR or pass as legacy.
    ///
    /// Source: KIP-1228, KAFKA-19999, KAFKA-20090, Kafka ProducerAppendInfo.checkProducerEpoch and
    /// checkCoordinatorEpoch.
    pub fn stage_marker(
        &self,
        origin: AppendOrigin,
        producer_id: ProducerId,
        epoch: ProducerEpoch,
        coordinator_epoch: CoordinatorEpoch,
        transaction_version: Option<i8>,
    ) -> Result<(), MarkerRefusal> {
        match origin {
            AppendOrigin::Replication => return Ok(()),
            AppendOrigin::Client | AppendOrigin::Coordinator => {}
        }
        let version = transaction_version.unwrap_or(0);
        if producer_id.0 < 0 {
            return Err(MarkerRefusal::NegativeProducerId);
        }
        if epoch.0 < 0 {
            return Err(MarkerRefusal::NegativeEpoch);
        }
        if version < 0 {
            return Err(MarkerRefusal::NegativeTransactionVersion);
        }
        let Some(entry) = self.producer(producer_id) else { return Ok(()) };

        // "Greater", not "one more": the partition may have sat out several transactions (producer-state trap 5). An
        // equal epoch with nothing open is a retry of a marker already written, and is written again (traps 4, 6).
        let is_late = match TransactionVersion::from_level(i16::from(version)) {
            TransactionVersion::V0 | TransactionVersion::V1 => epoch < entry.producer_epoch,
            TransactionVersion::V2 => {
                epoch < entry.producer_epoch
                    || (entry.has_open_transaction_at(epoch) && epoch != ProducerEpoch::MAX)
            }
        };
        if is_late {
            return Err(MarkerRefusal::InvalidProducerEpoch { current: entry.producer_epoch, found: epoch });
        }
        if coordinator_epoch < entry.coordinator_epoch {
            return Err(MarkerRefusal::CoordinatorFenced {
                current: entry.coordinator_epoch,
                found: coordinator_epoch,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
