//! Records of the metadata log: every type of Kafka 4.4, their frame, and the version that a level selects.
//!
//! A record's value is a frame version (1), the record's type and version, each an unsigned varint, then the message.
//!
//! Source: KIP-631, Kafka MetadataRecordSerde, MetadataRecordType.

use alloc::vec::Vec;

use bytes::Bytes;
use fencepost_coordinator::Record;
use fencepost_records::persisted;
use fencepost_types::wire::{DecodeError, Reader, Writer};

use crate::level::MetadataVersion;

const FRAME_VERSION: u32 = 1;

macro_rules! metadata_records {
    ($($variant:ident $module:ident $message:ident $code:literal)*) => {
        /// One record of the metadata log, without its version. See [`VersionedRecord`].
        #[derive(Clone, Debug, PartialEq)]
        pub enum MetadataRecord {
            $(#[doc = concat!("Type ", $code, ".")] $variant(persisted::$module::$message),)*
        }

        impl MetadataRecord {
            /// The type's number in the frame.
            pub fn type_code(&self) -> u32 {
                match self {
                    $(Self::$variant(_) => $code,)*
                }
            }

            /// Kafka's name of the type, without the ending `Record`.
            pub fn type_name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => stringify!($variant),)*
                }
            }

            fn write(&self, writer: &mut Writer, version: i16) {
                match self {
                    $(Self::$variant(message) => message.encode(writer, version),)*
                }
            }

            fn read(code: u32, version: u32, reader: &mut Reader) -> Result<Self, RecordError> {
                match code {
                    $($code => {
                        let known = persisted::$module::$message::VERSION_MIN
                            ..=persisted::$module::$message::VERSION_MAX;
                        let version = i16::try_from(version)
                            .ok()
                            .filter(|version| known.contains(version))
                            .ok_or(RecordError::UnknownVersion { code, version })?;
                        Ok(Self::$variant(persisted::$module::$message::decode(reader, version)?))
                    })*
                    code => Err(RecordError::UnknownType { code }),
                }
            }
        }

        $(impl From<persisted::$module::$message> for MetadataRecord {
            fn from(message: persisted::$module::$message) -> Self {
                Self::$variant(message)
            }
        })*
    };
}

metadata_records! {
    RegisterBroker register_broker_record RegisterBrokerRecord 0
    UnregisterBroker unregister_broker_record UnregisterBrokerRecord 1
    Topic topic_record TopicRecord 2
    Partition partition_record PartitionRecord 3
    Config config_record ConfigRecord 4
    PartitionChange partition_change_record PartitionChangeRecord 5
    FenceBroker fence_broker_record FenceBrokerRecord 7
    UnfenceBroker unfence_broker_record UnfenceBrokerRecord 8
    RemoveTopic remove_topic_record RemoveTopicRecord 9
    DelegationToken delegation_token_record DelegationTokenRecord 10
    UserScramCredential user_scram_credential_record UserScramCredentialRecord 11
    FeatureLevel feature_level_record FeatureLevelRecord 12
    ClientQuota client_quota_record ClientQuotaRecord 14
    ProducerIds producer_ids_record ProducerIdsRecord 15
    BrokerRegistrationChange broker_registration_change_record BrokerRegistrationChangeRecord 17
    AccessControlEntry access_control_entry_record AccessControlEntryRecord 18
    RemoveAccessControlEntry remove_access_control_entry_record RemoveAccessControlEntryRecord 19
    NoOp no_op_record NoOpRecord 20
    ZkMigrationState zk_migration_state_record ZkMigrationStateRecord 21
    RemoveUserScramCredential remove_user_scram_credential_record RemoveUserScramCredentialRecord 22
    BeginTransaction begin_transaction_record BeginTransactionRecord 23
    EndTransaction end_transaction_record EndTransactionRecord 24
    AbortTransaction abort_transaction_record AbortTransactionRecord 25
    RemoveDelegationToken remove_delegation_token_record RemoveDelegationTokenRecord 26
    RegisterController register_controller_record RegisterControllerRecord 27
    ClearElr clear_elr_record ClearElrRecord 28
    UnregisterController unregister_controller_record UnregisterControllerRecord 29
}

