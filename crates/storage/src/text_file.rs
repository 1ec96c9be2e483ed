//! Kafka's small text files: checkpoints of offsets, leader epochs, `partition.metadata`, `meta.properties`,
//! the clean-shutdown mark. Pure text in, values out.

use std::collections::BTreeMap;
use std::fmt::Write;

use fencepost_types::{BrokerId, LeaderEpoch, Offset, TopicPartition, Uuid};

/// No such file is ever longer than this: a checkpoint of a hundred thousand partitions with the longest names.
pub(crate) const TEXT_FILE_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// The lines of a checkpoint after its header: `0`, the count, then as many lines. `None` if it is not one.
fn checkpoint_lines(text: &str) -> Option<Vec<&str>> {
    let mut lines = text.strip_suffix('\n')?.split('\n');
    if lines.next()? != "0" {
        return None;
    }
    let count: usize = lines.next()?.parse().ok()?;
    let lines: Vec<&str> = lines.collect();
    (lines.len() == count).then_some(lines)
}

/// Reads a checkpoint of offsets. A file of no bytes is empty; `None` if it cannot be read.
///
/// Source: Kafka OffsetCheckpointFile.
pub(crate) fn parse_offsets(text: &str) -> Option<BTreeMap<TopicPartition, Offset>> {
    if text.is_empty() {
        return Some(BTreeMap::new());
    }
    let line = |line: &str| {
        let mut words = line.split(' ');
        let (topic, partition, offset) = (words.next()?, words.next()?, words.next()?);
        let key = TopicPartition::new(topic, partition.parse().ok()?);
        words.next().is_none().then_some((key, Offset(offset.parse().ok()?)))
    };
    checkpoint_lines(text)?.into_iter().map(line).collect()
}

/// Writes a checkpoint of offsets.
pub(crate) fn format_offsets(offsets: &BTreeMap<TopicPartition, Offset>) -> String {
    let mut text = format!("0\n{}\n", offsets.len());
    for (key, offset) in offsets {
        let _ = writeln!(text, "{} {} {offset}", key.topic, key.partition);
    }
    text
}

/// Reads leader epochs and their start offsets; `None` if it cannot be read, or the epochs do not rise.
///
/// Source: Kafka LeaderEpochCheckpointFile.
pub(crate) fn parse_epochs(text: &str) -> Option<Vec<(LeaderEpoch, Offset)>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let line = |line: &str| {
        let (epoch, offset) = line.split_once(' ')?;
        Some((LeaderEpoch(epoch.parse().ok()?), Offset(offset.parse().ok()?)))
    };
    let epochs: Vec<_> = checkpoint_lines(text)?.into_iter().map(line).collect::<Option<_>>()?;
    let rising = epochs.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
    (rising && epochs.iter().all(|(epoch, start)| epoch.0 >= 0 && start.0 >= 0)).then_some(epochs)
}

/// Writes leader epochs and their start offsets.
pub(crate) fn format_epochs(epochs: &[(LeaderEpoch, Offset)]) -> String {
    let mut text = format!("0\n{}\n", epochs.len());
    for (epoch, start) in epochs {
        let _ = writeln!(text, "{epoch} {start}");
    }
    text
}

/// The topic id out of `partition.metadata`; `None` if it cannot be read.
///
/// Source: Kafka PartitionMetadataFile.
pub(crate) fn parse_partition_metadata(text: &str) -> Option<Uuid> {
    let mut lines = text.lines();
    if lines.next()? != "version: 0" {
        return None;
    }
    Uuid::parse(lines.next()?.strip_prefix("topic_id: ")?).filter(|id| !id.is_zero())
}

/// Writes `partition.metadata`; it has no newline at the end (storage-formats trap 20).
pub(crate) fn format_partition_metadata(topic_id: Uuid) -> String {
    format!("version: 0\ntopic_id: {topic_id}")
}

/// Whose a log directory is: the content of `meta.properties`, version 1.
///
/// Source: Kafka MetaProperties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaProperties {
    /// The cluster's id; any text.
    pub cluster_id: String,
    /// The node's id.
    pub node_id: BrokerId,
    /// The directory's own id; `None` in files written before directories had one.
    pub directory_id: Option<Uuid>,
}

