//! What a new metadata image means for this broker: partitions come and go, settings change.
//!
//! One path for the start and for every later change: the delta between the image that was published and the new one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fencepost_group::{GroupShard, Reply, Request as GroupRequest, TopicFacts, Topics, TopicsDeleted};
use fencepost_metadata::image::ResourceType;
use fencepost_metadata::{BrokerConfig, ConfigView, Delta, Image, LocalChange, StaticConfig, TopicConfig};
use fencepost_storage::{Checkpoint, Shortage, StorageError};
use fencepost_types::{ErrorCode, LeaderEpoch, PartitionIndex, TopicName, TopicPartition, Uuid};

use crate::Broker;
use crate::cx::Cx;
use crate::group_coordinator::GroupCell;
use crate::partition::Partition;
use crate::runtime::Answer;
use crate::settings::{append_rules, log_config};

/// A partition that could not be opened for want of a file handle is tried again after this.
const OPEN_RETRY_MS: i64 = 100;

impl Broker {
    /// Makes `image` the one in force and acts on what it changes. The metadata log is durable up to it.
    ///
    /// Two threads may come with two images at once, in either order. They take their turn, so that each change is acted
    /// on once, no older image replaces a newer one, and whoever comes back finds its own in force.
    pub(crate) fn publish(self: &Arc<Self>, cx: &mut Cx, image: Arc<Image>) {
        let _turn = self.publishing.lock().expect("no holder of this lock panics");
        let old = self.image.load_full();
        if image.offset() <= old.offset() {
            return;
        }
        let delta = Delta::between(&old, &image);
        // In this order: a request that has found a topic in the image finds it among these topics, too.
        self.topics.store(topic_facts(&self.topic_facts(), &image, &delta));
        self.image.store(Arc::clone(&image));
        if !delta.configs.is_empty() || delta.features {
            self.apply_configs(&image, &delta);
        }
        warn_of_quotas(&delta, &image);
        let changes = delta.local_changes(self.node_id);
        let gone = changes.deleted.iter();
        let gone: Vec<_> = gone.map(|(topic, index)| (topic.name.clone(), topic.id, *index)).collect();
        for (topic, topic_id, index) in &gone {
            self.drop_partition(cx, topic, *topic_id, *index);
        }
        if !gone.is_empty() {
            // The next topic of the name must not be taken for clean, nor begin where the last one did.
            self.remember(cx, &Checkpoint::ALL);
        }
        if !delta.topics_deleted.is_empty() {
            let names = delta.topics_deleted.iter().map(|topic| topic.name.clone()).collect();
            self.forget_offsets(cx, names);
        }
        self.lead_or_retry(cx, changes.leaders);
        self.look_at_metadata_snapshots(cx);
    }

    /// Opens the logs of partitions that are new. Without a file handle that is done a little later; clients see a
    /// partition without a leader until then, and ask again.
    fn lead_or_retry(self: &Arc<Self>, cx: &mut Cx, leaders: Vec<LocalChange>) {
        match self.lead_all(cx, &leaders) {
            Ok(()) => {}
            Err(error) if error.shortage() == Some(Shortage::Handles) => {
                tracing::warn!(%error, "partitions wait to be opened: no file handle is left");
                let at = cx.now.mono.plus_ms(OPEN_RETRY_MS);
                self.add_deadline(at, Box::new(move |broker, cx| broker.lead_again(cx, leaders)));
            }
            Err(error) => self.log_dir_failed(cx, &error),
        }
    }

    /// The same once more, of what has not been deleted meanwhile.
    fn lead_again(self: &Arc<Self>, cx: &mut Cx, mut leaders: Vec<LocalChange>) {
        let _turn = self.publishing.lock().expect("no holder of this lock panics");
        let image = self.image();
        leaders.retain(|change| image.topics().by_id(change.partition.topic.id).is_some());
        self.lead_or_retry(cx, leaders);
    }

    /// The first image of this process: everything in it is new. An error keeps the broker from starting.
    pub(crate) fn publish_first(
        self: &Arc<Self>,
        cx: &mut Cx,
        image: Arc<Image>,
    ) -> Result<(), StorageError> {
        let delta = Delta::between(&Image::default(), &image);
        self.image.store(Arc::clone(&image));
        self.topics.store(topic_facts(&Arc::default(), &image, &delta));
        warn_of_quotas(&delta, &image);
        self.apply_all_configs(&image);
        self.lead_all(cx, &delta.local_changes(self.node_id).leaders)
    }

