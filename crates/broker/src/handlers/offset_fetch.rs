//! OffsetFetch: of one group up to version 7, of several from version 8 on.

use std::sync::Arc;

use fencepost_group as group;
use fencepost_group::{GroupShard, PartitionFetched, Reply, Request, TopicFetched};
use fencepost_protocol::messages::offset_fetch_request as asked;
use fencepost_protocol::messages::offset_fetch_response::{Groups, GroupsTopics, Partitions, Topics};
use fencepost_protocol::messages::{OffsetFetchRequest, OffsetFetchResponse};
use fencepost_types::{ErrorCode, PartitionIndex, Uuid};

use super::repeats::Repeats;
use crate::Broker;
use crate::cx::Cx;
use crate::gather::Gather;
use crate::respond::Exchange;
use crate::runtime::Answer;

/// From this version on a request names several groups.
const GROUPS_FROM: i16 = 8;
/// From this version on topics are named by id.
const TOPIC_IDS_FROM: i16 = 10;
/// From this version on an error of the whole group has a place of its own.
const TOP_LEVEL_ERROR_FROM: i16 = 2;

/// Reads committed offsets.
pub(crate) fn offset_fetch(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: OffsetFetchRequest,
) {
    let version = exchange.version();
    let require_stable = request.require_stable;
    let mut groups = if version >= GROUPS_FROM { request.groups } else { vec![single(request)] };
    let mut repeats = Repeats::new();
    groups.retain(|group| repeats.allow(group.group_id.clone()));
    groups.iter_mut().for_each(name_partitions_once);
    let count = groups.len();
    let gather = Gather::new(broker, cx, count, move |_, _, groups: Vec<Groups>| {
        exchange.reply(response(version, groups));
    });
    for (at, wanted) in groups.into_iter().enumerate() {
        let gather = Arc::clone(&gather);
        let done =
            Box::new(move |broker: &Arc<Broker>, cx: &mut Cx, groups| gather.put(broker, cx, at, groups));
        one_group(broker, cx, version, wanted, require_stable, done);
    }
}

/// A request of one group in the form of the later versions.
fn single(request: OffsetFetchRequest) -> asked::Groups {
    let topics = request.topics.map(|topics| {
        let topics = topics.into_iter();
        topics
            .map(|topic| asked::GroupsTopics {
                topic_id: Uuid::ZERO,
                name: topic.name,
                partition_indexes: topic.partition_indexes,
            })
            .collect()
    });
    asked::Groups { group_id: request.group_id, member_id: None, member_epoch: -1, topics }
}

/// Leaves out the partitions that a group repeats too often: each row may hold as much as a client has said beside its offset.
fn name_partitions_once(wanted: &mut asked::Groups) {
    let mut repeats = Repeats::new();
    for asked::GroupsTopics { topic_id, name, partition_indexes } in wanted.topics.iter_mut().flatten() {
        let (topic_id, name) = (*topic_id, name.as_str());
        partition_indexes.retain(|index| repeats.allow((name, topic_id, *index)));
    }
}

type Done = Box<dyn FnOnce(&Arc<Broker>, &mut Cx, Groups) + Send>;

