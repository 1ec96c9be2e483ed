//! What can go wrong on this side of the wire, and what the broker may answer.

use fencepost_protocol::ApiKey;
use fencepost_records::BatchError;
use fencepost_types::ErrorCode;
use fencepost_types::wire::DecodeError;

/// Why a call has no answer, or none that helps.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The transport failed, or its patience ended: what was asked may have happened.
    #[error("{operation}: {source}")]
    Io {
        /// What was being done.
        operation: &'static str,
        /// The system's words.
        source: std::io::Error,
    },
    /// The peer announced a frame that is empty or larger than [`crate::FRAME_BYTES_MAX`].
    #[error("the peer announces a frame of {0} bytes")]
    FrameSize(i32),
    /// The answer cannot be read.
    #[error("the answer to {api_key:?} version {version} cannot be read: {source}")]
    Malformed {
        /// The API.
        api_key: ApiKey,
        /// The version asked in.
        version: i16,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// The answer belongs to another request (K1).
    #[error("an answer to request {found}, expected one to {expected}")]
    Correlation {
        /// What was sent.
        expected: i32,
        /// What came back.
        found: i32,
    },
    /// The two sides have no version in common (K4).
    #[error("{api_key:?}: no version up to {wanted} is known to both sides")]
    NoCommonVersion {
        /// The API.
        api_key: ApiKey,
        /// The highest version that would have done.
        wanted: i16,
    },
    /// The records in an answer cannot be read.
    #[error("records of {partition} cannot be read: {source}")]
    Records {
        /// Where they come from.
        partition: String,
        /// What is wrong with them.
        source: BatchError,
    },
    /// The broker refused.
    #[error("{api_key:?} was refused: {code}")]
    Refused {
        /// The API.
        api_key: ApiKey,
        /// Why.
        code: ErrorCode,
    },
    /// The answer leaves out what was asked about.
    #[error("the answer to {0:?} is incomplete")]
    Incomplete(ApiKey),
}

impl ClientError {
    /// What the broker said, if it said something.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            Self::Io { .. }
            | Self::FrameSize(_)
            | Self::Malformed { .. }
            | Self::Correlation { .. }
            | Self::NoCommonVersion { .. }
            | Self::Records { .. }
            | Self::Incomplete(_) => None,
        }
    }

    /// Turns a code into an error, unless it is none.
    pub(crate) fn check(api_key: ApiKey, code: ErrorCode) -> Result<(), Self> {
        if code.is_none() { Ok(()) } else { Err(Self::Refused { api_key, code }) }
    }
}
