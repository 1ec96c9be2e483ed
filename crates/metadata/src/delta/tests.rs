//! What a delta tells one broker (cluster §10.1).

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::ImageFold;
use crate::image::RECENT_RECORDS_MAX;
use crate::record::MetadataRecord;
use fencepost_records::persisted::abort_transaction_record::AbortTransactionRecord;
use fencepost_records::persisted::access_control_entry_record::AccessControlEntryRecord;
use fencepost_records::persisted::begin_transaction_record::BeginTransactionRecord;
use fencepost_records::persisted::clear_elr_record::ClearElrRecord;
use fencepost_records::persisted::client_quota_record::{ClientQuotaRecord, Entity};
use fencepost_records::persisted::config_record::ConfigRecord;
use fencepost_records::persisted::end_transaction_record::EndTransactionRecord;
use fencepost_records::persisted::partition_change_record::PartitionChangeRecord;
use fencepost_records::persisted::partition_record::PartitionRecord;
use fencepost_records::persisted::remove_access_control_entry_record::RemoveAccessControlEntryRecord;
use fencepost_records::persisted::remove_topic_record::RemoveTopicRecord;
use fencepost_records::persisted::remove_user_scram_credential_record::RemoveUserScramCredentialRecord;
use fencepost_records::persisted::topic_record::TopicRecord;
use fencepost_records::persisted::user_scram_credential_record::UserScramCredentialRecord;
use fencepost_types::Uuid;

/// Of two images of one log only what the records between them name is compared; the outcome is that of a comparison of
/// everything, near or far, across transactions and snapshots.
#[test]
fn what_is_touched_is_all_that_changed() {
    let step = (0..12_u8, 0..6_u8, 0..3_u8);
    proptest!(ProptestConfig::with_cases(300), |(steps in prop::collection::vec(step, 1..60), between in 0..40_usize)| {
        let mut fold = ImageFold::default();
        let mut images = Vec::from([fold.image().clone()]);
        let names_all = steps.iter().any(|(kind, _, how)| (*kind, *how) == (5, 0));
        for (kind, who, how) in steps {
            // What does not fit is taken for nothing, as a controller never writes it.
            let mut tried = fold.clone();
            if tried.replay(fold.next_offset(), &any_record(kind, who, how)).is_ok() {
                fold = tried;
                images.push(fold.image().clone());
            }
        }
        let new = fold.image();
        let old = &images[images.len() - 1 - between.min(images.len() - 1)];
        let unrelated = image_of(new);
        prop_assert_eq!(&unrelated, new);
        prop_assert!(unrelated.touched_since(old).is_none());
        prop_assert!(names_all || new.touched_since(old).is_some());
        prop_assert_eq!(Delta::between(old, new), Delta::between(old, &unrelated));
    });
}

/// The same image, of another log.
fn image_of(image: &Image) -> Image {
    image.clone().as_of(image.offset().next(), image.epoch())
}

/// Records about six topics (two ids to a name), brokers, users, quotas and entries.
fn any_record(kind: u8, who: u8, how: u8) -> MetadataRecord {
    let id = Uuid::from_u128(100 + u128::from(who));
    let name = format!("t{}", who / 2);
    match kind {
        0 => TopicRecord { name, topic_id: id }.into(),
        1 | 2 => partition(id, i32::from(how), 1),
        3 => PartitionChangeRecord {
            partition_id: i32::from(how),
            topic_id: id,
            leader: 2,
            ..Default::default()
        }
        .into(),
        4 => RemoveTopicRecord { topic_id: id }.into(),
        5 => ClearElrRecord { topic_name: if how == 0 { String::new() } else { name } }.into(),
        6 | 7 => ConfigRecord {
            resource_type: 2,
            resource_name: name,
            name: "retention.ms".to_string(),
            value: (how > 0).then(|| how.to_string()),
        }
        .into(),
        8 => ClientQuotaRecord {
            entity: Vec::from([Entity { entity_type: "user".to_string(), entity_name: Some(name) }]),
            key: "producer_byte_rate".to_string(),
            value: f64::from(how),
            remove: how == 0,
        }
        .into(),
        9 => match how {
            0 => RemoveUserScramCredentialRecord { name, mechanism: 1 }.into(),
            _ => {
                UserScramCredentialRecord { name, mechanism: 1, iterations: how.into(), ..Default::default() }
                    .into()
            }
        },
        10 => match how {
            0 => RemoveAccessControlEntryRecord { id }.into(),
            _ => AccessControlEntryRecord { id, operation: how as i8, ..Default::default() }.into(),
        },
        _ => match how {
            0 => BeginTransactionRecord { name: None }.into(),
            1 => EndTransactionRecord {}.into(),
            _ => AbortTransactionRecord { reason: None }.into(),
        },
    }
}

