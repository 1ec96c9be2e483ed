//! Client quotas: DescribeClientQuotas, AlterClientQuotas.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fencepost_metadata::controller::{QuotaChange, QuotaChanges};
use fencepost_metadata::image::{QuotaEntity, QuotaValue};
use fencepost_metadata::{Reply, Request};
use fencepost_protocol::messages::describe_client_quotas_request::Components;
use fencepost_protocol::messages::describe_client_quotas_response::{Entity, Entries, Values};
use fencepost_protocol::messages::{
    AlterClientQuotasRequest, AlterClientQuotasResponse, DescribeClientQuotasRequest,
    DescribeClientQuotasResponse, alter_client_quotas_response,
};
use fencepost_types::ErrorCode;

use super::asking::{Fault, ask_controller, code_and_message};
use crate::Broker;
use crate::cx::Cx;
use crate::respond::Exchange;

const IP: &str = "ip";
/// The types of entities that have quotas.
const ENTITY_TYPES: [&str; 3] = ["user", "client-id", IP];

/// How a component of a filter is matched; the numbers are Kafka's.
const MATCH_NAME: i8 = 0;
const MATCH_DEFAULT: i8 = 1;
const MATCH_ANY: i8 = 2;

/// The quotas of the entities that match every component.
///
/// Source: KIP-546, Kafka ClientQuotasImage.describe.
pub(crate) fn describe_client_quotas(
    broker: &Arc<Broker>,
    exchange: Exchange,
    request: DescribeClientQuotasRequest,
) {
    let filter = match Filter::new(request.components, request.strict) {
        Ok(filter) => filter,
        Err(fault) => {
            return exchange.reply(DescribeClientQuotasResponse {
                error_code: fault.code.code(),
                error_message: fault.message,
                entries: None,
                ..Default::default()
            });
        }
    };
    let image = broker.image();
    let matching = image.client_quotas().iter().filter(|(entity, _)| filter.matches(entity));
    exchange.reply(DescribeClientQuotasResponse {
        entries: Some(matching.map(|(entity, quotas)| entry(entity, quotas)).collect()),
        ..Default::default()
    });
}

fn entry(entity: &QuotaEntity, quotas: &BTreeMap<String, QuotaValue>) -> Entries {
    let parts = entity.iter();
    let values = quotas.iter();
    Entries {
        entity: parts
            .map(|(kind, name)| Entity { entity_type: kind.clone(), entity_name: name.clone() })
            .collect(),
        values: values.map(|(key, value)| Values { key: key.clone(), value: value.get() }).collect(),
    }
}

/// Which entities are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Filter {
    /// Parts that an entity must have with that name; none is the default's.
    named: BTreeMap<String, Option<String>>,
    /// Parts that an entity must have with any name.
    any: BTreeSet<String>,
    /// Whether an entity may have no other parts.
    is_strict: bool,
}

impl Filter {
    fn new(components: Vec<Components>, is_strict: bool) -> Result<Self, Fault> {
        let invalid = |message: String| Err(Fault::new(ErrorCode::InvalidRequest, message));
        let mut filter = Self { named: BTreeMap::new(), any: BTreeSet::new(), is_strict };
        for Components { entity_type, match_type, r#match: name } in components {
            if entity_type.is_empty() {
                return invalid("Invalid empty entity type.".to_owned());
            }
            if !ENTITY_TYPES.contains(&entity_type.as_str()) {
                let message = format!("Unsupported entity type {entity_type}");
                return Err(Fault::new(ErrorCode::UnsupportedVersion, message));
            }
            if filter.has(&entity_type) {
                return invalid(format!(
                    "Entity type {entity_type} cannot appear more than once in the filter."
                ));
            }
            match (match_type, name) {
                (MATCH_NAME, Some(name)) => {
                    filter.named.insert(entity_type, Some(name));
                }
                (MATCH_DEFAULT, None) => {
                    filter.named.insert(entity_type, None);
                }
                (MATCH_ANY, None) => {
                    filter.any.insert(entity_type);
                }
                (MATCH_NAME, None) => {
                    let message = "Request specified MATCH_TYPE_EXACT, but set match string to null.";
                    return invalid(message.to_owned());
                }
                (MATCH_DEFAULT | MATCH_ANY, Some(_)) => {
                    let kind = if match_type == MATCH_DEFAULT { "DEFAULT" } else { "SPECIFIED" };
                    let message =
                        format!("Request specified MATCH_TYPE_{kind}, but also specified a match string.");
                    return invalid(message);
                }
                (other, _) => return invalid(format!("Unknown match type {other}")),
            }
        }
        if filter.has(IP) && filter.named.len() + filter.any.len() > 1 {
            let message = "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component.";
            return invalid(message.to_owned());
        }
        Ok(filter)
    }

