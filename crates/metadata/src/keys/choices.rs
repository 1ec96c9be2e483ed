//! Values of keys that are one of a few names. The table of keys, the parser and the typed settings share one list, so that a
//! name that one of them knows is known to all, and code that reads such a key has to consider each.

use alloc::vec::Vec;

use super::Value;
use crate::config::FromValue;

macro_rules! choice {
    ($(#[doc = $doc:literal])* $name:ident { $($(#[doc = $of:literal])* $variant:ident = $text:literal,)* }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[doc = $of])* $variant,)*
        }

        impl $name {
            /// The names, as the table of keys has them.
            pub const NAMES: &'static [&'static str] = &[$($text),*];

            /// The choice of that name, letter case aside; `None`: no choice has it.
            pub fn from_name(name: &str) -> Option<Self> {
                [$((Self::$variant, $text)),*]
                    .into_iter()
                    .find(|(_, text)| text.eq_ignore_ascii_case(name))
                    .map(|(choice, _)| choice)
            }
        }

        impl FromValue for $name {
            fn from_value(value: Option<Value>) -> Option<Self> {
                Self::from_name(value?.as_text()?)
            }
        }

        impl FromValue for Vec<$name> {
            fn from_value(value: Option<Value>) -> Option<Self> {
                value?.as_list()?.iter().map(|name| $name::from_name(name)).collect()
            }
        }
    };
}

choice! {
    /// What an acknowledged record survives.
    Durability {
        /// A crash of the machine: it is on the disk.
        Fsync = "fsync",
        /// A crash of the process: the operating system has it.
        PageCache = "page-cache",
    }
}

choice! {
    /// The codec in which a topic's batches are kept.
    CompressionChoice {
        /// None.
        Uncompressed = "uncompressed",
        /// zstd.
        Zstd = "zstd",
        /// lz4.
        Lz4 = "lz4",
        /// snappy.
        Snappy = "snappy",
        /// gzip.
        Gzip = "gzip",
        /// The producer's own.
        Producer = "producer",
    }
}

choice! {
    /// Whose clock a topic's records are stamped by.
    TimestampChoice {
        /// The producer's.
        CreateTime = "CreateTime",
        /// The broker's.
        LogAppendTime = "LogAppendTime",
    }
}

choice! {
    /// What becomes of a topic's old records.
    CleanupChoice {
        /// Older values of a key are removed.
        Compact = "compact",
        /// Old segments are deleted.
        Delete = "delete",
    }
}

choice! {
    /// Which ways a group may change between the classic and the consumer protocol.
    GroupMigration {
        /// Neither way.
        Disabled = "disabled",
        /// To the classic protocol.
        Downgrade = "downgrade",
        /// To the consumer protocol.
        Upgrade = "upgrade",
        /// Both ways.
        Bidirectional = "bidirectional",
    }
}

choice! {
    /// A protocol of groups.
    GroupProtocol {
        /// KIP-848.
        Consumer = "consumer",
        /// The one of JoinGroup and SyncGroup.
        Classic = "classic",
        /// KIP-932.
        Share = "share",
        /// KIP-1071.
        Streams = "streams",
    }
}

choice! {
    /// An assignor of consumer groups, by its name or by the name of Kafka's class.
    AssignorChoice {
        /// Uniform.
        Uniform = "uniform",
        /// Range.
        Range = "range",
        /// Uniform, by Kafka's class.
        UniformClass = "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
        /// Range, by Kafka's class.
        RangeClass = "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issue 12, C17: a name that no choice has is none, neither alone nor in a list; there is no default for it.
    #[test]
    fn unknown_names_are_no_choice() {
        let text = |name: &str| Some(Value::Text(name.into()));
        assert_eq!(Durability::from_value(text("page-cache")), Some(Durability::PageCache));
        assert_eq!(GroupMigration::from_value(text("UPGRADE")), Some(GroupMigration::Upgrade));
        for unknown in ["", "never", "fsync "] {
            assert_eq!(Durability::from_value(text(unknown)), None, "{unknown:?}");
            assert_eq!(CompressionChoice::from_value(text(unknown)), None, "{unknown:?}");
            assert_eq!(GroupMigration::from_value(text(unknown)), None, "{unknown:?}");
        }
        let list = |names: &[&str]| Some(Value::List(names.iter().map(|name| (*name).into()).collect()));
        let both = Some(Vec::from([CleanupChoice::Compact, CleanupChoice::Delete]));
        assert_eq!(<Vec<CleanupChoice>>::from_value(list(&["compact", "delete"])), both);
        assert_eq!(<Vec<CleanupChoice>>::from_value(list(&["compact", "x"])), None);
    }
}
