//! For each API a request that names one thing as often as fits. A new API needs a row.

use std::cell::Cell;

use fencepost_protocol::messages::*;
use fencepost_protocol::{ApiKey, Request, encode_request};

/// Bytes of a request.
const REQUEST_BYTES: usize = 100_000;

/// About the longest name that a request can carry.
const LONG_NAME_CHARS: usize = 30_000;

/// What one hostile request is.
pub struct Hostile {
    pub api_key: ApiKey,
    /// What it names.
    pub names: &'static str,
    pub frame: Vec<u8>,
}

/// As many names as fit. Where a request has no list it is sent as it is.
fn hostile<R: Request>(names: &'static str, build: impl Fn(usize) -> R) -> Hostile {
    let version = match R::API_KEY {
        // The later ones are for brokers.
        ApiKey::AddPartitionsToTxn => 3,
        other => *other.stable_versions().end(),
    };
    let frame = |count| encode_request(1, Some("test"), version, &build(count)).into_bytes().to_vec();
    let (few, more) = (frame(10).len(), frame(110).len());
    let count = if more == few { 1 } else { (REQUEST_BYTES - few.min(REQUEST_BYTES)) * 100 / (more - few) };
    Hostile { api_key: R::API_KEY, names, frame: frame(count) }
}

fn times<T: Clone>(value: T, count: usize) -> Vec<T> {
    vec![value; count]
}

thread_local! {
    static ARE_NAMES_LONG: Cell<bool> = const { Cell::new(false) };
}

fn s(name: &str) -> String {
    if ARE_NAMES_LONG.get() { name.chars().cycle().take(LONG_NAME_CHARS).collect() } else { name.to_owned() }
}

/// Names with the default for everything else.
macro_rules! some {
    ($kind:path { $($field:ident : $value:expr),* $(,)? }) => {{
        #[allow(clippy::needless_update)]
        let value = { use $kind as Kind; Kind { $($field: $value,)* ..Default::default() } };
        value
    }};
}

/// The same requests with long names: of nothing that there is.
pub fn with_long_names() -> Vec<Hostile> {
    ARE_NAMES_LONG.set(true);
    let all = all();
    ARE_NAMES_LONG.set(false);
    all
}

