//! InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn: wire messages to the coordinator's requests and back.

use std::sync::Arc;

use fencepost_protocol::messages::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, EndTxnRequest, EndTxnResponse, InitProducerIdRequest,
    InitProducerIdResponse,
};
use fencepost_transaction::{
    AddPartitions, CoordinatorApi, EndTxn, ExpectedProducer, InitProducerId, ProducerName, Reply, Request,
    Step, TransactionShard, VerifyPartitions, code_for_version,
};
use fencepost_types::{
    ErrorCode, ProducerEpoch, ProducerId, TopicPartition, TransactionResult, TransactionVersion,
};

use crate::Broker;
use crate::cx::Cx;
use crate::respond::Exchange;
use crate::runtime::Answer;
use crate::transactions::TransactionCell;

/// A producer asks for its id and epoch.
///
/// Source: KIP-98, KIP-360. Checks in the order of `coordinator §6`.
pub(crate) fn init_producer_id(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: InitProducerIdRequest,
) {
    let expected =
        ExpectedProducer::from_wire(ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch));
    let Ok(expected) = expected else {
        return reply_init(exchange, Err(ErrorCode::InvalidRequest));
    };
    let Some(transactional_id) = request.transactional_id else {
        broker.producer_ids.take(
            broker,
            cx,
            Box::new(move |_, _, id| {
                let pair = id.map(|id| (id, ProducerEpoch(0))).ok_or(ErrorCode::CoordinatorLoadInProgress);
                reply_init(exchange, pair);
            }),
        );
        return;
    };
    let cell = match named_cell(broker, &transactional_id) {
        Ok(cell) => cell,
        Err(code) => return reply_init(exchange, Err(code)),
    };
    let request = Request::InitProducerId(InitProducerId {
        transactional_id: transactional_id.into(),
        timeout_ms: request.transaction_timeout_ms,
        expected,
        enable_two_phase_commit: request.enable2_pc,
        keep_prepared_txn: request.keep_prepared_txn,
        fresh_producer_id: None,
    });
    cell.ask(
        broker,
        cx,
        request,
        Box::new(move |_, _, answer| {
            let pair = match answer {
                Ok(Reply::ProducerId { producer_id, producer_epoch }) => Ok((producer_id, producer_epoch)),
                Ok(Reply::Fencing { .. }) => Err(ErrorCode::ConcurrentTransactions),
                Ok(other) => unreachable!("InitProducerId was answered {other:?}"),
                Err(error) => Err(error.code()),
            };
            reply_init(exchange, pair);
        }),
    );
}

fn reply_init(exchange: Exchange, pair: Result<(ProducerId, ProducerEpoch), ErrorCode>) {
    let response = match pair {
        Ok((producer_id, producer_epoch)) => InitProducerIdResponse {
            producer_id: producer_id.0,
            producer_epoch: producer_epoch.0,
            ..Default::default()
        },
        Err(code) => InitProducerIdResponse {
            error_code: code_for_version(CoordinatorApi::InitProducerId, exchange.version(), code).code(),
            producer_id: -1,
            producer_epoch: -1,
            ..Default::default()
        },
    };
    exchange.reply(response);
}

/// Commit or abort.
///
/// Source: KIP-98, KIP-890: versions from 5 on are transaction version 2, whatever the finalized level is.
pub(crate) fn end_txn(broker: &Arc<Broker>, cx: &mut Cx, exchange: Exchange, request: EndTxnRequest) {
    let cell = match named_cell(broker, &request.transactional_id) {
        Ok(cell) => cell,
        Err(code) => return reply_end(exchange, Err(code)),
    };
    let transaction_version =
        if exchange.version() >= 5 { TransactionVersion::V2 } else { TransactionVersion::V0 };
    let producer = ProducerName {
        transactional_id: &request.transactional_id,
        producer_id: ProducerId(request.producer_id),
        producer_epoch: ProducerEpoch(request.producer_epoch),
    };
    let is_old = transaction_version == TransactionVersion::V0;
    if is_old && broker.is_doubtful(&exchange.connection, producer, &Step::End) {
        return reply_end(exchange, Err(ErrorCode::ConcurrentTransactions));
    }
    let request = Request::EndTxn(EndTxn {
        transactional_id: producer.transactional_id.into(),
        producer_id: producer.producer_id,
        producer_epoch: producer.producer_epoch,
        result: TransactionResult::from_committed(request.committed),
        transaction_version,
        fresh_producer_id: None,
    });
    cell.ask(
        broker,
        cx,
        request,
        Box::new(move |_, _, answer| {
            let pair = match answer {
                Ok(Reply::Ended { producer_id, producer_epoch }) => Ok((producer_id, producer_epoch)),
                Ok(other) => unreachable!("EndTxn was answered {other:?}"),
                Err(error) => Err(error.code()),
            };
            reply_end(exchange, pair);
        }),
    );
}

