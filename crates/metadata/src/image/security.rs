//! Quotas, SCRAM credentials, access control entries and delegation tokens.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use fencepost_types::{KeptBytes, SharedMap};

/// Whom a client quota is for: entity types (`user`, `client-id`, `ip`) with names; no name is the default.
pub type QuotaEntity = BTreeMap<String, Option<String>>;

/// A quota's value; kept as bits so that images can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuotaValue(u64);

impl QuotaValue {
    /// From a number.
    pub fn new(value: f64) -> Self {
        Self(value.to_bits())
    }

    /// The number.
    pub fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

/// All client quotas: entity, then key, then value. No entity is without a key.
pub type ClientQuotas = SharedMap<QuotaEntity, BTreeMap<String, QuotaValue>>;

/// How a SCRAM credential is hashed; the numbers are Kafka's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScramMechanism(pub i8);

impl ScramMechanism {
    /// SCRAM-SHA-256.
    pub const SHA_256: Self = Self(1);
    /// SCRAM-SHA-512.
    pub const SHA_512: Self = Self(2);

    /// Whether it is one of the two.
    pub fn is_known(self) -> bool {
        self == Self::SHA_256 || self == Self::SHA_512
    }
}

/// What is kept of a user's password.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScramCredential {
    /// The salt.
    pub salt: KeptBytes,
    /// Checks the client's proof.
    pub stored_key: KeptBytes,
    /// Proves the server.
    pub server_key: KeptBytes,
    /// How often the password is hashed.
    pub iterations: i32,
}

/// All SCRAM credentials by mechanism and user.
pub type ScramCredentials = SharedMap<(ScramMechanism, String), ScramCredential>;

/// An access control entry, as its record has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AccessControlEntry {
    /// Kafka's number of the resource type.
    pub resource_type: i8,
    /// The resource's name.
    pub resource_name: String,
    /// Kafka's number of the pattern type.
    pub pattern_type: i8,
    /// Whom it is for.
    pub principal: String,
    /// From where.
    pub host: String,
    /// Kafka's number of the operation.
    pub operation: i8,
    /// Kafka's number for allow or deny.
    pub permission_type: i8,
}

/// A delegation token, as its record has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DelegationToken {
    /// Whose it is.
    pub owner: String,
    /// Who asked for it.
    pub requester: String,
    /// Who may renew it.
    pub renewers: Vec<String>,
    /// When it was made, milliseconds.
    pub issue_timestamp: i64,
    /// When it ends whatever happens, milliseconds.
    pub max_timestamp: i64,
    /// When it ends unless renewed, milliseconds.
    pub expiration_timestamp: i64,
}