/// Requests about records and topics.
fn of_topics() -> Vec<Hostile> {
    vec![
        hostile("a partition", |n| {
            let row = some!(produce_request::PartitionData { index: 0 });
            let topic = some!(produce_request::TopicData { name: s("t"), partition_data: times(row, n) });
            some!(ProduceRequest { acks: -1, timeout_ms: 1, topic_data: vec![topic] })
        }),
        hostile("a partition", |n| {
            let row = some!(fetch_request::Partitions { partition_max_bytes: 1 << 20 });
            let topic = some!(fetch_request::Topics { topic: s("t"), partitions: times(row, n) });
            some!(FetchRequest { max_bytes: i32::MAX, session_epoch: -1, topics: vec![topic] })
        }),
        hostile("a partition", |n| {
            let row = some!(list_offsets_request::Partitions { timestamp: -1 });
            let topic = some!(list_offsets_request::Topics { name: s("t"), partitions: times(row, n) });
            some!(ListOffsetsRequest { replica_id: -1, topics: vec![topic] })
        }),
        hostile("a topic", |n| {
            let topic = some!(metadata_request::Topics { name: Some(s("many")) });
            some!(MetadataRequest { topics: Some(times(topic, n)) })
        }),
        hostile("a topic", |n| {
            let topic = some!(describe_topic_partitions_request::Topics { name: s("many") });
            some!(DescribeTopicPartitionsRequest {
                topics: times(topic, n),
                response_partition_limit: i32::MAX
            })
        }),
        hostile("a partition", |n| {
            let row = some!(offset_for_leader_epoch_request::Partitions { current_leader_epoch: -1 });
            let topic =
                some!(offset_for_leader_epoch_request::Topics { topic: s("t"), partitions: times(row, n) });
            some!(OffsetForLeaderEpochRequest { topics: vec![topic] })
        }),
        hostile("a partition", |n| {
            let row = some!(delete_records_request::Partitions { offset: 0 });
            let topic = some!(delete_records_request::Topics { name: s("t"), partitions: times(row, n) });
            some!(DeleteRecordsRequest { topics: vec![topic], timeout_ms: 1 })
        }),
        hostile("a topic", |n| {
            let topic = some!(create_topics_request::Topics {
                name: s("t"),
                num_partitions: 1,
                replication_factor: 1
            });
            some!(CreateTopicsRequest { topics: times(topic, n), timeout_ms: 1 })
        }),
        hostile("a topic", |n| {
            let topic = some!(delete_topics_request::Topics { name: Some(s("nowhere")) });
            some!(DeleteTopicsRequest { topics: times(topic, n), timeout_ms: 1 })
        }),
        hostile("a topic", |n| {
            let topic = some!(create_partitions_request::Topics { name: s("t"), count: 1 });
            some!(CreatePartitionsRequest { topics: times(topic, n), timeout_ms: 1 })
        }),
        hostile("a partition", |n| {
            let topic =
                some!(describe_log_dirs_request::Topics { topic: s("many"), partitions: times(0, n) });
            some!(DescribeLogDirsRequest { topics: Some(vec![topic]) })
        }),
        hostile("a partition", |n| {
            let topic =
                some!(alter_replica_log_dirs_request::Topics { name: s("t"), partitions: times(0, n) });
            let dir = some!(alter_replica_log_dirs_request::Dirs { path: s("x"), topics: vec![topic] });
            some!(AlterReplicaLogDirsRequest { dirs: vec![dir] })
        }),
        hostile("a partition", |n| {
            let topic =
                some!(elect_leaders_request::TopicPartitions { topic: s("t"), partitions: times(0, n) });
            some!(ElectLeadersRequest { topic_partitions: Some(vec![topic]), timeout_ms: 1 })
        }),
        hostile("a partition", |n| {
            let row = some!(alter_partition_reassignments_request::Partitions { partition_index: 0 });
            let topic = some!(alter_partition_reassignments_request::Topics {
                name: s("t"),
                partitions: times(row, n)
            });
            some!(AlterPartitionReassignmentsRequest { topics: vec![topic] })
        }),
        hostile("a partition", |n| {
            let topic = some!(list_partition_reassignments_request::Topics {
                name: s("t"),
                partition_indexes: times(0, n)
            });
            some!(ListPartitionReassignmentsRequest { topics: Some(vec![topic]) })
        }),
        hostile("a partition", |n| {
            let topic =
                some!(describe_producers_request::Topics { name: s("t"), partition_indexes: times(0, n) });
            some!(DescribeProducersRequest { topics: vec![topic] })
        }),
    ]
}

/// Requests about groups and their offsets.
fn of_groups() -> Vec<Hostile> {
    vec![
        hostile("a partition", |n| {
            let row = some!(offset_commit_request::Partitions { committed_offset: 1 });
            let topic = some!(offset_commit_request::Topics { name: s("many"), partitions: times(row, n) });
            some!(OffsetCommitRequest {
                group_id: s("new"),
                generation_id_or_member_epoch: -1,
                topics: vec![topic]
            })
        }),
        hostile("a group", |n| {
            let group =
                some!(offset_fetch_request::Groups { group_id: s("o"), member_epoch: -1, topics: None });
            some!(OffsetFetchRequest { groups: times(group, n) })
        }),
        hostile("a partition", |n| {
            let topic =
                some!(offset_fetch_request::GroupsTopics { name: s("many"), partition_indexes: times(0, n) });
            let group = some!(offset_fetch_request::Groups {
                group_id: s("o"),
                member_epoch: -1,
                topics: Some(vec![topic])
            });
            some!(OffsetFetchRequest { groups: vec![group] })
        }),
        hostile("a group", |n| some!(FindCoordinatorRequest { coordinator_keys: times(s("g"), n) })),
        hostile("a protocol", |n| {
            let protocol = some!(join_group_request::Protocols { name: s("range") });
            some!(JoinGroupRequest {
                group_id: s("joined"),
                session_timeout_ms: 10_000,
                rebalance_timeout_ms: 10_000,
                protocol_type: s("consumer"),
                protocols: times(protocol, n)
            })
        }),
        hostile("", |_| some!(HeartbeatRequest { group_id: s("g") })),
        hostile("a member", |n| {
            let member = some!(leave_group_request::Members { member_id: s("m") });
            some!(LeaveGroupRequest { group_id: s("g"), members: times(member, n) })
        }),
        hostile("a member", |n| {
            let assignment = some!(sync_group_request::Assignments { member_id: s("m") });
            some!(SyncGroupRequest { group_id: s("g"), assignments: times(assignment, n) })
        }),
        hostile("a group", |n| some!(DescribeGroupsRequest { groups: times(s("g"), n) })),
        hostile("a state", |n| some!(ListGroupsRequest { states_filter: times(s("Stable"), n) })),
        hostile("a group", |n| some!(DeleteGroupsRequest { groups_names: times(s("g"), n) })),
        hostile("a partition", |n| {
            let row = some!(offset_delete_request::Partitions { partition_index: 0 });
            let topic = some!(offset_delete_request::Topics { name: s("many"), partitions: times(row, n) });
            some!(OffsetDeleteRequest { group_id: s("o"), topics: vec![topic] })
        }),
        hostile("a topic", |n| {
            some!(ConsumerGroupHeartbeatRequest {
                group_id: s("new-c"),
                member_id: s("m"),
                rebalance_timeout_ms: 1_000,
                subscribed_topic_names: Some(times(s("t"), n)),
                topic_partitions: Some(Vec::new())
            })
        }),
        hostile("a group", |n| some!(ConsumerGroupDescribeRequest { group_ids: times(s("c"), n) })),
    ]
}

