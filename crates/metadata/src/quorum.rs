//! What the quorum's files and control records say, for a quorum of one voter: ourselves.
//!
//! Source: KIP-595, KIP-630, KIP-853, Kafka QuorumStateData, VotersRecord.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use fencepost_records::persisted::kraft_version_record::KRaftVersionRecord;
use fencepost_records::persisted::leader_change_message::{self, LeaderChangeMessage};
use fencepost_records::persisted::snapshot_footer_record::SnapshotFooterRecord;
use fencepost_records::persisted::snapshot_header_record::SnapshotHeaderRecord;
use fencepost_records::persisted::voters_record::{self, VotersRecord};
use fencepost_types::{BrokerId, LeaderEpoch, Millis, Offset, Uuid};
use serde_json::Value;

use crate::features;

/// Name of the file beside the metadata log that holds the quorum's state.
pub const QUORUM_STATE_FILE: &str = "quorum-state";
/// The ending of a snapshot's file name.
pub const CHECKPOINT_SUFFIX: &str = ".checkpoint";

/// A voter of the metadata quorum.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Voter {
    /// The node's id.
    pub id: BrokerId,
    /// The id of the directory that holds its metadata log.
    pub directory_id: Uuid,
    /// Its controller listeners.
    pub endpoints: Vec<VoterEndpoint>,
}

/// Where a voter listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VoterEndpoint {
    /// The listener's name.
    pub listener: String,
    /// Host.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Voter {
    /// The voters that a control record names.
    pub fn all_from_record(record: &VotersRecord) -> Vec<Self> {
        record
            .voters
            .iter()
            .map(|voter| Self {
                id: BrokerId(voter.voter_id),
                directory_id: voter.voter_directory_id,
                endpoints: voter
                    .endpoints
                    .iter()
                    .map(|e| VoterEndpoint { listener: e.name.clone(), host: e.host.clone(), port: e.port })
                    .collect(),
            })
            .collect()
    }
}

/// The control record that begins an epoch, written in version 0: `leader` was elected by `voters`.
pub fn leader_change(leader: BrokerId, voters: &[BrokerId]) -> LeaderChangeMessage {
    let voter = |id: &BrokerId| leader_change_message::Voters { voter_id: id.0, ..Default::default() };
    let granting =
        |id: &BrokerId| leader_change_message::GrantingVoters { voter_id: id.0, ..Default::default() };
    LeaderChangeMessage {
        version: 0,
        leader_id: leader.0,
        voters: voters.iter().map(voter).collect(),
        granting_voters: voters.iter().map(granting).collect(),
    }
}

/// The control record that says the level of `kraft.version`.
pub fn kraft_version(level: i16) -> KRaftVersionRecord {
    KRaftVersionRecord { version: 0, kraft_version: level }
}

/// The control record that names the voters.
pub fn voters(voters: &[Voter]) -> VotersRecord {
    let range = features::supported(features::KRAFT_VERSION).expect("kraft.version is supported");
    let voters = voters
        .iter()
        .map(|voter| voters_record::Voters {
            voter_id: voter.id.0,
            voter_directory_id: voter.directory_id,
            endpoints: voter
                .endpoints
                .iter()
                .map(|e| voters_record::Endpoints {
                    name: e.listener.clone(),
                    host: e.host.clone(),
                    port: e.port,
                })
                .collect(),
            kraft_version_feature: voters_record::KraftVersionFeature {
                min_supported_version: range.min,
                max_supported_version: range.max,
            },
        })
        .collect();
    VotersRecord { version: 0, voters }
}

/// The control record that opens a snapshot; the time is that of the last record in it.
pub fn snapshot_header(last_contained_log_timestamp: Millis) -> SnapshotHeaderRecord {
    SnapshotHeaderRecord { version: 0, last_contained_log_timestamp: last_contained_log_timestamp.0 }
}

/// The control record that closes a snapshot. A file without it is incomplete.
pub fn snapshot_footer() -> SnapshotFooterRecord {
    SnapshotFooterRecord { version: 0 }
}

/// What the file `quorum-state` says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QuorumState {
    /// The leader, or none.
    pub leader_id: BrokerId,
    /// The epoch.
    pub leader_epoch: LeaderEpoch,
    /// Static voters: the file has version 0. `None`: the log names the voters and the file has version 1.
    pub static_voters: Option<Vec<BrokerId>>,
}

impl QuorumState {
    /// The file's text: one line of JSON, without an end of line.
    pub fn to_json(&self) -> String {
        let (leader, epoch) = (self.leader_id, self.leader_epoch);
        match &self.static_voters {
            None => format!(
                "{{\"leaderId\":{leader},\"leaderEpoch\":{epoch},\"votedId\":-1,\"votedDirectoryId\":\"{}\",\
                 \"data_version\":1}}",
                Uuid::ZERO
            ),
            Some(voters) => {
                let voters: Vec<String> = voters.iter().map(|id| format!("{{\"voterId\":{id}}}")).collect();
                format!(
                    "{{\"clusterId\":\"\",\"leaderId\":{leader},\"leaderEpoch\":{epoch},\"votedId\":-1,\
                     \"appliedOffset\":0,\"currentVoters\":[{}],\"data_version\":0}}",
                    voters.join(",")
                )
            }
        }
    }

    /// Reads the file's text; `None` if it is anything else. Fields that do not matter here are skipped.
    pub fn parse(text: &str) -> Option<Self> {
        let json: Value = serde_json::from_str(text).ok()?;
        let number = |json: &Value, name: &str| i32::try_from(json.get(name)?.as_i64()?).ok();
        let leader_epoch = LeaderEpoch(number(&json, "leaderEpoch").filter(|epoch| *epoch >= 0)?);
        let static_voters = match number(&json, "data_version")? {
            0 => {
                let voters = json.get("currentVoters").and_then(Value::as_array);
                let ids = voters.into_iter().flatten().map(|voter| Some(BrokerId(number(voter, "voterId")?)));
                Some(ids.collect::<Option<_>>()?)
            }
            1 => None,
            _ => return None,
        };
        Some(Self { leader_id: BrokerId(number(&json, "leaderId")?), leader_epoch, static_voters })
    }
}

/// The file name of a snapshot that ends before `end_offset`, whose last record is of `epoch`.
pub fn checkpoint_file_name(end_offset: Offset, epoch: LeaderEpoch) -> String {
    format!("{:020}-{:010}{CHECKPOINT_SUFFIX}", end_offset.0, epoch.0)
}

/// End offset and epoch out of a snapshot's file name.
pub fn parse_checkpoint_file_name(name: &str) -> Option<(Offset, LeaderEpoch)> {
    let (offset, epoch) = name.strip_suffix(CHECKPOINT_SUFFIX)?.split_once('-')?;
    let digits = |text: &str, count: usize| {
        (text.len() == count && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.to_string())
    };
    Some((Offset(digits(offset, 20)?.parse().ok()?), LeaderEpoch(digits(epoch, 10)?.parse().ok()?)))
}

#[cfg(test)]
mod tests;
