//! AlterUserScramCredentials. The keys are derived from the salted password before they come here.
//!
//! Source: KIP-554, wire-apis §7, Kafka ScramControlManager.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use fencepost_coordinator::{Refusal, Token};
use fencepost_records::persisted::remove_user_scram_credential_record::RemoveUserScramCredentialRecord;
use fencepost_records::persisted::user_scram_credential_record::UserScramCredentialRecord;
use fencepost_types::{ErrorCode, KeptBytes};

use super::{Controller, Decided, Reply};
use crate::image::ScramMechanism;
use crate::record::MetadataRecord;

/// Changes of SCRAM credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScramChanges {
    /// Credentials to remove.
    pub deletions: Vec<ScramDeletion>,
    /// Credentials to make or change.
    pub upsertions: Vec<ScramUpsertion>,
}

/// A credential to remove.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScramDeletion {
    /// The user.
    pub user: String,
    /// The mechanism.
    pub mechanism: ScramMechanism,
}

/// A credential to make or change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScramUpsertion {
    /// The user.
    pub user: String,
    /// The mechanism.
    pub mechanism: ScramMechanism,
    /// How often the password is hashed.
    pub iterations: i32,
    /// The salt.
    pub salt: KeptBytes,
    /// Derived from the salted password: checks the client's proof.
    pub stored_key: KeptBytes,
    /// Derived from the salted password: proves the server.
    pub server_key: KeptBytes,
}

/// How often a password is hashed.
const ITERATIONS_MIN: i32 = 4_096;
const ITERATIONS_MAX: i32 = 16_384;

/// Why a user's credentials are not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScramRefusal {
    /// The request changes the same credential twice, or several of one user.
    Duplicate,
    /// There is no such mechanism.
    UnknownMechanism,
    /// The user has no name.
    NoName,
    /// There is no such credential.
    NotFound,
    /// Too few iterations.
    TooFewIterations,
    /// Too many iterations.
    TooManyIterations,
}

impl Refusal for ScramRefusal {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Duplicate => ErrorCode::DuplicateResource,
            Self::UnknownMechanism => ErrorCode::UnsupportedSaslMechanism,
            Self::NoName | Self::TooFewIterations | Self::TooManyIterations => {
                ErrorCode::UnacceptableCredential
            }
            Self::NotFound => ErrorCode::ResourceNotFound,
        }
    }
}

impl core::fmt::Display for ScramRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Duplicate => f.write_str("A user credential cannot be altered twice in the same request"),
            Self::UnknownMechanism => f.write_str("Unknown SCRAM mechanism"),
            Self::NoName => f.write_str("Username must not be empty"),
            Self::NotFound => f.write_str("Attempt to delete a user credential that does not exist"),
            Self::TooFewIterations => f.write_str("Too few iterations"),
            Self::TooManyIterations => f.write_str("Too many iterations"),
        }
    }
}

impl Controller {
    /// Deletions are judged before insertions, and a user's first fault counts: a credential that is to be deleted must
    /// exist before the request.
    pub(super) fn alter_scram_credentials(&self, token: Token, request: &ScramChanges) -> Decided {
        let mut records: BTreeMap<String, Vec<MetadataRecord>> = BTreeMap::new();
        let mut results: BTreeMap<String, Result<(), ScramRefusal>> = BTreeMap::new();
        let deletions =
            request.deletions.iter().map(|deletion| (&deletion.user, self.delete_credential(deletion)));
        let upsertions =
            request.upsertions.iter().map(|upsertion| (&upsertion.user, upsert_credential(upsertion)));
        for (user, changed) in deletions.chain(upsertions) {
            match (results.get(user), changed) {
                (Some(Err(_)), _) => {}
                (Some(Ok(())), _) => {
                    results.insert(user.clone(), Err(ScramRefusal::Duplicate));
                }
                (None, Ok(record)) => {
                    results.insert(user.clone(), Ok(()));
                    records.entry(user.clone()).or_default().push(record);
                }
                (None, Err(refusal)) => {
                    results.insert(user.clone(), Err(refusal));
                }
            }
        }
        let written = records
            .into_iter()
            .filter(|(user, _)| results.get(user) == Some(&Ok(())))
            .flat_map(|(_, records)| records)
            .collect();
        self.write(written, token, Reply::AlterScramCredentials(results.into_iter().collect()))
    }

    fn delete_credential(&self, deletion: &ScramDeletion) -> Result<MetadataRecord, ScramRefusal> {
        check(&deletion.user, deletion.mechanism)?;
        let key = (deletion.mechanism, deletion.user.clone());
        if !self.image().scram.contains_key(&key) {
            return Err(ScramRefusal::NotFound);
        }
        let (ScramMechanism(mechanism), name) = key;
        Ok(RemoveUserScramCredentialRecord { name, mechanism }.into())
    }
}

fn upsert_credential(upsertion: &ScramUpsertion) -> Result<MetadataRecord, ScramRefusal> {
    check(&upsertion.user, upsertion.mechanism)?;
    match upsertion.iterations {
        ITERATIONS_MIN..=ITERATIONS_MAX => {}
        ..ITERATIONS_MIN => return Err(ScramRefusal::TooFewIterations),
        _ => return Err(ScramRefusal::TooManyIterations),
    }
    let record = UserScramCredentialRecord {
        name: upsertion.user.clone(),
        mechanism: upsertion.mechanism.0,
        salt: upsertion.salt.share(),
        stored_key: upsertion.stored_key.share(),
        server_key: upsertion.server_key.share(),
        iterations: upsertion.iterations,
    };
    Ok(record.into())
}

fn check(user: &str, mechanism: ScramMechanism) -> Result<(), ScramRefusal> {
    if user.is_empty() {
        return Err(ScramRefusal::NoName);
    }
    if mechanism.is_known() { Ok(()) } else { Err(ScramRefusal::UnknownMechanism) }
}
