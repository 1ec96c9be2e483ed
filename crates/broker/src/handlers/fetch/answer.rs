//! The answer to a Fetch.

use std::sync::Arc;

use fencepost_protocol::messages::FetchResponse;
use fencepost_protocol::messages::fetch_response::{
    AbortedTransactions, CurrentLeader, DivergingEpoch, NodeEndpoints, Partitions, Responses,
};
use fencepost_storage::{FilePart, LogRecords};
use fencepost_types::ErrorCode;
use fencepost_types::wire::Pieces;

use super::CURRENT_LEADER_FROM;
use super::read::{Outcome, Part, Watermarks};
use super::session::{FetchKey, Plan, Told};
use crate::Broker;
use crate::respond::Exchange;

/// Answers with every part, or within a session with those that have news.
pub(crate) fn reply(broker: &Arc<Broker>, exchange: Exchange, plan: Plan, parts: Vec<Part>) {
    let version = exchange.version();
    let mut response = FetchResponse::default();
    let (mut names_leader, mut files) = (false, Vec::new());
    for part in parts {
        let (key, row, file, told) = row(broker, version, part);
        if let Plan::Session { session, is_full, id } = &plan {
            response.session_id = *id;
            let mut session = session.lock().expect("no holder of this lock panics");
            let must = session.must_tell(&key, told, *is_full);
            if !(must || *is_full) {
                continue;
            }
        }
        names_leader |= row.current_leader.leader_id >= 0;
        files.extend(file);
        push(&mut response.responses, key, row);
    }
    if let Plan::Session { id, .. } = &plan {
        response.session_id = *id;
    }
    if names_leader {
        let listener = &exchange.connection.listener;
        response.node_endpoints.push(NodeEndpoints {
            node_id: broker.node_id.0,
            host: listener.host.clone(),
            port: i32::from(listener.port),
            rack: broker.rack(),
        });
    }
    exchange.reply_with_files(response, files);
}

fn push(responses: &mut Vec<Responses>, key: FetchKey, row: Partitions) {
    let same = |last: &Responses| *last.topic == *key.topic && last.topic_id == key.topic_id;
    match responses.last_mut() {
        Some(last) if same(last) => last.partitions.push(row),
        Some(_) | None => responses.push(Responses {
            topic: key.topic.to_string(),
            topic_id: key.topic_id,
            partitions: vec![row],
        }),
    }
}

fn row(broker: &Arc<Broker>, version: i16, part: Part) -> (FetchKey, Partitions, Option<FilePart>, Told) {
    let partition_index = part.key.partition.0;
    let (has_records, mut file) = (part.bytes() > 0, None);
    let (row, told) = match part.outcome {
        Outcome::Read(read) => {
            let aborted = read.aborted.map(|aborted| {
                let aborted = aborted.into_iter();
                aborted
                    .map(|txn| AbortedTransactions {
                        producer_id: txn.producer_id.0,
                        first_offset: txn.first_offset.0,
                    })
                    .collect()
            });
            let records;
            (records, file) = placed(read.records);
            let row = Partitions {
                aborted_transactions: aborted,
                records: Some(records),
                ..at(partition_index, read.at)
            };
            (row, Told { has_records, has_error: false, must_show: false, ..told(read.at) })
        }
        Outcome::Diverging { epoch, end_offset, at: watermarks } => {
            let row = Partitions {
                diverging_epoch: DivergingEpoch { epoch: epoch.0, end_offset: end_offset.0 },
                aborted_transactions: None,
                records: Some(Pieces::EMPTY),
                ..at(partition_index, watermarks)
            };
            (row, Told { must_show: true, ..told(watermarks) })
        }
        Outcome::Refused { code, leader_epoch, by_log } => {
            let none = Watermarks {
                high_watermark: fencepost_types::Offset::NONE,
                last_stable_offset: fencepost_types::Offset::NONE,
                log_start_offset: fencepost_types::Offset::NONE,
            };
            let names_leader = version >= CURRENT_LEADER_FROM
                && matches!(code, ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch);
            let current_leader = if names_leader {
                CurrentLeader { leader_id: broker.node_id.0, leader_epoch: leader_epoch.0 }
            } else {
                CurrentLeader::default()
            };
            let row = Partitions {
                error_code: code.code(),
                current_leader,
                // Null where a log was asked, as Kafka has it; the default is an empty list.
                aborted_transactions: (!by_log).then(Vec::new),
                records: Some(Pieces::EMPTY),
                ..at(partition_index, none)
            };
            (row, Told { has_error: true, ..told(none) })
        }
    };
    (part.key, row, file, told)
}

/// Records as a response has them, and what of them it leaves out.
fn placed(records: LogRecords) -> (Pieces, Option<FilePart>) {
    match records {
        LogRecords::Held(bytes) => (Pieces::from(bytes), None),
        LogRecords::File(part) if part.bytes() == 0 => (Pieces::EMPTY, None),
        LogRecords::File(part) => (Pieces::elsewhere(part.bytes()), Some(part)),
    }
}

fn at(partition_index: i32, at: Watermarks) -> Partitions {
    Partitions {
        partition_index,
        high_watermark: at.high_watermark.0,
        last_stable_offset: at.last_stable_offset.0,
        log_start_offset: at.log_start_offset.0,
        preferred_read_replica: -1,
        ..Default::default()
    }
}

fn told(at: Watermarks) -> Told {
    Told {
        high_watermark: at.high_watermark,
        log_start_offset: at.log_start_offset,
        has_records: false,
        has_error: false,
        must_show: false,
    }
}
