//! From a frame to the handler of its API.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use fencepost_protocol::{ApiKey, RequestBody, RequestHeader};
use fencepost_types::Now;
use fencepost_types::wire::Reader;

use crate::Broker;
use crate::connection::Connection;
use crate::cx::Cx;
use crate::handlers::produce::TakeTurn;
use crate::handlers::{
    acls, add_partitions, api_versions, cluster, configs, consumer_groups, fetch, find_coordinator,
    group_admin, groups, list_offsets, log_dirs, membership, metadata, offset_fetch, offsets, placement,
    produce, quotas, records, sasl, scram, share_state, switched_off, telemetry, tokens, topics,
    transactions, txn_admin, txn_markers, txn_offsets,
};
use crate::respond::{Exchange, Outcome, Respond};
use crate::weight::{is_heavy as is_heavy_request, is_heavy_frame, span_of_frame};
use crate::work::Span;

impl Broker {
    /// Takes one frame (without its length). `respond` is called once, perhaps much later, perhaps on another thread.
    ///
    /// A frame that cannot be read, or asks for what is not served, closes the connection: no answer could be
    /// decoded (wire-apis §2).
    pub fn handle(self: &Arc<Self>, now: Now, connection: &Arc<Connection>, frame: Bytes, respond: Respond) {
        self.enter(now, |broker, cx| dispatch(broker, cx, connection, frame, respond));
    }
}

fn dispatch(broker: &Arc<Broker>, cx: &mut Cx, connection: &Arc<Connection>, frame: Bytes, respond: Respond) {
    let frame_bytes = frame.len();
    let mut reader = Reader::new(frame);
    let Ok(header) = RequestHeader::decode(&mut reader) else {
        return close(broker, cx, connection, respond, format_args!("a request header cannot be read"));
    };
    let (version, code) = (header.api_version, header.api_key_code);
    let Some(api_key) = header.api_key() else {
        return close(broker, cx, connection, respond, format_args!("there is no API {code}"));
    };
    let is_served = broker.apis.is_served(api_key, version);
    let is_heavy = is_served && is_heavy_frame(api_key, frame_bytes);
    if api_key == ApiKey::ApiVersions && !is_served {
        let exchange = Exchange::new(Arc::clone(connection), header, api_key, respond);
        return api_versions::unknown_version(broker, exchange);
    }
    if !is_served {
        let why = format_args!("version {version} of {} is not served", api_key.name());
        return close(broker, cx, connection, respond, why);
    }
    let exchange = Exchange::new(Arc::clone(connection), header, api_key, respond);
    if is_heavy {
        return dispatch_heavy(broker, cx, exchange, reader);
    }
    let Some((exchange, body)) = read(broker, cx, exchange, &mut reader) else { return };
    if api_key == ApiKey::Produce {
        return route(broker, cx, exchange, body);
    }
    let request = Box::new(move |broker: &Arc<Broker>, cx: &mut Cx| {
        if is_heavy_request(broker, &body) {
            let connection = Arc::clone(&exchange.connection);
            let task = Box::new(move |broker: &Arc<Broker>, cx: &mut Cx| route(broker, cx, exchange, body));
            return broker.work(cx.now, &connection, Span::Short, task);
        }
        route(broker, cx, exchange, body);
    });
    connection.enter_other(broker, cx, request);
}

/// A request that is too large even to be read here. It takes its turn among those of its connection first.
fn dispatch_heavy(broker: &Arc<Broker>, cx: &mut Cx, exchange: Exchange, mut reader: Reader) {
    let connection = Arc::clone(&exchange.connection);
    let worker = Arc::clone(&connection);
    if exchange.api_key == ApiKey::Produce {
        let enter: TakeTurn = Box::new(move |broker, cx, left| {
            let task = Box::new(move |broker: &Arc<Broker>, cx: &mut Cx| {
                match read(broker, cx, exchange, &mut reader) {
                    Some((exchange, RequestBody::Produce(request))) => {
                        produce::begin(broker, cx, exchange, request, left);
                    }
                    Some(_) | None => left.leave(cx),
                }
            });
            // The records are weighed, and checked, piece by piece after it.
            broker.work(cx.now, &worker, Span::Short, task);
        });
        return produce::take_turn(broker, cx, &connection, enter);
    }
    let span = span_of_frame(reader.remaining());
    let request = Box::new(move |broker: &Arc<Broker>, cx: &mut Cx| {
        let task = Box::new(move |broker: &Arc<Broker>, cx: &mut Cx| {
            if let Some((exchange, body)) = read(broker, cx, exchange, &mut reader) {
                route(broker, cx, exchange, body);
            }
        });
        broker.work(cx.now, &worker, span, task);
    });
    connection.enter_other(broker, cx, request);
}

