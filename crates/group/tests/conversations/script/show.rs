//! Answers and records as lines of a transcript.

use std::fmt::Write;

use fencepost_coordinator::Refusal;
use fencepost_group::*;
use fencepost_types::{ErrorCode, PartitionIndex, Uuid};

use super::command::World;

/// A refusal.
pub fn refusal(refusal: &GroupRefusal) -> String {
    let words = match refusal {
        GroupRefusal::CannotUpgrade { .. } => refusal.message(),
        _ => None,
    };
    format!("refused {}{}", refusal.code(), words.map(|words| format!(": {words}")).unwrap_or_default())
}

/// An answer.
pub fn reply(world: &mut World, reply: &Reply) -> String {
    match reply {
        Reply::Join(reply) => join(world, reply),
        Reply::Sync(reply) if reply.error.is_none() => {
            format!(
                "assignment={} protocol={}",
                bytes(world, &reply.assignment),
                opt(reply.protocol_name.as_deref())
            )
        }
        Reply::Sync(reply) => reply.error.to_string(),
        Reply::Heartbeat(error) => error.to_string(),
        Reply::Leave(reply) => {
            let members = reply.members.iter().map(|member| {
                let instance = member.instance_id.as_deref().map(|id| format!("/{id}")).unwrap_or_default();
                format!(" {}{instance}:{}", world.mask.show(&member.member_id), member.error)
            });
            format!("{}{}", reply.error, members.collect::<String>())
        }
        Reply::Commit(topics) | Reply::OffsetDelete(topics) => words(topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|(partition, error)| format!("{}/{partition}:{error}", topic.topic))
        })),
        Reply::Fetch(topics) => words(topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|partition| format!("{}/{}", topic.topic, fetched(partition)))
        })),
        Reply::Describe(groups) => {
            groups.iter().map(|group| described(world, group)).collect::<Vec<_>>().join("\n")
        }
        Reply::List(groups) => words(groups.iter().map(|group| {
            format!("{}:{}:{}:{}", group.group, group.protocol_type, group.state, group.group_type)
        })),
        Reply::Delete(groups) => words(groups.iter().map(|(group, error)| format!("{group}:{error}"))),
        Reply::ConsumerHeartbeat(reply) => {
            let assignment = match &reply.assignment {
                Some(assignment) => {
                    partitions(world, assignment.iter().map(|(id, list)| (*id, list.clone())))
                }
                None => String::from("unchanged"),
            };
            let member = world.mask.show(&reply.member_id);
            format!(
                "member={member} epoch={} interval={} assignment={assignment}",
                reply.member_epoch, reply.heartbeat_interval_ms
            )
        }
        Reply::ConsumerDescribe(groups) => {
            groups.iter().map(|group| described848(world, group)).collect::<Vec<_>>().join("\n")
        }
        Reply::OffsetsForgotten(None) | Reply::Done => String::from("done"),
        Reply::OffsetsForgotten(Some((group, partition))) => format!("done up to {group} {partition}"),
    }
}

fn words(items: impl Iterator<Item = String>) -> String {
    let line = items.collect::<Vec<_>>().join(" ");
    if line.is_empty() { String::from("nothing") } else { line }
}

fn opt(text: Option<&str>) -> &str {
    text.map_or("null", |text| if text.is_empty() { "-" } else { text })
}