fn one_group(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    version: i16,
    wanted: asked::Groups,
    require_stable: bool,
    done: Done,
) {
    let image = broker.image();
    // Topics whose id is not known are answered here; the place of each is kept.
    let mut places: Option<Vec<Place>> = None;
    let topics = wanted.topics.as_ref().map(|topics| {
        let mut known = Vec::new();
        let mut all = Vec::new();
        for topic in topics {
            let partitions: Vec<_> = topic.partition_indexes.iter().map(|at| PartitionIndex(*at)).collect();
            let name = if version >= TOPIC_IDS_FROM {
                image.topics().by_id(topic.topic_id).map(|found| found.name.clone())
            } else {
                Some(topic.name.as_str().into())
            };
            match name {
                Some(name) => {
                    known.push(group::TopicPartitions { topic: name, topic_id: topic.topic_id, partitions });
                    all.push(Place::Asked);
                }
                None => all.push(Place::Unknown(topic.clone())),
            }
        }
        places = Some(all);
        known
    });
    let group_id = wanted.group_id.clone();
    let ask = Request::OffsetFetch(group::OffsetFetch {
        group: wanted.group_id.as_str().into(),
        member_id: wanted.member_id.as_deref().map(Into::into),
        member_epoch: wanted.member_epoch,
        topics,
        require_stable,
        existing: broker.topic_facts(),
    });
    let respond = Box::new(move |broker: &Arc<Broker>, cx: &mut Cx, answer: Answer<GroupShard>| {
        let group = match answer {
            Ok(Reply::Fetch(topics)) => fetched(broker, version, wanted.group_id, topics, places),
            Ok(other) => unreachable!("OffsetFetch was answered {other:?}"),
            Err(error) => failed(version, wanted, error.code()),
        };
        done(broker, cx, group);
    });
    broker.groups.ask(broker, cx, &group_id, ask, respond);
}

/// Where a topic of the request is answered from.
enum Place {
    Asked,
    Unknown(asked::GroupsTopics),
}

fn fetched(
    broker: &Arc<Broker>,
    version: i16,
    group_id: String,
    topics: Vec<TopicFetched>,
    places: Option<Vec<Place>>,
) -> Groups {
    let image = broker.image();
    let mut answered = topics.into_iter();
    let mut rows = Vec::new();
    match places {
        Some(places) => {
            for place in places {
                match place {
                    Place::Asked => rows.extend(answered.next().map(topic_row)),
                    Place::Unknown(topic) => rows.push(refused(&topic, ErrorCode::UnknownTopicId)),
                }
            }
        }
        // Everything committed: by id only what has one still (wire-apis §3, rule 5).
        None => {
            for topic in answered {
                let mut row = topic_row(topic);
                if version >= TOPIC_IDS_FROM {
                    let Some(found) = image.topics().by_name(&row.name) else { continue };
                    row.topic_id = found.id;
                }
                rows.push(row);
            }
        }
    }
    Groups { group_id, topics: rows, error_code: 0 }
}

fn topic_row(topic: TopicFetched) -> GroupsTopics {
    let partitions = topic.partitions.into_iter().map(partition_row).collect();
    GroupsTopics { topic_id: topic.topic_id, name: topic.topic.to_string(), partitions }
}

fn partition_row(fetched: PartitionFetched) -> Partitions {
    Partitions {
        partition_index: fetched.partition.0,
        committed_offset: fetched.offset.0,
        committed_leader_epoch: fetched.leader_epoch.0,
        metadata: Some(fetched.metadata.to_string()),
        error_code: fetched.error.code(),
    }
}

fn refused(topic: &asked::GroupsTopics, code: ErrorCode) -> GroupsTopics {
    let partitions = topic.partition_indexes.iter();
    let nothing = |at: &i32| partition_row(PartitionFetched::nothing(PartitionIndex(*at), code));
    GroupsTopics {
        topic_id: topic.topic_id,
        name: topic.name.clone(),
        partitions: partitions.map(nothing).collect(),
    }
}

/// An error of the whole group; the oldest versions have no place for it but the partitions.
fn failed(version: i16, wanted: asked::Groups, code: ErrorCode) -> Groups {
    let topics = if version < TOP_LEVEL_ERROR_FROM {
        wanted.topics.iter().flatten().map(|topic| refused(topic, code)).collect()
    } else {
        Vec::new()
    };
    Groups { group_id: wanted.group_id, topics, error_code: code.code() }
}

fn response(version: i16, mut groups: Vec<Groups>) -> OffsetFetchResponse {
    if version >= GROUPS_FROM {
        return OffsetFetchResponse { groups, ..Default::default() };
    }
    let Some(group) = groups.pop() else { return OffsetFetchResponse::default() };
    let topics = group.topics.into_iter();
    OffsetFetchResponse {
        error_code: group.error_code,
        topics: topics.map(|topic| Topics { name: topic.name, partitions: topic.partitions }).collect(),
        ..Default::default()
    }
}
