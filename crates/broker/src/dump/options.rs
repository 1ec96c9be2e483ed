//! What a run is asked for. Names as in Kafka's DumpLogSegments where it has them.

use super::kind::{decoder_of_directory, parent};

/// How keys and values of records are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decoder {
    /// As UTF-8.
    #[default]
    Text,
    /// As records of `__consumer_offsets`.
    Offsets,
    /// As records of `__transaction_state`.
    TransactionLog,
    /// As records of `__cluster_metadata` or of one of its snapshots.
    ClusterMetadata,
    /// As records of `__share_group_state`.
    ShareGroupState,
}

/// What a run is asked for.
#[derive(Clone, Debug)]
pub struct DumpOptions {
    /// Show the records of each batch, not the batches alone.
    pub deep_iteration: bool,
    /// Show keys and values of records; implies the records.
    pub print_data_log: bool,
    /// Compare indexes with the log without showing their entries.
    pub verify_index_only: bool,
    /// Look at an index only as a start-up would.
    pub index_sanity_check: bool,
    /// Show contents without the records' offsets, times and sizes, and no control records' types.
    pub skip_record_metadata: bool,
    /// The decoder; `None` chooses by the name of the directory.
    pub decoder: Option<Decoder>,
    /// The directory that relative paths begin in: chooses the decoder where a path has no directory, and stands in some
    /// of Kafka's messages.
    pub working_directory: String,
    /// Bytes of a log file that are read, in whole batches.
    pub max_bytes: u64,
    /// The largest batch that an index entry is believed to point at, bytes.
    pub max_message_size: u64,
    /// Read everything, show nothing but problems.
    pub problems_only: bool,
    /// Behave as Kafka's tool where it differs: no decoder is chosen by itself, other kinds of file are passed over, and
    /// the run ends where that tool dies.
    pub like_kafka: bool,
}

impl DumpOptions {
    /// Kafka's default of `--max-message-size`, bytes.
    pub const MAX_MESSAGE_SIZE: u64 = 5 * 1024 * 1024;
}

impl Default for DumpOptions {
    fn default() -> Self {
        Self {
            deep_iteration: false,
            print_data_log: false,
            verify_index_only: false,
            index_sanity_check: false,
            skip_record_metadata: false,
            decoder: None,
            working_directory: String::new(),
            max_bytes: u64::MAX,
            max_message_size: Self::MAX_MESSAGE_SIZE,
            problems_only: false,
            like_kafka: false,
        }
    }
}

impl DumpOptions {
    /// Whether keys and values are shown: asked for, or implied by a decoder that was.
    pub(super) fn shows_contents(&self) -> bool {
        self.print_data_log || self.decoder.is_some()
    }

    /// The decoder for records in a file of this path.
    pub(super) fn decoder_for(&self, path: &str) -> Decoder {
        let directory = match parent(path) {
            "" | "." => &self.working_directory,
            directory => directory,
        };
        let by_name = if self.like_kafka { Decoder::Text } else { decoder_of_directory(directory) };
        self.decoder.unwrap_or(by_name)
    }

    /// Whether records are looked into.
    pub(super) fn reads_records(&self) -> bool {
        self.deep_iteration || self.shows_contents() || self.problems_only
    }
}
