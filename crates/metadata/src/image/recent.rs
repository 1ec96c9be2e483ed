//! What the newest records have changed: two images of one log are compared without a look at what both have.

use alloc::string::String;
use alloc::sync::Arc;
use core::hash::{Hash, Hasher};
use core::ops::Bound;

use fencepost_types::{Offset, SharedMap, Uuid};

use super::{ConfigResource, Image, QuotaEntity, ResourceType, ScramMechanism};
use crate::record::MetadataRecord;

/// Records whose changes are known. Images are published one record or one batch apart; two that are further apart are
/// compared whole.
pub(crate) const RECENT_RECORDS_MAX: usize = 1_024;

/// What one record may have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Touched {
    /// A topic or partitions of it.
    Topic(Uuid),
    /// A topic that is gone, and its configuration.
    RemovedTopic(Uuid, ConfigResource),
    /// The configuration of a resource.
    Config(ConfigResource),
    /// The quotas of an entity.
    Quota(QuotaEntity),
    /// The credentials of a user, of one mechanism.
    Scram((ScramMechanism, String)),
    /// An access control entry.
    Acl(Uuid),
}

/// The changes of the newest records, by their offsets.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    /// The same allocation in every image that grew from one: offsets of other logs say nothing here.
    origin: Arc<()>,
    /// The changes of every later record are known.
    after: Offset,
    touched: SharedMap<Offset, Touched>,
}

impl Default for Recent {
    fn default() -> Self {
        Self::after(Offset::NONE)
    }
}

/// Images that say the same are the same, however they came to be.
impl PartialEq for Recent {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Recent {}

impl Hash for Recent {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Recent {
    /// Nothing is known of the records up to `offset`.
    pub(super) fn after(offset: Offset) -> Self {
        Self { origin: Arc::default(), after: offset, touched: SharedMap::default() }
    }

    fn note(&mut self, offset: Offset, touched: Touched) {
        if offset <= self.after || self.touched.range(offset..).next().is_some() {
            // Not the offsets of a log: a snapshot is being read.
            *self = Self::after(offset);
            return;
        }
        self.touched.insert(offset, touched);
        if self.touched.len() > RECENT_RECORDS_MAX {
            let oldest = self.touched.keys().next().copied();
            self.after = oldest.expect("there are some");
            self.touched.remove(&self.after);
        }
    }
}

impl Image {
    /// Everything that may differ from `old`, an image of the same log; `None` where that is not known.
    pub(crate) fn touched_since(&self, old: &Self) -> Option<impl Iterator<Item = &Touched>> {
        let is_known = Arc::ptr_eq(&self.recent.origin, &old.recent.origin)
            && old.offset >= self.recent.after
            && old.offset <= self.offset;
        let range = (Bound::Excluded(old.offset), Bound::Unbounded);
        is_known.then(|| self.recent.touched.range(range).map(|(_, touched)| touched))
    }

    /// Notes what `record` is about to change.
    pub(super) fn note(&mut self, offset: Offset, record: &MetadataRecord) {
        let touched = match record {
            MetadataRecord::Topic(r) => Touched::Topic(r.topic_id),
            MetadataRecord::Partition(r) => Touched::Topic(r.topic_id),
            MetadataRecord::PartitionChange(r) => Touched::Topic(r.topic_id),
            MetadataRecord::RemoveTopic(r) => match self.topics.by_id(r.topic_id) {
                Some(topic) => Touched::RemovedTopic(r.topic_id, ConfigResource::topic(&topic.name)),
                None => return,
            },
            MetadataRecord::ClearElr(r) => match self.topics.by_name(&r.topic_name) {
                Some(topic) => Touched::Topic(topic.id),
                None => {
                    // All topics.
                    self.recent = Recent::after(offset);
                    return;
                }
            },
            MetadataRecord::Config(r) => {
                Touched::Config(ConfigResource::new(ResourceType(r.resource_type), r.resource_name.clone()))
            }
            MetadataRecord::ClientQuota(r) => Touched::Quota(super::replay::quota_entity(r)),
            MetadataRecord::UserScramCredential(r) => {
                Touched::Scram((ScramMechanism(r.mechanism), r.name.clone()))
            }
            MetadataRecord::RemoveUserScramCredential(r) => {
                Touched::Scram((ScramMechanism(r.mechanism), r.name.clone()))
            }
            MetadataRecord::AccessControlEntry(r) => Touched::Acl(r.id),
            MetadataRecord::RemoveAccessControlEntry(r) => Touched::Acl(r.id),
            // What these change is small and compared whole, or concerns no broker.
            MetadataRecord::RegisterBroker(_)
            | MetadataRecord::UnregisterBroker(_)
            | MetadataRecord::FenceBroker(_)
            | MetadataRecord::UnfenceBroker(_)
            | MetadataRecord::BrokerRegistrationChange(_)
            | MetadataRecord::RegisterController(_)
            | MetadataRecord::UnregisterController(_)
            | MetadataRecord::FeatureLevel(_)
            | MetadataRecord::ProducerIds(_)
            | MetadataRecord::DelegationToken(_)
            | MetadataRecord::RemoveDelegationToken(_)
            | MetadataRecord::NoOp(_)
            | MetadataRecord::ZkMigrationState(_)
            | MetadataRecord::BeginTransaction(_)
            | MetadataRecord::EndTransaction(_)
            | MetadataRecord::AbortTransaction(_) => return,
        };
        self.recent.note(offset, touched);
    }
}
