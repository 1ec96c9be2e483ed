//! Requests for the controller that leave it no time (`timeout_ms` of 0 and below): all of them is refused with
//! REQUEST_TIMED_OUT, and nothing is done. Any time at all is enough.

use std::rc::Rc;

use fencepost_protocol::messages::{
    AlterPartitionReassignmentsRequest, CreatePartitionsRequest, CreateTopicsRequest, DeleteRecordsRequest,
    DeleteTopicsRequest, ElectLeadersRequest, alter_partition_reassignments_request,
    create_partitions_request, create_topics_request, delete_records_request, delete_topics_request,
    elect_leaders_request,
};
use fencepost_types::{ErrorCode, Uuid};

use crate::harness::World;

const TIMED_OUT: i16 = ErrorCode::RequestTimedOut as i16;
const INVALID_REQUEST: i16 = ErrorCode::InvalidRequest as i16;
const ELECTION_NOT_NEEDED: i16 = ErrorCode::ElectionNotNeeded as i16;
const NO_TIME: [i32; 3] = [0, -1, i32::MIN];

fn create(world: &Rc<World>, names: &[&str], timeout_ms: i32) -> Vec<(String, i16)> {
    let topic = |name: &&str| create_topics_request::Topics {
        name: (*name).to_owned(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    };
    let topics = names.iter().map(topic).collect();
    let answer = world.client().ask(7, &CreateTopicsRequest { topics, timeout_ms, validate_only: false });
    answer.topics.into_iter().map(|row| (row.name, row.error_code)).collect()
}

fn grow(world: &Rc<World>, names: &[&str], timeout_ms: i32) -> Vec<i16> {
    let topic = |name: &&str| create_partitions_request::Topics {
        name: (*name).to_owned(),
        count: 2,
        assignments: None,
    };
    let topics = names.iter().map(topic).collect();
    let answer = world.client().ask(3, &CreatePartitionsRequest { topics, timeout_ms, validate_only: false });
    answer.results.iter().map(|row| row.error_code).collect()
}

fn delete(world: &Rc<World>, topics: &[(Option<&str>, Uuid)], timeout_ms: i32) -> Vec<i16> {
    let topic = |(name, topic_id): &(Option<&str>, Uuid)| delete_topics_request::Topics {
        name: name.map(str::to_owned),
        topic_id: *topic_id,
    };
    let topics = topics.iter().map(topic).collect();
    let answer = world.client().ask(6, &DeleteTopicsRequest { topics, timeout_ms, ..Default::default() });
    answer.responses.iter().map(|row| row.error_code).collect()
}

/// The code of the whole, and those of the partitions.
fn elect(world: &Rc<World>, topics: Option<&[&str]>, timeout_ms: i32) -> (i16, Vec<i16>) {
    let topic = |name: &&str| elect_leaders_request::TopicPartitions {
        topic: (*name).to_owned(),
        partitions: vec![0],
    };
    let topic_partitions = topics.map(|topics| topics.iter().map(topic).collect());
    let answer =
        world.client().ask(2, &ElectLeadersRequest { election_type: 0, topic_partitions, timeout_ms });
    let rows = answer.replica_election_results.iter().flat_map(|topic| &topic.partition_result);
    (answer.error_code, rows.map(|row| row.error_code).collect())
}

fn reassign(world: &Rc<World>, topics: &[&str], timeout_ms: i32) -> (i16, Vec<i16>) {
    use alter_partition_reassignments_request::{Partitions, Topics};
    let topic = |name: &&str| Topics {
        name: (*name).to_owned(),
        partitions: vec![Partitions { partition_index: 0, replicas: Some(vec![1]) }],
    };
    let topics = topics.iter().map(topic).collect();
    let request = AlterPartitionReassignmentsRequest { topics, timeout_ms, ..Default::default() };
    let answer = world.client().ask(1, &request);
    let rows = answer.responses.iter().flat_map(|topic| &topic.partitions);
    (answer.error_code, rows.map(|row| row.error_code).collect())
}

fn topics(world: &World) -> Vec<String> {
    let standings = world.broker().standings().into_iter();
    let names = standings.map(|standing| standing.partition.to_string());
    names.filter(|name| !name.starts_with("__")).collect()
}

/// Without time nothing is done, whatever is asked; every row says so.
#[test]
fn without_time_nothing_is_done() {
    let world = World::new();
    let id = world.create_topic("t", 1);
    for timeout_ms in NO_TIME {
        let refused = [("new", TIMED_OUT), ("t", TIMED_OUT), ("!", TIMED_OUT)];
        let refused = refused.map(|(name, code)| (name.to_owned(), code));
        assert_eq!(create(&world, &["new", "t", "!"], timeout_ms), refused);
        assert_eq!(grow(&world, &["t", "none"], timeout_ms), [TIMED_OUT; 2]);
        let named = [(Some("t"), Uuid::ZERO), (Some("none"), Uuid::ZERO)];
        assert_eq!(delete(&world, &named, timeout_ms), [TIMED_OUT; 2]);
        assert_eq!(delete(&world, &[(None, id), (None, Uuid::from_u128(7))], timeout_ms), [TIMED_OUT; 2]);
        assert_eq!(elect(&world, Some(&["t", "none"]), timeout_ms), (TIMED_OUT, vec![TIMED_OUT; 2]));
        assert_eq!(elect(&world, None, timeout_ms), (TIMED_OUT, vec![]));
        assert_eq!(reassign(&world, &["t", "none"], timeout_ms), (TIMED_OUT, vec![TIMED_OUT; 2]));
        assert_eq!(topics(&world), ["t-0"]);
    }
    world.restart();
    assert_eq!(topics(&world), ["t-0"]);
}

/// A millisecond is enough, however long the sync takes: a request has its turn when it comes.
#[test]
fn any_time_is_enough() {
    let world = World::new();
    assert_eq!(create(&world, &["t"], 1), [("t".to_owned(), 0)]);
    assert_eq!(grow(&world, &["t"], 1), [0]);
    assert_eq!(topics(&world), ["t-0", "t-1"]);
    assert_eq!(elect(&world, Some(&["t"]), 1), (0, vec![ELECTION_NOT_NEEDED]));
    assert_eq!(reassign(&world, &["t"], 1).0, 0);
    let topic_names = vec!["t".to_owned()];
    let request = DeleteTopicsRequest { topic_names, timeout_ms: 1, ..Default::default() };
    let deleted = world.client().send(5, &request);
    world.advance_ms(5_000);
    assert!(!deleted.is_done());
    world.settle();
    assert_eq!(deleted.answer().responses[0].error_code, 0);
    assert_eq!(topics(&world), Vec::<String>::new());
}

/// What is refused for its form needs no time, as long as there is nothing else in the request: then all of it is late.
#[test]
fn a_malformed_request_needs_no_time() {
    let world = World::new();
    let id = world.create_topic("t", 1);
    assert_eq!(create(&world, &[], 0), []);
    assert_eq!(create(&world, &["a", "a"], 0), [("a".to_owned(), INVALID_REQUEST)]);
    assert_eq!(create(&world, &["__cluster_metadata"], 0)[0].1, INVALID_REQUEST);
    assert_eq!(create(&world, &["a", "a", "b"], 0).len(), 3);
    assert_eq!(grow(&world, &[], 0), [0; 0]);
    assert_eq!(grow(&world, &["t", "t"], 0), [INVALID_REQUEST]);
    assert_eq!(delete(&world, &[], 0), [0; 0]);
    for malformed in [&[(Some("t"), id)][..], &[(None, Uuid::ZERO)], &[(None, id), (None, id)]] {
        assert_eq!(delete(&world, malformed, 0), [INVALID_REQUEST]);
        let with_another = [malformed, &[(Some("t"), Uuid::ZERO)]].concat();
        assert_eq!(delete(&world, &with_another, 0), vec![TIMED_OUT; with_another.len()]);
    }
    assert_eq!(elect(&world, Some(&[]), 0), (0, vec![]));
    assert_eq!(reassign(&world, &[], 0), (0, vec![]));
    assert_eq!(topics(&world), ["t-0"]);
}

/// DeleteRecords asks no controller: what has moved is answered when it is remembered, however long the client would wait.
#[test]
fn delete_records_has_no_timeout_of_its_own() {
    let world = World::new();
    world.create_topic("t", 1);
    for timeout_ms in NO_TIME {
        let partition = delete_records_request::Partitions { partition_index: 0, offset: -1 };
        let topic = delete_records_request::Topics { name: "t".to_owned(), partitions: vec![partition] };
        let answer = world.client().ask(2, &DeleteRecordsRequest { topics: vec![topic], timeout_ms });
        assert_eq!(answer.topics[0].partitions[0].error_code, 0);
    }
}
