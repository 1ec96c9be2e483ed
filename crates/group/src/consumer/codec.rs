//! The records of a consumer group's members.

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::Bytes;
use fencepost_records::persisted::consumer_group_current_member_assignment_value::{
    AssignedPartitions, PartitionsPendingRevocation,
};
use fencepost_records::persisted::consumer_group_member_metadata_value::{
    ClassicMemberMetadata, SupportedProtocols,
};
use fencepost_records::persisted::consumer_group_target_assignment_member_value::TopicPartitions;
use fencepost_records::persisted::{
    ConsumerGroupCurrentMemberAssignmentValue, ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue, ConsumerGroupTargetAssignmentMemberValue,
};
use fencepost_types::wire::{Decoded, Reader};
use fencepost_types::{KeptBytes, PartitionIndex, TopicName, Uuid};

use crate::codec::prefixed;
use crate::{
    Assignment, ClassicMemberProtocols, ConsumerMemberMetadata, CurrentAssignment, EpochAssignment, GroupId,
    MemberId, MemberState,
};

/// The key of a record that belongs to one member: the three types of it look the same.
pub fn member_key(record_type: i16, group: &GroupId, member: &MemberId) -> Bytes {
    let key = ConsumerGroupMemberMetadataKey { group_id: group.to_string(), member_id: member.to_string() };
    prefixed(record_type, |w| key.encode(w, 0))
}

/// Reads such a key behind its type.
pub fn decode_member_key(reader: &mut Reader) -> Decoded<(GroupId, MemberId)> {
    let key = ConsumerGroupMemberMetadataKey::decode(reader, 0)?;
    Ok((key.group_id.into(), key.member_id.into()))
}

/// A value of type 5.
pub fn encode_member(value: &ConsumerMemberMetadata) -> Bytes {
    let classic = value.classic.as_ref().map(|classic| ClassicMemberMetadata {
        session_timeout_ms: classic.session_timeout_ms,
        supported_protocols: classic
            .protocols
            .iter()
            .map(|(name, metadata)| SupportedProtocols { name: name.to_string(), metadata: metadata.share() })
            .collect(),
    });
    let message = ConsumerGroupMemberMetadataValue {
        instance_id: value.instance_id.as_ref().map(|id| id.to_string()),
        rack_id: value.rack_id.as_ref().map(|rack| rack.to_string()),
        client_id: value.client_id.to_string(),
        client_host: value.client_host.to_string(),
        subscribed_topic_names: value.subscribed_topic_names.iter().map(|name| name.to_string()).collect(),
        subscribed_topic_regex: Some(value.subscribed_topic_regex.to_string()),
        rebalance_timeout_ms: value.rebalance_timeout_ms,
        server_assignor: value.server_assignor.as_ref().map(|name| name.to_string()),
        classic_member_metadata: classic,
    };
    prefixed(0, |w| message.encode(w, 0))
}

/// A value of type 5.
pub fn decode_member(reader: &mut Reader, version: i16) -> Decoded<ConsumerMemberMetadata> {
    let message = ConsumerGroupMemberMetadataValue::decode(reader, version)?;
    let classic = message.classic_member_metadata.map(|classic| ClassicMemberProtocols {
        session_timeout_ms: classic.session_timeout_ms,
        protocols: classic
            .supported_protocols
            .into_iter()
            .map(|protocol| (protocol.name.into(), KeptBytes::copy_of(&protocol.metadata)))
            .collect(),
    });
    Ok(ConsumerMemberMetadata {
        instance_id: message.instance_id.map(Into::into),
        rack_id: message.rack_id.map(Into::into),
        client_id: message.client_id.into(),
        client_host: message.client_host.into(),
        subscribed_topic_names: message.subscribed_topic_names.into_iter().map(TopicName::from).collect(),
        subscribed_topic_regex: message.subscribed_topic_regex.map_or_else(|| Arc::from(""), Into::into),
        rebalance_timeout_ms: message.rebalance_timeout_ms,
        server_assignor: message.server_assignor.map(Into::into),
        classic,
    })
}

