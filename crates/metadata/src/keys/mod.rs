//! The table of configuration keys: every key of Kafka 4.4 for brokers, topics, groups and client metrics, and ours.
//!
//! One table feeds the parser, DescribeConfigs, validation of changes and the generated `docs/configuration.md`.

mod broker_group;
mod broker_log;
mod broker_network;
mod broker_quorum;
mod broker_remote;
mod broker_replication;
mod broker_security;
mod broker_transaction;
mod choices;
mod client_metrics;
mod fencepost;
mod group;
mod rule;
mod synonyms;
mod topic;
mod value;

use alloc::string::String;
use alloc::vec::Vec;

pub use choices::{
    AssignorChoice, CleanupChoice, CompressionChoice, Durability, GroupMigration, GroupProtocol,
    TimestampChoice,
};
pub use rule::{Rule, connection_limits};
pub use synonyms::{Synonym, group_synonym, topic_synonyms};
pub(crate) use synonyms::{broker_synonyms, scaled};
pub use value::{InvalidValue, Value};

/// One configuration key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// Kafka's name of it.
    pub name: &'static str,
    /// What its values are.
    pub kind: Kind,
    /// The value when nothing sets it; `None` is no value.
    pub default: Option<&'static str>,
    /// Kafka's default where ours differs: a node started without settings must work at once.
    pub kafka_default: Option<Option<&'static str>>,
    /// Which values are taken.
    pub rule: Rule,
    /// How it can be changed while the broker runs.
    pub update: Update,
    /// Whether Fencepost acts on it. Others are accepted, told and ignored.
    pub used: bool,
    /// Values that Fencepost would have to ignore at the cost of safety or data; they are refused. `None`: every value that
    /// the rule takes is honoured, or ignored without harm.
    pub only: Option<Only>,
    /// Internal keys are accepted and left out of DescribeConfigs.
    pub internal: bool,
    /// What it is for, as one sentence.
    pub documentation: &'static str,
}

/// The values of a key that can be honoured, where others would weaken safety or lose data if they were ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Only {
    /// What is taken, letter case aside.
    pub accepted: &'static [&'static str],
    /// Why nothing else is: continues the words "it …" and says what to do.
    pub because: &'static str,
}

impl Only {
    /// Whether `text`, a value of the key's type, can be honoured.
    pub fn accepts(&self, text: &str) -> bool {
        self.accepted.iter().any(|accepted| accepted.eq_ignore_ascii_case(text.trim()))
    }
}

/// What the values of a key are; the numbers are those of DescribeConfigs.
///
/// Source: KIP-569, Kafka DescribeConfigsResponse.ConfigType.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i8)]
pub enum Kind {
    /// true or false.
    Boolean = 1,
    /// Any text.
    String = 2,
    /// 32 bits, signed.
    Int = 3,
    /// 16 bits, signed.
    Short = 4,
    /// 64 bits, signed.
    Long = 5,
    /// A fraction.
    Double = 6,
    /// Texts, separated by commas.
    List = 7,
    /// The name of a Java class.
    Class = 8,
    /// A secret: never told to anybody.
    Password = 9,
}

impl Kind {
    /// The number in DescribeConfigs.
    pub fn code(self) -> i8 {
        self as i8
    }

    /// Kafka's name of a type of numbers.
    fn java_name(self) -> String {
        self.name().to_ascii_uppercase()
    }

    /// Its name in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::String => "string",
            Self::Int => "int",
            Self::Short => "short",
            Self::Long => "long",
            Self::Double => "double",
            Self::List => "list",
            Self::Class => "class",
            Self::Password => "password",
        }
    }
}

/// How a key can be changed while the broker runs.
///
/// Source: KIP-226.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Update {
    /// Only by a restart.
    ReadOnly,
    /// For one broker by its id.
    PerBroker,
    /// For one broker, or for all at once.
    ClusterWide,
    /// For the topic, group or subscription it belongs to.
    Resource,
}

impl Update {
    /// Its name in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::PerBroker => "per-broker",
            Self::ClusterWide => "cluster-wide",
            Self::Resource => "per-resource",
        }
    }
}

