//! Taking records into the image. The rules of cluster §7.2.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use fencepost_records::persisted::access_control_entry_record::AccessControlEntryRecord;
use fencepost_records::persisted::broker_registration_change_record::BrokerRegistrationChangeRecord;
use fencepost_records::persisted::client_quota_record::ClientQuotaRecord;
use fencepost_records::persisted::config_record::ConfigRecord;
use fencepost_records::persisted::delegation_token_record::DelegationTokenRecord;
use fencepost_records::persisted::feature_level_record::FeatureLevelRecord;
use fencepost_records::persisted::partition_change_record::PartitionChangeRecord;
use fencepost_records::persisted::partition_record::PartitionRecord;
use fencepost_records::persisted::topic_record::TopicRecord;
use fencepost_records::persisted::user_scram_credential_record::UserScramCredentialRecord;
use fencepost_types::{BrokerId, KeptBytes, LeaderEpoch, Offset, PartitionIndex, ProducerId, Uuid};

use super::topic::{LeaderRecoveryState, brokers};
use super::{
    AccessControlEntry, Broker, BrokerEpoch, ConfigResource, ControllerRegistration, DelegationToken, Image,
    MIGRATING, Partition, PartitionEpoch, QuotaEntity, QuotaValue, ResourceType, ScramCredential,
    ScramMechanism, Topic,
};
use crate::features;
use crate::level::MetadataVersion;
use crate::record::MetadataRecord;

/// A record that does not fit the image before it. Whoever meets one stops serving (cluster §6.3).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReplayError {
    /// The record's offset.
    pub offset: Offset,
    /// The record's type, as Kafka names it.
    pub record: &'static str,
    /// What does not fit.
    pub fault: ReplayFault,
}

impl core::fmt::Display for ReplayError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "metadata record {} at offset {} does not fit: {}", self.record, self.offset, self.fault)
    }
}

impl core::error::Error for ReplayError {}

/// What does not fit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReplayFault {
    /// No topic has that id.
    UnknownTopic(Uuid),
    /// No topic has that name.
    UnknownTopicName(String),
    /// A topic of that id or name is there already.
    TopicExists(String),
    /// The topic has no such partition.
    UnknownPartition(Uuid, PartitionIndex),
    /// A field of a partition holds what no partition can have.
    InvalidPartition(PartitionIndex),
    /// No such broker is registered.
    UnknownBroker(BrokerId),
    /// The broker is registered with another epoch.
    BrokerEpoch {
        /// The epoch of the registration.
        registered: BrokerEpoch,
        /// The epoch in the record.
        found: BrokerEpoch,
    },
    /// A level of `metadata.version` whose records we cannot read.
    UnsupportedMetadataVersion(i16),
    /// A transaction begins inside another.
    TransactionOpen,
    /// A transaction ends that has not begun.
    NoTransaction,
}

impl core::fmt::Display for ReplayFault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::UnknownTopic(id) => write!(f, "no topic has the id {id}"),
            Self::UnknownTopicName(name) => write!(f, "no topic has the name {name}"),
            Self::TopicExists(name) => write!(f, "the topic {name} exists already"),
            Self::UnknownPartition(id, index) => write!(f, "the topic {id} has no partition {index}"),
            Self::InvalidPartition(index) => write!(f, "partition {index} has an impossible field"),
            Self::UnknownBroker(id) => write!(f, "broker {id} is not registered"),
            Self::BrokerEpoch { registered, found } => {
                write!(f, "the broker is registered with epoch {registered}, not {found}")
            }
            Self::UnsupportedMetadataVersion(level) => {
                write!(
                    f,
                    "metadata.version {level} is above {}, the highest that is understood",
                    MetadataVersion::MAX
                )
            }
            Self::TransactionOpen => f.write_str("a metadata transaction is open already"),
            Self::NoTransaction => f.write_str("no metadata transaction is open"),
        }
    }
}

/// Whom a quota is for.
pub(super) fn quota_entity(record: &ClientQuotaRecord) -> QuotaEntity {
    record.entity.iter().map(|part| (part.entity_type.clone(), part.entity_name.clone())).collect()
}

type Fits = Result<(), ReplayFault>;

