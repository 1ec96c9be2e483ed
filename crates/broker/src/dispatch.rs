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
use crate::handlers::{
    acls, add_partitions, api_versions, cluster, configs, consumer_groups, fetch, find_coordinator,
    group_admin, groups, list_offsets, log_dirs, membership, metadata, offset_fetch, offsets, placement,
    produce, quotas, records, sasl, scram, share_state, switched_off, telemetry, tokens, topics,
    transactions, txn_admin, txn_markers, txn_offsets,
};
use crate::respond::{Exchange, Outcome, Respond};

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
    let mut reader = Reader::new(frame);
    let Ok(header) = RequestHeader::decode(&mut reader) else {
        return close(broker, cx, connection, respond, format_args!("a request header cannot be read"));
    };
    let (version, code) = (header.api_version, header.api_key_code);
    let Some(api_key) = header.api_key() else {
        return close(broker, cx, connection, respond, format_args!("there is no API {code}"));
    };
    let is_served = broker.apis.is_served(api_key, version);
    if api_key == ApiKey::ApiVersions && !is_served {
        let exchange = Exchange::new(Arc::clone(connection), header, api_key, respond);
        return api_versions::unknown_version(broker, exchange);
    }
    if !is_served {
        let why = format_args!("version {version} of {} is not served", api_key.name());
        return close(broker, cx, connection, respond, why);
    }
    match RequestBody::decode(api_key, version, &mut reader) {
        Ok(body) => {
            let exchange = Exchange::new(Arc::clone(connection), header, api_key, respond);
            if api_key == ApiKey::Produce {
                return route(broker, cx, exchange, body);
            }
            let request =
                Box::new(move |broker: &Arc<Broker>, cx: &mut Cx| route(broker, cx, exchange, body));
            connection.enter_other(broker, cx, request);
        }
        Err(error) => {
            let why = format_args!("{} of version {version} cannot be read: {error}", api_key.name());
            close(broker, cx, connection, respond, why);
        }
    }
}

/// Closes a connection and says why. A stranger decides how often that happens, so it is logged within limits.
fn close(broker: &Broker, cx: &Cx, connection: &Connection, respond: Respond, why: fmt::Arguments<'_>) {
    if let Some(allowed) = broker.log_limits.bad_request.allow(cx.now.mono) {
        let suppressed = allowed.suppressed;
        tracing::warn!(peer = connection.client_host, suppressed, "closing a connection: {why}");
    }
    respond(Outcome::Close);
}

/// What [`route_unused`] answers, as one pattern: so a new API has to be considered in `route`.
macro_rules! unused {
    () => {
        RequestBody::CreateDelegationToken(_)
            | RequestBody::RenewDelegationToken(_)
            | RequestBody::ExpireDelegationToken(_)
            | RequestBody::DescribeDelegationToken(_)
            | RequestBody::UnregisterBroker(_)
            | RequestBody::UnregisterController(_)
            | RequestBody::AddRaftVoter(_)
            | RequestBody::RemoveRaftVoter(_)
            | RequestBody::ShareGroupHeartbeat(_)
            | RequestBody::ShareGroupDescribe(_)
            | RequestBody::ShareFetch(_)
            | RequestBody::ShareAcknowledge(_)
            | RequestBody::DescribeShareGroupOffsets(_)
            | RequestBody::AlterShareGroupOffsets(_)
            | RequestBody::DeleteShareGroupOffsets(_)
            | RequestBody::InitializeShareGroupState(_)
            | RequestBody::ReadShareGroupState(_)
            | RequestBody::WriteShareGroupState(_)
            | RequestBody::DeleteShareGroupState(_)
            | RequestBody::ReadShareGroupStateSummary(_)
            | RequestBody::StreamsGroupHeartbeat(_)
            | RequestBody::StreamsGroupDescribe(_)
            | RequestBody::StreamsGroupTopologyDescriptionUpdate(_)
    };
}

