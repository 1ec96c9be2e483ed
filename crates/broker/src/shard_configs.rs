//! The settings of the coordinators' shards, read off the broker's.

use std::collections::BTreeMap;
use std::sync::Arc;

use fencepost_group::{Assignor, ConsumerGroupConfig, GroupConfig, MigrationPolicy};
use fencepost_metadata::image::ResourceType;
use fencepost_metadata::keys::{AssignorChoice, GroupMigration, Scope, Value};
use fencepost_metadata::{BrokerConfig, Image};
use fencepost_transaction::ShardConfig;
use fencepost_types::ProducerEpoch;

use crate::Broker;

/// Milliseconds in a minute.
const MINUTE_MS: i64 = 60_000;
/// A member that was given an id has this long to come back with it.
const NEW_MEMBER_JOIN_TIMEOUT_MS: i32 = 300_000;

impl Broker {
    /// Hands the settings in force to every shard.
    pub(crate) fn configure_shards(&self, image: &Image, config: &BrokerConfig) {
        let transaction = transaction_config(image, config);
        for cell in self.transactions.all() {
            cell.configure(|shard| shard.set_config(transaction.clone()));
        }
        let group = Arc::new(self.group_config(image, config));
        for cell in self.groups.all() {
            cell.configure(|shard| shard.configure(Arc::clone(&group)));
        }
    }

    /// The group coordinator's settings.
    pub(crate) fn group_config(&self, image: &Image, config: &BrokerConfig) -> GroupConfig {
        let assignors = config.group_consumer_assignors.iter();
        GroupConfig {
            min_session_timeout_ms: config.group_min_session_timeout_ms,
            max_session_timeout_ms: config.group_max_session_timeout_ms,
            initial_rebalance_delay_ms: config.group_initial_rebalance_delay_ms,
            max_size: config.group_max_size.max(0) as usize,
            new_member_join_timeout_ms: NEW_MEMBER_JOIN_TIMEOUT_MS,
            offset_metadata_max: config.offset_metadata_max_bytes.max(0) as usize,
            offsets_retention_ms: i64::from(config.offsets_retention_minutes) * MINUTE_MS,
            offsets_retention_check_interval_ms: config.offsets_retention_check_interval_ms,
            consumer_max_size: config.group_consumer_max_size.max(0) as usize,
            consumer_assignors: assignors.copied().map(assignor).collect(),
            migration_policy: migration_policy(config.group_consumer_migration_policy),
            consumer: ConsumerGroupConfig {
                session_timeout_ms: config.group_consumer_session_timeout_ms,
                heartbeat_interval_ms: config.group_consumer_heartbeat_interval_ms,
                assignment_interval_ms: config.group_consumer_assignment_interval_ms,
            },
            consumer_by_group: self.consumer_configs(image, config),
        }
    }

    /// Groups that have settings of their own.
    fn consumer_configs(
        &self,
        image: &Image,
        config: &BrokerConfig,
    ) -> BTreeMap<Arc<str>, ConsumerGroupConfig> {
        let statics = self.statics();
        let view = self.view(&statics, image);
        let number = |group: &str, name: &str, otherwise: i32| {
            let key = Scope::Group.find(name);
            match key.and_then(|key| view.group_value(group, key)) {
                Some(Value::Number(number)) => number as i32,
                Some(_) | None => otherwise,
            }
        };
        let own = image.configs().of_kind(ResourceType::GROUP).map(|(resource, _)| {
            let group = resource.name.as_str();
            let config = ConsumerGroupConfig {
                session_timeout_ms: number(
                    group,
                    "consumer.session.timeout.ms",
                    config.group_consumer_session_timeout_ms,
                ),
                heartbeat_interval_ms: number(
                    group,
                    "consumer.heartbeat.interval.ms",
                    config.group_consumer_heartbeat_interval_ms,
                ),
                assignment_interval_ms: number(
                    group,
                    "consumer.assignment.interval.ms",
                    config.group_consumer_assignment_interval_ms,
                ),
            };
            (Arc::from(group), config)
        });
        own.collect()
    }
}

/// The transaction coordinator's settings.
pub(crate) fn transaction_config(image: &Image, config: &BrokerConfig) -> ShardConfig {
    ShardConfig {
        transaction_version: image.transaction_version(),
        transaction_max_timeout_ms: config.transaction_max_timeout_ms,
        transactional_id_expiration_ms: i64::from(config.transactional_id_expiration_ms),
        two_phase_commit_enable: config.transaction_two_phase_commit_enable,
        initial_producer_epoch: ProducerEpoch(config.test_initial_producer_epoch),
    }
}

fn assignor(choice: AssignorChoice) -> Assignor {
    match choice {
        AssignorChoice::Uniform | AssignorChoice::UniformClass => Assignor::Uniform,
        AssignorChoice::Range | AssignorChoice::RangeClass => Assignor::Range,
    }
}

fn migration_policy(choice: GroupMigration) -> MigrationPolicy {
    match choice {
        GroupMigration::Disabled => MigrationPolicy::Disabled,
        GroupMigration::Upgrade => MigrationPolicy::Upgrade,
        GroupMigration::Downgrade => MigrationPolicy::Downgrade,
        GroupMigration::Bidirectional => MigrationPolicy::Bidirectional,
    }
}