/// Requests about transactions.
fn of_transactions() -> Vec<Hostile> {
    vec![
        hostile("", |_| some!(InitProducerIdRequest { producer_id: -1, producer_epoch: -1 })),
        hostile("a partition", |n| {
            let topic = some!(add_partitions_to_txn_request::V3AndBelowTopics {
                name: s("t"),
                partitions: times(0, n)
            });
            some!(AddPartitionsToTxnRequest {
                v3_and_below_transactional_id: s("nobody"),
                v3_and_below_topics: vec![topic]
            })
        }),
        hostile("", |_| some!(AddOffsetsToTxnRequest { transactional_id: s("nobody") })),
        hostile("", |_| some!(EndTxnRequest { transactional_id: s("nobody") })),
        hostile("a partition", |n| {
            let topic = some!(write_txn_markers_request::Topics {
                name: s("nowhere"),
                partition_indexes: times(0, n)
            });
            let marker = some!(write_txn_markers_request::Markers { producer_id: 7, topics: vec![topic] });
            some!(WriteTxnMarkersRequest { markers: vec![marker] })
        }),
        hostile("a partition", |n| {
            let row = some!(txn_offset_commit_request::Partitions { committed_offset: 1 });
            let topic = some!(txn_offset_commit_request::Topics { name: s("t"), partitions: times(row, n) });
            some!(TxnOffsetCommitRequest {
                transactional_id: s("nobody"),
                group_id: s("o"),
                topics: vec![topic]
            })
        }),
        hostile("an id", |n| some!(DescribeTransactionsRequest { transactional_ids: times(s("x"), n) })),
        hostile("a state", |n| {
            some!(ListTransactionsRequest { state_filters: times(s("Ongoing"), n), duration_filter: -1 })
        }),
    ]
}

