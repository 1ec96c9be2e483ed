//! Names of files and directories: what Kafka calls them, and what a name means.

use fencepost_types::limits::TOPIC_NAME_CHARS_MAX;
use fencepost_types::{Offset, TopicPartition};

/// No offset in a log is larger. A file or a batch that claims a larger one is none of ours: sums with offsets stay far
/// from overflowing.
pub(crate) const OFFSET_MAX: i64 = i64::MAX / 2;
/// The longest file name, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// What a file of a partition directory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileKind {
    Log,
    OffsetIndex,
    TimeIndex,
    TxnIndex,
    Snapshot,
    /// Ours, beside a snapshot. Kafka has no file of this suffix, and leaves it alone.
    Window,
}

impl FileKind {
    const ALL: [Self; 6] =
        [Self::Log, Self::OffsetIndex, Self::TimeIndex, Self::TxnIndex, Self::Snapshot, Self::Window];

    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Log => ".log",
            Self::OffsetIndex => ".index",
            Self::TimeIndex => ".timeindex",
            Self::TxnIndex => ".txnindex",
            Self::Snapshot => ".snapshot",
            Self::Window => ".window",
        }
    }
}

/// In which state of its life a file is, by its second suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileStage {
    Live,
    /// To be unlinked.
    Deleted,
    /// Being written by the cleaner.
    Cleaned,
    /// Written by the cleaner, taking the place of others.
    Swap,
}

/// A file of a partition directory whose name starts with an offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OffsetFile {
    pub(crate) offset: Offset,
    pub(crate) kind: FileKind,
    pub(crate) stage: FileStage,
}

impl OffsetFile {
    /// Reads a name; `None` if it is another kind of file.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (name, stage) =
            [(".deleted", FileStage::Deleted), (".cleaned", FileStage::Cleaned), (".swap", FileStage::Swap)]
                .into_iter()
                .find_map(|(suffix, stage)| name.strip_suffix(suffix).map(|rest| (rest, stage)))
                .unwrap_or((name, FileStage::Live));
        let (digits, suffix) = name.split_at_checked(20)?;
        let kind = FileKind::ALL.into_iter().find(|kind| kind.suffix() == suffix)?;
        if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let offset = digits.parse().ok().filter(|offset| *offset <= OFFSET_MAX)?;
        Some(Self { offset: Offset(offset), kind, stage })
    }
}

/// The live name of a file: 20 digits and the suffix.
pub(crate) fn offset_file(offset: Offset, kind: FileKind) -> String {
    format!("{:020}{}", offset.0, kind.suffix())
}

/// What a subdirectory of a log directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionDirKind {
    /// A partition's log.
    Live(TopicPartition),
    /// A deleted partition whose files are still to be unlinked.
    Delete,
    /// A partition that the metadata did not know.
    Stray,
    /// A copy under way from another log directory.
    Future,
}

impl PartitionDirKind {
    /// Reads a directory's name, splitting topic and number at the last dash. `None` if it is none of these.
    ///
    /// Source: Kafka UnifiedLog.parseTopicPartitionName.
    pub fn parse(name: &str) -> Option<Self> {
        for (suffix, kind) in [("-delete", Self::Delete), ("-stray", Self::Stray), ("-future", Self::Future)]
        {
            let dotted = name.strip_suffix(suffix).and_then(|rest| rest.rsplit_once('.'));
            if let Some((partition, id)) = dotted
                && partition.contains('-')
                && !id.is_empty()
            {
                return Some(kind);
            }
        }
        let (topic, number) = name.rsplit_once('-')?;
        let is_number = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
        if !is_number || !is_topic_name(topic) {
            return None;
        }
        Some(Self::Live(TopicPartition::new(topic, number.parse().ok()?)))
    }
}

