//! How the records of a shard lie in its log.

use fencepost_coordinator::{LogPosition, Record};
use fencepost_records::{Batch, BatchBuilder, Batches};
use fencepost_types::{ErrorCode, LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId};

use crate::partition::Partition;
use crate::runtime::HostedShard;

/// A load reads its log in pieces of this size; a larger batch is read whole.
const LOAD_BYTES: usize = 4 << 20;

impl Partition {
    /// Reads every batch from `from`, but not from below the log start, to the log end.
    pub(crate) fn for_each_batch(
        &self,
        from: Offset,
        mut visit: impl FnMut(&Batch) -> Result<(), ErrorCode>,
    ) -> Result<(), ErrorCode> {
        let state = self.lock();
        let end = state.log.log_end_offset();
        let mut at = state.log.log_start_offset().max(from);
        let mut previous = None;
        while at < end {
            let slice = state.log.read(at, LOAD_BYTES, end, true).map_err(|error| error.code())?;
            if slice.next_offset <= at {
                // A wrong offset in a header hides the rest of the log: a part of the state is worse than none.
                tracing::error!(partition = %self.name, offset = %at, %end, "a log cannot be read to its end");
                return Err(ErrorCode::CorruptMessage);
            }
            for batch in Batches::new(slice.records) {
                let batch = batch.map_err(|_| ErrorCode::CorruptMessage)?;
                let (base, last) = (batch.header().base_offset, batch.header().last_offset());
                // The same batch a second time is harmless, and recovery keeps it.
                let is_repeated = previous == Some((base, last));
                if (last < at && !is_repeated) || last >= end || base > last {
                    tracing::error!(partition = %self.name, offset = %base, %end, "a batch is where it cannot be");
                    return Err(ErrorCode::CorruptMessage);
                }
                visit(&batch)?;
                previous = Some((base, last));
                at = last.plus(1);
            }
            at = at.max(slice.next_offset);
        }
        Ok(())
    }
}

/// Where a record of `batch` lies.
pub(crate) fn position(offset: Offset, batch: &Batch) -> LogPosition {
    let header = batch.header();
    LogPosition {
        offset,
        producer_id: header.producer_id,
        producer_epoch: header.producer_epoch,
        is_transactional: header.is_transactional(),
    }
}

/// The records as one batch, as Kafka's coordinators write them: uncompressed, with one time.
pub(crate) fn encode_batch<S: HostedShard>(
    time: Millis,
    transactional: Option<(ProducerId, ProducerEpoch)>,
    records: &[S::Record],
) -> Result<Batch, ErrorCode> {
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch::NONE).base_sequence(S::BASE_SEQUENCE);
    if let Some((producer_id, producer_epoch)) = transactional {
        builder = builder.producer(producer_id, producer_epoch, S::BASE_SEQUENCE).transactional(true);
    }
    for record in records {
        let (key, value) = record.encode();
        builder.append(time, key.as_deref(), value.as_deref(), &[]);
    }
    builder.build().map_err(|_| ErrorCode::UnknownServerError)
}