impl MetadataRecord {
    /// The version in which Kafka writes this record at `level`: for partitions and registrations the newest that the
    /// level knows, for changes of a registration the lowest that holds the fields set.
    ///
    /// Source: Kafka MetadataVersion.partitionRecordVersion, registerBrokerRecordVersion,
    /// BrokerRegistrationChangeRecord's use in ClusterControlManager.
    pub fn version_at(&self, level: MetadataVersion) -> i16 {
        match self {
            Self::RegisterBroker(_) => level.register_broker_version(),
            Self::Partition(_) | Self::PartitionChange(_) => level.partition_version(),
            Self::BrokerRegistrationChange(change) => {
                if change.cordoned_log_dirs.is_some() {
                    3
                } else if !change.log_dirs.is_empty() {
                    2
                } else if change.in_controlled_shutdown != 0 {
                    1
                } else {
                    0
                }
            }
            Self::UnregisterBroker(_)
            | Self::Topic(_)
            | Self::Config(_)
            | Self::FenceBroker(_)
            | Self::UnfenceBroker(_)
            | Self::RemoveTopic(_)
            | Self::DelegationToken(_)
            | Self::UserScramCredential(_)
            | Self::FeatureLevel(_)
            | Self::ClientQuota(_)
            | Self::ProducerIds(_)
            | Self::AccessControlEntry(_)
            | Self::RemoveAccessControlEntry(_)
            | Self::NoOp(_)
            | Self::ZkMigrationState(_)
            | Self::RemoveUserScramCredential(_)
            | Self::BeginTransaction(_)
            | Self::EndTransaction(_)
            | Self::AbortTransaction(_)
            | Self::RemoveDelegationToken(_)
            | Self::RegisterController(_)
            | Self::ClearElr(_)
            | Self::UnregisterController(_) => 0,
        }
    }

    /// The record with the version that `level` selects.
    pub fn at(self, level: MetadataVersion) -> VersionedRecord {
        VersionedRecord { version: self.version_at(level), record: self }
    }
}

/// A record of the metadata log with the version it has there.
#[derive(Clone, Debug, PartialEq)]
pub struct VersionedRecord {
    /// The message's version.
    pub version: i16,
    /// The message.
    pub record: MetadataRecord,
}

/// Why a record's value could not be read. Whoever follows a log stops at it: a hole in the image may be a second
/// leader in the making (cluster §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordError {
    /// The frame has another version than 1.
    UnknownFrame {
        /// The frame's version.
        version: u32,
    },
    /// A type that Kafka 4.4 does not have.
    UnknownType {
        /// The type's number.
        code: u32,
    },
    /// A version that Kafka 4.4 does not have.
    UnknownVersion {
        /// The type's number.
        code: u32,
        /// The version.
        version: u32,
    },
    /// Bytes are left behind the message.
    BytesLeft {
        /// How many.
        count: usize,
    },
    /// The bytes are not the message they should be.
    Malformed(DecodeError),
}

impl From<DecodeError> for RecordError {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

impl core::fmt::Display for RecordError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::UnknownFrame { version } => write!(f, "unknown frame version {version}"),
            Self::UnknownType { code } => write!(f, "unknown record type {code}"),
            Self::UnknownVersion { code, version } => {
                write!(f, "unknown version {version} of record type {code}")
            }
            Self::BytesLeft { count } => write!(f, "{count} bytes are left behind the record"),
            Self::Malformed(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for RecordError {}

impl VersionedRecord {
    /// The record's value in the log.
    pub fn to_value(&self) -> Bytes {
        let mut writer = Writer::new();
        writer.uvarint(FRAME_VERSION);
        writer.uvarint(self.record.type_code());
        writer.uvarint(u32::from(self.version.unsigned_abs()));
        self.record.write(&mut writer, self.version);
        writer.into_bytes()
    }

    /// Reads a record's value.
    pub fn from_value(value: &Bytes) -> Result<Self, RecordError> {
        let mut reader = Reader::new(value.clone());
        let frame = reader.uvarint()?;
        if frame != FRAME_VERSION {
            return Err(RecordError::UnknownFrame { version: frame });
        }
        let (code, version) = (reader.uvarint()?, reader.uvarint()?);
        let record = MetadataRecord::read(code, version, &mut reader)?;
        match reader.remaining() {
            // The version fits: `read` knows it.
            0 => Ok(Self { version: version as i16, record }),
            count => Err(RecordError::BytesLeft { count }),
        }
    }
}

impl Record for VersionedRecord {
    fn encode(&self) -> (Option<Bytes>, Option<Bytes>) {
        (None, Some(self.to_value()))
    }

    /// Never `Ok(None)`: an unknown type or version is an error here, as it must not be skipped.
    fn decode(_key: Option<&Bytes>, value: Option<&Bytes>) -> Result<Option<Self>, DecodeError> {
        let value = value.ok_or(DecodeError::UnexpectedNull)?;
        match Self::from_value(value) {
            Ok(record) => Ok(Some(record)),
            Err(RecordError::Malformed(error)) => Err(error),
            Err(RecordError::BytesLeft { .. }) => Err(DecodeError::Truncated),
            Err(
                RecordError::UnknownFrame { .. }
                | RecordError::UnknownType { .. }
                | RecordError::UnknownVersion { .. },
            ) => Err(DecodeError::UnsupportedVersion),
        }
    }
}

/// Versions all records of a write at the level in force.
pub(crate) fn at_level(records: Vec<MetadataRecord>, level: MetadataVersion) -> Vec<VersionedRecord> {
    records.into_iter().map(|record| record.at(level)).collect()
}

#[cfg(test)]
mod tests;
