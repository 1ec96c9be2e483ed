//! The reader's half of read_committed: the broker stops at the last stable offset, the client leaves out what was
//! aborted below it.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use fencepost_protocol::ApiKey;
use fencepost_protocol::messages::FetchResponse;
use fencepost_protocol::messages::fetch_response::{AbortedTransactions, Partitions};
use fencepost_records::{BatchError, Batches, EndTxnMarker};
use fencepost_types::{Offset, TopicPartition};

use crate::requests::{FETCH_VERSION, code, fetch_committed};
use crate::{ClientError, Connection};

/// A record that a read_committed reader sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedRecord {
    /// Where it lies.
    pub offset: Offset,
    /// `None` is null.
    pub key: Option<Bytes>,
    /// `None` is null.
    pub value: Option<Bytes>,
}

/// Reads a partition from `from` to the last stable offset of the moment. Answers the records and where to read on.
pub fn read_committed(
    connection: &mut Connection,
    partition: &TopicPartition,
    from: Offset,
) -> Result<(Vec<CommittedRecord>, Offset), ClientError> {
    let (mut records, mut at) = (Vec::new(), from);
    loop {
        let response = connection.call_up_to(FETCH_VERSION, &fetch_committed(partition, at, 0))?;
        let answer = partition_answer(&response)?;
        let next = committed(answer, at, &mut records)
            .map_err(|source| ClientError::Records { partition: partition.to_string(), source })?;
        if next == at {
            return Ok((records, at));
        }
        at = next;
    }
}

/// The one partition of an answer to Fetch. Errors: the code of the answer or of the partition.
pub fn partition_answer(response: &FetchResponse) -> Result<&Partitions, ClientError> {
    ClientError::check(ApiKey::Fetch, code(response.error_code))?;
    let partition = response.responses.iter().flat_map(|topic| &topic.partitions).next();
    let partition = partition.ok_or(ClientError::Incomplete(ApiKey::Fetch))?;
    ClientError::check(ApiKey::Fetch, code(partition.error_code))?;
    Ok(partition)
}

/// Adds the committed records of an answer to `records`; those below `from` (the first batch may begin there) are left
/// out. Answers where to read on: `from` when the answer holds no batch.
///
/// Source: Kafka CompletedFetch (`isBatchAborted`, `consumeAbortedTransactionsUpTo`).
pub fn committed(
    answer: &Partitions,
    from: Offset,
    records: &mut Vec<CommittedRecord>,
) -> Result<Offset, BatchError> {
    let mut filter = AbortFilter::new(answer.aborted_transactions.as_deref().unwrap_or(&[]));
    let records_read = answer.records.clone().unwrap_or_default().into_bytes();
    let mut next = from;
    for batch in Batches::new(records_read) {
        let batch = batch?;
        batch.verify_crc()?;
        let header = *batch.header();
        next = next.max(header.next_offset());
        filter.advance(header.last_offset());
        if header.is_control() {
            if let Ok(Some(marker)) = EndTxnMarker::from_batch(&batch)
                && !marker.result.is_commit()
            {
                filter.aborting.remove(&header.producer_id.0);
            }
            continue;
        }
        if header.is_transactional() && filter.aborting.contains(&header.producer_id.0) {
            continue;
        }
        for record in batch.records()? {
            let record = record?;
            let offset = header.base_offset.plus(i64::from(record.offset_delta));
            if offset >= from {
                records.push(CommittedRecord { offset, key: record.key, value: record.value });
            }
        }
    }
    Ok(next)
}

/// Which producers' records are aborted at the place where the reader stands.
struct AbortFilter {
    ahead: VecDeque<(i64, i64)>,
    aborting: BTreeSet<i64>,
}

impl AbortFilter {
    fn new(aborted: &[AbortedTransactions]) -> Self {
        let mut ahead: Vec<_> = aborted.iter().map(|txn| (txn.first_offset, txn.producer_id)).collect();
        // Kafka sends them in the order of their markers (wire-apis trap 9).
        ahead.sort_unstable();
        Self { ahead: ahead.into(), aborting: BTreeSet::new() }
    }

    /// Takes in the transactions that begin up to and at `last_offset`.
    fn advance(&mut self, last_offset: Offset) {
        while let Some((_, producer_id)) = self.ahead.pop_front_if(|(first, _)| *first <= last_offset.0) {
            self.aborting.insert(producer_id);
        }
    }
}