/// Whether Kafka takes this as a topic's name: 1–249 of `[a-zA-Z0-9._-]`, not `.` or `..`.
pub fn is_topic_name(name: &str) -> bool {
    let legal = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
    !name.is_empty()
        && name != "."
        && name != ".."
        && name.len() <= TOPIC_NAME_CHARS_MAX
        && name.bytes().all(legal)
}

/// The name a partition's directory gets when it is deleted (`suffix` "delete") or found to be a stray: the topic is cut so
/// that the whole fits a file name. `unique` is 128 random bits.
///
/// Source: Kafka UnifiedLog.logDeleteDirName.
pub(crate) fn retired_dir(partition: &TopicPartition, unique: u128, suffix: &str) -> String {
    let tail = format!("-{}.{unique:032x}-{suffix}", partition.partition);
    let topic = &partition.topic[..partition.topic.len().min(NAME_BYTES_MAX - tail.len())];
    format!("{topic}{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of files as in storage-formats §6, with the suffixes of §10.
    #[test]
    fn file_names() {
        let parsed = OffsetFile::parse("00000000000000000042.snapshot.deleted").unwrap();
        let wanted = OffsetFile { offset: Offset(42), kind: FileKind::Snapshot, stage: FileStage::Deleted };
        assert_eq!(parsed, wanted);
        assert_eq!(offset_file(Offset(42), FileKind::TimeIndex), "00000000000000000042.timeindex");
        for kind in FileKind::ALL {
            let live = OffsetFile { offset: Offset(7), kind, stage: FileStage::Live };
            assert_eq!(OffsetFile::parse(&offset_file(Offset(7), kind)), Some(live));
        }
        for other in [
            "leader-epoch-checkpoint",
            "42.log",
            "0000000000000000004x.log",
            "99999999999999999999.log",
            "09223372036854775807.log",
            "00000000000000000000.log.tmp",
            "日本語日本語日本",
            "",
        ] {
            assert_eq!(OffsetFile::parse(other), None, "{other}");
        }
    }

    /// Topic and partition are split at the last dash (storage-formats §6).
    #[test]
    fn directory_names() {
        let live = |topic, partition| Some(PartitionDirKind::Live(TopicPartition::new(topic, partition)));
        assert_eq!(PartitionDirKind::parse("a-b-3"), live("a-b", 3));
        assert_eq!(PartitionDirKind::parse("__cluster_metadata-0"), live("__cluster_metadata", 0));
        // A topic may itself be called so.
        assert_eq!(PartitionDirKind::parse("x-delete-0"), live("x-delete", 0));
        let retired = "deleted-0.ae44658f2fd54db3ad94d1d2ae371abf-delete";
        assert_eq!(PartitionDirKind::parse(retired), Some(PartitionDirKind::Delete));
        assert_eq!(PartitionDirKind::parse("a-0.00ff-stray"), Some(PartitionDirKind::Stray));
        assert_eq!(PartitionDirKind::parse("a-0.00ff-future"), Some(PartitionDirKind::Future));
        for other in ["lost+found", "topic", "topic-", "-1", "a-x", "a--", "..-0", "a-99999999999"] {
            assert_eq!(PartitionDirKind::parse(other), None, "{other}");
        }
    }

    /// The longest topic's directory can be retired, and only the topic is cut (storage-formats trap 24).
    #[test]
    fn retired_names_fit() {
        let longest = "t".repeat(TOPIC_NAME_CHARS_MAX);
        let name = retired_dir(&TopicPartition::new(longest, 123), 7, "delete");
        assert_eq!(name.len(), NAME_BYTES_MAX);
        assert!(name.ends_with("t-123.00000000000000000000000000000007-delete"), "{name}");
        assert_eq!(PartitionDirKind::parse(&name), Some(PartitionDirKind::Delete));
        let short = retired_dir(&TopicPartition::new("a", 0), u128::MAX, "stray");
        assert_eq!(short, "a-0.ffffffffffffffffffffffffffffffff-stray");
    }
}