    fn lead_all(self: &Arc<Self>, cx: &mut Cx, leaders: &[LocalChange]) -> Result<(), StorageError> {
        for LocalChange { partition: delta, .. } in leaders {
            let epoch = delta.new.leader_epoch;
            self.lead(cx, &delta.topic.name, delta.topic.id, delta.index, epoch)?;
        }
        Ok(())
    }

    /// Opens the log of a partition, or takes over under a new epoch where it is open already.
    fn lead(
        self: &Arc<Self>,
        cx: &mut Cx,
        topic: &TopicName,
        topic_id: Uuid,
        index: PartitionIndex,
        epoch: LeaderEpoch,
    ) -> Result<(), StorageError> {
        let name = TopicPartition { topic: topic.clone(), partition: index };
        if let Some(partition) = self.partitions.get(&name).filter(|open| open.topic_id == topic_id) {
            partition.take_over(cx, epoch);
            return Ok(());
        }
        let config = self.topic_config(topic);
        let expiration_ms = i64::from(self.config().producer_id_expiration_ms);
        let log_config = log_config(&config, expiration_ms);
        let log = self.open_log(cx, &name, topic_id, &log_config)?;
        if let Some((file, error)) = log.unusable_windows() {
            tracing::warn!(partition = %name, file, %error, "retries of all but each producer's newest batch will be refused");
        }
        let rules = append_rules(&config);
        let partition = Partition::new(name, topic_id, epoch, log, rules, &config);
        // It is not gone yet.
        let _ = partition.with(|state| state.count_producers(&self.producer_budget));
        self.partitions.insert(Arc::clone(&partition));
        if self.log_dir_is_offline.load(Ordering::SeqCst) {
            partition.go(cx, ErrorCode::KafkaStorageError);
        }
        Ok(())
    }

    fn drop_partition(
        self: &Arc<Self>,
        cx: &mut Cx,
        topic: &TopicName,
        topic_id: Uuid,
        index: PartitionIndex,
    ) {
        let name = TopicPartition { topic: topic.clone(), partition: index };
        let Some(partition) = self.partitions.remove_if(&name, topic_id) else { return };
        // Nobody else has taken it out, so it is not gone yet.
        let _ = partition.with(|state| state.forget_count(&self.producer_budget));
        partition.go(cx, ErrorCode::UnknownTopicOrPartition);
        match partition.delete(self.edge.random()) {
            Ok(None) => {}
            Ok(Some(directory)) => {
                let delay_ms = self.topic_config(topic).file_delete_delay_ms;
                let unlink = move |broker: &Arc<Broker>, _: &mut Cx| {
                    if let Err(error) = broker.log_dir.remove_retired(&directory) {
                        tracing::warn!(directory, %error, "a deleted partition could not be unlinked");
                    }
                };
                self.add_chore(cx.now.mono.plus_ms(delay_ms), Box::new(unlink));
            }
            Err(error) => self.log_dir_failed(cx, &error),
        }
    }

    /// Offsets of topics that are gone go, in every shard. `names`: what was just deleted.
    pub(crate) fn forget_offsets(self: &Arc<Self>, cx: &mut Cx, names: Vec<TopicName>) {
        for cell in self.groups.all() {
            let request = TopicsDeleted { names: names.clone(), ..TopicsDeleted::default() };
            cx.push(Box::new(move |broker, cx| forget_offsets_of(broker, cx, cell, request)));
        }
    }

    /// Puts the settings in force that `delta` has changed.
    fn apply_configs(&self, image: &Image, delta: &Delta) {
        let of_kind = |kind| delta.configs.iter().filter(move |resource| resource.kind == kind);
        if of_kind(ResourceType::BROKER).next().is_some() {
            self.apply_all_configs(image);
            return;
        }
        if delta.features || of_kind(ResourceType::GROUP).next().is_some() {
            self.configure_shards(image, &self.config());
        }
        let statics = self.statics();
        let view = self.view(&statics, image);
        let topics = of_kind(ResourceType::TOPIC).map(|resource| TopicName::from(resource.name.as_str()));
        for partition in topics.flat_map(|topic| self.partitions.of_topic(&topic)) {
            self.configure_partition(view, &partition);
        }
    }