impl MetaProperties {
    /// What a new directory gets.
    pub fn new(cluster_id: impl Into<String>, node_id: BrokerId, directory_id: Uuid) -> Self {
        Self { cluster_id: cluster_id.into(), node_id, directory_id: Some(directory_id) }
    }

    /// Reads a Java properties file of version 0 or 1; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let properties = parse_properties(text);
        let get = |key: &str| properties.get(key).ok_or_else(|| format!("{key} is missing"));
        let node_key = match get("version")?.as_str() {
            "0" => "broker.id",
            "1" => "node.id",
            other => return Err(format!("version {other} is unknown")),
        };
        let node_id = get(node_key)?.parse().map_err(|_| format!("{node_key} is not a number"))?;
        let directory_id = match properties.get("directory.id") {
            None => None,
            Some(id) => Some(Uuid::parse(id).ok_or("directory.id is not an id")?),
        };
        Ok(Self { cluster_id: get("cluster.id")?.clone(), node_id: BrokerId(node_id), directory_id })
    }

    /// Writes version 1.
    pub(crate) fn format(&self) -> String {
        let mut text = String::from("#\n");
        let cluster_id = escape_property(&self.cluster_id);
        if let Some(directory_id) = self.directory_id {
            let _ = writeln!(text, "directory.id={directory_id}");
        }
        let _ = write!(text, "node.id={}\nversion=1\ncluster.id={cluster_id}\n", self.node_id);
        text
    }
}

/// Java's properties: `key=value` or `key:value` or `key value`, comments with `#` or `!`, escapes with `\`. Lines continued
/// by a `\` at the end are not: Kafka never writes one.
fn parse_properties(text: &str) -> BTreeMap<String, String> {
    let mut properties = BTreeMap::new();
    for line in text.lines() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let (mut key, mut value, mut in_key) = (String::new(), String::new(), true);
        let mut characters = line.chars();
        while let Some(c) = characters.next() {
            let escaped = c == '\\';
            let c = if escaped { unescape(&mut characters) } else { c };
            match in_key {
                true if !escaped && (matches!(c, '=' | ':') || c.is_whitespace()) => {
                    in_key = false;
                    let rest = characters.as_str().trim_start();
                    let separated = c.is_whitespace();
                    let rest = if separated { rest.strip_prefix(['=', ':']).unwrap_or(rest) } else { rest };
                    characters = rest.trim_start().chars();
                }
                true => key.push(c),
                false => value.push(c),
            }
        }
        properties.insert(key, value);
    }
    properties
}

/// The character that stands after a `\`.
fn unescape(characters: &mut std::str::Chars<'_>) -> char {
    match characters.next() {
        Some('n') => '\n',
        Some('t') => '\t',
        Some('r') => '\r',
        Some('f') => '\x0c',
        Some('u') => {
            let digits: String = characters.by_ref().take(4).collect();
            let unit = u32::from_str_radix(&digits, 16).ok();
            unit.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
        Some(other) => other,
        None => '\\',
    }
}

fn escape_property(value: &str) -> String {
    let mut text = String::new();
    for (at, c) in value.chars().enumerate() {
        match c {
            '\\' | '=' | ':' | '#' | '!' => text.extend(['\\', c]),
            ' ' if at == 0 => text.push_str("\\ "),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c => text.push(c),
        }
    }
    text
}

/// Writes the clean-shutdown mark.
pub(crate) fn format_clean_shutdown(broker_epoch: i64) -> String {
    format!("{{\"version\":0,\"brokerEpoch\":{broker_epoch}}}")
}

/// The broker epoch out of a clean-shutdown mark; −1 if it says none that can be read: the mark's presence alone decides.
pub(crate) fn parse_clean_shutdown(text: &str) -> i64 {
    let number = |text: &str| {
        let (_, value) = text.split_once("\"brokerEpoch\"")?;
        let value = value.trim_start().strip_prefix(':')?.trim_start();
        let end = value.find(|c: char| c != '-' && !c.is_ascii_digit()).unwrap_or(value.len());
        value[..end].parse().ok()
    };
    number(text).unwrap_or(-1)
}

#[cfg(test)]
mod tests;
