//! Who leads and who holds what: ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments.

use std::sync::Arc;

use fencepost_metadata::controller::{ElectionOutcome, ElectionType, Reassignment};
use fencepost_metadata::image::Partition;
use fencepost_metadata::{Reply, Request};
use fencepost_protocol::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResults};
use fencepost_protocol::messages::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ElectLeadersRequest,
    ElectLeadersResponse, ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
    alter_partition_reassignments_response, list_partition_reassignments_response,
};
use fencepost_types::{BrokerId, PartitionIndex, TopicName};

use super::asking::{Fault, Patience, Sentences, ask_controller_within, code_and_message};
use super::metadata::numbers;
use crate::Broker;
use crate::cx::Cx;
use crate::respond::Exchange;

type Asked = Vec<(String, Vec<PartitionIndex>)>;

/// Elects leaders. Asked for all partitions, it names every topic, but only the partitions that needed an election.
///
/// Source: KIP-183, KIP-460.
pub(crate) fn elect_leaders(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: ElectLeadersRequest,
) {
    let election = ElectionType(request.election_type);
    let is_needed = request.topic_partitions.as_ref().is_none_or(|topics| !topics.is_empty());
    let patience = Patience { timeout_ms: request.timeout_ms, is_needed };
    let partitions: Option<Asked> = request.topic_partitions.map(|topics| {
        let topics = topics.into_iter();
        topics
            .map(|topic| (topic.topic, topic.partitions.into_iter().map(PartitionIndex).collect()))
            .collect()
    });
    let asked = partitions.clone().unwrap_or_default();
    let elect = Request::ElectLeaders { election, partitions };
    ask_controller_within(broker, cx, patience, elect, move |_, _, reply| match reply {
        Ok(Reply::ElectLeaders(ElectionOutcome { result, topics })) => {
            let mut sentences = Sentences::new();
            let (error_code, _) = code_and_message(result.map_err(|refusal| Fault::of(&refusal)));
            let results = topics.into_iter().map(|(topic, partitions)| {
                let mut told = |refusal| sentences.tell(Fault::of(&refusal));
                let rows =
                    partitions.into_iter().map(|(index, result)| elected(index, result.map_err(&mut told)));
                ReplicaElectionResults { topic, partition_result: rows.collect() }
            });
            exchange.reply(ElectLeadersResponse {
                error_code,
                replica_election_results: results.collect(),
                ..Default::default()
            });
        }
        Ok(other) => unreachable!("ElectLeaders was answered {other:?}"),
        Err(fault) => {
            let results = asked.into_iter().map(|(topic, partitions)| {
                let rows = partitions.into_iter().map(|index| elected(index, Err(fault.clone())));
                ReplicaElectionResults { topic, partition_result: rows.collect() }
            });
            exchange.reply(ElectLeadersResponse {
                error_code: fault.code.code(),
                replica_election_results: results.collect(),
                ..Default::default()
            });
        }
    });
}

fn elected(index: PartitionIndex, result: Result<(), Fault>) -> PartitionResult {
    let (error_code, error_message) = code_and_message(result);
    PartitionResult { partition_id: index.0, error_code, error_message }
}

