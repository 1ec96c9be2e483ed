//! OffsetFetch.
//!
//! Source: KIP-447 (require stable), KIP-848 (member epochs), Kafka OffsetMetadataManager.fetchOffsets.

use alloc::vec::Vec;

use fencepost_coordinator::{Decision, Token};
use fencepost_types::{ErrorCode, PartitionIndex, TopicPartition, Uuid};

use crate::classic::draft::Decided;
use crate::consumer::fencing;
use crate::offsets::store::PartitionOffsets;
use crate::shard::Found;
use crate::{GroupShard, OffsetFetch, PartitionFetched, Reply, TopicFetched, TopicPartitions};

impl GroupShard {
    /// Reads offsets. Members of consumer groups must have the right epoch; a group that is not there has no
    /// offsets, which is no error.
    pub(crate) fn offset_fetch(&self, token: Token, request: &OffsetFetch) -> Decided {
        match self.find(&request.group) {
            Found::Nothing | Found::Classic(_) => {}
            Found::Consumer(group) => {
                fencing::validate_fetch(group, request.member_id.as_ref(), request.member_epoch)?;
            }
        }
        let topics = match &request.topics {
            Some(topics) => topics.iter().map(|topic| self.fetch_topic(request, topic)).collect(),
            None => self.fetch_all(request),
        };
        Ok(Decision::answer(token, Reply::Fetch(topics)))
    }

    fn fetch_topic(&self, request: &OffsetFetch, asked: &TopicPartitions) -> TopicFetched {
        let fetch = |partition: &PartitionIndex| {
            let key = TopicPartition { topic: asked.topic.clone(), partition: *partition };
            match self.durable.offsets.get(&request.group, &key) {
                Some(offsets) => fetched(offsets, *partition, asked.topic_id, request),
                None => PartitionFetched::nothing(*partition, ErrorCode::None),
            }
        };
        TopicFetched {
            topic: asked.topic.clone(),
            topic_id: asked.topic_id,
            partitions: asked.partitions.iter().map(fetch).collect(),
        }
    }

    /// Everything that is committed.
    ///
    /// Differs from Kafka: with `require_stable` a partition whose first offset is still pending is
    /// UNSTABLE_OFFSET_COMMIT, as it is when asked for by name. Kafka leaves it out, so that the caller takes it for
    /// "never committed".
    fn fetch_all(&self, request: &OffsetFetch) -> Vec<TopicFetched> {
        let mut topics: Vec<TopicFetched> = Vec::new();
        for (key, offsets) in self.durable.offsets.of_group(&request.group) {
            let committed = offsets.committed_in(&request.existing);
            let is_unstable = request.require_stable && offsets.is_pending_in(&request.existing);
            if committed.is_none() && !is_unstable {
                continue;
            }
            let topic_id = committed.map_or(Uuid::ZERO, |logged| logged.value.topic_id);
            let partition = fetched(offsets, key.partition, Uuid::ZERO, request);
            match topics.last_mut() {
                Some(last) if last.topic == key.topic => last.partitions.push(partition),
                Some(_) | None => {
                    let partitions = Vec::from([partition]);
                    topics.push(TopicFetched { topic: key.topic.clone(), topic_id, partitions });
                }
            }
        }
        topics
    }
}

/// The offset of a partition. One that was committed for another topic of the same name does not count, also where the
/// request names the topic by its name.
///
/// Differs from Kafka: it looks at the topic id only where the request has one, so that after a crash between the deletion of
/// a topic and the tombstones of its offsets a reader of the next topic of that name skips records.
fn fetched(
    offsets: &PartitionOffsets,
    partition: PartitionIndex,
    topic_id: Uuid,
    request: &OffsetFetch,
) -> PartitionFetched {
    if request.require_stable && offsets.is_pending_in(&request.existing) {
        return PartitionFetched::nothing(partition, ErrorCode::UnstableOffsetCommit);
    }
    let Some(logged) = offsets.committed_in(&request.existing) else {
        return PartitionFetched::nothing(partition, ErrorCode::None);
    };
    let known = logged.value.topic_id;
    if !known.is_zero() && !topic_id.is_zero() && known != topic_id {
        return PartitionFetched::nothing(partition, ErrorCode::None);
    }
    PartitionFetched {
        partition,
        error: ErrorCode::None,
        offset: logged.value.offset,
        leader_epoch: logged.value.leader_epoch,
        metadata: logged.value.metadata.clone(),
    }
}
