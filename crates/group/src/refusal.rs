//! Why a group coordinator refuses.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use fencepost_types::ErrorCode;

use crate::{GroupId, MemberId};

/// A refusal of a whole request. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GroupRefusal {
    /// The group id is empty.
    InvalidGroupId,
    /// There is no such group, or none of that type.
    GroupIdNotFound {
        /// The group.
        group: GroupId,
    },
    /// A classic group does not become a consumer group.
    CannotUpgrade {
        /// The group.
        group: GroupId,
        /// Why: the end of the sentence that says so.
        why: &'static str,
    },
    /// The group has no such member.
    UnknownMemberId {
        /// The member's id.
        member_id: MemberId,
    },
    /// The static name belongs to another member id.
    FencedInstanceId {
        /// The member id of the request, which has lost the name.
        member_id: MemberId,
    },
    /// The generation is not the group's.
    IllegalGeneration {
        /// The group's.
        expected: i32,
        /// The request's.
        found: i32,
    },
    /// The group is between two generations.
    RebalanceInProgress,
    /// No protocol, another type, or nothing in common.
    InconsistentGroupProtocol,
    /// The session timeout is out of bounds.
    InvalidSessionTimeout,
    /// The group has members.
    NonEmptyGroup,
    /// The group is full.
    GroupMaxSizeReached,
    /// The request breaks a rule of its own.
    InvalidRequest(&'static str),
    /// The member epoch is not one the member may have.
    FencedMemberEpoch {
        /// The member's.
        expected: i32,
        /// The request's.
        found: i32,
    },
    /// The member epoch is older or newer than the member's.
    StaleMemberEpoch {
        /// The member's.
        expected: i32,
        /// The request's.
        found: i32,
    },
    /// Another member holds the static name.
    UnreleasedInstanceId {
        /// Who holds it.
        holder: MemberId,
    },
    /// No such assignor.
    UnsupportedAssignor {
        /// The ones there are.
        supported: Arc<str>,
    },
    /// The expression does not parse.
    InvalidRegularExpression {
        /// Why.
        why: Arc<str>,
    },
    /// A member of a consumer group commits with a version that has no member epoch.
    UnsupportedVersion,
}

impl fencepost_coordinator::Refusal for GroupRefusal {
    fn code(&self) -> ErrorCode {
        match self {
            Self::InvalidGroupId => ErrorCode::InvalidGroupId,
            Self::GroupIdNotFound { .. } | Self::CannotUpgrade { .. } => ErrorCode::GroupIdNotFound,
            Self::UnknownMemberId { .. } => ErrorCode::UnknownMemberId,
            Self::FencedInstanceId { .. } => ErrorCode::FencedInstanceId,
            Self::IllegalGeneration { .. } => ErrorCode::IllegalGeneration,
            Self::RebalanceInProgress => ErrorCode::RebalanceInProgress,
            Self::InconsistentGroupProtocol => ErrorCode::InconsistentGroupProtocol,
            Self::InvalidSessionTimeout => ErrorCode::InvalidSessionTimeout,
            Self::NonEmptyGroup => ErrorCode::NonEmptyGroup,
            Self::GroupMaxSizeReached => ErrorCode::GroupMaxSizeReached,
            Self::InvalidRequest(_) => ErrorCode::InvalidRequest,
            Self::FencedMemberEpoch { .. } => ErrorCode::FencedMemberEpoch,
            Self::StaleMemberEpoch { .. } => ErrorCode::StaleMemberEpoch,
            Self::UnreleasedInstanceId { .. } => ErrorCode::UnreleasedInstanceId,
            Self::UnsupportedAssignor { .. } => ErrorCode::UnsupportedAssignor,
            Self::InvalidRegularExpression { .. } => ErrorCode::InvalidRegularExpression,
            Self::UnsupportedVersion => ErrorCode::UnsupportedVersion,
        }
    }
}

impl GroupRefusal {
    /// What the answer says in words, where it has room for them.
    pub fn message(&self) -> Option<String> {
        match self {
            Self::GroupIdNotFound { group } => Some(format!("Group {group} not found.")),
            // Kafka's words: its tests, and tools like them, read these.
            Self::CannotUpgrade { group, why } => {
                Some(format!("Cannot upgrade classic group {group} to consumer group because {why}."))
            }
            Self::UnknownMemberId { member_id } => Some(format!("The group has no member {member_id}.")),
            Self::FencedInstanceId { member_id } => {
                Some(format!("The instance id belongs to another member than {member_id}."))
            }
            Self::IllegalGeneration { expected, found } => {
                Some(format!("The generation is {expected}, not {found}."))
            }
            Self::InvalidRequest(why) => Some(String::from(*why)),
            Self::FencedMemberEpoch { expected, found } | Self::StaleMemberEpoch { expected, found } => {
                Some(format!("The member's epoch is {expected}, not {found}."))
            }
            Self::UnreleasedInstanceId { holder } => {
                Some(format!("The instance id is still in use by member {holder}."))
            }
            Self::UnsupportedAssignor { supported } => Some(format!("The assignors here are {supported}.")),
            Self::InvalidRegularExpression { why } => {
                Some(format!("The regular expression is not valid: {why}."))
            }
            Self::GroupMaxSizeReached => Some(String::from("The group has as many members as it may have.")),
            Self::InvalidGroupId
            | Self::RebalanceInProgress
            | Self::InconsistentGroupProtocol
            | Self::InvalidSessionTimeout
            | Self::NonEmptyGroup
            | Self::UnsupportedVersion => None,
        }
    }
}