fn route(broker: &Arc<Broker>, cx: &mut Cx, exchange: Exchange, body: RequestBody) {
    use RequestBody as R;
    match body {
        R::Produce(request) => produce::produce(broker, cx, exchange, request),
        R::Fetch(request) => fetch::fetch(broker, cx, exchange, request),
        R::ListOffsets(request) => list_offsets::list_offsets(broker, exchange, request),
        R::OffsetForLeaderEpoch(request) => records::offset_for_leader_epoch(broker, exchange, request),
        R::DeleteRecords(request) => records::delete_records(broker, cx, exchange, request),
        R::ApiVersions(request) => api_versions::api_versions(broker, exchange, request),
        R::Metadata(request) => metadata::metadata(broker, cx, exchange, request),
        R::DescribeCluster(request) => cluster::describe_cluster(broker, exchange, request),
        R::DescribeTopicPartitions(request) => metadata::describe_topic_partitions(broker, exchange, request),
        R::DescribeQuorum(request) => cluster::describe_quorum(broker, cx, exchange, request),
        R::UpdateFeatures(request) => cluster::update_features(broker, cx, exchange, request),
        R::CreateTopics(request) => topics::create_topics(broker, cx, exchange, request),
        R::DeleteTopics(request) => topics::delete_topics(broker, cx, exchange, request),
        R::CreatePartitions(request) => topics::create_partitions(broker, cx, exchange, request),
        R::ElectLeaders(request) => placement::elect_leaders(broker, cx, exchange, request),
        R::AlterPartitionReassignments(request) => {
            placement::alter_reassignments(broker, cx, exchange, request)
        }
        R::ListPartitionReassignments(request) => placement::list_reassignments(broker, exchange, request),
        R::DescribeConfigs(request) => configs::describe_configs(broker, exchange, request),
        R::AlterConfigs(request) => configs::alter_configs(broker, cx, exchange, request),
        R::IncrementalAlterConfigs(request) => {
            configs::incremental_alter_configs(broker, cx, exchange, request)
        }
        R::ListConfigResources(request) => configs::list_config_resources(broker, exchange, request),
        R::DescribeLogDirs(request) => log_dirs::describe_log_dirs(broker, exchange, request),
        R::AlterReplicaLogDirs(request) => log_dirs::alter_replica_log_dirs(broker, exchange, request),
        R::DescribeClientQuotas(request) => quotas::describe_client_quotas(broker, exchange, request),
        R::AlterClientQuotas(request) => quotas::alter_client_quotas(broker, cx, exchange, request),
        R::DescribeUserScramCredentials(request) => scram::describe_credentials(broker, exchange, request),
        R::AlterUserScramCredentials(request) => scram::alter_credentials(broker, cx, exchange, request),
        R::DescribeAcls(request) => acls::describe_acls(exchange, request),
        R::CreateAcls(request) => acls::create_acls(exchange, request),
        R::DeleteAcls(request) => acls::delete_acls(exchange, request),
        R::GetTelemetrySubscriptions(request) => telemetry::get_subscriptions(broker, exchange, request),
        R::FindCoordinator(request) => find_coordinator::find_coordinator(broker, exchange, request),
        R::JoinGroup(request) => groups::join_group(broker, cx, exchange, request),
        R::SyncGroup(request) => groups::sync_group(broker, cx, exchange, request),
        R::Heartbeat(request) => groups::heartbeat(broker, cx, exchange, request),
        R::LeaveGroup(request) => groups::leave_group(broker, cx, exchange, request),
        R::ConsumerGroupHeartbeat(request) => consumer_groups::heartbeat(broker, cx, exchange, request),
        R::ConsumerGroupDescribe(request) => consumer_groups::describe(broker, cx, exchange, request),
        R::DescribeGroups(request) => group_admin::describe_groups(broker, cx, exchange, request),
        R::ListGroups(request) => group_admin::list_groups(broker, cx, exchange, request),
        R::DeleteGroups(request) => group_admin::delete_groups(broker, cx, exchange, request),
        R::OffsetCommit(request) => offsets::offset_commit(broker, cx, exchange, request),
        R::OffsetFetch(request) => offset_fetch::offset_fetch(broker, cx, exchange, request),
        R::OffsetDelete(request) => offsets::offset_delete(broker, cx, exchange, request),
        R::InitProducerId(request) => transactions::init_producer_id(broker, cx, exchange, request),
        R::AddPartitionsToTxn(request) => {
            add_partitions::add_partitions_to_txn(broker, cx, exchange, request)
        }
        R::AddOffsetsToTxn(request) => transactions::add_offsets_to_txn(broker, cx, exchange, request),
        R::EndTxn(request) => transactions::end_txn(broker, cx, exchange, request),
        R::WriteTxnMarkers(request) => txn_markers::write_txn_markers(broker, cx, exchange, request),
        R::TxnOffsetCommit(request) => txn_offsets::txn_offset_commit(broker, cx, exchange, request),
        R::DescribeProducers(request) => txn_admin::describe_producers(broker, exchange, request),
        R::DescribeTransactions(request) => txn_admin::describe_transactions(broker, cx, exchange, request),
        R::ListTransactions(request) => txn_admin::list_transactions(broker, cx, exchange, request),
        R::SaslHandshake(_) => sasl::handshake(exchange),
        R::SaslAuthenticate(_) => sasl::authenticate(exchange),
        body @ unused!() => route_unused(broker, cx, exchange, body),
    }
}

