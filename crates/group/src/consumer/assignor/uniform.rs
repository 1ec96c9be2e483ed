//! `uniform`: all partitions are spread evenly, and who has one keeps it where that can be.
//!
//! Source: KIP-848, Kafka UniformAssignor.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use fencepost_types::{PartitionIndex, Uuid};

use super::Specs;
use crate::{Assignment, MemberId};

type Partition = (Uuid, PartitionIndex);
/// What each member gets, in the order it is handed out.
type Shares<'a> = BTreeMap<&'a MemberId, BTreeSet<Partition>>;

/// See [`super::assign`].
pub fn assign(members: &Specs<'_>, topics: &BTreeMap<Uuid, i32>) -> BTreeMap<MemberId, Assignment> {
    let mut subscriptions = members.values().map(|member| &member.topics);
    let first = subscriptions.next();
    let shares = match first {
        Some(first) if subscriptions.all(|topics| topics == first) => even(members, &all(topics, first)),
        Some(_) | None => uneven(members, topics),
    };
    shares.into_iter().map(|(member_id, share)| (member_id.clone(), by_topic(share))).collect()
}

/// Everyone reads the same: each gets as many as the next, or one more.
fn even<'a>(members: &Specs<'a>, partitions: &BTreeSet<Partition>) -> Shares<'a> {
    let share = partitions.len() / members.len();
    let mut larger = partitions.len() % members.len();
    let mut taken: BTreeSet<Partition> = BTreeSet::new();
    let mut shares = Shares::new();
    for (member_id, member) in members {
        let had = member.target.into_iter().flat_map(partitions_of);
        let had: Vec<Partition> =
            had.filter(|partition| partitions.contains(partition) && !taken.contains(partition)).collect();
        let may_have_more = had.len() > share && larger > 0;
        larger -= usize::from(may_have_more);
        let kept: BTreeSet<Partition> = had.into_iter().take(share + usize::from(may_have_more)).collect();
        taken.extend(&kept);
        shares.insert(*member_id, kept);
    }
    let mut free = partitions.difference(&taken).copied();
    for kept in shares.values_mut() {
        let missing = share.saturating_sub(kept.len());
        kept.extend(free.by_ref().take(missing));
    }
    // What is left is less than one for each.
    for kept in shares.values_mut().filter(|kept| kept.len() == share) {
        let Some(partition) = free.next() else { break };
        kept.insert(partition);
    }
    shares
}

/// Members read different topics: what is free goes to who has least, then partitions move from who has more to who
/// has at least two less, one at a time, until no move helps.
fn uneven<'a>(members: &Specs<'a>, topics: &BTreeMap<Uuid, i32>) -> Shares<'a> {
    let mut taken: BTreeSet<Partition> = BTreeSet::new();
    let mut shares = Shares::new();
    for (member_id, member) in members {
        let valid = all(topics, &member.topics);
        let had = member.target.into_iter().flat_map(partitions_of);
        let kept: BTreeSet<Partition> =
            had.filter(|partition| valid.contains(partition) && !taken.contains(partition)).collect();
        taken.extend(&kept);
        shares.insert(*member_id, kept);
    }
    let readers = readers(members, topics);
    for (topic, count) in topics {
        for partition in (0..*count).map(|index| (*topic, PartitionIndex(index))) {
            if !taken.contains(&partition)
                && let Some(least) = readers[topic].iter().copied().min_by_key(|member| shares[member].len())
            {
                shares.entry(least).or_default().insert(partition);
            }
        }
    }
    while readers.iter().any(|(topic, readers)| level(*topic, readers, &mut shares)) {}
    shares
}

/// Moves one partition of `topic` from its reader that has most to the one that has least, if that helps. Each move
/// makes the sum of squares of the shares smaller, so moves come to an end.
fn level<'a>(topic: Uuid, readers: &[&'a MemberId], shares: &mut Shares<'a>) -> bool {
    let of_topic = |share: &BTreeSet<Partition>| share.iter().find(|(of, _)| *of == topic).copied();
    let most = readers.iter().copied().filter(|member| of_topic(&shares[member]).is_some());
    let Some(most) = most.max_by_key(|member| shares[member].len()) else { return false };
    let Some(least) = readers.iter().copied().min_by_key(|member| shares[member].len()) else { return false };
    if shares[most].len() < shares[least].len() + 2 {
        return false;
    }
    let Some(partition) = of_topic(&shares[most]) else { return false };
    shares.entry(most).or_default().remove(&partition);
    shares.entry(least).or_default().insert(partition);
    true
}

/// Who reads each topic.
fn readers<'a>(members: &Specs<'a>, topics: &BTreeMap<Uuid, i32>) -> BTreeMap<Uuid, Vec<&'a MemberId>> {
    let readers = |topic: &Uuid| {
        members.iter().filter(|(_, member)| member.topics.contains(topic)).map(|(id, _)| *id).collect()
    };
    topics.keys().map(|topic| (*topic, readers(topic))).collect()
}

/// Every partition of `read` topics.
fn all(topics: &BTreeMap<Uuid, i32>, read: &BTreeSet<Uuid>) -> BTreeSet<Partition> {
    let counted = read.iter().filter_map(|topic| topics.get(topic).map(|count| (*topic, *count)));
    counted.flat_map(|(topic, count)| (0..count).map(move |index| (topic, PartitionIndex(index)))).collect()
}

fn partitions_of(assignment: &Assignment) -> impl Iterator<Item = Partition> {
    assignment.iter().flat_map(|(topic, partitions)| partitions.iter().map(|partition| (*topic, *partition)))
}

fn by_topic(share: BTreeSet<Partition>) -> Assignment {
    let mut assignment = Assignment::new();
    for (topic, partition) in share {
        assignment.entry(topic).or_default().insert(partition);
    }
    assignment
}
