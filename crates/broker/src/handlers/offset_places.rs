//! Offsets that are to be committed: what exists goes to the group, and every place of the request gets its answer.

use fencepost_group as group;
use fencepost_metadata::Image;
use fencepost_types::{ErrorCode, LeaderEpoch, Offset, PartitionIndex, Uuid};

/// A topic as a request names it, with its partitions in that order.
pub(crate) struct Named {
    pub(crate) topic_id: Uuid,
    pub(crate) name: String,
    pub(crate) offsets: Vec<group::PartitionOffset>,
}

/// One offset of a request.
pub(crate) fn offset(
    partition_index: i32,
    committed_offset: i64,
    committed_leader_epoch: i32,
    metadata: Option<String>,
) -> group::PartitionOffset {
    group::PartitionOffset {
        partition: PartitionIndex(partition_index),
        offset: Offset(committed_offset),
        leader_epoch: LeaderEpoch(committed_leader_epoch),
        metadata: metadata.map(Into::into),
    }
}

/// One topic of an answer.
pub(crate) struct Place {
    pub(crate) topic_id: Uuid,
    pub(crate) name: String,
    pub(crate) codes: Vec<(PartitionIndex, ErrorCode)>,
}

/// The places of an answer, in the order of the request. A place without an error is the group's to fill.
pub(crate) struct Places {
    places: Vec<Place>,
    /// How the request's version says that a topic is not there.
    unknown_topic: ErrorCode,
}

/// Splits a request into what the group is asked, and the places of the answer with the codes of what does not exist.
pub(crate) fn sort_out(image: &Image, by_id: bool, named: Vec<Named>) -> (Vec<group::TopicOffsets>, Places) {
    let unknown_topic = if by_id { ErrorCode::UnknownTopicId } else { ErrorCode::UnknownTopicOrPartition };
    let (mut known, mut places) = (Vec::new(), Vec::with_capacity(named.len()));
    for Named { topic_id, name, offsets } in named {
        let topics = image.topics();
        let found = if by_id { topics.by_id(topic_id) } else { topics.by_name(&name) };
        let code = |partition: PartitionIndex| match found {
            None => unknown_topic,
            Some(found) if found.partitions.contains_key(&partition) => ErrorCode::None,
            Some(_) => ErrorCode::UnknownTopicOrPartition,
        };
        let codes: Vec<_> = offsets.iter().map(|asked| (asked.partition, code(asked.partition))).collect();
        let exist = offsets.into_iter().zip(&codes).filter(|(_, (_, code))| code.is_none());
        let partitions: Vec<_> = exist.map(|(asked, _)| asked).collect();
        if let Some(found) = found.filter(|_| !partitions.is_empty()) {
            let topic = group::TopicOffsets { topic: found.name.clone(), topic_id: found.id, partitions };
            known.push(topic);
        }
        places.push(Place { topic_id, name, codes });
    }
    (known, Places { places, unknown_topic })
}

impl Places {
    /// Every place filled: the group's codes go, in order, to what it was asked; an error goes to all of that.
    pub(crate) fn filled(
        mut self,
        result: Result<Vec<group::TopicErrors>, ErrorCode>,
    ) -> impl Iterator<Item = Place> {
        let unknown_topic = self.unknown_topic;
        let asked =
            self.places.iter_mut().flat_map(|place| &mut place.codes).filter(|(_, code)| code.is_none());
        match result {
            Ok(answered) => {
                let codes = answered.into_iter().flat_map(|topic| topic.partitions);
                asked.zip(codes).for_each(|((_, place), (_, code))| {
                    *place = if code == ErrorCode::UnknownTopicId { unknown_topic } else { code };
                });
            }
            Err(code) => asked.for_each(|(_, place)| *place = code),
        }
        self.places.into_iter()
    }
}