    fn has(&self, entity_type: &str) -> bool {
        self.named.contains_key(entity_type) || self.any.contains(entity_type)
    }

    fn matches(&self, entity: &QuotaEntity) -> bool {
        let has_others = entity.len() > self.named.len() + self.any.len();
        !(self.is_strict && has_others)
            && self.named.iter().all(|(kind, name)| entity.get(kind) == Some(name))
            && self.any.iter().all(|kind| entity.contains_key(kind))
    }
}

/// Changes quotas, each entity by itself.
///
/// Source: KIP-546.
pub(crate) fn alter_client_quotas(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: AlterClientQuotasRequest,
) {
    let entries = request.entries.into_iter().map(|entry| QuotaChanges {
        entity: entry.entity.into_iter().map(|part| (part.entity_type, part.entity_name)).collect(),
        changes: entry
            .ops
            .into_iter()
            .map(|op| QuotaChange { key: op.key, value: (!op.remove).then_some(op.value) })
            .collect(),
    });
    let entries: Vec<QuotaChanges> = entries.collect();
    let entities: Vec<_> = entries.iter().map(|entry| entry.entity.clone()).collect();
    let alter = Request::AlterClientQuotas { entries, validate_only: request.validate_only };
    ask_controller(broker, cx, alter, move |_, _, reply| {
        let results: Vec<_> = match reply {
            Ok(Reply::AlterClientQuotas(results)) => results
                .into_iter()
                .map(|(entity, result)| altered(entity, result.map_err(|refusal| Fault::of(&refusal))))
                .collect(),
            Ok(other) => unreachable!("AlterClientQuotas was answered {other:?}"),
            Err(fault) => entities.into_iter().map(|entity| altered(entity, Err(fault.clone()))).collect(),
        };
        exchange.reply(AlterClientQuotasResponse { entries: results, ..Default::default() });
    });
}

fn altered(
    entity: Vec<(String, Option<String>)>,
    result: Result<(), Fault>,
) -> alter_client_quotas_response::Entries {
    use alter_client_quotas_response::{Entity, Entries};
    let (error_code, error_message) = code_and_message(result);
    let parts = entity.into_iter();
    Entries {
        error_code,
        error_message,
        entity: parts.map(|(entity_type, entity_name)| Entity { entity_type, entity_name }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(kind: &str, match_type: i8, name: Option<&str>) -> Components {
        Components { entity_type: kind.to_owned(), match_type, r#match: name.map(str::to_owned) }
    }

    fn entity(parts: &[(&str, Option<&str>)]) -> QuotaEntity {
        parts.iter().map(|(kind, name)| ((*kind).to_owned(), name.map(str::to_owned))).collect()
    }

    fn refused(components: Vec<Components>) -> Option<ErrorCode> {
        Filter::new(components, true).err().map(|fault| fault.code)
    }

    /// Filters that cannot be (scenario admin-quota-describe).
    #[test]
    fn filters_that_cannot_be() {
        let invalid = Some(ErrorCode::InvalidRequest);
        assert_eq!(refused(vec![component("user", 9, Some("x"))]), invalid);
        assert_eq!(refused(vec![component("", 0, Some("x"))]), invalid);
        assert_eq!(refused(vec![component("user", 0, None)]), invalid);
        assert_eq!(refused(vec![component("user", 1, Some("x"))]), invalid);
        assert_eq!(refused(vec![component("user", 0, Some("a")), component("user", 2, None)]), invalid);
        assert_eq!(refused(vec![component("ip", 2, None), component("user", 2, None)]), invalid);
        assert_eq!(refused(vec![component("nonsense", 0, Some("x"))]), Some(ErrorCode::UnsupportedVersion));
        assert_eq!(refused(Vec::new()), None);
    }

    /// A strict filter matches entities with exactly its parts, another one those with at least its parts (KIP-546).
    #[test]
    fn strict_filters_match_whole_entities() {
        let filter = |is_strict| Filter::new(vec![component("user", 0, Some("u"))], is_strict).unwrap();
        let (user, both) =
            (entity(&[("user", Some("u"))]), entity(&[("client-id", None), ("user", Some("u"))]));
        assert!(filter(true).matches(&user));
        assert!(!filter(true).matches(&both));
        assert!(filter(false).matches(&both));
        let default = Filter::new(vec![component("client-id", 1, None)], false).unwrap();
        assert!(default.matches(&both));
        assert!(!default.matches(&user));
        assert!(Filter::new(vec![component("user", 2, None)], false).unwrap().matches(&both));
    }
}