/// Reads the body; one that cannot be read closes the connection.
fn read(
    broker: &Broker,
    cx: &Cx,
    exchange: Exchange,
    reader: &mut Reader,
) -> Option<(Exchange, RequestBody)> {
    let (api_key, version) = (exchange.api_key, exchange.version());
    match RequestBody::decode(api_key, version, reader) {
        Ok(body) => Some((exchange, body)),
        Err(error) => {
            let why = format_args!("{} of version {version} cannot be read: {error}", api_key.name());
            log_close(broker, cx, &exchange.connection, why);
            exchange.close();
            None
        }
    }
}

/// Closes a connection and says why.
fn close(broker: &Broker, cx: &Cx, connection: &Connection, respond: Respond, why: fmt::Arguments<'_>) {
    log_close(broker, cx, connection, why);
    respond(Outcome::Close);
}

/// A stranger decides how often that happens, so it is logged within limits.
fn log_close(broker: &Broker, cx: &Cx, connection: &Connection, why: fmt::Arguments<'_>) {
    if let Some(allowed) = broker.log_limits.bad_request.allow(cx.now.mono) {
        let suppressed = allowed.suppressed;
        tracing::warn!(peer = connection.client_host, suppressed, "closing a connection: {why}");
    }
}

/// One arm for each API and no catch-all: an API that is new has no answer until it stands here, and the code does not compile.
/// It is a list because it grows with the APIs, as no function should.
macro_rules! routes {
    (|$broker:ident, $cx:ident, $exchange:ident| $($api:ident($request:pat) => $answer:expr,)*) => {
        fn route($broker: &Arc<Broker>, $cx: &mut Cx, $exchange: Exchange, body: RequestBody) {
            match body {
                $(RequestBody::$api($request) => $answer,)*
            }
        }
    };
}

