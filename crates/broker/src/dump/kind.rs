//! What a file is, by its name, and which decoder its records want, by the directory it lies in.

use super::options::Decoder;

/// A file that can be dumped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// `.log`: batches.
    Log,
    /// `.index`: offsets and positions.
    OffsetIndex,
    /// `.timeindex`: timestamps and offsets.
    TimeIndex,
    /// `.txnindex`: aborted transactions.
    TxnIndex,
    /// `.snapshot`: producers.
    ProducerSnapshot,
    /// `.window`: the batches of producers' windows, ours.
    ProducerWindows,
    /// `.checkpoint`: a snapshot of the metadata log, batches too.
    MetadataSnapshot,
    /// `leader-epoch-checkpoint`.
    LeaderEpochs,
    /// The four checkpoints of a log directory: partitions and offsets.
    OffsetCheckpoint,
    /// `partition.metadata`: a topic's id.
    PartitionMetadata,
    /// `meta.properties`: whose the log directory is.
    MetaProperties,
    /// One line of JSON: `quorum-state`, `.kafka_cleanshutdown`.
    JsonLine,
    /// A directory, for what is wrong with it as a whole.
    Directory,
    /// Nothing that can be dumped.
    Unknown,
}

/// What a name ends with while the cleaner or a deletion has the file.
const LEFTOVER_SUFFIXES: [&str; 4] = [".deleted", ".cleaned", ".swap", ".tmp"];

impl FileKind {
    /// Reads a file's name (without its directory); `None` if it is nothing that can be dumped.
    pub fn of_name(name: &str) -> Option<Self> {
        let whole = match name {
            "leader-epoch-checkpoint" => Some(Self::LeaderEpochs),
            "recovery-point-offset-checkpoint"
            | "replication-offset-checkpoint"
            | "log-start-offset-checkpoint"
            | "cleaner-offset-checkpoint" => Some(Self::OffsetCheckpoint),
            "partition.metadata" => Some(Self::PartitionMetadata),
            "meta.properties" => Some(Self::MetaProperties),
            "quorum-state" | ".kafka_cleanshutdown" => Some(Self::JsonLine),
            _ => None,
        };
        whole.or_else(|| match name.rsplit_once('.')?.1 {
            "log" => Some(Self::Log),
            "index" => Some(Self::OffsetIndex),
            "timeindex" => Some(Self::TimeIndex),
            "txnindex" => Some(Self::TxnIndex),
            "snapshot" => Some(Self::ProducerSnapshot),
            "window" => Some(Self::ProducerWindows),
            "checkpoint" => Some(Self::MetadataSnapshot),
            _ => None,
        })
    }

    /// Its name in the output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::OffsetIndex => "index",
            Self::TimeIndex => "timeindex",
            Self::TxnIndex => "txnindex",
            Self::ProducerSnapshot => "snapshot",
            Self::ProducerWindows => "window",
            Self::MetadataSnapshot => "checkpoint",
            Self::LeaderEpochs => "leader-epochs",
            Self::OffsetCheckpoint => "offset-checkpoint",
            Self::PartitionMetadata => "partition-metadata",
            Self::MetaProperties => "meta-properties",
            Self::JsonLine => "json",
            Self::Directory => "directory",
            Self::Unknown => "unknown",
        }
    }

    /// Whether Kafka's tool reads it.
    pub(super) fn is_known_to_kafka(self) -> bool {
        match self {
            Self::Log
            | Self::OffsetIndex
            | Self::TimeIndex
            | Self::TxnIndex
            | Self::ProducerSnapshot
            | Self::MetadataSnapshot => true,
            Self::ProducerWindows
            | Self::LeaderEpochs
            | Self::OffsetCheckpoint
            | Self::PartitionMetadata
            | Self::MetaProperties
            | Self::JsonLine
            | Self::Directory
            | Self::Unknown => false,
        }
    }
}

/// The name that a file has when neither the cleaner nor a deletion has it, if one of them has.
pub(super) fn leftover_of(name: &str) -> Option<&str> {
    LEFTOVER_SUFFIXES.into_iter().find_map(|suffix| name.strip_suffix(suffix))
}

/// The offset that a file's name begins with: the digits before its first point. Kafka wants twenty of them and does not
/// insist.
pub(super) fn base_offset(name: &str) -> Option<i64> {
    let digits = name.split('.').next()?;
    let offset: i64 = digits.parse().ok()?;
    (digits.bytes().all(|digit| digit.is_ascii_digit())).then_some(offset)
}

/// Offset and epoch in the name of a metadata snapshot.
pub(super) fn snapshot_id(name: &str) -> Option<(i64, i32)> {
    let (offset, epoch) = name.strip_suffix(".checkpoint")?.split_once('-')?;
    let whole = offset.len() == 20 && epoch.len() == 10;
    let digits = offset.bytes().chain(epoch.bytes()).all(|digit| digit.is_ascii_digit());
    (whole && digits).then_some(())?;
    Some((offset.parse().ok()?, epoch.parse().ok()?))
}

/// The directory part of a path, as it was given; empty where there is none.
pub(super) fn parent(path: &str) -> &str {
    path.rfind('/').map_or("", |slash| if slash == 0 { "/" } else { &path[..slash] })
}

/// The last part of a path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// `name` in the directory of `path`.
pub(super) fn sibling(path: &str, name: &str) -> String {
    format!("{}{name}", &path[..path.len() - file_name(path).len()])
}

/// The decoder that records want which lie in this directory.
pub(super) fn decoder_of_directory(directory: &str) -> Decoder {
    let topic = file_name(directory).rsplit_once('-').map_or("", |(topic, _)| topic);
    match topic {
        "__consumer_offsets" => Decoder::Offsets,
        "__transaction_state" => Decoder::TransactionLog,
        "__cluster_metadata" => Decoder::ClusterMetadata,
        "__share_group_state" => Decoder::ShareGroupState,
        _ => Decoder::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of every kind of file, and of some that are none.
    #[test]
    fn names() {
        for (name, kind) in [
            ("00000000000000000000.log", Some(FileKind::Log)),
            ("7.txnindex", Some(FileKind::TxnIndex)),
            ("00000000000000000045-0000000001.checkpoint", Some(FileKind::MetadataSnapshot)),
            ("bootstrap.checkpoint", Some(FileKind::MetadataSnapshot)),
            ("leader-epoch-checkpoint", Some(FileKind::LeaderEpochs)),
            ("00000000000000000000.log.deleted", None),
            (".lock", None),
            ("", None),
        ] {
            assert_eq!(FileKind::of_name(name), kind, "{name}");
        }
        assert_eq!(base_offset("00000000000000000042.timeindex"), Some(42));
        assert_eq!(base_offset("-1.log"), None);
        assert_eq!(base_offset("99999999999999999999.log"), None);
        assert_eq!(snapshot_id("00000000000000000045-0000000001.checkpoint"), Some((45, 1)));
        assert_eq!(snapshot_id("bootstrap.checkpoint"), None);
        assert_eq!(sibling("a/b.index", "b.log"), "a/b.log");
        assert_eq!(sibling("b.index", "b.log"), "b.log");
        assert_eq!((parent("/x"), parent("a/b/c"), parent("c")), ("/", "a/b", ""));
        assert_eq!(decoder_of_directory("data/__consumer_offsets-12"), Decoder::Offsets);
        assert_eq!(decoder_of_directory("offsets-0"), Decoder::Text);
    }
}