impl Image {
    /// Takes in one record. Transaction brackets are [`super::ImageFold`]'s business and change nothing here.
    pub fn replay(&mut self, offset: Offset, record: &MetadataRecord) -> Result<(), ReplayError> {
        self.note(offset, record);
        let fits = self.apply(record);
        self.offset = offset;
        fits.map_err(|fault| ReplayError { offset, record: record.type_name(), fault })
    }

    fn apply(&mut self, record: &MetadataRecord) -> Fits {
        match record {
            MetadataRecord::RegisterBroker(r) => {
                let broker = Broker::from_record(r);
                Arc::make_mut(&mut self.brokers).insert(broker.id, Arc::new(broker));
            }
            MetadataRecord::UnregisterBroker(r) => {
                let id = BrokerId(r.broker_id);
                self.registered(id, BrokerEpoch(r.broker_epoch))?;
                Arc::make_mut(&mut self.brokers).remove(&id);
            }
            MetadataRecord::Topic(r) => return self.add_topic(r),
            MetadataRecord::Partition(r) => return self.set_partition(r),
            MetadataRecord::Config(r) => self.set_config(r),
            MetadataRecord::PartitionChange(r) => return self.change_partition(r),
            MetadataRecord::FenceBroker(r) => {
                self.registered(BrokerId(r.id), BrokerEpoch(r.epoch))?.fenced = true;
            }
            MetadataRecord::UnfenceBroker(r) => {
                self.registered(BrokerId(r.id), BrokerEpoch(r.epoch))?.fenced = false;
            }
            MetadataRecord::RemoveTopic(r) => return self.remove_topic(r.topic_id),
            MetadataRecord::FeatureLevel(r) => return self.set_feature(r),
            MetadataRecord::ClientQuota(r) => self.set_quota(r),
            MetadataRecord::ProducerIds(r) => self.next_producer_id = ProducerId(r.next_producer_id),
            MetadataRecord::BrokerRegistrationChange(r) => return self.change_registration(r),
            MetadataRecord::RegisterController(r) => {
                let controller = ControllerRegistration::from_record(r);
                Arc::make_mut(&mut self.controllers).insert(controller.id, controller);
            }
            MetadataRecord::UnregisterController(r) => {
                Arc::make_mut(&mut self.controllers).remove(&BrokerId(r.controller_id));
            }
            MetadataRecord::ClearElr(r) => return self.clear_elr(&r.topic_name),
            MetadataRecord::DelegationToken(r) => self.set_token(r),
            MetadataRecord::RemoveDelegationToken(r) => {
                self.delegation_tokens.remove(&r.token_id);
            }
            MetadataRecord::UserScramCredential(r) => self.set_credential(r),
            MetadataRecord::RemoveUserScramCredential(r) => {
                self.scram.remove(&(ScramMechanism(r.mechanism), r.name.clone()));
            }
            MetadataRecord::AccessControlEntry(r) => self.set_entry(r),
            MetadataRecord::RemoveAccessControlEntry(r) => {
                self.acls.remove(&r.id);
            }
            MetadataRecord::NoOp(_)
            | MetadataRecord::ZkMigrationState(_)
            | MetadataRecord::BeginTransaction(_)
            | MetadataRecord::EndTransaction(_)
            | MetadataRecord::AbortTransaction(_) => {}
        }
        Ok(())
    }

    fn set_token(&mut self, r: &DelegationTokenRecord) {
        let token = DelegationToken {
            owner: r.owner.clone(),
            requester: r.requester.clone(),
            renewers: r.renewers.clone(),
            issue_timestamp: r.issue_timestamp,
            max_timestamp: r.max_timestamp,
            expiration_timestamp: r.expiration_timestamp,
        };
        self.delegation_tokens.insert(r.token_id.clone(), token);
    }

    fn set_credential(&mut self, r: &UserScramCredentialRecord) {
        let credential = ScramCredential {
            salt: KeptBytes::copy_of(&r.salt),
            stored_key: KeptBytes::copy_of(&r.stored_key),
            server_key: KeptBytes::copy_of(&r.server_key),
            iterations: r.iterations,
        };
        self.scram.insert((ScramMechanism(r.mechanism), r.name.clone()), credential);
    }