/// Images that are further apart than what is kept are compared whole.
#[test]
fn far_apart_everything_is_compared() {
    let mut fold = ImageFold::default();
    let old = fold.image().clone();
    for who in 0..=RECENT_RECORDS_MAX {
        let record = TopicRecord { name: format!("t{who}"), topic_id: Uuid::from_u128(1_000 + who as u128) };
        fold.replay(fold.next_offset(), &record.into()).expect("it fits");
    }
    assert!(fold.image().touched_since(&old).is_none());
    assert_eq!(Delta::between(&old, fold.image()).topics_created.len(), RECENT_RECORDS_MAX + 1);
}

const OLD: Uuid = Uuid::from_u128(500);
const NEW: Uuid = Uuid::from_u128(600);
const ME: BrokerId = BrokerId(1);

fn topic(id: Uuid) -> MetadataRecord {
    TopicRecord { name: "t".to_string(), topic_id: id }.into()
}

fn partition(id: Uuid, index: i32, leader: i32) -> MetadataRecord {
    PartitionRecord {
        partition_id: index,
        topic_id: id,
        replicas: Vec::from([1, 2]),
        isr: Vec::from([1, 2]),
        leader,
        leader_epoch: 0,
        partition_epoch: 0,
        directories: Vec::from([OLD, NEW]),
        ..PartitionRecord::default()
    }
    .into()
}

fn image(records: &[MetadataRecord]) -> Image {
    let mut fold = ImageFold::default();
    for record in records {
        fold.replay(fold.next_offset(), record).expect("it fits");
    }
    fold.image().clone()
}

fn summary(changes: &LocalChanges) -> (usize, Vec<(i32, bool)>, Vec<(i32, bool)>) {
    let list = |changes: &[LocalChange]| changes.iter().map(|c| (c.partition.index.0, c.elected)).collect();
    (changes.deleted.len(), list(&changes.leaders), list(&changes.followers))
}

/// New partitions are led or followed, all as newly elected; other brokers have nothing to do.
#[test]
fn new_partitions() {
    let new = image(&[topic(OLD), partition(OLD, 0, 1), partition(OLD, 1, 2)]);
    let delta = Delta::between(&Image::default(), &new);
    assert_eq!(delta.topics_created.len(), 1);
    assert_eq!(summary(&delta.local_changes(ME)), (0, Vec::from([(0, true)]), Vec::from([(1, true)])));
    assert_eq!(summary(&delta.local_changes(BrokerId(9))), (0, Vec::new(), Vec::new()));
}

/// A change of the in-sync set alone is no election; a change of leader is.
#[test]
fn elections_are_told_from_other_changes() {
    let records = [topic(OLD), partition(OLD, 0, 1)];
    let old = image(&records);
    let change = PartitionChangeRecord { partition_id: 0, topic_id: OLD, ..PartitionChangeRecord::default() };
    let with = |change: PartitionChangeRecord| {
        let mut all = records.to_vec();
        all.push(change.into());
        Delta::between(&old, &image(&all)).local_changes(ME)
    };
    let shrunk = with(PartitionChangeRecord { isr: Some(Vec::from([1])), ..change.clone() });
    assert_eq!(summary(&shrunk), (0, Vec::from([(0, false)]), Vec::new()));
    let moved = with(PartitionChangeRecord { leader: 2, ..change.clone() });
    assert_eq!(summary(&moved), (0, Vec::new(), Vec::from([(0, true)])));
    let again = with(PartitionChangeRecord { leader: 1, ..change.clone() });
    assert_eq!(summary(&again), (0, Vec::from([(0, true)]), Vec::new()), "the same leader in a new epoch");
    let gone = with(PartitionChangeRecord {
        replicas: Some(Vec::from([2])),
        isr: Some(Vec::from([2])),
        leader: 2,
        ..change
    });
    assert_eq!(summary(&gone), (1, Vec::new(), Vec::new()));
}

/// A name that was deleted and made again within one delta is deleted first, then led.
#[test]
fn a_name_deleted_and_made_again() {
    let records = [topic(OLD), partition(OLD, 0, 1)];
    let mut all = records.to_vec();
    all.extend([RemoveTopicRecord { topic_id: OLD }.into(), topic(NEW), partition(NEW, 0, 1)]);
    let delta = Delta::between(&image(&records), &image(&all));
    assert_eq!((delta.topics_created.len(), delta.topics_deleted.len()), (1, 1));
    let changes = delta.local_changes(ME);
    assert_eq!(changes.deleted[0].0.id, OLD);
    assert_eq!(changes.leaders[0].partition.topic.id, NEW);
}

/// Nothing changed: nothing to do.
#[test]
fn nothing() {
    let image = image(&[topic(OLD), partition(OLD, 0, 1)]);
    assert!(Delta::between(&image, &image.clone()).is_empty());
}
