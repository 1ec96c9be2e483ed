//! Snapshots: the records that make the image again, and the image that a snapshot's records make.

use alloc::vec::Vec;

use fencepost_records::persisted::access_control_entry_record::AccessControlEntryRecord;
use fencepost_records::persisted::client_quota_record::{ClientQuotaRecord, Entity};
use fencepost_records::persisted::config_record::ConfigRecord;
use fencepost_records::persisted::delegation_token_record::DelegationTokenRecord;
use fencepost_records::persisted::feature_level_record::FeatureLevelRecord;
use fencepost_records::persisted::producer_ids_record::ProducerIdsRecord;
use fencepost_records::persisted::topic_record::TopicRecord;
use fencepost_records::persisted::user_scram_credential_record::UserScramCredentialRecord;
use fencepost_types::{LeaderEpoch, Offset, ProducerId};

use super::{Image, QuotaEntity};
use crate::features;
use crate::level::MetadataVersion;
use crate::record::{MetadataRecord, VersionedRecord, at_level};

impl Image {
    /// The data records of a snapshot of this image, in Kafka's order: features (`metadata.version` first), brokers,
    /// controllers, topics, configurations, quotas, producer ids, entries, credentials, tokens. The level of
    /// `kraft.version` and the voters go into control records beside them.
    ///
    /// Source: Kafka MetadataImage.write.
    pub fn to_records(&self) -> Vec<VersionedRecord> {
        let mut records = self.feature_records();
        records.extend(self.brokers.values().map(|broker| broker.to_record().into()));
        records.extend(self.controllers.values().map(|controller| controller.to_record().into()));
        for topic in self.topics.iter() {
            records.push(TopicRecord { name: topic.name.as_ref().into(), topic_id: topic.id }.into());
            records.extend(topic.partitions.iter().map(|(index, p)| p.to_record(topic.id, *index).into()));
        }
        records.extend(self.config_records());
        records.extend(self.quota_records());
        if self.next_producer_id > ProducerId(0) {
            let next = ProducerIdsRecord {
                broker_id: -1,
                broker_epoch: -1,
                next_producer_id: self.next_producer_id.0,
            };
            records.push(next.into());
        }
        records.extend(self.security_records());
        at_level(records, self.metadata_version().unwrap_or(MetadataVersion::MIN))
    }

    fn feature_records(&self) -> Vec<MetadataRecord> {
        let record =
            |name: &str, level: i16| FeatureLevelRecord { name: name.into(), feature_level: level }.into();
        let level = self.metadata_version().map(|level| record(features::METADATA_VERSION, level.0));
        let others = self.features.iter().filter(|(name, _)| *name != features::METADATA_VERSION);
        level.into_iter().chain(others.map(|(name, level)| record(name, *level))).collect()
    }

    fn config_records(&self) -> impl Iterator<Item = MetadataRecord> {
        self.configs.iter().flat_map(|(resource, values)| {
            values.iter().map(|(name, value)| {
                ConfigRecord {
                    resource_type: resource.kind.0,
                    resource_name: resource.name.clone(),
                    name: name.clone(),
                    value: Some(value.clone()),
                }
                .into()
            })
        })
    }

    fn quota_records(&self) -> impl Iterator<Item = MetadataRecord> {
        self.client_quotas.iter().flat_map(|(entity, values)| {
            values.iter().map(|(key, value)| {
                ClientQuotaRecord {
                    entity: entity_of(entity),
                    key: key.clone(),
                    value: value.get(),
                    remove: false,
                }
                .into()
            })
        })
    }

    fn security_records(&self) -> Vec<MetadataRecord> {
        let entries = self.acls.iter().map(|(id, entry)| {
            MetadataRecord::from(AccessControlEntryRecord {
                id: *id,
                resource_type: entry.resource_type,
                resource_name: entry.resource_name.clone(),
                pattern_type: entry.pattern_type,
                principal: entry.principal.clone(),
                host: entry.host.clone(),
                operation: entry.operation,
                permission_type: entry.permission_type,
            })
        });
        let credentials = self.scram.iter().map(|((mechanism, name), credential)| {
            MetadataRecord::from(UserScramCredentialRecord {
                name: name.clone(),
                mechanism: mechanism.0,
                salt: credential.salt.clone(),
                stored_key: credential.stored_key.clone(),
                server_key: credential.server_key.clone(),
                iterations: credential.iterations,
            })
        });
        let tokens = self.delegation_tokens.iter().map(|(id, token)| {
            MetadataRecord::from(DelegationTokenRecord {
                owner: token.owner.clone(),
                requester: token.requester.clone(),
                renewers: token.renewers.clone(),
                issue_timestamp: token.issue_timestamp,
                max_timestamp: token.max_timestamp,
                expiration_timestamp: token.expiration_timestamp,
                token_id: id.clone(),
            })
        });
        entries.chain(credentials).chain(tokens).collect()
    }

    /// Says that this image, made of a snapshot's records, is as of the snapshot's end: offset exclusive, as in its
    /// file name. Offsets inside a snapshot mean nothing.
    pub fn as_of(mut self, end_offset: Offset, epoch: LeaderEpoch) -> Self {
        self.offset = end_offset.plus(-1);
        self.epoch = epoch;
        self
    }
}

/// An entity for a record.
pub(crate) fn entity_of(entity: &QuotaEntity) -> Vec<Entity> {
    entity
        .iter()
        .map(|(kind, name)| Entity { entity_type: kind.clone(), entity_name: name.clone() })
        .collect()
}