/// What a table of keys is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Brokers.
    Broker,
    /// Topics.
    Topic,
    /// Groups.
    Group,
    /// Client metrics subscriptions.
    ClientMetrics,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 4] = [Self::Broker, Self::Topic, Self::Group, Self::ClientMetrics];

    fn tables(self) -> &'static [&'static [Key]] {
        match self {
            Self::Broker => &[
                broker_group::KEYS,
                broker_log::KEYS,
                broker_network::KEYS,
                broker_quorum::KEYS,
                broker_remote::KEYS,
                broker_replication::KEYS,
                broker_security::KEYS,
                broker_transaction::KEYS,
                fencepost::KEYS,
            ],
            Self::Topic => &[topic::KEYS],
            Self::Group => &[group::KEYS],
            Self::ClientMetrics => &[client_metrics::KEYS],
        }
    }

    /// All keys of this scope, in order of name.
    pub fn keys(self) -> Vec<&'static Key> {
        let mut keys: Vec<&'static Key> = self.tables().iter().flat_map(|table| table.iter()).collect();
        keys.sort_by_key(|key| key.name);
        keys
    }

    /// The key of that name.
    pub fn find(self, name: &str) -> Option<&'static Key> {
        self.tables()
            .iter()
            .find_map(|table| table.binary_search_by(|key| key.name.cmp(name)).ok().map(|at| &table[at]))
    }
}

const fn key(
    name: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    rule: Rule,
    update: Update,
    documentation: &'static str,
) -> Key {
    Key {
        name,
        kind,
        default,
        kafka_default: None,
        rule,
        update,
        used: false,
        only: None,
        internal: false,
        documentation,
    }
}

impl Key {
    const fn used(mut self) -> Self {
        self.used = true;
        self
    }

    const fn only(mut self, accepted: &'static [&'static str], because: &'static str) -> Self {
        self.only = Some(Only { accepted, because });
        self
    }

    const fn internal(mut self) -> Self {
        self.internal = true;
        self
    }

    const fn differs(mut self, kafka_default: Option<&'static str>) -> Self {
        self.kafka_default = Some(kafka_default);
        self
    }

    /// Reads a value, checks its type and range. Blanks around it do not count.
    ///
    /// Source: Kafka ConfigDef.parseType, ConfigDef.Validator.
    pub fn parse(&self, text: &str) -> Result<Value, InvalidValue> {
        let value = Value::parse(self.kind, text)?;
        self.rule.check(self.name, &value)?;
        Ok(value)
    }

    /// [`Self::parse`] of a value that somebody sets now: it must be one that can be honoured.
    pub fn parse_new(&self, text: &str) -> Result<Value, InvalidValue> {
        let value = self.parse(text)?;
        match &self.only {
            Some(only) if !only.accepts(text) => {
                Err(InvalidValue::new(text, alloc::format!("it {}", only.because)))
            }
            Some(_) | None => Ok(value),
        }
    }

    /// Whether its values are secret.
    pub fn is_sensitive(&self) -> bool {
        self.kind == Kind::Password
    }

    /// The unit of a plain number, read off the name.
    pub fn unit(&self) -> &'static str {
        const UNITS: [(&str, &str); 9] = [
            (".bytes.per.second", "bytes per second"),
            (".creation.rate", "per second"),
            ("bytes", "bytes"),
            (".buffer.size", "bytes"),
            (".ms", "milliseconds"),
            (".millis", "milliseconds"),
            (".seconds", "seconds"),
            (".minutes", "minutes"),
            (".hours", "hours"),
        ];
        match self.kind {
            Kind::Int | Kind::Short | Kind::Long | Kind::Double => UNITS
                .iter()
                .find(|(ending, _)| self.name.ends_with(ending))
                .map_or(if self.name.ends_with(".secs") { "seconds" } else { "" }, |(_, unit)| unit),
            Kind::Boolean | Kind::String | Kind::List | Kind::Class | Kind::Password => "",
        }
    }
}

#[cfg(test)]
mod tests;
