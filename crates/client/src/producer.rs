//! A transactional producer under either version.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fencepost_protocol::{ApiKey, Request};
use fencepost_types::{
    ErrorCode, Millis, Offset, ProducerEpoch, ProducerId, Sequence, TopicPartition, TransactionResult,
    TransactionVersion,
};

use crate::requests::{
    ADD_PARTITIONS_VERSION, INIT_PRODUCER_ID_VERSION, Identity, Versions, add_partitions_code, code,
    produce_code, txn_offset_commit_code,
};
use crate::{ClientError, Connection};

/// A code that says "later" is obeyed so many times …
const TRIES_MAX: u32 = 200;
/// … with this long in between, as in the Java client when a transaction is still being completed.
const RETRY_BACKOFF: Duration = Duration::from_millis(20);
/// How long the broker may take for one Produce.
const PRODUCE_TIMEOUT_MS: i32 = 30_000;

/// One transaction after the other, each request answered before the next. A refusal that is not about time leaves the
/// transaction to [`TransactionalProducer::end`] with an abort, or to its timeout.
#[derive(Debug)]
pub struct TransactionalProducer {
    connection: Connection,
    identity: Identity,
    version: TransactionVersion,
    versions: Versions,
    sequences: BTreeMap<TopicPartition, Sequence>,
    /// What the coordinator was told of the open transaction. Stays empty under version 2.
    added: BTreeSet<TopicPartition>,
}

impl TransactionalProducer {
    /// Takes over `transactional_id`: whoever held it is fenced, and an open transaction of it is aborted. Without a
    /// `version` the broker's features decide.
    pub fn open(
        connection: Connection,
        transactional_id: &str,
        timeout_ms: i32,
        version: Option<TransactionVersion>,
    ) -> Result<Self, ClientError> {
        let version = version.unwrap_or_else(|| connection.apis().transaction_version());
        let mut producer = Self {
            connection,
            identity: Identity::new(transactional_id),
            version,
            versions: Versions::of(version),
            sequences: BTreeMap::new(),
            added: BTreeSet::new(),
        };
        let request = producer.identity.init_producer_id(timeout_ms);
        let response = producer.ask(INIT_PRODUCER_ID_VERSION, &request, |answer| code(answer.error_code))?;
        producer.identity.producer_id = ProducerId(response.producer_id);
        producer.identity.producer_epoch = ProducerEpoch(response.producer_epoch);
        Ok(producer)
    }

    /// Producer id and epoch as they are now.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The version its transactions run under.
    pub fn version(&self) -> TransactionVersion {
        self.version
    }

    /// The connection, for other requests.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Writes one batch in the open transaction, and opens one if there is none. Answers the batch's first offset.
    pub fn send(
        &mut self,
        partition: &TopicPartition,
        time: Millis,
        records: &[(Option<&[u8]>, Option<&[u8]>)],
    ) -> Result<Offset, ClientError> {
        if !self.version.bumps_epoch() && !self.added.contains(partition) {
            let request = self.identity.add_partitions(std::slice::from_ref(partition));
            self.ask(ADD_PARTITIONS_VERSION, &request, add_partitions_code)?;
            self.added.insert(partition.clone());
        }
        let base_sequence = self.sequences.get(partition).copied().unwrap_or(Sequence(0));
        let batch = self.identity.batch(base_sequence, time, records);
        let request = self.identity.produce(&[(partition.clone(), batch)], PRODUCE_TIMEOUT_MS);
        let response = self.ask(self.versions.produce, &request, produce_code)?;
        self.sequences.insert(partition.clone(), base_sequence.plus(records.len() as i32));
        let mut partitions = response.responses.iter().flat_map(|topic| &topic.partition_responses);
        let partition = partitions.next().ok_or(ClientError::Incomplete(ApiKey::Produce))?;
        Ok(Offset(partition.base_offset))
    }

    /// Writes offsets of a group in the open transaction, and opens one if there is none.
    pub fn send_offsets(
        &mut self,
        group_id: &str,
        offsets: &[(TopicPartition, Offset)],
    ) -> Result<(), ClientError> {
        if !self.version.bumps_epoch() {
            let request = self.identity.add_offsets(group_id);
            self.ask(i16::MAX, &request, |answer| code(answer.error_code))?;
        }
        let request = self.identity.txn_offset_commit(group_id, offsets);
        self.ask(self.versions.txn_offset_commit, &request, txn_offset_commit_code)?;
        Ok(())
    }

    /// Ends the open transaction. Under version 2 the next one has another epoch, and its sequences begin at 0.
    pub fn end(&mut self, result: TransactionResult) -> Result<(), ClientError> {
        let request = self.identity.end_txn(result);
        let response = self.ask(self.versions.end_txn, &request, |answer| code(answer.error_code))?;
        self.added.clear();
        if self.version.bumps_epoch() {
            self.identity.producer_id = ProducerId(response.producer_id);
            self.identity.producer_epoch = ProducerEpoch(response.producer_epoch);
            self.sequences.clear();
        }
        Ok(())
    }

    /// Asks until the broker no longer says "later".
    fn ask<R: Request>(
        &mut self,
        wanted: i16,
        request: &R,
        code: impl Fn(&R::Response) -> ErrorCode,
    ) -> Result<R::Response, ClientError> {
        let mut tries = 1;
        loop {
            let response = self.connection.call_up_to(wanted, request)?;
            let code = code(&response);
            if !code.is_retriable() || tries == TRIES_MAX {
                ClientError::check(R::API_KEY, code)?;
                return Ok(response);
            }
            tries += 1;
            std::thread::sleep(RETRY_BACKOFF);
        }
    }
}