/// APIs that are shown for those who look at the list, and that one node with these features has little use for.
fn route_unused(broker: &Arc<Broker>, cx: &mut Cx, exchange: Exchange, body: RequestBody) {
    use RequestBody as R;
    match body {
        R::CreateDelegationToken(request) => tokens::create(exchange, request),
        R::RenewDelegationToken(_) => tokens::renew(exchange),
        R::ExpireDelegationToken(_) => tokens::expire(exchange),
        R::DescribeDelegationToken(_) => tokens::describe(exchange),
        R::UnregisterBroker(request) => membership::unregister_broker(broker, cx, exchange, request),
        R::UnregisterController(request) => membership::unregister_controller(broker, exchange, request),
        R::AddRaftVoter(request) => membership::add_voter(broker, exchange, request),
        R::RemoveRaftVoter(request) => membership::remove_voter(broker, exchange, request),
        R::ShareGroupHeartbeat(_) => switched_off::share_group_heartbeat(exchange),
        R::ShareGroupDescribe(request) => switched_off::share_group_describe(exchange, request),
        R::ShareFetch(_) => switched_off::share_fetch(exchange),
        R::ShareAcknowledge(_) => switched_off::share_acknowledge(exchange),
        R::DescribeShareGroupOffsets(request) => {
            switched_off::describe_share_group_offsets(exchange, request)
        }
        R::AlterShareGroupOffsets(_) => switched_off::alter_share_group_offsets(exchange),
        R::DeleteShareGroupOffsets(_) => switched_off::delete_share_group_offsets(exchange),
        R::InitializeShareGroupState(request) => share_state::initialize(exchange, request),
        R::ReadShareGroupState(request) => share_state::read(exchange, request),
        R::WriteShareGroupState(request) => share_state::write(exchange, request),
        R::DeleteShareGroupState(request) => share_state::delete(exchange, request),
        R::ReadShareGroupStateSummary(request) => share_state::read_summary(exchange, request),
        R::StreamsGroupHeartbeat(_) => switched_off::streams_group_heartbeat(exchange),
        R::StreamsGroupDescribe(request) => switched_off::streams_group_describe(exchange, request),
        R::StreamsGroupTopologyDescriptionUpdate(_) => switched_off::streams_group_topology(exchange),
        // allow(catch-all): `route` names what it sends here
        _ => exchange.close(),
    }
}
