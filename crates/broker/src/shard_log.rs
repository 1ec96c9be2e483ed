//! How the records of a shard lie in its log.

use fencepost_coordinator::{LogPosition, Record};
use fencepost_records::{Batch, BatchBuilder};
use fencepost_types::{ErrorCode, LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId};

use crate::runtime::HostedShard;

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
