//! Records of `__consumer_offsets`, byte for byte as Kafka writes them (storage-formats §13).

use alloc::string::ToString;

use bytes::Bytes;
use fencepost_coordinator::Record;
use fencepost_records::persisted::{
    ConsumerGroupMetadataKey, ConsumerGroupMetadataValue, ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue, GroupMetadataKey,
    GroupMetadataValue, OffsetCommitKey, OffsetCommitValue, group_metadata_value,
};
use fencepost_types::wire::{DecodeError, Decoded, Reader, Writer};
use fencepost_types::{KeptBytes, LeaderEpoch, Millis, Offset, PartitionIndex, TopicName};

use crate::consumer::codec;
use crate::{
    ClassicMemberMetadata, ClassicMetadata, CommittedOffset, ConsumerGroupEpoch, GroupRecord, ResolvedRegex,
    TargetAssignmentEpoch,
};

/// The type of a record, which stands before its key.
mod record_type {
    pub const LEGACY_OFFSET_COMMIT: i16 = 0;
    pub const OFFSET_COMMIT: i16 = 1;
    pub const GROUP_METADATA: i16 = 2;
    pub const CONSUMER_GROUP_METADATA: i16 = 3;
    pub const CONSUMER_GROUP_PARTITION_METADATA: i16 = 4;
    pub const CONSUMER_GROUP_MEMBER: i16 = 5;
    pub const TARGET_ASSIGNMENT_METADATA: i16 = 6;
    pub const TARGET_ASSIGNMENT_MEMBER: i16 = 7;
    pub const CURRENT_ASSIGNMENT: i16 = 8;
    pub const REGULAR_EXPRESSION: i16 = 16;
}

/// The version of an offset that has an expiry of its own.
const OFFSET_WITH_EXPIRY_VERSION: i16 = 1;
/// The version of every other offset: with the topic's id.
const OFFSET_VERSION: i16 = 4;
/// The newest version of an offset that is read.
const OFFSET_VERSION_MAX: i16 = 4;
/// The version of a classic group. Kafka writes it although there is a newer one.
const GROUP_VERSION: i16 = 3;
/// The newest version of a classic group that is read.
const GROUP_VERSION_MAX: i16 = 4;

impl Record for GroupRecord {
    fn encode(&self) -> (Option<Bytes>, Option<Bytes>) {
        let (key, value) = match self {
            Self::OffsetCommit { group, topic, partition, value } => {
                let key = OffsetCommitKey {
                    group: group.to_string(),
                    topic: topic.to_string(),
                    partition: partition.0,
                };
                let key = prefixed(record_type::OFFSET_COMMIT, |w| key.encode(w, 0));
                (key, value.as_ref().map(encode_offset))
            }
            Self::GroupMetadata { group, value } => {
                let key = GroupMetadataKey { group: group.to_string() };
                let key = prefixed(record_type::GROUP_METADATA, |w| key.encode(w, 0));
                (key, value.as_ref().map(encode_classic))
            }
            Self::ConsumerGroupMetadata { group, value } => {
                let key = ConsumerGroupMetadataKey { group_id: group.to_string() };
                let key = prefixed(record_type::CONSUMER_GROUP_METADATA, |w| key.encode(w, 0));
                (key, value.as_ref().map(encode_epoch))
            }
            Self::ConsumerGroupPartitionMetadata { group } => {
                let key = ConsumerGroupPartitionMetadataKey { group_id: group.to_string() };
                (prefixed(record_type::CONSUMER_GROUP_PARTITION_METADATA, |w| key.encode(w, 0)), None)
            }
            Self::ConsumerGroupMember { group, member, value } => {
                let key = codec::member_key(record_type::CONSUMER_GROUP_MEMBER, group, member);
                (key, value.as_ref().map(codec::encode_member))
            }
            Self::TargetAssignmentMetadata { group, value } => {
                let key = ConsumerGroupTargetAssignmentMetadataKey { group_id: group.to_string() };
                let key = prefixed(record_type::TARGET_ASSIGNMENT_METADATA, |w| key.encode(w, 0));
                (key, value.as_ref().map(encode_target_epoch))
            }
            Self::TargetAssignmentMember { group, member, value } => {
                let key = codec::member_key(record_type::TARGET_ASSIGNMENT_MEMBER, group, member);
                (key, value.as_ref().map(codec::encode_target))
            }
            Self::CurrentAssignment { group, member, value } => {
                let key = codec::member_key(record_type::CURRENT_ASSIGNMENT, group, member);
                (key, value.as_ref().map(codec::encode_current))
            }
            Self::RegularExpression { group, regex, value } => {
                let key = ConsumerGroupRegularExpressionKey {
                    group_id: group.to_string(),
                    regular_expression: regex.to_string(),
                };
                let key = prefixed(record_type::REGULAR_EXPRESSION, |w| key.encode(w, 0));
                (key, value.as_ref().map(encode_regex))
            }
        };
        (Some(key), value)
    }