/// Requests about the cluster, its settings and its users.
fn of_cluster() -> Vec<Hostile> {
    vec![
        hostile("", |_| ApiVersionsRequest {
            client_software_name: s("test"),
            client_software_version: s("1"),
            ..Default::default()
        }),
        hostile("", |_| some!(SaslHandshakeRequest { mechanism: s("PLAIN") })),
        hostile("", |_| SaslAuthenticateRequest::default()),
        hostile("", |_| some!(DescribeAclsRequest { resource_type_filter: 1 })),
        hostile("a right", |n| some!(CreateAclsRequest { creations: times(Default::default(), n) })),
        hostile("a filter", |n| some!(DeleteAclsRequest { filters: times(Default::default(), n) })),
        hostile("a topic", |n| {
            let resource = some!(describe_configs_request::Resources {
                resource_type: 2,
                resource_name: s("t"),
                configuration_keys: None
            });
            some!(DescribeConfigsRequest {
                resources: times(resource, n),
                include_synonyms: true,
                include_documentation: true
            })
        }),
        hostile("a topic", |n| {
            let resource =
                some!(alter_configs_request::Resources { resource_type: 2, resource_name: s("t") });
            some!(AlterConfigsRequest { resources: times(resource, n), validate_only: true })
        }),
        hostile("a topic", |n| {
            let resource = some!(incremental_alter_configs_request::Resources {
                resource_type: 2,
                resource_name: s("t")
            });
            some!(IncrementalAlterConfigsRequest { resources: times(resource, n), validate_only: true })
        }),
        hostile("a kind", |n| some!(ListConfigResourcesRequest { resource_types: times(2, n) })),
        hostile("a kind", |n| {
            let component =
                some!(describe_client_quotas_request::Components { entity_type: s("user"), match_type: 1 });
            some!(DescribeClientQuotasRequest { components: times(component, n) })
        }),
        hostile("a user", |n| {
            let entity = some!(alter_client_quotas_request::Entity { entity_type: s("user") });
            let entry = some!(alter_client_quotas_request::Entries { entity: vec![entity] });
            some!(AlterClientQuotasRequest { entries: times(entry, n), validate_only: true })
        }),
        hostile("a user", |n| {
            let user = some!(describe_user_scram_credentials_request::Users { name: s("u") });
            some!(DescribeUserScramCredentialsRequest { users: Some(times(user, n)) })
        }),
        hostile("a user", |n| {
            let deletion =
                some!(alter_user_scram_credentials_request::Deletions { name: s("u"), mechanism: 1 });
            some!(AlterUserScramCredentialsRequest { deletions: times(deletion, n) })
        }),
        hostile("a topic", |n| {
            let topic = some!(describe_quorum_request::Topics {
                topic_name: s("__cluster_metadata"),
                partitions: times(Default::default(), n)
            });
            some!(DescribeQuorumRequest { topics: vec![topic] })
        }),
        hostile("a feature", |n| {
            let update = some!(update_features_request::FeatureUpdates {
                feature: s("transaction.version"),
                max_version_level: 2
            });
            some!(UpdateFeaturesRequest { feature_updates: times(update, n), validate_only: true })
        }),
        hostile("", |_| some!(DescribeClusterRequest { endpoint_type: 1 })),
    ]
}

/// Requests that are served and used by nobody.
fn of_the_unused() -> Vec<Hostile> {
    macro_rules! alone {
        ($($kind:ident),*) => { [$(hostile("", |_| $kind::default())),*] };
    }
    macro_rules! state {
        ($kind:ident, $module:ident) => {
            hostile("a partition", |n| {
                let topic = some!($module::Topics { partitions: times(Default::default(), n) });
                some!($kind { group_id: s("g"), topics: vec![topic] })
            })
        };
    }
    let mut all = vec![
        hostile("a group", |n| some!(ShareGroupDescribeRequest { group_ids: times(s("g"), n) })),
        hostile("a group", |n| some!(StreamsGroupDescribeRequest { group_ids: times(s("g"), n) })),
        hostile("a group", |n| {
            some!(DescribeShareGroupOffsetsRequest { groups: times(Default::default(), n) })
        }),
        state!(InitializeShareGroupStateRequest, initialize_share_group_state_request),
        state!(ReadShareGroupStateRequest, read_share_group_state_request),
        state!(WriteShareGroupStateRequest, write_share_group_state_request),
        state!(DeleteShareGroupStateRequest, delete_share_group_state_request),
        state!(ReadShareGroupStateSummaryRequest, read_share_group_state_summary_request),
    ];
    all.extend(alone!(
        CreateDelegationTokenRequest,
        RenewDelegationTokenRequest,
        ExpireDelegationTokenRequest,
        DescribeDelegationTokenRequest,
        UnregisterBrokerRequest,
        UnregisterControllerRequest,
        AddRaftVoterRequest,
        RemoveRaftVoterRequest,
        ShareGroupHeartbeatRequest,
        ShareFetchRequest,
        ShareAcknowledgeRequest,
        StreamsGroupHeartbeatRequest,
        AlterShareGroupOffsetsRequest,
        DeleteShareGroupOffsetsRequest,
        StreamsGroupTopologyDescriptionUpdateRequest
    ));
    all
}

/// One for each API at least.
pub fn all() -> Vec<Hostile> {
    [of_topics(), of_groups(), of_transactions(), of_cluster(), of_the_unused()]
        .into_iter()
        .flatten()
        .collect()
}
