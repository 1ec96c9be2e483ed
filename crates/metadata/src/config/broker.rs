//! The broker's settings that Fencepost acts on, typed.

use alloc::string::String;
use alloc::vec::Vec;

use super::resolve::ConfigView;
use super::statics::StaticConfig;
use super::typed::typed_config;
use crate::image::Configs;
use crate::keys::{AssignorChoice, Durability, GroupMigration, GroupProtocol, Scope};
use fencepost_types::BrokerId;

typed_config! {
    /// The broker's settings in force. Times are milliseconds unless the name says otherwise.
    BrokerConfig in Scope::Broker => {
        node_id: i32 = "node.id",
        rack: Option<String> = "broker.rack",
        log_dir: Vec<String> = "log.dir",
        log_dirs: Option<Vec<String>> = "log.dirs",
        api_versions_max: Vec<String> = "fencepost.api.versions.max",
        durability: Durability = "fencepost.durability",
        metrics_listener: Option<String> = "fencepost.metrics.listener",
        producer_entries_max: i64 = "fencepost.producer.entries.max",
        producer_entries_partition_max: i64 = "fencepost.producer.entries.partition.max",
        transactional_ids_max: i64 = "fencepost.transactional.ids.max",
        test_initial_producer_epoch: i16 = "fencepost.test.initial.producer.epoch",
        socket_request_max_bytes: i32 = "socket.request.max.bytes",
        socket_listen_backlog_size: i32 = "socket.listen.backlog.size",
        socket_send_buffer_bytes: i32 = "socket.send.buffer.bytes",
        socket_receive_buffer_bytes: i32 = "socket.receive.buffer.bytes",
        connections_max_idle_ms: i64 = "connections.max.idle.ms",
        max_connections: i32 = "max.connections",
        max_connections_per_ip: i32 = "max.connections.per.ip",
        max_connections_per_ip_overrides: String = "max.connections.per.ip.overrides",
        request_timeout_ms: i32 = "request.timeout.ms",
        unstable_api_versions_enable: bool = "unstable.api.versions.enable",
        auto_create_topics_enable: bool = "auto.create.topics.enable",
        fetch_max_bytes: i32 = "fetch.max.bytes",
        max_incremental_fetch_session_cache_slots: i32 = "max.incremental.fetch.session.cache.slots",
        max_request_partition_size_limit: i32 = "max.request.partition.size.limit",
        log_retention_check_interval_ms: i64 = "log.retention.check.interval.ms",
        log_flush_offset_checkpoint_interval_ms: i32 = "log.flush.offset.checkpoint.interval.ms",
        log_cleaner_enable: bool = "log.cleaner.enable",
        log_cleaner_backoff_ms: i64 = "log.cleaner.backoff.ms",
        log_cleaner_dedupe_buffer_size: i64 = "log.cleaner.dedupe.buffer.size",
        log_cleaner_io_buffer_size: i32 = "log.cleaner.io.buffer.size",
        log_cleaner_io_buffer_load_factor: f64 = "log.cleaner.io.buffer.load.factor",
        log_cleaner_io_max_bytes_per_second: f64 = "log.cleaner.io.max.bytes.per.second",
        metadata_log_max_record_bytes_between_snapshots: i64 = "metadata.log.max.record.bytes.between.snapshots",
        metadata_log_max_snapshot_interval_ms: i64 = "metadata.log.max.snapshot.interval.ms",
        metadata_log_segment_bytes: i32 = "metadata.log.segment.bytes",
        metadata_log_segment_ms: i64 = "metadata.log.segment.ms",
        metadata_max_retention_bytes: i64 = "metadata.max.retention.bytes",
        metadata_max_retention_ms: i64 = "metadata.max.retention.ms",
        transaction_max_timeout_ms: i32 = "transaction.max.timeout.ms",
        transactional_id_expiration_ms: i32 = "transactional.id.expiration.ms",
        transaction_partition_verification_enable: bool = "transaction.partition.verification.enable",
        transaction_two_phase_commit_enable: bool = "transaction.two.phase.commit.enable",
        transaction_state_log_num_partitions: i32 = "transaction.state.log.num.partitions",
        transaction_state_log_replication_factor: i16 = "transaction.state.log.replication.factor",
        transaction_state_log_min_isr: i32 = "transaction.state.log.min.isr",
        transaction_state_log_segment_bytes: i32 = "transaction.state.log.segment.bytes",
        producer_id_expiration_ms: i32 = "producer.id.expiration.ms",
        producer_id_expiration_check_interval_ms: i32 = "producer.id.expiration.check.interval.ms",
        offsets_topic_num_partitions: i32 = "offsets.topic.num.partitions",
        offsets_topic_replication_factor: i16 = "offsets.topic.replication.factor",
        offsets_topic_segment_bytes: i32 = "offsets.topic.segment.bytes",
        offsets_retention_minutes: i32 = "offsets.retention.minutes",
        offsets_retention_check_interval_ms: i64 = "offsets.retention.check.interval.ms",
        offset_metadata_max_bytes: i32 = "offset.metadata.max.bytes",
        group_min_session_timeout_ms: i32 = "group.min.session.timeout.ms",
        group_max_session_timeout_ms: i32 = "group.max.session.timeout.ms",
        group_initial_rebalance_delay_ms: i32 = "group.initial.rebalance.delay.ms",
        group_max_size: i32 = "group.max.size",
        group_coordinator_rebalance_protocols: Vec<GroupProtocol> = "group.coordinator.rebalance.protocols",
        group_consumer_max_size: i32 = "group.consumer.max.size",
        group_consumer_assignors: Vec<AssignorChoice> = "group.consumer.assignors",
        group_consumer_migration_policy: GroupMigration = "group.consumer.migration.policy",
        group_consumer_heartbeat_interval_ms: i32 = "group.consumer.heartbeat.interval.ms",
        group_consumer_session_timeout_ms: i32 = "group.consumer.session.timeout.ms",
        group_consumer_assignment_interval_ms: i32 = "group.consumer.assignment.interval.ms",
    }
}

impl BrokerConfig {
    /// The settings in force: dynamic ones first, then what the node was started with, then the defaults.
    pub fn resolve(view: ConfigView<'_>) -> Self {
        Self::read(|key| view.broker_value(key))
    }

    /// The settings before the metadata log is known.
    pub fn from_static(statics: &StaticConfig) -> Self {
        let configs = Configs::default();
        Self::resolve(ConfigView { statics, configs: &configs, node_id: BrokerId(0) })
    }

    /// The log directories: `log.dirs`, or else `log.dir`.
    pub fn log_directories(&self) -> &[String] {
        self.log_dirs.as_ref().unwrap_or(&self.log_dir)
    }
}

impl Default for BrokerConfig {
    fn default() -> Self {
        Self::from_static(&StaticConfig::default())
    }
}