    fn set_entry(&mut self, r: &AccessControlEntryRecord) {
        let entry = AccessControlEntry {
            resource_type: r.resource_type,
            resource_name: r.resource_name.clone(),
            pattern_type: r.pattern_type,
            principal: r.principal.clone(),
            host: r.host.clone(),
            operation: r.operation,
            permission_type: r.permission_type,
        };
        self.acls.insert(r.id, entry);
    }

    /// The registration of that broker, if its epoch is the record's: a change is for one incarnation.
    fn registered(&mut self, id: BrokerId, epoch: BrokerEpoch) -> Result<&mut Broker, ReplayFault> {
        let broker = Arc::make_mut(&mut self.brokers).get_mut(&id).ok_or(ReplayFault::UnknownBroker(id))?;
        if broker.epoch != epoch {
            return Err(ReplayFault::BrokerEpoch { registered: broker.epoch, found: epoch });
        }
        Ok(Arc::make_mut(broker))
    }

    fn change_registration(&mut self, record: &BrokerRegistrationChangeRecord) -> Fits {
        let broker = self.registered(BrokerId(record.broker_id), BrokerEpoch(record.broker_epoch))?;
        if record.fenced != 0 {
            broker.fenced = record.fenced > 0;
        }
        if record.in_controlled_shutdown != 0 {
            broker.in_controlled_shutdown = record.in_controlled_shutdown > 0;
        }
        if !record.log_dirs.is_empty() {
            broker.directories = record.log_dirs.clone();
        }
        if let Some(cordoned) = &record.cordoned_log_dirs {
            broker.cordoned_directories = cordoned.clone();
        }
        Ok(())
    }

    fn add_topic(&mut self, record: &TopicRecord) -> Fits {
        if self.topics.by_id(record.topic_id).is_some() || self.topics.by_name(&record.name).is_some() {
            return Err(ReplayFault::TopicExists(record.name.clone()));
        }
        let topic =
            Topic { name: record.name.as_str().into(), id: record.topic_id, partitions: BTreeMap::new() };
        self.topics.insert(topic);
        Ok(())
    }

    fn remove_topic(&mut self, id: Uuid) -> Fits {
        let topic = self.topics.remove(id).ok_or(ReplayFault::UnknownTopic(id))?;
        self.configs.remove_all(&ConfigResource::topic(&topic.name));
        Ok(())
    }

    fn set_partition(&mut self, record: &PartitionRecord) -> Fits {
        let index = PartitionIndex(record.partition_id);
        let partition =
            Partition::from_record(record).filter(is_possible).ok_or(ReplayFault::InvalidPartition(index))?;
        let topic = self.topics.get_mut(record.topic_id).ok_or(ReplayFault::UnknownTopic(record.topic_id))?;
        topic.partitions.insert(index, partition);
        Ok(())
    }

    /// Every change raises the partition epoch; naming a leader raises the leader epoch too, even when it is the same
    /// leader. The record carries neither (cluster §7.2, DANGER).
    fn change_partition(&mut self, record: &PartitionChangeRecord) -> Fits {
        const LEADER_UNCHANGED: i32 = -2;
        const RECOVERY_UNCHANGED: i8 = -1;
        let index = PartitionIndex(record.partition_id);
        let partition = self
            .topics
            .get_mut(record.topic_id)
            .ok_or(ReplayFault::UnknownTopic(record.topic_id))?
            .partitions
            .get_mut(&index)
            .ok_or(ReplayFault::UnknownPartition(record.topic_id, index))?;
        set_brokers(&mut partition.isr, &record.isr);
        if let Some(replicas) = &record.replicas {
            set_replicas(partition, brokers(replicas));
        }
        set_brokers(&mut partition.removing_replicas, &record.removing_replicas);
        set_brokers(&mut partition.adding_replicas, &record.adding_replicas);
        set_brokers(&mut partition.eligible_leader_replicas, &record.eligible_leader_replicas);
        set_brokers(&mut partition.last_known_elr, &record.last_known_elr);
        if let Some(directories) = &record.directories {
            partition.directories = directories.clone();
        }
        if record.leader != LEADER_UNCHANGED {
            partition.leader = BrokerId(record.leader);
            partition.leader_epoch = LeaderEpoch(partition.leader_epoch.0.wrapping_add(1));
        }
        if record.leader_recovery_state != RECOVERY_UNCHANGED {
            partition.leader_recovery_state = LeaderRecoveryState::from_code(record.leader_recovery_state)
                .ok_or(ReplayFault::InvalidPartition(index))?;
        }
        partition.partition_epoch = PartitionEpoch(partition.partition_epoch.0.wrapping_add(1));
        if is_possible(partition) { Ok(()) } else { Err(ReplayFault::InvalidPartition(index)) }
    }