/// Moves partitions to other replicas, or cancels that.
///
/// Source: KIP-455, KIP-860.
pub(crate) fn alter_reassignments(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: AlterPartitionReassignmentsRequest,
) {
    let allow_replication_factor_change = request.allow_replication_factor_change;
    let patience = Patience { timeout_ms: request.timeout_ms, is_needed: !request.topics.is_empty() };
    let mut reassignments = Vec::new();
    for topic in request.topics {
        let topic_name = TopicName::from(topic.name);
        for partition in topic.partitions {
            let replicas = partition.replicas;
            reassignments.push(Reassignment {
                topic: topic_name.clone(),
                partition: PartitionIndex(partition.partition_index),
                replicas: replicas.map(|replicas| replicas.into_iter().map(BrokerId).collect()),
                may_change_replication_factor: allow_replication_factor_change,
            });
        }
    }
    let asked: Vec<_> = reassignments.iter().map(|asked| (asked.topic.clone(), asked.partition)).collect();
    let alter = Request::AlterPartitionReassignments(reassignments);
    ask_controller_within(broker, cx, patience, alter, move |_, _, reply| {
        let (results, code) = match reply {
            Ok(Reply::AlterPartitionReassignments(results)) => {
                let results = results.into_iter();
                let mut sentences = Sentences::new();
                let mut told = |refusal| sentences.tell(Fault::unless_plain(&refusal));
                let rows = results.map(|(at, result)| (at, result.map_err(&mut told)));
                (rows.collect(), 0)
            }
            Ok(other) => unreachable!("AlterPartitionReassignments was answered {other:?}"),
            Err(fault) => {
                let code = fault.code.code();
                (asked.into_iter().map(|at| (at, Err(fault.clone()))).collect(), code)
            }
        };
        exchange.reply(AlterPartitionReassignmentsResponse {
            allow_replication_factor_change,
            error_code: code,
            error_message: None,
            responses: by_topic(results),
            ..Default::default()
        });
    });
}

type Moved = Vec<((TopicName, PartitionIndex), Result<(), Fault>)>;

/// Rows of one topic that follow each other become one entry.
fn by_topic(moved: Moved) -> Vec<alter_partition_reassignments_response::Responses> {
    use alter_partition_reassignments_response::{Partitions, Responses};
    let mut topics: Vec<Responses> = Vec::new();
    for ((name, index), result) in moved {
        let (error_code, error_message) = code_and_message(result);
        let row = Partitions { partition_index: index.0, error_code, error_message };
        match topics.last_mut() {
            Some(topic) if *topic.name == *name => topic.partitions.push(row),
            Some(_) | None => topics.push(Responses { name: name.to_string(), partitions: vec![row] }),
        }
    }
    topics
}

/// The reassignments that are going on; partitions without one are left out.
///
/// Source: KIP-455.
pub(crate) fn list_reassignments(
    broker: &Arc<Broker>,
    exchange: Exchange,
    request: ListPartitionReassignmentsRequest,
) {
    let image = broker.image();
    let is_asked = |name: &str, index: PartitionIndex| match &request.topics {
        None => true,
        Some(asked) => {
            asked.iter().any(|topic| topic.name == name && topic.partition_indexes.contains(&index.0))
        }
    };
    let topics = image.topics().iter().filter_map(|topic| {
        let partitions = topic
            .partitions
            .iter()
            .filter(|(index, partition)| partition.is_reassigning() && is_asked(&topic.name, **index));
        let partitions: Vec<_> = partitions.map(|(index, partition)| moving(*index, partition)).collect();
        let name = topic.name.to_string();
        (!partitions.is_empty()).then_some(list_partition_reassignments_response::Topics { name, partitions })
    });
    exchange.reply(ListPartitionReassignmentsResponse {
        error_message: None,
        topics: topics.collect(),
        ..Default::default()
    });
}

fn moving(index: PartitionIndex, partition: &Partition) -> list_partition_reassignments_response::Partitions {
    list_partition_reassignments_response::Partitions {
        partition_index: index.0,
        replicas: numbers(&partition.replicas),
        adding_replicas: numbers(&partition.adding_replicas),
        removing_replicas: numbers(&partition.removing_replicas),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_types::ErrorCode;

    /// Each partition keeps its own answer, under its topic.
    #[test]
    fn answers_are_grouped_by_topic() {
        let row = |topic: &str, index, result| ((topic.into(), PartitionIndex(index)), result);
        let fault = || Err(ErrorCode::NoReassignmentInProgress.into());
        let topics = by_topic(vec![row("a", 0, Ok(())), row("a", 1, fault()), row("b", 0, fault())]);
        let codes = |at: usize| topics[at].partitions.iter().map(|row| row.error_code).collect::<Vec<_>>();
        assert_eq!(topics.len(), 2);
        assert_eq!(codes(0), [0, 85]);
        assert_eq!(codes(1), [85]);
    }
}