    fn decode(key: Option<&Bytes>, value: Option<&Bytes>) -> Result<Option<Self>, DecodeError> {
        let mut key = Reader::new(key.ok_or(DecodeError::UnexpectedNull)?.clone());
        let record_type = key.i16()?;
        let key = &mut key;
        Ok(match record_type {
            record_type::LEGACY_OFFSET_COMMIT | record_type::OFFSET_COMMIT => {
                let OffsetCommitKey { group, topic, partition } = OffsetCommitKey::decode(key, 0)?;
                let partition = PartitionIndex(partition);
                let make =
                    |value| Self::OffsetCommit { group: group.into(), topic: topic.into(), partition, value };
                versioned(value, OFFSET_VERSION_MAX, decode_offset)?.map(make)
            }
            record_type::GROUP_METADATA => {
                let group = GroupMetadataKey::decode(key, 0)?.group.into();
                let make = |value| Self::GroupMetadata { group, value };
                versioned(value, GROUP_VERSION_MAX, decode_classic)?.map(make)
            }
            record_type::CONSUMER_GROUP_METADATA => {
                let group = ConsumerGroupMetadataKey::decode(key, 0)?.group_id.into();
                let make = |value| Self::ConsumerGroupMetadata { group, value };
                versioned(value, 0, decode_epoch)?.map(make)
            }
            record_type::CONSUMER_GROUP_PARTITION_METADATA => {
                let group = ConsumerGroupPartitionMetadataKey::decode(key, 0)?.group_id.into();
                value.is_none().then_some(Self::ConsumerGroupPartitionMetadata { group })
            }
            record_type::CONSUMER_GROUP_MEMBER => {
                let (group, member) = codec::decode_member_key(key)?;
                let make = |value| Self::ConsumerGroupMember { group, member, value };
                versioned(value, 0, codec::decode_member)?.map(make)
            }
            record_type::TARGET_ASSIGNMENT_METADATA => {
                let group = ConsumerGroupTargetAssignmentMetadataKey::decode(key, 0)?.group_id.into();
                let make = |value| Self::TargetAssignmentMetadata { group, value };
                versioned(value, 0, decode_target_epoch)?.map(make)
            }
            record_type::TARGET_ASSIGNMENT_MEMBER => {
                let (group, member) = codec::decode_member_key(key)?;
                let make = |value| Self::TargetAssignmentMember { group, member, value };
                versioned(value, 0, codec::decode_target)?.map(make)
            }
            record_type::CURRENT_ASSIGNMENT => {
                let (group, member) = codec::decode_member_key(key)?;
                let make = |value| Self::CurrentAssignment { group, member, value };
                versioned(value, 0, codec::decode_current)?.map(make)
            }
            record_type::REGULAR_EXPRESSION => {
                let key = ConsumerGroupRegularExpressionKey::decode(key, 0)?;
                let (group, regex) = (key.group_id.into(), key.regular_expression.into());
                let make = |value| Self::RegularExpression { group, regex, value };
                versioned(value, 0, decode_regex)?.map(make)
            }
            // Share groups, streams groups, and what later versions may bring.
            _ => None,
        })
    }
}

/// Bytes that start with a type or version.
pub(crate) fn prefixed(prefix: i16, write: impl FnOnce(&mut Writer)) -> Bytes {
    let mut w = Writer::new();
    w.i16(prefix);
    write(&mut w);
    w.into_bytes()
}

/// Reads a value behind its version. `None`: a version that is not ours; `Some(None)`: a tombstone.
fn versioned<T>(
    value: Option<&Bytes>,
    version_max: i16,
    read: impl FnOnce(&mut Reader, i16) -> Decoded<T>,
) -> Decoded<Option<Option<T>>> {
    let Some(value) = value else { return Ok(Some(None)) };
    let mut reader = Reader::new(value.clone());
    let version = reader.i16()?;
    if !(0..=version_max).contains(&version) {
        return Ok(None);
    }
    read(&mut reader, version).map(|value| Some(Some(value)))
}

fn encode_offset(value: &CommittedOffset) -> Bytes {
    let version = if value.expire_timestamp.is_some() { OFFSET_WITH_EXPIRY_VERSION } else { OFFSET_VERSION };
    let message = OffsetCommitValue {
        offset: value.offset.0,
        leader_epoch: value.leader_epoch.0,
        metadata: value.metadata.to_string(),
        commit_timestamp: value.commit_timestamp.0,
        topic_id: value.topic_id,
        expire_timestamp: value.expire_timestamp.map_or(-1, |at| at.0),
    };
    prefixed(version, |w| message.encode(w, version))
}

