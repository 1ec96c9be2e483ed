//! Snapshots: the records that make the image again, and the image that a snapshot's records make.

use alloc::string::String;
use alloc::vec::Vec;

use fencepost_records::persisted::access_control_entry_record::AccessControlEntryRecord;
use fencepost_records::persisted::client_quota_record::{ClientQuotaRecord, Entity};
use fencepost_records::persisted::config_record::ConfigRecord;
use fencepost_records::persisted::delegation_token_record::DelegationTokenRecord;
use fencepost_records::persisted::feature_level_record::FeatureLevelRecord;
use fencepost_records::persisted::producer_ids_record::ProducerIdsRecord;
use fencepost_records::persisted::topic_record::TopicRecord;
use fencepost_records::persisted::user_scram_credential_record::UserScramCredentialRecord;
use fencepost_types::{LeaderEpoch, Offset, ProducerId, TopicName};

use super::recent::Recent;
use super::{ConfigResource, ConfigValues, Image, QuotaEntity, Topic};
use crate::features;
use crate::level::MetadataVersion;
use crate::record::{MetadataRecord, VersionedRecord, at_level};

/// The data records of a snapshot, one part after the other: an image of a million topics is not turned into records all
/// at once. The image that it works on stays what it is, whatever happens meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotRecords {
    image: Image,
    next: Part,
}

/// What comes next.
#[derive(Clone, Debug)]
enum Part {
    Nodes,
    /// The topic after this one, with its partitions.
    Topic(Option<TopicName>),
    /// The configuration of the resource after this one.
    Config(Option<ConfigResource>),
    Rest,
    End,
}

impl SnapshotRecords {
    pub(crate) fn new(image: Image) -> Self {
        Self { image, next: Part::Nodes }
    }

    pub(crate) fn image(&self) -> &Image {
        &self.image
    }

    fn part(&mut self) -> Option<Vec<MetadataRecord>> {
        let image = &self.image;
        match &self.next {
            Part::Nodes => {
                let records = image.node_records();
                self.next = Part::Topic(None);
                Some(records)
            }
            Part::Topic(last) => match image.topics.after(last.as_ref()) {
                None => {
                    self.next = Part::Config(None);
                    Some(Vec::new())
                }
                Some(topic) => {
                    let records = topic_records(topic);
                    self.next = Part::Topic(Some(topic.name.clone()));
                    Some(records)
                }
            },
            Part::Config(last) => match image.configs.after(last.as_ref()) {
                None => {
                    self.next = Part::Rest;
                    Some(Vec::new())
                }
                Some((resource, values)) => {
                    let records = config_records(resource, values);
                    self.next = Part::Config(Some(resource.clone()));
                    Some(records)
                }
            },
            Part::Rest => {
                let records = image.other_records();
                self.next = Part::End;
                Some(records)
            }
            Part::End => None,
        }
    }
}

impl Iterator for SnapshotRecords {
    type Item = Vec<VersionedRecord>;

    /// The records of the next part; a part may have none.
    fn next(&mut self) -> Option<Vec<VersionedRecord>> {
        let records = self.part()?;
        Some(at_level(records, self.image.metadata_version().unwrap_or(MetadataVersion::MIN)))
    }
}

fn topic_records(topic: &Topic) -> Vec<MetadataRecord> {
    let named = TopicRecord { name: topic.name.as_ref().into(), topic_id: topic.id }.into();
    let partitions = topic.partitions.iter().map(|(index, p)| p.to_record(topic.id, *index).into());
    core::iter::once(named).chain(partitions).collect()
}

fn config_records(resource: &ConfigResource, values: &ConfigValues) -> Vec<MetadataRecord> {
    let record = |(name, value): (&String, &String)| {
        ConfigRecord {
            resource_type: resource.kind.0,
            resource_name: resource.name.clone(),
            name: name.clone(),
            value: Some(value.clone()),
        }
        .into()
    };
    values.iter().map(record).collect()
}

impl Image {
    /// The data records of a snapshot of this image, in Kafka's order: features (`metadata.version` first), brokers,
    /// controllers, topics, configurations, quotas, producer ids, entries, credentials, tokens. The level of
    /// `kraft.version` and the voters go into control records beside them.
    ///
    /// Source: Kafka MetadataImage.write.
    pub fn to_records(&self) -> Vec<VersionedRecord> {
        SnapshotRecords::new(self.clone()).flatten().collect()
    }

    fn node_records(&self) -> Vec<MetadataRecord> {
        let mut records = self.feature_records();
        records.extend(self.brokers.values().map(|broker| MetadataRecord::from(broker.to_record())));
        records
            .extend(self.controllers.values().map(|controller| MetadataRecord::from(controller.to_record())));
        records
    }

    fn other_records(&self) -> Vec<MetadataRecord> {
        let mut records: Vec<MetadataRecord> = self.quota_records().collect();
        if self.next_producer_id > ProducerId(0) {
            let next = ProducerIdsRecord {
                broker_id: -1,
                broker_epoch: -1,
                next_producer_id: self.next_producer_id.0,
            };
            records.push(next.into());
        }
        records.extend(self.security_records());
        records
    }

    fn feature_records(&self) -> Vec<MetadataRecord> {
        let record =
            |name: &str, level: i16| FeatureLevelRecord { name: name.into(), feature_level: level }.into();
        let level = self.metadata_version().map(|level| record(features::METADATA_VERSION, level.0));
        let others = self.features.iter().filter(|(name, _)| *name != features::METADATA_VERSION);
        level.into_iter().chain(others.map(|(name, level)| record(name, *level))).collect()
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
                salt: credential.salt.share(),
                stored_key: credential.stored_key.share(),
                server_key: credential.server_key.share(),
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
        self.recent = Recent::after(self.offset);
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
