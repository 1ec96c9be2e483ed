//! What a group coordinator is told by its operator.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::GroupId;

/// The settings of a group coordinator. Times are milliseconds, sizes bytes unless a name says otherwise.
///
/// Source: Kafka GroupCoordinatorConfig, GroupConfig.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupConfig {
    /// `group.min.session.timeout.ms`: the shortest session a classic member may ask for.
    pub min_session_timeout_ms: i32,
    /// `group.max.session.timeout.ms`: the longest session a classic member may ask for.
    pub max_session_timeout_ms: i32,
    /// `group.initial.rebalance.delay.ms`: how long the first rebalance of an empty group waits for more members.
    pub initial_rebalance_delay_ms: i32,
    /// `group.max.size`: the most members of a classic group.
    pub max_size: usize,
    /// How long a member that has no id yet may wait in its first JoinGroup.
    pub new_member_join_timeout_ms: i32,
    /// `offset.metadata.max.bytes`: the longest metadata of a committed offset. In spite of the name it counts
    /// UTF-16 units, as Kafka does.
    pub offset_metadata_max: usize,
    /// `offsets.retention.minutes`, in milliseconds: how long an offset outlives its group's use of it.
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`: how often offsets are looked at for their age.
    pub offsets_retention_check_interval_ms: i64,
    /// `group.consumer.max.size`: the most members of a consumer group.
    pub consumer_max_size: usize,
    /// `group.consumer.assignors`: the assignors that members may name, the default first.
    pub consumer_assignors: Vec<Assignor>,
    /// `group.consumer.migration.policy`: which conversions between classic and consumer groups are allowed.
    pub migration_policy: MigrationPolicy,
    /// The timings of consumer groups that have none of their own.
    pub consumer: ConsumerGroupConfig,
    /// Group settings (resource type 32) by group.
    pub consumer_by_group: BTreeMap<GroupId, ConsumerGroupConfig>,
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self {
            min_session_timeout_ms: 6_000,
            max_session_timeout_ms: 1_800_000,
            initial_rebalance_delay_ms: 3_000,
            max_size: i32::MAX as usize,
            new_member_join_timeout_ms: 300_000,
            offset_metadata_max: 4_096,
            offsets_retention_ms: 10_080 * 60_000,
            offsets_retention_check_interval_ms: 600_000,
            consumer_max_size: i32::MAX as usize,
            consumer_assignors: Vec::from([Assignor::Uniform, Assignor::Range]),
            migration_policy: MigrationPolicy::Bidirectional,
            consumer: ConsumerGroupConfig::default(),
            consumer_by_group: BTreeMap::new(),
        }
    }
}

impl GroupConfig {
    /// The timings of the consumer group `group`.
    pub fn consumer_group(&self, group: &str) -> &ConsumerGroupConfig {
        self.consumer_by_group.get(group).unwrap_or(&self.consumer)
    }

    /// The assignor that a member gets that names none.
    pub fn default_assignor(&self) -> Assignor {
        self.consumer_assignors.first().copied().unwrap_or(Assignor::Uniform)
    }

    /// The assignor of that name, if members may name it.
    pub fn assignor(&self, name: &str) -> Option<Assignor> {
        self.consumer_assignors.iter().copied().find(|assignor| assignor.name() == name)
    }

    /// The names of the assignors, for a message.
    pub fn assignor_names(&self) -> Arc<str> {
        let names: Vec<&str> = self.consumer_assignors.iter().map(|assignor| assignor.name()).collect();
        names.join(", ").into()
    }
}

/// The timings of a consumer group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConsumerGroupConfig {
    /// `consumer.session.timeout.ms`: a member that is silent for so long is put out.
    pub session_timeout_ms: i32,
    /// `consumer.heartbeat.interval.ms`: how often members are told to send heartbeats.
    pub heartbeat_interval_ms: i32,
    /// `consumer.assignment.interval.ms`: the least time between two target assignments.
    pub assignment_interval_ms: i32,
}

impl Default for ConsumerGroupConfig {
    fn default() -> Self {
        Self { session_timeout_ms: 45_000, heartbeat_interval_ms: 5_000, assignment_interval_ms: 1_000 }
    }
}

/// How the coordinator spreads partitions over the members of a consumer group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Assignor {
    /// All partitions spread evenly, moving as few as possible.
    Uniform,
    /// Each topic split into consecutive ranges.
    Range,
}

impl Assignor {
    /// The name that members use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Range => "range",
        }
    }
}

/// Which way groups may be converted between the two protocols.
///
/// Source: KIP-848, Kafka ConsumerGroupMigrationPolicy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MigrationPolicy {
    /// Neither.
    Disabled,
    /// From classic to consumer.
    Upgrade,
    /// From consumer to classic.
    Downgrade,
    /// Both.
    Bidirectional,
}

impl MigrationPolicy {
    /// Whether a classic group with members may become a consumer group.
    pub fn allows_upgrade(self) -> bool {
        match self {
            Self::Disabled | Self::Downgrade => false,
            Self::Upgrade | Self::Bidirectional => true,
        }
    }

    /// Whether a consumer group may become a classic group.
    pub fn allows_downgrade(self) -> bool {
        match self {
            Self::Disabled | Self::Upgrade => false,
            Self::Downgrade | Self::Bidirectional => true,
        }
    }
}
