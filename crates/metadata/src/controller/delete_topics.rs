//! DeleteTopics.
//!
//! Source: wire-apis §7, Kafka ControllerApis.deleteTopics.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use fencepost_coordinator::{Refusal, Token};
use fencepost_records::persisted::remove_topic_record::RemoveTopicRecord;
use fencepost_types::{ErrorCode, Uuid};

use super::{Controller, Decided, Reply, times};
use crate::config::{OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC};
use crate::image::Topic;
use crate::keys::{Scope, Value};

/// A topic by its name or its id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicRef {
    /// The name; none when it is named by id.
    pub name: Option<String>,
    /// The id; zero when it is named by name.
    pub id: Uuid,
}

/// What became of one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedTopic {
    /// Its name, as far as known.
    pub name: Option<String>,
    /// Its id, as far as known.
    pub id: Uuid,
    /// Whether it is gone.
    pub result: Result<(), DeleteTopicRefusal>,
}

/// Why a topic is not deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeleteTopicRefusal {
    /// `delete.topic.enable` is false.
    Disabled,
    /// Named by both name and id.
    NameAndId,
    /// Named by neither.
    Nameless,
    /// The request names it twice.
    Duplicate,
    /// It holds a coordinator's log. Made anew it would begin at leader epoch 0, below what every partition remembers of
    /// its coordinator epochs (`coordinator trap 33`).
    Internal,
    /// No topic has that name.
    UnknownName,
    /// No topic has that id.
    UnknownId,
}

impl Refusal for DeleteTopicRefusal {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Disabled => ErrorCode::TopicDeletionDisabled,
            Self::NameAndId | Self::Nameless | Self::Duplicate | Self::Internal => ErrorCode::InvalidRequest,
            Self::UnknownName => ErrorCode::UnknownTopicOrPartition,
            Self::UnknownId => ErrorCode::UnknownTopicId,
        }
    }
}

impl core::fmt::Display for DeleteTopicRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Disabled => "Topics cannot be deleted: delete.topic.enable is false.",
            Self::NameAndId => "You may not specify both topic name and topic id.",
            Self::Nameless => "Neither topic name nor id were specified.",
            Self::Duplicate => "Duplicate topic name.",
            Self::Internal => "The log of a coordinator cannot be deleted.",
            Self::UnknownName => "This server does not host this topic-partition.",
            Self::UnknownId => "This server does not host this topic ID.",
        })
    }
}

impl Controller {
    /// Differs from Kafka: it deletes the topics of coordinators (docs/decisions/0033).
    pub(super) fn delete_topics(&self, token: Token, topics: &[TopicRef]) -> Decided {
        let found: Vec<Result<Arc<Topic>, DeleteTopicRefusal>> =
            topics.iter().map(|topic| self.find_topic(topic)).collect();
        let times = times(found.iter().flatten().map(|topic| topic.id));
        let mut answered = BTreeSet::new();
        let mut records = Vec::new();
        let mut results = Vec::new();
        for (asked, found) in topics.iter().zip(found) {
            let (name, id, result) = match found {
                Err(refusal) => (asked.name.clone(), asked.id, Err(refusal)),
                Ok(topic) => {
                    let result = if times[&topic.id] > 1 {
                        Err(DeleteTopicRefusal::Duplicate)
                    } else if [OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC].contains(&&*topic.name) {
                        Err(DeleteTopicRefusal::Internal)
                    } else {
                        Ok(())
                    };
                    (Some(topic.name.to_string()), topic.id, result)
                }
            };
            if !answered.insert((name.clone(), id)) {
                continue;
            }
            if result.is_ok() {
                records.push(RemoveTopicRecord { topic_id: id }.into());
            }
            results.push(DeletedTopic { name, id, result });
        }
        self.write(records, token, Reply::DeleteTopics(results))
    }

    fn find_topic(&self, topic: &TopicRef) -> Result<Arc<Topic>, DeleteTopicRefusal> {
        let key = Scope::Broker.find("delete.topic.enable").expect("the table has it");
        if self.view().broker_value(key) == Some(Value::Boolean(false)) {
            return Err(DeleteTopicRefusal::Disabled);
        }
        let topics = self.image().topics();
        match (&topic.name, topic.id) {
            (Some(_), id) if !id.is_zero() => Err(DeleteTopicRefusal::NameAndId),
            (Some(name), _) => topics.by_name(name).cloned().ok_or(DeleteTopicRefusal::UnknownName),
            (None, id) if id.is_zero() => Err(DeleteTopicRefusal::Nameless),
            (None, id) => topics.by_id(id).cloned().ok_or(DeleteTopicRefusal::UnknownId),
        }
    }
}
