//! TxnOffsetCommit: offsets as part of a transaction.

use std::sync::Arc;

use fencepost_group as group;
use fencepost_group::{Reply, Request};
use fencepost_partition::VerificationGuard;
use fencepost_protocol::messages::txn_offset_commit_response::{Partitions, Topics};
use fencepost_protocol::messages::{
    TxnOffsetCommitRequest, TxnOffsetCommitResponse, txn_offset_commit_request,
};
use fencepost_transaction::{ProducerName, Step, txn_offset_commit_code};
use fencepost_types::{
    ErrorCode, PartitionIndex, ProducerEpoch, ProducerId, Sequence, TopicPartition, TransactionVersion,
};

use super::offset_places::{Named, Places, offset, sort_out};
use super::transactions::Add;
use crate::Broker;
use crate::cx::Cx;
use crate::group_coordinator::GroupCell;
use crate::partition::CoordinatorAppend;
use crate::respond::Exchange;
use crate::runtime::Asked;

/// From this version on the coordinator adds the offsets partition to the transaction by itself (KIP-890).
const IMPLICIT_ADD_FROM: i16 = 5;
/// From this version on topics are named by id (KIP-1319).
const TOPIC_IDS_FROM: i16 = 6;

/// Verifies (or adds) the group's offsets partition, then commits in one step with the group's own checks.
///
/// Source: KIP-98, KIP-447, KIP-890, `coordinator §11`.
pub(crate) fn txn_offset_commit(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: TxnOffsetCommitRequest,
) {
    let version = exchange.version();
    let named = request.topics.into_iter().map(|topic| Named {
        topic_id: topic.topic_id,
        name: topic.name,
        offsets: topic.partitions.into_iter().map(asked_offset).collect(),
    });
    let (known, places) = sort_out(&broker.image(), version >= TOPIC_IDS_FROM, named.collect());
    if request.group_id.is_empty() {
        return reply(exchange, places, Err(ErrorCode::InvalidGroupId));
    }
    if known.is_empty() {
        return reply(exchange, places, Ok(Vec::new()));
    }
    let cell = match broker.groups.cell_for(&request.group_id) {
        Ok(cell) => cell,
        Err(code) => return reply(exchange, places, Err(code)),
    };
    let producer = (ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch));
    let ask = Request::TxnOffsetCommit(group::TxnOffsetCommit {
        api_version: version,
        group: request.group_id.into(),
        producer_id: producer.0,
        producer_epoch: producer.1,
        committer: group::Committer {
            generation: request.generation_id_or_member_epoch,
            member_id: request.member_id.into(),
            instance_id: request.group_instance_id.map(Into::into),
        },
        topics: known,
        existing: broker.topic_facts(),
    });
    let adds = version >= IMPLICIT_ADD_FROM;
    if !adds && is_doubtful(broker, &exchange, &request.transactional_id, producer) {
        return reply(exchange, places, Err(ErrorCode::CoordinatorLoadInProgress));
    }
    let guard = match guard(broker, cx, &cell, producer, adds) {
        Ok(guard) => guard,
        Err(code) => return reply(exchange, places, Err(code)),
    };
    if guard.is_none() {
        return commit(broker, cx, &cell, exchange, places, ask, guard);
    }
    let add = Add {
        transactional_id: request.transactional_id,
        producer_id: producer.0,
        producer_epoch: producer.1,
        partitions: vec![cell.partition().name.clone()],
        transaction_version: if adds { TransactionVersion::V2 } else { TransactionVersion::V0 },
    };
    let go_on = move |broker: &Arc<Broker>, cx: &mut Cx, result: Result<(), ErrorCode>| match result {
        Ok(()) => commit(broker, cx, &cell, exchange, places, ask, guard),
        Err(code) => reply(exchange, places, Err(code)),
    };
    if adds {
        return add.add(broker, cx, Box::new(go_on));
    }
    let verified = move |broker: &Arc<Broker>, cx: &mut Cx, result: Verification| {
        go_on(broker, cx, result.and_then(all_known));
    };
    add.verify(broker, cx, Box::new(verified));
}

type Verification = Result<Vec<(TopicPartition, bool)>, ErrorCode>;

fn all_known(rows: Vec<(TopicPartition, bool)>) -> Result<(), ErrorCode> {
    let in_transaction = rows.iter().all(|(_, known)| *known);
    if in_transaction { Ok(()) } else { Err(ErrorCode::TransactionAbortable) }
}

/// Whether the offsets may be those of an earlier transaction.
fn is_doubtful(
    broker: &Broker,
    exchange: &Exchange,
    transactional_id: &str,
    (producer_id, producer_epoch): (ProducerId, ProducerEpoch),
) -> bool {
    let producer = ProducerName { transactional_id, producer_id, producer_epoch };
    broker.is_doubtful(&exchange.connection, producer, &Step::CommitOffsets)
}

/// The guard of a commit that has to be verified or added first; `None` where the transaction is open already.
fn guard(
    broker: &Arc<Broker>,
    cx: &Cx,
    cell: &Arc<GroupCell>,
    (producer_id, producer_epoch): (ProducerId, ProducerEpoch),
    adds: bool,
) -> Result<Option<VerificationGuard>, ErrorCode> {
    if !adds && !broker.verifies_transactions() {
        return Ok(None);
    }
    cell.partition().with(|state| {
        let states = state.log.producer_states_mut();
        let started =
            states.start_verification(cx.now.wall, producer_id, producer_epoch, Sequence::NONE, adds);
        started.map_err(|refusal| refusal.code())
    })?
}

fn commit(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    cell: &Arc<GroupCell>,
    exchange: Exchange,
    places: Places,
    request: Request,
    guard: Option<VerificationGuard>,
) {
    let asked = Asked {
        request,
        append: CoordinatorAppend { guard, is_unhurried: false },
        parked_until: None,
        respond: Box::new(move |_, _, answer| match answer {
            Ok(Reply::Commit(topics)) => reply(exchange, places, Ok(topics)),
            Ok(other) => unreachable!("TxnOffsetCommit was answered {other:?}"),
            Err(error) => reply(exchange, places, Err(error.code())),
        }),
    };
    cell.ask_with(broker, cx, asked);
}

fn asked_offset(asked: txn_offset_commit_request::Partitions) -> group::PartitionOffset {
    let (index, epoch) = (asked.partition_index, asked.committed_leader_epoch);
    offset(index, asked.committed_offset, epoch, asked.committed_metadata)
}

/// Answers, in the words of the request's version.
fn reply(exchange: Exchange, places: Places, result: Result<Vec<group::TopicErrors>, ErrorCode>) {
    let version = exchange.version();
    // Only what the coordinator said is mapped for its clients; that a topic is unknown is said as it is.
    let known = |code| txn_offset_commit_code(version, code);
    let result = result.map_err(known).map(|mut topics| {
        let codes = topics.iter_mut().flat_map(|topic| &mut topic.partitions);
        codes.for_each(|(_, code)| *code = known(*code));
        topics
    });
    let partition = |(index, code): (PartitionIndex, ErrorCode)| Partitions {
        partition_index: index.0,
        error_code: code.code(),
    };
    let topics = places.filled(result).map(|place| Topics {
        topic_id: place.topic_id,
        name: place.name,
        partitions: place.codes.into_iter().map(partition).collect(),
    });
    exchange.reply(TxnOffsetCommitResponse { topics: topics.collect(), ..Default::default() });
}