fn reply_end(exchange: Exchange, pair: Result<(ProducerId, ProducerEpoch), ErrorCode>) {
    let version = exchange.version();
    let (code, (producer_id, producer_epoch)) = match pair {
        Ok(pair) => (ErrorCode::None, pair),
        Err(code) => (code, (ProducerId::NONE, ProducerEpoch::NONE)),
    };
    exchange.reply(EndTxnResponse {
        error_code: code_for_version(CoordinatorApi::EndTxn, version, code).code(),
        producer_id: producer_id.0,
        producer_epoch: producer_epoch.0,
        ..Default::default()
    });
}

/// The partition of a group's offsets joins the transaction.
pub(crate) fn add_offsets_to_txn(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: AddOffsetsToTxnRequest,
) {
    let reply = |exchange: Exchange, code: ErrorCode| {
        let code = code_for_version(CoordinatorApi::AddOffsetsToTxn, exchange.version(), code);
        exchange.reply(AddOffsetsToTxnResponse { error_code: code.code(), ..Default::default() });
    };
    let Some(partition) = broker.groups.offsets_partition(&request.group_id) else {
        return reply(exchange, ErrorCode::CoordinatorNotAvailable);
    };
    let ask = Add {
        transactional_id: request.transactional_id,
        producer_id: ProducerId(request.producer_id),
        producer_epoch: ProducerEpoch(request.producer_epoch),
        partitions: vec![partition],
        transaction_version: TransactionVersion::V0,
    };
    if broker.is_doubtful(&exchange.connection, ask.producer(), &Step::Add) {
        return reply(exchange, ErrorCode::ConcurrentTransactions);
    }
    ask.add(
        broker,
        cx,
        Box::new(move |_, _, result| reply(exchange, result.err().unwrap_or(ErrorCode::None))),
    );
}

/// Partitions that are to join a transaction, or are asked about.
pub(crate) struct Add {
    pub(crate) transactional_id: String,
    pub(crate) producer_id: ProducerId,
    pub(crate) producer_epoch: ProducerEpoch,
    pub(crate) partitions: Vec<TopicPartition>,
    pub(crate) transaction_version: TransactionVersion,
}

type Added = Box<dyn FnOnce(&Arc<Broker>, &mut Cx, Result<(), ErrorCode>) + Send>;
type Verified = Box<dyn FnOnce(&Arc<Broker>, &mut Cx, Result<Vec<(TopicPartition, bool)>, ErrorCode>) + Send>;

impl Add {
    /// Who asks.
    pub(crate) fn producer(&self) -> ProducerName<'_> {
        ProducerName {
            transactional_id: &self.transactional_id,
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
        }
    }

    /// Adds the partitions; the one result holds for all.
    pub(crate) fn add(self, broker: &Arc<Broker>, cx: &mut Cx, added: Added) {
        let cell = match self.cell(broker) {
            Ok(cell) => cell,
            Err(code) => return added(broker, cx, Err(code)),
        };
        let request = Request::AddPartitions(AddPartitions {
            transactional_id: self.transactional_id.into(),
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            partitions: self.partitions,
            transaction_version: self.transaction_version,
        });
        let answered = Box::new(
            move |broker: &Arc<Broker>, cx: &mut Cx, answer: Answer<TransactionShard>| match answer {
                Ok(Reply::PartitionsAdded) => added(broker, cx, Ok(())),
                Ok(other) => unreachable!("AddPartitions was answered {other:?}"),
                Err(error) => added(broker, cx, Err(error.code())),
            },
        );
        cell.ask(broker, cx, request, answered);
    }

    /// Asks which of the partitions are in the transaction.
    pub(crate) fn verify(self, broker: &Arc<Broker>, cx: &mut Cx, verified: Verified) {
        let cell = match self.cell(broker) {
            Ok(cell) => cell,
            Err(code) => return verified(broker, cx, Err(code)),
        };
        let request = Request::VerifyPartitions(VerifyPartitions {
            transactional_id: self.transactional_id.into(),
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            partitions: self.partitions,
        });
        let answered = Box::new(
            move |broker: &Arc<Broker>, cx: &mut Cx, answer: Answer<TransactionShard>| match answer {
                Ok(Reply::PartitionsVerified(partitions)) => verified(broker, cx, Ok(partitions)),
                Ok(other) => unreachable!("VerifyPartitions was answered {other:?}"),
                Err(error) => verified(broker, cx, Err(error.code())),
            },
        );
        cell.ask(broker, cx, request, answered);
    }

    fn cell(&self, broker: &Broker) -> Result<Arc<TransactionCell>, ErrorCode> {
        named_cell(broker, &self.transactional_id)
    }
}

/// The shard of a transactional id that must not be empty.
fn named_cell(broker: &Broker, transactional_id: &str) -> Result<Arc<TransactionCell>, ErrorCode> {
    if transactional_id.is_empty() {
        return Err(ErrorCode::InvalidRequest);
    }
    broker.transactions.cell_for(transactional_id)
}