routes! {
    |broker, cx, exchange|
    Produce(request) => produce::produce(broker, cx, exchange, request),
    Fetch(request) => fetch::fetch(broker, cx, exchange, request),
    ListOffsets(request) => list_offsets::list_offsets(broker, exchange, request),
    OffsetForLeaderEpoch(request) => records::offset_for_leader_epoch(broker, exchange, request),
    DeleteRecords(request) => records::delete_records(broker, cx, exchange, request),
    ApiVersions(request) => api_versions::api_versions(broker, exchange, request),
    Metadata(request) => metadata::metadata(broker, cx, exchange, request),
    DescribeCluster(request) => cluster::describe_cluster(broker, exchange, request),
    DescribeTopicPartitions(request) => metadata::describe_topic_partitions(broker, exchange, request),
    DescribeQuorum(request) => cluster::describe_quorum(broker, cx, exchange, request),
    UpdateFeatures(request) => cluster::update_features(broker, cx, exchange, request),
    CreateTopics(request) => topics::create_topics(broker, cx, exchange, request),
    DeleteTopics(request) => topics::delete_topics(broker, cx, exchange, request),
    CreatePartitions(request) => topics::create_partitions(broker, cx, exchange, request),
    ElectLeaders(request) => placement::elect_leaders(broker, cx, exchange, request),
    AlterPartitionReassignments(request) =>
        placement::alter_reassignments(broker, cx, exchange, request),
    ListPartitionReassignments(request) => placement::list_reassignments(broker, exchange, request),
    DescribeConfigs(request) => configs::describe_configs(broker, exchange, request),
    AlterConfigs(request) => configs::alter_configs(broker, cx, exchange, request),
    IncrementalAlterConfigs(request) =>
        configs::incremental_alter_configs(broker, cx, exchange, request),
    ListConfigResources(request) => configs::list_config_resources(broker, exchange, request),
    DescribeLogDirs(request) => log_dirs::describe_log_dirs(broker, exchange, request),
    AlterReplicaLogDirs(request) => log_dirs::alter_replica_log_dirs(broker, exchange, request),
    DescribeClientQuotas(request) => quotas::describe_client_quotas(broker, exchange, request),
    AlterClientQuotas(request) => quotas::alter_client_quotas(broker, cx, exchange, request),
    DescribeUserScramCredentials(request) => scram::describe_credentials(broker, exchange, request),
    AlterUserScramCredentials(request) => scram::alter_credentials(broker, cx, exchange, request),
    DescribeAcls(request) => acls::describe_acls(exchange, request),
    CreateAcls(request) => acls::create_acls(exchange, request),
    DeleteAcls(request) => acls::delete_acls(exchange, request),
    GetTelemetrySubscriptions(request) => telemetry::get_subscriptions(broker, exchange, request),
    FindCoordinator(request) => find_coordinator::find_coordinator(broker, exchange, request),
    JoinGroup(request) => groups::join_group(broker, cx, exchange, request),
    SyncGroup(request) => groups::sync_group(broker, cx, exchange, request),
    Heartbeat(request) => groups::heartbeat(broker, cx, exchange, request),
    LeaveGroup(request) => groups::leave_group(broker, cx, exchange, request),
    ConsumerGroupHeartbeat(request) => consumer_groups::heartbeat(broker, cx, exchange, request),
    ConsumerGroupDescribe(request) => consumer_groups::describe(broker, cx, exchange, request),
    DescribeGroups(request) => group_admin::describe_groups(broker, cx, exchange, request),
    ListGroups(request) => group_admin::list_groups(broker, cx, exchange, request),
    DeleteGroups(request) => group_admin::delete_groups(broker, cx, exchange, request),
    OffsetCommit(request) => offsets::offset_commit(broker, cx, exchange, request),
    OffsetFetch(request) => offset_fetch::offset_fetch(broker, cx, exchange, request),
    OffsetDelete(request) => offsets::offset_delete(broker, cx, exchange, request),
    InitProducerId(request) => transactions::init_producer_id(broker, cx, exchange, request),
    AddPartitionsToTxn(request) =>
        add_partitions::add_partitions_to_txn(broker, cx, exchange, request),
    AddOffsetsToTxn(request) => transactions::add_offsets_to_txn(broker, cx, exchange, request),
    EndTxn(request) => transactions::end_txn(broker, cx, exchange, request),
    WriteTxnMarkers(request) => txn_markers::write_txn_markers(broker, cx, exchange, request),
    TxnOffsetCommit(request) => txn_offsets::txn_offset_commit(broker, cx, exchange, request),
    DescribeProducers(request) => txn_admin::describe_producers(broker, exchange, request),
    DescribeTransactions(request) => txn_admin::describe_transactions(broker, cx, exchange, request),
    ListTransactions(request) => txn_admin::list_transactions(broker, cx, exchange, request),
    SaslHandshake(_) => sasl::handshake(exchange),
    SaslAuthenticate(_) => sasl::authenticate(exchange),
    // APIs that are shown for those who look at the list, and that one node with these features has little use for.
    CreateDelegationToken(request) => tokens::create(exchange, request),
    RenewDelegationToken(_) => tokens::renew(exchange),
    ExpireDelegationToken(_) => tokens::expire(exchange),
    DescribeDelegationToken(_) => tokens::describe(exchange),
    UnregisterBroker(request) => membership::unregister_broker(broker, cx, exchange, request),
    UnregisterController(request) => membership::unregister_controller(broker, exchange, request),
    AddRaftVoter(request) => membership::add_voter(broker, exchange, request),
    RemoveRaftVoter(request) => membership::remove_voter(broker, exchange, request),
    ShareGroupHeartbeat(_) => switched_off::share_group_heartbeat(exchange),
    ShareGroupDescribe(request) => switched_off::share_group_describe(exchange, request),
    ShareFetch(_) => switched_off::share_fetch(exchange),
    ShareAcknowledge(_) => switched_off::share_acknowledge(exchange),
    DescribeShareGroupOffsets(request) =>
        switched_off::describe_share_group_offsets(exchange, request),
    AlterShareGroupOffsets(_) => switched_off::alter_share_group_offsets(exchange),
    DeleteShareGroupOffsets(_) => switched_off::delete_share_group_offsets(exchange),
    InitializeShareGroupState(request) => share_state::initialize(exchange, request),
    ReadShareGroupState(request) => share_state::read(exchange, request),
    WriteShareGroupState(request) => share_state::write(exchange, request),
    DeleteShareGroupState(request) => share_state::delete(exchange, request),
    ReadShareGroupStateSummary(request) => share_state::read_summary(exchange, request),
    StreamsGroupHeartbeat(_) => switched_off::streams_group_heartbeat(exchange),
    StreamsGroupDescribe(request) => switched_off::streams_group_describe(exchange, request),
    StreamsGroupTopologyDescriptionUpdate(_) => switched_off::streams_group_topology(exchange),
}