/// Bytes as text; a classic consumer's assignment as its partitions.
fn bytes(world: &World, bytes: &[u8]) -> String {
    let _ = world;
    if bytes.is_empty() {
        return String::from("-");
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if text.chars().all(|c| c.is_ascii_graphic()) => text.to_owned(),
        Ok(_) | Err(_) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

fn join(world: &mut World, reply: &JoinReply) -> String {
    let member = world.mask.saw(&reply.member_id);
    if !reply.error.is_none() {
        return format!("{} member={member}", reply.error);
    }
    let mut line = format!(
        "generation={} protocol={} leader={} member={member}",
        reply.generation,
        opt(reply.protocol_name.as_deref()),
        world.mask.show(&reply.leader)
    );
    let mut members: Vec<String> = Vec::new();
    for joined in &reply.members {
        let id = world.mask.saw(&joined.member_id);
        let instance = joined.instance_id.as_deref().map(|id| format!("/{id}")).unwrap_or_default();
        members.push(format!("{id}{instance}:{}", bytes(world, &joined.metadata)));
    }
    members.sort();
    if !members.is_empty() {
        let _ = write!(line, " members={}", members.join(","));
    }
    if reply.skip_assignment {
        line.push_str(" skip");
    }
    line
}

fn fetched(partition: &PartitionFetched) -> String {
    if partition.error != ErrorCode::None {
        return format!("{}:{}", partition.partition, partition.error);
    }
    let mut line = format!("{}={}", partition.partition, partition.offset);
    if !partition.metadata.is_empty() {
        let metadata = &partition.metadata;
        if metadata.len() > 40 {
            let _ = write!(line, ":{}chars", metadata.chars().count());
        } else {
            let _ = write!(line, ":{metadata}");
        }
    }
    if partition.leader_epoch.0 >= 0 {
        let _ = write!(line, "@{}", partition.leader_epoch);
    }
    line
}

fn described(world: &World, group: &DescribedGroup) -> String {
    let mut line = format!("{}", group.group);
    if !group.error.is_none() {
        let _ = write!(line, " {}", group.error);
    }
    let _ = write!(
        line,
        " state={} type={} protocol={}",
        group.state,
        opt(Some(&group.protocol_type)),
        opt(Some(&group.protocol))
    );
    for member in &group.members {
        let instance = member.instance_id.as_deref().map(|id| format!("/{id}")).unwrap_or_default();
        let _ = write!(
            line,
            " {}{instance}:{}:{}:{}:{}",
            world.mask.show(&member.member_id),
            member.client_id,
            member.client_host,
            bytes(world, &member.metadata),
            bytes(world, &member.assignment)
        );
    }
    line
}

/// `t:0+1,u:0`, by topic name; `-` is nothing.
fn partitions(world: &World, topics: impl Iterator<Item = (Uuid, Vec<PartitionIndex>)>) -> String {
    let name = |id: Uuid| {
        let found = world.topic_ids.iter().find(|(_, known)| **known == id);
        found.map_or_else(|| String::from("?"), |(name, _)| name.to_string())
    };
    let mut lines: Vec<String> = topics
        .map(|(id, partitions)| {
            let numbers: Vec<String> = partitions.iter().map(|partition| partition.to_string()).collect();
            format!("{}:{}", name(id), numbers.join("+"))
        })
        .collect();
    lines.sort();
    if lines.is_empty() { String::from("-") } else { lines.join(",") }
}

fn described848(world: &World, group: &DescribedConsumerGroup) -> String {
    if !group.error.is_none() {
        let message = if group.error_message.is_some() { " with a message" } else { "" };
        return format!("{} {}{message}", group.group, group.error);
    }
    let mut line = format!(
        "{} state={} epoch={} assignment-epoch={} assignor={}",
        group.group, group.state, group.group_epoch, group.assignment_epoch, group.assignor
    );
    for member in &group.members {
        let list = |described: &[DescribedPartitions]| {
            partitions(world, described.iter().map(|topic| (topic.topic_id, topic.partitions.clone())))
        };
        let _ = write!(
            line,
            "\n  {} epoch={} assigned={} target={} topics={} regex={}",
            world.mask.show(&member.member_id),
            member.member_epoch,
            list(&member.assignment),
            list(&member.target_assignment),
            member.subscribed_topic_names.join(","),
            opt(member.subscribed_topic_regex.as_deref())
        );
        for (name, value) in [("i", &member.instance_id), ("rack", &member.rack_id)] {
            if let Some(value) = value {
                let _ = write!(line, " {name}={value}");
            }
        }
        if member.is_classic {
            line.push_str(" classic");
        }
    }
    line
}

/// A record.
pub fn record(world: &World, record: &GroupRecord) -> String {
    let none = |is_none: bool| if is_none { " gone" } else { "" };
    match record {
        GroupRecord::OffsetCommit { topic, partition, value, .. } => match value {
            None => format!("1 {topic}/{partition} gone"),
            Some(value) => format!(
                "1 {topic}/{partition}={}{}{}{}",
                value.offset,
                if value.metadata.is_empty() { String::new() } else { format!(":{}", value.metadata) },
                if value.leader_epoch.0 < 0 { String::new() } else { format!("@{}", value.leader_epoch) },
                if value.expire_timestamp.is_some() { " expires" } else { "" }
            ),
        },
        GroupRecord::GroupMetadata { value: None, .. } => String::from("2 gone"),
        GroupRecord::GroupMetadata { value: Some(value), .. } => {
            let members = value.members.iter().map(|member| {
                format!(
                    " {}:{}:{}",
                    world.mask.show(&member.member_id),
                    bytes(world, &member.subscription),
                    bytes(world, &member.assignment)
                )
            });
            format!(
                "2 generation={} type={} protocol={} leader={}{}",
                value.generation,
                opt(Some(&value.protocol_type)),
                opt(value.protocol_name.as_deref()),
                value.leader.as_deref().map_or(String::from("null"), |leader| world.mask.show(leader)),
                members.collect::<String>()
            )
        }
        GroupRecord::ConsumerGroupMetadata { value, .. } => match value {
            Some(value) => format!("3 epoch={}", value.epoch),
            None => String::from("3 gone"),
        },
        GroupRecord::ConsumerGroupPartitionMetadata { .. } => String::from("4 gone"),
        GroupRecord::ConsumerGroupMember { member, value, .. } => {
            format!("5 {}{}", world.mask.show(member), none(value.is_none()))
        }
        GroupRecord::TargetAssignmentMetadata { value, .. } => match value {
            Some(value) => format!("6 epoch={}", value.epoch),
            None => String::from("6 gone"),
        },
        GroupRecord::TargetAssignmentMember { member, value, .. } => match value {
            Some(value) => {
                let lists = value.iter().map(|(id, list)| (*id, list.iter().copied().collect()));
                format!("7 {} {}", world.mask.show(member), partitions(world, lists))
            }
            None => format!("7 {} gone", world.mask.show(member)),
        },
        GroupRecord::CurrentAssignment { member, value, .. } => match value {
            Some(value) => {
                let lists = |assignment: &EpochAssignment| {
                    let lists = assignment.iter().map(|(id, list)| (*id, list.keys().copied().collect()));
                    partitions(world, lists)
                };
                format!(
                    "8 {} epoch={} previous={} {:?} assigned={} revoking={}",
                    world.mask.show(member),
                    value.member_epoch,
                    value.previous_member_epoch,
                    value.state,
                    lists(&value.assigned),
                    lists(&value.pending_revocation)
                )
            }
            None => format!("8 {} gone", world.mask.show(member)),
        },
        GroupRecord::RegularExpression { regex, value, .. } => match value {
            Some(value) => {
                let topics: Vec<&str> = value.topics.iter().map(|topic| &**topic).collect();
                format!("16 {regex} {}", topics.join(","))
            }
            None => format!("16 {regex} gone"),
        },
    }
}
