//! TxnOffsetCommit: offsets as part of a transaction.

use std::sync::Arc;

use fencepost_group as group;
use fencepost_group::{Reply, Request};
use fencepost_partition::VerificationGuard;
use fencepost_protocol::messages::txn_offset_commit_response::{Partitions, Topics};
use fencepost_protocol::messages::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};
use fencepost_transaction::txn_offset_commit_code;
use fencepost_types::{
    ErrorCode, LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, Sequence, TransactionVersion,
};

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

/// The response as it fills: a code for each partition of the request.
struct Codes {
    version: i16,
    topics: Vec<Topics>,
}

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
    let (known, codes) = sort_out(broker, version, &request);
    if request.group_id.is_empty() {
        return reply(exchange, codes, Err(ErrorCode::InvalidGroupId));
    }
    if known.is_empty() {
        return reply(exchange, codes, Ok(Vec::new()));
    }
    let cell = match broker.groups.cell_for(&request.group_id) {
        Ok(cell) => cell,
        Err(code) => return reply(exchange, codes, Err(code)),
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
    });
    let adds = version >= IMPLICIT_ADD_FROM;
    let guard = match guard(broker, cx, &cell, producer, adds) {
        Ok(guard) => guard,
        Err(code) => return reply(exchange, codes, Err(code)),
    };
    if guard.is_none() {
        return commit(broker, cx, &cell, exchange, codes, ask, guard);
    }
    let add = Add {
        transactional_id: request.transactional_id,
        producer_id: producer.0,
        producer_epoch: producer.1,
        partitions: vec![cell.partition().name.clone()],
        transaction_version: if adds { TransactionVersion::V2 } else { TransactionVersion::V0 },
    };
    let go_on = move |broker: &Arc<Broker>, cx: &mut Cx, result: Result<(), ErrorCode>| match result {
        Ok(()) => commit(broker, cx, &cell, exchange, codes, ask, guard),
        Err(code) => reply(exchange, codes, Err(code)),
    };
    if adds {
        return add.add(broker, cx, Box::new(go_on));
    }
    add.verify(
        broker,
        cx,
        Box::new(move |broker, cx, result| {
            let all = result.and_then(|rows| {
                let in_transaction = rows.iter().all(|(_, known)| *known);
                if in_transaction { Ok(()) } else { Err(ErrorCode::TransactionAbortable) }
            });
            go_on(broker, cx, all);
        }),
    );
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
    codes: Codes,
    request: Request,
    guard: Option<VerificationGuard>,
) {
    let asked = Asked {
        request,
        append: CoordinatorAppend { guard },
        parked_until: None,
        respond: Box::new(move |_, _, answer| match answer {
            Ok(Reply::Commit(topics)) => reply(exchange, codes, Ok(topics)),
            Ok(other) => unreachable!("TxnOffsetCommit was answered {other:?}"),
            Err(error) => reply(exchange, codes, Err(error.code())),
        }),
    };
    cell.ask_with(broker, cx, asked);
}

/// Splits the request into what the group is asked, and the codes of what does not exist.
fn sort_out(
    broker: &Arc<Broker>,
    version: i16,
    request: &TxnOffsetCommitRequest,
) -> (Vec<group::TopicOffsets>, Codes) {
    let image = broker.image();
    let mut known = Vec::new();
    let mut topics = Vec::new();
    for topic in &request.topics {
        let by_id = version >= TOPIC_IDS_FROM;
        let found = if by_id { image.topic(topic.topic_id) } else { image.topic_by_name(&topic.name) };
        let unknown = if by_id { ErrorCode::UnknownTopicId } else { ErrorCode::UnknownTopicOrPartition };
        let mut offsets = Vec::new();
        let partitions = topic.partitions.iter().map(|partition| {
            let index = PartitionIndex(partition.partition_index);
            let exists = found.is_some_and(|found| found.partitions.contains_key(&index));
            if exists {
                offsets.push(group::PartitionOffset {
                    partition: index,
                    offset: Offset(partition.committed_offset),
                    leader_epoch: LeaderEpoch(partition.committed_leader_epoch),
                    metadata: partition.committed_metadata.as_deref().map(Into::into),
                });
            }
            let code = match (exists, found) {
                (true, _) => ErrorCode::None,
                (false, Some(_)) => ErrorCode::UnknownTopicOrPartition,
                (false, None) => unknown,
            };
            Partitions { partition_index: partition.partition_index, error_code: code.code() }
        });
        let partitions: Vec<_> = partitions.collect();
        topics.push(Topics { topic_id: topic.topic_id, name: topic.name.clone(), partitions });
        if let Some(found) = found.filter(|_| !offsets.is_empty()) {
            known.push(group::TopicOffsets {
                topic: found.name.clone(),
                topic_id: found.id,
                partitions: offsets,
            });
        }
    }
    (known, Codes { version, topics })
}

/// Answers: the group's codes go to the partitions that were asked of it, in order; an error goes to all of them.
fn reply(exchange: Exchange, mut codes: Codes, result: Result<Vec<group::TopicErrors>, ErrorCode>) {
    let asked = codes.topics.iter_mut().flat_map(|topic| &mut topic.partitions);
    let asked = asked.filter(|partition| partition.error_code == 0);
    match result {
        Ok(topics) => {
            let answered = topics.into_iter().flat_map(|topic| topic.partitions);
            for (partition, (_, code)) in asked.zip(answered) {
                partition.error_code = txn_offset_commit_code(codes.version, code).code();
            }
        }
        Err(code) => {
            for partition in asked {
                partition.error_code = txn_offset_commit_code(codes.version, code).code();
            }
        }
    }
    exchange.reply(TxnOffsetCommitResponse { topics: codes.topics, ..Default::default() });
}
