//! What can be asked of the controller, and what it answers.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use fencepost_coordinator::Refusal;
use fencepost_types::{BrokerId, ErrorCode, PartitionIndex, ProducerId, TopicName};

use super::{
    AlterConfigs, AlterConfigsRefusal, CreatePartitionsRefusal, CreateTopicRefusal, CreatedTopic,
    DeletedTopic, ElectionOutcome, ElectionType, FeatureUpdate, MorePartitions, NewTopic, QuotaChanges,
    QuotaRefusal, Reassignment, ReassignmentRefusal, RegisterBroker, RegisterController, ScramChanges,
    ScramRefusal, TopicRef, UpdateFeaturesRefusal,
};
use crate::image::{BrokerEpoch, ConfigResource, Image, LevelRange, ReplayError};

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Writes the first records of a new log. Refused when there are any.
    Bootstrap,
    /// The same, with what a format tool has left in a bootstrap checkpoint in place of our own levels.
    BootstrapFrom(Box<Image>),
    /// Registers this node's controller, in case another process takes the log over.
    RegisterController(RegisterController),
    /// Registers this node's broker, fenced. Comes before the logs are served.
    RegisterBroker(RegisterBroker),
    /// Unfences this node's broker and gives it its leaderships. Comes after the logs have been recovered.
    UnfenceBroker,
    /// Takes this node's leaderships and fences it: a clean stop.
    ShutDownBroker,
    /// Forgets a broker that will not come back.
    UnregisterBroker(BrokerId),
    /// Takes the next block of producer ids for this node.
    AllocateProducerIds,
    /// Creates topics, each by itself.
    CreateTopics {
        /// The topics.
        topics: Vec<NewTopic>,
        /// Whether nothing is written.
        validate_only: bool,
    },
    /// Deletes topics, each by itself.
    DeleteTopics(Vec<TopicRef>),
    /// Adds partitions to topics, each by itself.
    CreatePartitions {
        /// The topics.
        topics: Vec<MorePartitions>,
        /// Whether nothing is written.
        validate_only: bool,
    },
    /// Changes configurations, each resource by itself.
    AlterConfigs(AlterConfigs),
    /// Finalizes levels of features, all or none.
    UpdateFeatures {
        /// The features.
        updates: Vec<FeatureUpdate>,
        /// Whether nothing is written.
        validate_only: bool,
    },
    /// Changes client quotas, each entity by itself.
    AlterClientQuotas {
        /// The entities.
        entries: Vec<QuotaChanges>,
        /// Whether nothing is written.
        validate_only: bool,
    },
    /// Changes SCRAM credentials, each user by itself.
    AlterScramCredentials(ScramChanges),
    /// Elects leaders.
    ElectLeaders {
        /// Which kind of election.
        election: ElectionType,
        /// Topics with partitions; `None` is all.
        partitions: Option<Vec<(String, Vec<PartitionIndex>)>>,
    },
    /// Moves partitions to other brokers, or cancels that.
    AlterPartitionReassignments(Vec<Reassignment>),
    /// Writes an empty record.
    NoOp,
    /// Does nothing.
    Tick,
}

/// What one item of a request got.
pub type ItemResult<K, T, E> = (K, Result<T, E>);

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Done.
    Done,
    /// The broker is registered with this epoch.
    Registered {
        /// The epoch: for the clean-shutdown mark, and for every request that names one.
        epoch: BrokerEpoch,
    },
    /// A block of producer ids.
    ProducerIds {
        /// The first id.
        first: ProducerId,
        /// How many.
        count: i32,
    },
    /// By topic name, in order of the request; a name that came twice is there once.
    CreateTopics(Vec<ItemResult<String, CreatedTopic, CreateTopicRefusal>>),
    /// In order of the request; a topic that came twice is there once.
    DeleteTopics(Vec<DeletedTopic>),
    /// By topic name, in order of the request; a name that came twice is there once.
    CreatePartitions(Vec<ItemResult<String, (), CreatePartitionsRefusal>>),
    /// By resource, in order of the request; a resource that came twice is there once.
    AlterConfigs(Vec<ItemResult<ConfigResource, (), AlterConfigsRefusal>>),
    /// For the request as a whole.
    UpdateFeatures(Result<(), UpdateFeaturesRefusal>),
    /// By entity, in order of the request.
    AlterClientQuotas(Vec<ItemResult<Vec<(String, Option<String>)>, (), QuotaRefusal>>),
    /// By user, in order of name.
    AlterScramCredentials(Vec<ItemResult<String, (), ScramRefusal>>),
    /// The outcome of elections.
    ElectLeaders(ElectionOutcome),
    /// By topic and partition, in order of the request.
    AlterPartitionReassignments(Vec<ItemResult<(TopicName, PartitionIndex), (), ReassignmentRefusal>>),
}

/// Why a request as a whole is refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ControllerRefusal {
    /// A record of the log did not fit: the node has to stop.
    Broken(ReplayError),
    /// The log has no records yet.
    NotBootstrapped,
    /// The log has records already.
    AlreadyBootstrapped,
    /// This node's broker is not registered.
    NotRegistered,
    /// No such broker is registered.
    UnknownBroker(BrokerId),
    /// The broker is alive: it cannot be forgotten.
    BrokerIsAlive(BrokerId),
    /// The registration names no log directory, or one twice, or a reserved one.
    InvalidDirectories,
    /// A finalized level lies outside what the broker claims.
    UnsupportedFeature {
        /// The feature.
        name: String,
        /// Its finalized level.
        level: i16,
        /// What the broker claims.
        claimed: LevelRange,
    },
    /// There are no producer ids left.
    ProducerIdsExhausted,
}

impl Refusal for ControllerRefusal {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Broken(_) | Self::ProducerIdsExhausted => ErrorCode::UnknownServerError,
            Self::NotBootstrapped => ErrorCode::NotController,
            Self::AlreadyBootstrapped => ErrorCode::InvalidRequest,
            Self::NotRegistered | Self::UnknownBroker(_) => ErrorCode::BrokerIdNotRegistered,
            Self::BrokerIsAlive(_) => ErrorCode::InvalidRequest,
            Self::InvalidDirectories => ErrorCode::InvalidRegistration,
            Self::UnsupportedFeature { .. } => ErrorCode::UnsupportedVersion,
        }
    }
}

impl core::fmt::Display for ControllerRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Broken(error) => error.fmt(f),
            Self::NotBootstrapped => f.write_str("The metadata log is empty."),
            Self::AlreadyBootstrapped => f.write_str("The metadata log has been bootstrapped already."),
            Self::NotRegistered => f.write_str("This broker is not registered."),
            Self::UnknownBroker(id) => write!(f, "Broker ID {id} is not currently registered"),
            Self::BrokerIsAlive(id) => write!(f, "Broker {id} is running; stop it first."),
            Self::InvalidDirectories => f.write_str(
                "A broker registers with at least one log directory, each once, none of the reserved ids.",
            ),
            Self::UnsupportedFeature { name, level, claimed } => {
                let LevelRange { min, max } = claimed;
                write!(
                    f,
                    "The metadata log has {name} at level {level}; this broker supports {min} to {max}."
                )
            }
            Self::ProducerIdsExhausted => f.write_str("There are no producer ids left."),
        }
    }
}