fn decode_offset(reader: &mut Reader, version: i16) -> Decoded<CommittedOffset> {
    let message = OffsetCommitValue::decode(reader, version)?;
    Ok(CommittedOffset {
        offset: Offset(message.offset),
        leader_epoch: LeaderEpoch(message.leader_epoch),
        metadata: message.metadata.into(),
        commit_timestamp: Millis(message.commit_timestamp),
        expire_timestamp: Some(Millis(message.expire_timestamp)).filter(|at| *at != Millis::NONE),
        topic_id: message.topic_id,
    })
}

fn encode_classic(value: &ClassicMetadata) -> Bytes {
    let members = value.members.iter().map(|member| group_metadata_value::Members {
        member_id: member.member_id.to_string(),
        group_instance_id: member.instance_id.as_ref().map(|id| id.to_string()),
        client_id: member.client_id.to_string(),
        client_host: member.client_host.to_string(),
        rebalance_timeout: member.rebalance_timeout_ms,
        session_timeout: member.session_timeout_ms,
        subscription: member.subscription.share(),
        assignment: member.assignment.share(),
    });
    let message = GroupMetadataValue {
        protocol_type: value.protocol_type.to_string(),
        generation: value.generation,
        protocol: value.protocol_name.as_ref().map(|name| name.to_string()),
        leader: value.leader.as_ref().map(|leader| leader.to_string()),
        current_state_timestamp: value.current_state_timestamp.0,
        members: members.collect(),
    };
    prefixed(GROUP_VERSION, |w| message.encode(w, GROUP_VERSION))
}

/// A member of a record without a rebalance timeout has its session timeout for one.
fn decode_classic(reader: &mut Reader, version: i16) -> Decoded<ClassicMetadata> {
    let message = GroupMetadataValue::decode(reader, version)?;
    let members = message.members.into_iter().map(|member| ClassicMemberMetadata {
        member_id: member.member_id.into(),
        instance_id: member.group_instance_id.map(Into::into),
        client_id: member.client_id.into(),
        client_host: member.client_host.into(),
        rebalance_timeout_ms: if version == 0 { member.session_timeout } else { member.rebalance_timeout },
        session_timeout_ms: member.session_timeout,
        subscription: KeptBytes::copy_of(&member.subscription),
        assignment: KeptBytes::copy_of(&member.assignment),
    });
    Ok(ClassicMetadata {
        protocol_type: message.protocol_type.into(),
        generation: message.generation,
        protocol_name: message.protocol.map(Into::into),
        leader: message.leader.map(Into::into),
        current_state_timestamp: Millis(message.current_state_timestamp),
        members: members.collect(),
    })
}

fn encode_epoch(value: &ConsumerGroupEpoch) -> Bytes {
    let message = ConsumerGroupMetadataValue { epoch: value.epoch, metadata_hash: value.metadata_hash };
    prefixed(0, |w| message.encode(w, 0))
}

fn decode_epoch(reader: &mut Reader, version: i16) -> Decoded<ConsumerGroupEpoch> {
    let message = ConsumerGroupMetadataValue::decode(reader, version)?;
    Ok(ConsumerGroupEpoch { epoch: message.epoch, metadata_hash: message.metadata_hash })
}

fn encode_target_epoch(value: &TargetAssignmentEpoch) -> Bytes {
    let message = ConsumerGroupTargetAssignmentMetadataValue {
        assignment_epoch: value.epoch,
        assignment_timestamp: value.timestamp.0,
    };
    prefixed(0, |w| message.encode(w, 0))
}

fn decode_target_epoch(reader: &mut Reader, version: i16) -> Decoded<TargetAssignmentEpoch> {
    let message = ConsumerGroupTargetAssignmentMetadataValue::decode(reader, version)?;
    Ok(TargetAssignmentEpoch {
        epoch: message.assignment_epoch,
        timestamp: Millis(message.assignment_timestamp),
    })
}

fn encode_regex(value: &ResolvedRegex) -> Bytes {
    let message = ConsumerGroupRegularExpressionValue {
        topics: value.topics.iter().map(|topic| topic.to_string()).collect(),
        version: value.version,
        timestamp: value.timestamp.0,
    };
    prefixed(0, |w| message.encode(w, 0))
}

fn decode_regex(reader: &mut Reader, version: i16) -> Decoded<ResolvedRegex> {
    let message = ConsumerGroupRegularExpressionValue::decode(reader, version)?;
    Ok(ResolvedRegex {
        topics: message.topics.into_iter().map(TopicName::from).collect(),
        version: message.version,
        timestamp: Millis(message.timestamp),
    })
}
