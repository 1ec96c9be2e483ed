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
    /// A part is neither user, client-id nor ip.
    UnknownType(String),
    /// A part of that type has an empty name.
    EmptyName(String),
    /// An address stands beside a user or a client id.
    MixedEntity,
    /// The name of an ip entity is no address.
    InvalidIp(String),
    /// The entity has no such quota.
    UnknownKey(String),
    /// The value is not positive.
    NotPositive(String),
    /// The value is infinite, or no number.
    NotFinite(String),
    /// The value has a fraction, and must be whole.
    Fraction(String),
    /// The value does not fit that type.
    TooLarge(String, &'static str),
}

impl Refusal for QuotaRefusal {
    fn code(&self) -> ErrorCode {
        ErrorCode::InvalidRequest
    }
}

impl core::fmt::Display for QuotaRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::EmptyEntity => f.write_str("Invalid empty client quota entity"),
            Self::UnknownType(kind) => write!(f, "Unhandled client quota entity type: {kind}"),
            Self::EmptyName(kind) => write!(f, "Empty {kind} not supported"),
            // The missing blank is Kafka's.
            Self::MixedEntity => f.write_str(
                "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
            ),
            Self::InvalidIp(name) => write!(f, "{name} is not a valid IP or resolvable host."),
            Self::UnknownKey(key) => write!(f, "Invalid configuration key {key}"),
            Self::NotPositive(key) => write!(f, "Quota {key} must be greater than 0"),
            Self::NotFinite(key) => write!(f, "Quota {key} must be a finite number"),
            Self::Fraction(key) => write!(f, "{key} cannot be a fractional value."),
            Self::TooLarge(key, kind) => write!(f, "Proposed value for {key} is too large for {kind}."),
        }
    }
}

const USER: &str = "user";
const CLIENT_ID: &str = "client-id";
const IP: &str = "ip";
/// What the values of a quota are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    /// Whole, of 32 bits.
    Int,
    /// Whole, of 64 bits.
    Long,
    /// With a fraction.
    Double,
}

/// Quotas of users and client ids.
///
/// Source: Kafka QuotaConfig.
const CLIENT_KEYS: [(&str, Measure); 4] = [
    ("consumer_byte_rate", Measure::Long),
    ("controller_mutation_rate", Measure::Double),
    ("producer_byte_rate", Measure::Long),
    ("request_percentage", Measure::Double),
];
/// Quotas of addresses.
const IP_KEYS: [(&str, Measure); 1] = [("connection_creation_rate", Measure::Int)];

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
            let measure = keys.iter().find(|(key, _)| *key == change.key).map(|(_, measure)| *measure);
            let measure = measure.ok_or_else(|| QuotaRefusal::UnknownKey(change.key.clone()))?;
            let old = current.and_then(|quotas| quotas.get(&change.key)).map(|value| value.get());
            if let Some(value) = change.value {
                check_value(&change.key, measure, value)?;
            }
            if old != change.value {
                records.push(record(&entity, change));
            }
        }
        Ok(records)
    }
}

/// Checks an entity; the quotas that it may have.
///
/// Differs from Kafka: names of hosts are not looked up, and an address is written in full.
fn check_entity(entity: &QuotaEntity) -> Result<&'static [(&'static str, Measure)], QuotaRefusal> {
    if entity.is_empty() {
        return Err(QuotaRefusal::EmptyEntity);
    }
    for (kind, name) in entity {
        if ![USER, CLIENT_ID, IP].contains(&kind.as_str()) {
            return Err(QuotaRefusal::UnknownType(kind.clone()));
        }
        if name.as_deref() == Some("") {
            return Err(QuotaRefusal::EmptyName(kind.clone()));
        }
    }
    if entity.contains_key(IP) && entity.len() > 1 {
        return Err(QuotaRefusal::MixedEntity);
    }
    match entity.get(IP) {
        Some(Some(name)) if name.parse::<IpAddr>().is_err() => Err(QuotaRefusal::InvalidIp(name.to_string())),
        Some(_) => Ok(&IP_KEYS),
        None => Ok(&CLIENT_KEYS),
    }
}

/// Source: Kafka ClientQuotaControlManager.validateQuotaKeyValue.
fn check_value(key: &str, measure: Measure, value: f64) -> Result<(), QuotaRefusal> {
    /// How far from a whole number a value may be to count as one.
    const WHOLE_WITHIN: f64 = 1e-6;
    let key = || key.to_string();
    if !value.is_finite() {
        return Err(QuotaRefusal::NotFinite(key()));
    }
    if value <= 0.0 {
        return Err(QuotaRefusal::NotPositive(key()));
    }
    let (most, type_name) = match measure {
        Measure::Double => return Ok(()),
        Measure::Int => (i32::MAX as f64, "an INT"),
        Measure::Long => (i64::MAX as f64, "a LONG"),
    };
    if value > most {
        return Err(QuotaRefusal::TooLarge(key(), type_name));
    }
    let distance = value - (value as i64) as f64;
    if distance > WHOLE_WITHIN { Err(QuotaRefusal::Fraction(key())) } else { Ok(()) }
}

fn record(entity: &QuotaEntity, change: &QuotaChange) -> MetadataRecord {
    let entity = entity
        .iter()
        .map(|(kind, name)| Entity { entity_type: kind.clone(), entity_name: name.clone() })
        .collect();
    let (value, remove) = (change.value.unwrap_or(0.0), change.value.is_none());
    ClientQuotaRecord { entity, key: change.key.clone(), value, remove }.into()
}