    /// Empties both lists of the topic's (or every topic's) partitions; a partition that had any gets a new epoch.
    fn clear_elr(&mut self, topic_name: &str) -> Fits {
        let topics = &mut self.topics;
        let ids: Vec<Uuid> = if topic_name.is_empty() {
            topics.ids().collect()
        } else {
            let topic = topics.by_name(topic_name).ok_or(ReplayFault::UnknownTopicName(topic_name.into()))?;
            [topic.id].into()
        };
        for id in ids {
            let has_any = topics.by_id(id).is_some_and(|topic| topic.partitions.values().any(has_elr));
            if !has_any {
                continue;
            }
            let Some(topic) = topics.get_mut(id) else { continue };
            for partition in topic.partitions.values_mut().filter(|partition| has_elr(partition)) {
                partition.eligible_leader_replicas.clear();
                partition.last_known_elr.clear();
                partition.partition_epoch = PartitionEpoch(partition.partition_epoch.0.wrapping_add(1));
            }
        }
        Ok(())
    }

    fn set_config(&mut self, record: &ConfigRecord) {
        let resource = ConfigResource::new(ResourceType(record.resource_type), record.resource_name.clone());
        self.configs.set(resource, &record.name, record.value.as_deref());
    }

    fn set_feature(&mut self, record: &FeatureLevelRecord) -> Fits {
        match (record.name.as_str(), record.feature_level) {
            // Said by control records alone.
            (features::KRAFT_VERSION, _) => {}
            (features::METADATA_VERSION, level) if level > MetadataVersion::MAX.0 => {
                return Err(ReplayFault::UnsupportedMetadataVersion(level));
            }
            (name, 0) => {
                Arc::make_mut(&mut self.features).remove(name);
            }
            (name, level) => {
                Arc::make_mut(&mut self.features).insert(name.into(), level);
            }
        }
        Ok(())
    }

    fn set_quota(&mut self, record: &ClientQuotaRecord) {
        let entity = quota_entity(record);
        let quotas = &mut self.client_quotas;
        if !record.remove {
            let mut values = quotas.get(&entity).cloned().unwrap_or_default();
            values.insert(record.key.clone(), QuotaValue::new(record.value));
            quotas.insert(entity, values);
        } else if let Some(values) = quotas.get_mut(&entity) {
            values.remove(&record.key);
            if values.is_empty() {
                quotas.remove(&entity);
            }
        }
    }
}

fn set_brokers(old: &mut Vec<BrokerId>, new: &Option<Vec<i32>>) {
    if let Some(new) = new {
        *old = brokers(new);
    }
}

/// A replica that stays keeps its directory; a new one is migrating, unless the record names directories (levels
/// below 17 cannot).
fn set_replicas(partition: &mut Partition, replicas: Vec<BrokerId>) {
    let directories = replicas.iter().map(|id| partition.directory(*id).unwrap_or(MIGRATING)).collect();
    partition.replicas = replicas;
    partition.directories = directories;
}

fn has_elr(partition: &Partition) -> bool {
    !partition.eligible_leader_replicas.is_empty() || !partition.last_known_elr.is_empty()
}

/// What [`Image::check`] asserts, as a question: the record may come from a file.
fn is_possible(partition: &Partition) -> bool {
    partition.directories.len() == partition.replicas.len()
        && partition.leader_epoch.0 >= 0
        && (!partition.has_leader() || partition.replicas.contains(&partition.leader))
        && partition.isr.iter().all(|id| partition.replicas.contains(id))
}
