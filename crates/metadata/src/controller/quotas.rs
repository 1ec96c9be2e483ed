//! AlterClientQuotas.
//!
//! Source: KIP-546, wire-apis §7, Kafka ClientQuotaControlManager.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;

use fencepost_coordinator::{Refusal, Token};
use fencepost_records::persisted::client_quota_record::{ClientQuotaRecord, Entity};
use fencepost_types::ErrorCode;

use super::{Controller, Decided, Reply};
use crate::image::QuotaEntity;
use crate::record::MetadataRecord;

/// The changes of one entity's quotas: all or none.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaChanges {
    /// Whom they are for: entity types with names; no name is the default.
    pub entity: Vec<(String, Option<String>)>,
    /// The changes.
    pub changes: Vec<QuotaChange>,
}

/// The change of one quota.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaChange {
    /// The quota.
    pub key: String,
    /// Its value; none removes it.
    pub value: Option<f64>,
}

/// Why an entity's quotas are not changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum QuotaRefusal {
    /// It has no parts.
    EmptyEntity,
    /// A part is neither user, client-id nor ip, or has an empty name, or parts do not go together.
    InvalidEntity,
    /// The name of an ip entity is no address.
    InvalidIp(String),
    /// The entity has no such quota.
    UnknownKey(String),
    /// The value is not positive, or not whole where it must be.
    InvalidValue(String),
}

impl Refusal for QuotaRefusal {
    fn code(&self) -> ErrorCode {
        ErrorCode::InvalidRequest
    }
}

impl core::fmt::Display for QuotaRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::EmptyEntity => f.write_str("A quota needs somebody to be for."),
            Self::InvalidEntity => f.write_str(
                "A quota is for a user, a client-id or both, or for an ip, each with a name or none.",
            ),
            Self::InvalidIp(name) => write!(f, "{name} is no address."),
            Self::UnknownKey(key) => write!(f, "There is no quota {key} for this entity."),
            Self::InvalidValue(key) => {
                write!(f, "The value of {key} must be positive, and whole unless a percentage.")
            }
        }
    }
}

const USER: &str = "user";
const CLIENT_ID: &str = "client-id";
const IP: &str = "ip";
/// Quotas of users and client ids, and whether their values are whole.
const CLIENT_KEYS: [(&str, bool); 4] = [
    ("consumer_byte_rate", true),
    ("controller_mutation_rate", false),
    ("producer_byte_rate", true),
    ("request_percentage", false),
];
/// Quotas of addresses.
const IP_KEYS: [(&str, bool); 1] = [("connection_creation_rate", true)];

impl Controller {
    pub(super) fn alter_client_quotas(
        &self,
        token: Token,
        entries: &[QuotaChanges],
        validate_only: bool,
    ) -> Decided {
        let mut records = Vec::new();
        let mut results = Vec::new();
        for entry in entries {
            let altered = self.alter_quotas_of(entry).map(|new| records.extend(new));
            results.push((entry.entity.clone(), altered));
        }
        if validate_only {
            records.clear();
        }
        self.write(records, token, Reply::AlterClientQuotas(results))
    }

    fn alter_quotas_of(&self, entry: &QuotaChanges) -> Result<Vec<MetadataRecord>, QuotaRefusal> {
        let entity: QuotaEntity = entry.entity.iter().cloned().collect();
        let keys = check_entity(&entity)?;
        let current = self.image().client_quotas.get(&entity);
        let mut records = Vec::new();
        for change in &entry.changes {
            let is_whole = keys
                .iter()
                .find(|(key, _)| *key == change.key)
                .map(|(_, is_whole)| *is_whole)
                .ok_or_else(|| QuotaRefusal::UnknownKey(change.key.clone()))?;
            let old = current.and_then(|quotas| quotas.get(&change.key)).map(|value| value.get());
            if let Some(value) = change.value {
                let is_good = value > 0.0 && value.is_finite() && (!is_whole || is_whole_number(value));
                if !is_good {
                    return Err(QuotaRefusal::InvalidValue(change.key.clone()));
                }
            }
            if old != change.value {
                records.push(record(&entity, change));
            }
        }
        Ok(records)
    }
}

/// Checks an entity; the quotas that it may have.
fn check_entity(entity: &QuotaEntity) -> Result<&'static [(&'static str, bool)], QuotaRefusal> {
    if entity.is_empty() {
        return Err(QuotaRefusal::EmptyEntity);
    }
    let is_known = |kind: &String| [USER, CLIENT_ID, IP].contains(&kind.as_str());
    let is_nameless = entity.values().any(|name| name.as_deref() == Some(""));
    let is_mixed = entity.contains_key(IP) && entity.len() > 1;
    if is_nameless || is_mixed || !entity.keys().all(is_known) {
        return Err(QuotaRefusal::InvalidEntity);
    }
    match entity.get(IP) {
        Some(Some(name)) if name.parse::<IpAddr>().is_err() => Err(QuotaRefusal::InvalidIp(name.to_string())),
        Some(_) => Ok(&IP_KEYS),
        None => Ok(&CLIENT_KEYS),
    }
}

/// Whether a positive number has no fraction; numbers too large for one have none.
fn is_whole_number(value: f64) -> bool {
    const EXACT_BELOW: f64 = 9_007_199_254_740_992.0;
    value >= EXACT_BELOW || (value as i64) as f64 == value
}

fn record(entity: &QuotaEntity, change: &QuotaChange) -> MetadataRecord {
    let entity = entity
        .iter()
        .map(|(kind, name)| Entity { entity_type: kind.clone(), entity_name: name.clone() })
        .collect();
    let (value, remove) = (change.value.unwrap_or(0.0), change.value.is_none());
    ClientQuotaRecord { entity, key: change.key.clone(), value, remove }.into()
}