    /// Puts the settings in force of the broker, the coordinators and every topic.
    pub(crate) fn apply_all_configs(&self, image: &Image) {
        let statics = self.statics();
        let view = self.view(&statics, image);
        let config = Arc::new(BrokerConfig::resolve(view));
        self.config.store(Arc::clone(&config));
        self.configure_shards(image, &config);
        for partition in self.partitions.all() {
            self.configure_partition(view, &partition);
        }
    }

    fn configure_partition(&self, view: ConfigView<'_>, partition: &Partition) {
        let expiration_ms = i64::from(self.config().producer_id_expiration_ms);
        let config = TopicConfig::resolve(view, &partition.name.topic);
        partition.configure(log_config(&config, expiration_ms), append_rules(&config), &config);
    }

    /// Everything that decides about a setting.
    pub(crate) fn view<'a>(&self, statics: &'a StaticConfig, image: &'a Image) -> ConfigView<'a> {
        ConfigView { statics, configs: image.configs(), node_id: self.node_id }
    }

    /// The settings in force for a topic.
    pub(crate) fn topic_config(&self, topic: &str) -> TopicConfig {
        let (statics, image) = (self.statics(), self.image());
        TopicConfig::resolve(self.view(&statics, &image), topic)
    }
}

/// Says that quotas have no effect: when there are some at the start, and whenever they are changed.
fn warn_of_quotas(delta: &Delta, image: &Image) {
    let count = image.client_quotas().len();
    if delta.client_quotas && count > 0 {
        tracing::warn!(count, "client quotas are kept and described, and not enforced: nobody is throttled");
    }
}

/// Asks one shard, step by step. What fails is done again after the next deletion, and at the next start; until then the
/// offsets lie there and count for nothing.
fn forget_offsets_of(broker: &Arc<Broker>, cx: &mut Cx, cell: Arc<GroupCell>, request: TopicsDeleted) {
    let names = request.names.clone();
    let asked = Arc::clone(&cell);
    let respond = Box::new(
        move |broker: &Arc<Broker>, cx: &mut Cx, answer: Answer<GroupShard>| match answer {
            Ok(Reply::OffsetsForgotten(Some(after))) => {
                let request = TopicsDeleted { names, after: Some(after), ..TopicsDeleted::default() };
                forget_offsets_of(broker, cx, cell, request);
            }
            Ok(_) => {}
            Err(error) => {
                let partition = &cell.partition().name;
                tracing::warn!(%partition, code = %error.code(), "offsets of a deleted topic stay in the log");
            }
        },
    );
    asked.ask(broker, cx, GroupRequest::TopicsDeleted(request), respond);
}

/// The topics of an image as groups see them; the same as `before` where no topic came, went or grew.
fn topic_facts(before: &Arc<Topics>, image: &Image, delta: &Delta) -> Arc<Topics> {
    if delta.topics_created.is_empty() && delta.topics_deleted.is_empty() && delta.partitions.is_empty() {
        return Arc::clone(before);
    }
    let gone = delta.topics_deleted.iter().map(|topic| topic.id);
    let grown = delta.partitions.iter().map(|partition| &partition.topic);
    let put = delta.topics_created.iter().chain(grown).map(|topic| {
        let facts = TopicFacts { id: topic.id, partition_count: topic.partitions.len() as i32 };
        (topic.name.clone(), facts)
    });
    Arc::new(before.changed(image.offset().0, gone, put))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, broker, create_topic};

    /// A log directory that has failed stays so for what is opened in it afterwards.
    #[test]
    fn nothing_is_opened_in_a_failed_directory() {
        let broker = broker();
        let before = create_topic(&broker, "a");
        let image = broker.image();
        broker.log_dir_is_offline.store(true, Ordering::SeqCst);
        broker.partitions.remove_if(&before.name, before.topic_id);
        broker.publish_first(&mut Cx::new(NOW), image).unwrap();
        let again = broker.partitions.get(&before.name).unwrap();
        assert_eq!(again.with(|_| ()), Err(ErrorCode::KafkaStorageError));
    }

    /// An image that comes late changes nothing: the newer one is in force.
    #[test]
    fn an_older_image_does_not_replace_a_newer_one() {
        let broker = broker();
        create_topic(&broker, "a");
        let older = broker.image();
        create_topic(&broker, "b");
        let newer = broker.image();
        broker.publish(&mut Cx::new(NOW), older);
        assert_eq!(broker.image().offset(), newer.offset());
        assert!(broker.partitions.get(&TopicPartition::new("b", 0)).is_some());
    }
}
