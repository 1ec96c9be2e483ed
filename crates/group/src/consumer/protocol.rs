//! What classic consumers say in the bytes of their protocol, and how they are told their partitions.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

use fencepost_records::persisted::consumer_protocol_assignment::AssignedPartitions;
use fencepost_records::persisted::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};
use fencepost_types::wire::{DecodeError, Decoded, Reader, Writer};
use fencepost_types::{KeptBytes, PartitionIndex, TopicName, Uuid};

use crate::{Assignment, Topics};

/// The newest version that is known; later ones start with it.
const VERSION_MAX: i16 = 3;

/// A classic consumer's subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The version it is written in.
    pub version: i16,
    /// The topics it reads.
    pub topics: BTreeSet<TopicName>,
    /// The partitions it owns, by topic name.
    pub owned: Vec<(TopicName, Vec<PartitionIndex>)>,
    /// Its rack.
    pub rack_id: Option<Arc<str>>,
}

impl Subscription {
    /// Reads a subscription.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn decode(bytes: &KeptBytes) -> Decoded<Self> {
        let mut reader = Reader::new(bytes.share());
        let version = read_version(&mut reader)?;
        let message = ConsumerProtocolSubscription::decode(&mut reader, version)?;
        let owned = message
            .owned_partitions
            .into_iter()
            .map(|topic| (topic.topic.into(), topic.partitions.into_iter().map(PartitionIndex).collect()));
        Ok(Self {
            version,
            topics: message.topics.into_iter().map(TopicName::from).collect(),
            owned: owned.collect(),
            rack_id: message.rack_id.map(Into::into),
        })
    }

    /// The partitions it owns, of the topics there are.
    pub fn owned_by_id(&self, topics: &Topics) -> BTreeMap<Uuid, Vec<PartitionIndex>> {
        let known = self.owned.iter().filter_map(|(name, list)| Some((topics.get(name)?.id, list.clone())));
        known.collect()
    }
}

/// Reads an assignment: the partitions of the topics there are. No bytes are no partitions. `None`: there is user data in
/// it, which an assignment of the coordinator has no place for.
///
/// # Errors
/// The bytes are no assignment.
pub fn decode_assignment(bytes: &KeptBytes, topics: &Topics) -> Decoded<Option<Assignment>> {
    let mut assignment = Assignment::new();
    if bytes.is_empty() {
        return Ok(Some(assignment));
    }
    let mut reader = Reader::new(bytes.share());
    let version = read_version(&mut reader)?;
    let message = ConsumerProtocolAssignment::decode(&mut reader, version)?;
    if message.user_data.is_some_and(|data| !data.is_empty()) {
        return Ok(None);
    }
    for topic in message.assigned_partitions {
        if let Some(facts) = topics.get(&topic.topic) {
            assignment.entry(facts.id).or_default().extend(topic.partitions.into_iter().map(PartitionIndex));
        }
    }
    assignment.retain(|_, partitions| !partitions.is_empty());
    Ok(Some(assignment))
}

/// Writes an assignment, leaving out topics that are gone.
pub fn encode_assignment<'a>(
    assignment: impl Iterator<Item = (Uuid, Vec<PartitionIndex>)> + 'a,
    topics: Option<&Topics>,
    version: i16,
) -> KeptBytes {
    let assigned = assignment.filter_map(|(id, partitions)| {
        let topic = topics?.name(id)?.to_string();
        Some(AssignedPartitions { topic, partitions: partitions.into_iter().map(|one| one.0).collect() })
    });
    let message = ConsumerProtocolAssignment { assigned_partitions: assigned.collect(), user_data: None };
    let mut w = Writer::new();
    w.i16(version);
    message.encode(&mut w, version);
    KeptBytes::copy_of(&w.into_bytes())
}

fn read_version(reader: &mut Reader) -> Decoded<i16> {
    let version = reader.i16()?;
    if version < 0 { Err(DecodeError::UnsupportedVersion) } else { Ok(version.min(VERSION_MAX)) }
}