/// A value of type 7.
pub fn encode_target(value: &Assignment) -> Bytes {
    let topics = value.iter().map(|(topic_id, partitions)| TopicPartitions {
        topic_id: *topic_id,
        partitions: partitions.iter().map(|partition| partition.0).collect(),
    });
    let message = ConsumerGroupTargetAssignmentMemberValue { topic_partitions: topics.collect() };
    prefixed(0, |w| message.encode(w, 0))
}

/// A value of type 7. Topics without partitions say nothing and are left out.
pub fn decode_target(reader: &mut Reader, version: i16) -> Decoded<Assignment> {
    let message = ConsumerGroupTargetAssignmentMemberValue::decode(reader, version)?;
    let mut value = Assignment::new();
    for topic in message.topic_partitions.into_iter().filter(|topic| !topic.partitions.is_empty()) {
        let partitions = value.entry(topic.topic_id).or_default();
        partitions.extend(topic.partitions.into_iter().map(PartitionIndex));
    }
    Ok(value)
}

/// A value of type 8.
pub fn encode_current(value: &CurrentAssignment) -> Bytes {
    let assigned = columns(&value.assigned).map(|(topic_id, partitions, epochs)| AssignedPartitions {
        topic_id,
        partitions,
        assignment_epochs: Some(epochs),
    });
    let revoked = columns(&value.pending_revocation).map(|(topic_id, partitions, epochs)| {
        PartitionsPendingRevocation { topic_id, partitions, assignment_epochs: Some(epochs) }
    });
    let message = ConsumerGroupCurrentMemberAssignmentValue {
        member_epoch: value.member_epoch,
        previous_member_epoch: value.previous_member_epoch,
        state: value.state.byte(),
        assigned_partitions: assigned.collect(),
        partitions_pending_revocation: revoked.collect(),
    };
    prefixed(0, |w| message.encode(w, 0))
}

/// A value of type 8. Versions before KIP-1251 kept no epochs for partitions: those count as just assigned.
pub fn decode_current(reader: &mut Reader, version: i16) -> Decoded<CurrentAssignment> {
    let message = ConsumerGroupCurrentMemberAssignmentValue::decode(reader, version)?;
    let assigned = message
        .assigned_partitions
        .into_iter()
        .map(|topic| (topic.topic_id, topic.partitions, topic.assignment_epochs));
    let revoked = message
        .partitions_pending_revocation
        .into_iter()
        .map(|topic| (topic.topic_id, topic.partitions, topic.assignment_epochs));
    Ok(CurrentAssignment {
        member_epoch: message.member_epoch,
        previous_member_epoch: message.previous_member_epoch,
        state: MemberState::from_byte(message.state),
        assigned: from_columns(assigned, message.member_epoch),
        pending_revocation: from_columns(revoked, message.member_epoch),
    })
}

/// Each topic's partitions, and beside them their epochs.
fn columns(assignment: &EpochAssignment) -> impl Iterator<Item = (Uuid, Vec<i32>, Vec<i32>)> {
    assignment.iter().map(|(topic_id, partitions)| {
        let (partitions, epochs) = partitions.iter().map(|(partition, epoch)| (partition.0, *epoch)).unzip();
        (*topic_id, partitions, epochs)
    })
}

fn from_columns(
    topics: impl Iterator<Item = (Uuid, Vec<i32>, Option<Vec<i32>>)>,
    member_epoch: i32,
) -> EpochAssignment {
    let mut assignment = EpochAssignment::new();
    for (topic_id, partitions, epochs) in topics.filter(|(_, partitions, _)| !partitions.is_empty()) {
        let epochs = epochs.unwrap_or_default().into_iter().chain(core::iter::repeat(member_epoch));
        let partitions = partitions.into_iter().map(PartitionIndex);
        assignment.entry(topic_id).or_default().extend(partitions.zip(epochs));
    }
    assignment
}

impl MemberState {
    /// Its number in the log.
    fn byte(self) -> i8 {
        match self {
            Self::Stable => 0,
            Self::UnrevokedPartitions => 1,
            Self::UnreleasedPartitions => 2,
        }
    }

    /// From its number; one that nobody writes counts as waiting, so that the next heartbeat settles it.
    fn from_byte(byte: i8) -> Self {
        match byte {
            0 => Self::Stable,
            1 => Self::UnrevokedPartitions,
            _ => Self::UnreleasedPartitions,
        }
    }
}
