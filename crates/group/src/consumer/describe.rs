//! ConsumerGroupDescribe.
//!
//! Source: KIP-848, Kafka GroupMetadataManager.consumerGroupDescribe.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use fencepost_coordinator::{Decision, Token};
use fencepost_types::{ErrorCode, PartitionIndex, Uuid};

use crate::classic::draft::Decided;
use crate::consumer::group::{ConsumerGroup, ConsumerMember};
use crate::shard::Found;
use crate::{
    ConsumerGroupDescribe, DescribedConsumerGroup, DescribedConsumerMember, DescribedPartitions, GroupId,
    GroupRefusal, GroupShard, MemberId, Reply, Topics,
};

impl GroupShard {
    /// Describes consumer groups. A classic group is as unknown here as one that is not there.
    pub(crate) fn consumer_describe(&self, token: Token, request: &ConsumerGroupDescribe) -> Decided {
        let describe = |id: &GroupId| match self.find(id) {
            _ if id.is_empty() => DescribedConsumerGroup::error(id.clone(), ErrorCode::InvalidGroupId, None),
            Found::Consumer(group) => self.described(id, group, &request.topics),
            Found::Nothing | Found::Classic(_) => {
                let message = GroupRefusal::GroupIdNotFound { group: id.clone() }.message();
                DescribedConsumerGroup::error(id.clone(), ErrorCode::GroupIdNotFound, message)
            }
        };
        Ok(Decision::answer(token, Reply::ConsumerDescribe(request.groups.iter().map(describe).collect())))
    }

    fn described(&self, id: &GroupId, group: &ConsumerGroup, topics: &Topics) -> DescribedConsumerGroup {
        let members = group.members.iter().map(|(id, member)| described_member(group, id, member, topics));
        DescribedConsumerGroup {
            group: id.clone(),
            error: ErrorCode::None,
            error_message: None,
            state: group.state().name(),
            group_epoch: group.epoch,
            assignment_epoch: group.target_epoch,
            assignor: group.assignor(&self.config).name().into(),
            members: members.collect(),
        }
    }
}

fn described_member(
    group: &ConsumerGroup,
    member_id: &MemberId,
    member: &ConsumerMember,
    topics: &Topics,
) -> DescribedConsumerMember {
    let metadata = &member.metadata;
    // What it must still give up is its own until it has, and nobody else's.
    let mut held: BTreeMap<Uuid, Vec<PartitionIndex>> = BTreeMap::new();
    for (topic, partition) in member.current.held() {
        held.entry(topic).or_default().push(partition);
    }
    let target = group.targets.get(member_id).into_iter().flat_map(|target| target.iter());
    DescribedConsumerMember {
        member_id: member_id.clone(),
        instance_id: metadata.instance_id.clone(),
        rack_id: metadata.rack_id.clone(),
        member_epoch: member.current.member_epoch,
        client_id: metadata.client_id.clone(),
        client_host: metadata.client_host.clone(),
        subscribed_topic_names: metadata.subscribed_topic_names.iter().cloned().collect(),
        subscribed_topic_regex: Some(metadata.subscribed_topic_regex.clone()),
        assignment: by_name(held.into_iter(), topics),
        target_assignment: by_name(
            target.map(|(id, of_topic)| (*id, of_topic.iter().copied().collect())),
            topics,
        ),
        is_classic: member.is_classic(),
    }
}

/// Topics that are gone have no name to be shown by, and are left out.
fn by_name(
    assignment: impl Iterator<Item = (Uuid, Vec<PartitionIndex>)>,
    topics: &Topics,
) -> Vec<DescribedPartitions> {
    let named = assignment.filter_map(|(topic_id, partitions)| {
        let topic = topics.name(topic_id)?.clone();
        Some(DescribedPartitions { topic_id, topic, partitions })
    });
    named.collect()
}
