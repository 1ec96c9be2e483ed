use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;

use fencepost_types::{PartitionIndex, Uuid};
use proptest::prelude::*;

use super::{MemberSpec, Specs, assign};
use crate::{Assignment, Assignor, InstanceId, MemberId};

fn topic(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn reads(topics: &[u128]) -> BTreeSet<Uuid> {
    topics.iter().map(|number| topic(*number)).collect()
}

fn owns(list: &[(u128, &[i32])]) -> Assignment {
    let of_topic = |partitions: &[i32]| partitions.iter().map(|one| PartitionIndex(*one)).collect();
    list.iter().map(|(number, partitions)| (topic(*number), of_topic(partitions))).collect()
}

fn ids(count: usize) -> Vec<MemberId> {
    (0..count).map(|number| MemberId::from(format!("m{number:02}"))).collect()
}

fn specs<'a>(ids: &'a [MemberId], reads: &BTreeSet<Uuid>, targets: &'a [Assignment]) -> Specs<'a> {
    let spec = |at: usize| MemberSpec { instance_id: None, topics: reads.clone(), target: targets.get(at) };
    ids.iter().enumerate().map(|(at, id)| (id, spec(at))).collect()
}

/// Range: a topic's larger pieces go to the first readers, in the order of static names, then of member ids.
#[test]
fn range_cuts_topics_into_pieces() {
    let ids = ids(3);
    let first = InstanceId::from("a");
    let mut members = specs(&ids, &reads(&[1, 2]), &[]);
    members.get_mut(&ids[2]).unwrap().instance_id = Some(&first);
    let topics = BTreeMap::from([(topic(1), 5), (topic(2), 1)]);
    let assignment = assign(Assignor::Range, &members, &topics);
    assert_eq!(assignment[&ids[2]], owns(&[(1, &[0, 1]), (2, &[0])]));
    assert_eq!(assignment[&ids[0]], owns(&[(1, &[2, 3])]));
    assert_eq!(assignment[&ids[1]], owns(&[(1, &[4])]));
}

/// Uniform: a new member takes no more than it must, from the end of what the others have.
#[test]
fn uniform_moves_as_little_as_it_must() {
    let ids = ids(3);
    let targets = [owns(&[(1, &[0, 1, 2])]), owns(&[(1, &[3, 4])])];
    let topics = BTreeMap::from([(topic(1), 5)]);
    let assignment = assign(Assignor::Uniform, &specs(&ids, &reads(&[1]), &targets), &topics);
    assert_eq!(assignment[&ids[0]], owns(&[(1, &[0, 1])]));
    assert_eq!(assignment[&ids[1]], owns(&[(1, &[3, 4])]));
    assert_eq!(assignment[&ids[2]], owns(&[(1, &[2])]));
}

/// A topic that nobody reads is nobody's, and a member that reads nothing has an empty entry.
#[test]
fn nobody_gets_what_it_does_not_read() {
    let ids = ids(2);
    let topics = BTreeMap::from([(topic(1), 2), (topic(2), 2)]);
    for assignor in [Assignor::Range, Assignor::Uniform] {
        let mut members = specs(&ids, &reads(&[1]), &[]);
        members.get_mut(&ids[1]).unwrap().topics.clear();
        let assignment = assign(assignor, &members, &topics);
        assert_eq!(assignment[&ids[0]], owns(&[(1, &[0, 1])]));
        assert_eq!(assignment[&ids[1]], owns(&[]));
        assert!(assign(assignor, &Specs::new(), &topics).is_empty());
    }
}

proptest! {
    /// Whatever the members read and had: every partition that somebody reads goes to exactly one of its readers; with
    /// equal subscriptions `uniform` is even, and a second assignment changes nothing.
    #[test]
    fn every_partition_has_one_reader(
        subscriptions in prop::collection::vec(prop::collection::btree_set(1u128..5, 0..4), 1..6),
        counts in prop::collection::vec(0i32..7, 4),
        had in prop::collection::vec((0usize..6, 1u128..5, 0i32..8), 0..20),
        same in any::<bool>(),
        assignor in prop_oneof![Just(Assignor::Range), Just(Assignor::Uniform)],
    ) {
        let ids = ids(subscriptions.len());
        let topics: BTreeMap<Uuid, i32> = (1u128..5).zip(counts).map(|(number, count)| (topic(number), count)).collect();
        let mut targets: Vec<Assignment> = ids.iter().map(|_| Assignment::new()).collect();
        for (member, number, partition) in had {
            let at = member % ids.len();
            targets[at].entry(topic(number)).or_default().insert(PartitionIndex(partition));
        }
        let of = |at: usize| subscriptions[if same { 0 } else { at }].iter().map(|number| topic(*number)).collect();
        let members: Specs<'_> = ids
            .iter()
            .enumerate()
            .map(|(at, id)| (id, MemberSpec { instance_id: None, topics: of(at), target: Some(&targets[at]) }))
            .collect();
        let assignment = assign(assignor, &members, &topics);
        prop_assert_eq!(assignment.len(), ids.len());
        let mut seen = BTreeSet::new();
        for (member, owned) in &assignment {
            for (id, partitions) in owned {
                prop_assert!(members[member].topics.contains(id));
                for partition in partitions {
                    prop_assert!((0..topics[id]).contains(&partition.0));
                    prop_assert!(seen.insert((*id, *partition)), "given twice");
                }
            }
        }
        let read: BTreeSet<Uuid> = members.values().flat_map(|member| member.topics.iter().copied()).collect();
        prop_assert_eq!(seen.len() as i32, read.iter().map(|id| topics[id]).sum::<i32>());
        if assignor == Assignor::Uniform {
            let sizes = assignment.values().map(|owned| owned.values().map(BTreeSet::len).sum::<usize>());
            let (least, most) = (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0));
            prop_assert!(!same || most - least <= 1, "{} and {}", least, most);
            let again: Specs<'_> = members
                .iter()
                .map(|(id, spec)| (*id, MemberSpec { target: assignment.get(*id), ..spec.clone() }))
                .collect();
            prop_assert_eq!(assign(assignor, &again, &topics), assignment);
        }
    }
}
