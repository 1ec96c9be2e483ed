//! Configurations: DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources.

use std::collections::BTreeSet;
use std::sync::Arc;

use fencepost_metadata::config::{SynonymEntry, describe};
use fencepost_metadata::controller::{AlterConfigs, AlterMode, ConfigChange, ConfigChanges};
use fencepost_metadata::image::{ConfigResource, ResourceType};
use fencepost_metadata::{ConfigEntry, Image, Reply, Request};
use fencepost_protocol::messages::describe_configs_response::{Configs, Results, Synonyms};
use fencepost_protocol::messages::list_config_resources_response::ConfigResources;
use fencepost_protocol::messages::{
    AlterConfigsRequest, AlterConfigsResponse, DescribeConfigsRequest, DescribeConfigsResponse,
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, ListConfigResourcesRequest,
    ListConfigResourcesResponse, alter_configs_response, incremental_alter_configs_response,
};
use fencepost_types::ErrorCode;

use super::asking::{Fault, ask_controller, code_and_message};
use crate::Broker;
use crate::cx::Cx;
use crate::respond::Exchange;

/// Resources that one request may describe: an answer is many times larger than what asks for it.
const RESOURCES_DESCRIBED_MAX: usize = 20_000;

/// Answers each resource in order, once.
///
/// Source: KIP-133, KIP-226, KIP-569.
pub(crate) fn describe_configs(broker: &Arc<Broker>, exchange: Exchange, request: DescribeConfigsRequest) {
    let (statics, image) = (broker.statics(), broker.image());
    let shown = Shown { synonyms: request.include_synonyms, documentation: request.include_documentation };
    let mut seen = BTreeSet::new();
    let mut results = Vec::new();
    for asked in request.resources {
        let resource = ConfigResource::new(ResourceType(asked.resource_type), asked.resource_name);
        if !seen.insert(resource.clone()) {
            continue;
        }
        let described = if results.len() < RESOURCES_DESCRIBED_MAX {
            let keys = asked.configuration_keys.as_deref();
            describe(&image, broker.view(&statics, &image), &resource, keys)
                .map_err(|refusal| Fault::of(&refusal))
        } else {
            let message = format!("One request may describe at most {RESOURCES_DESCRIBED_MAX} resources.");
            Err(Fault::new(ErrorCode::InvalidRequest, message))
        };
        results.push(row(resource, described, shown));
    }
    exchange.reply(DescribeConfigsResponse { results, ..Default::default() });
}

/// What is told about a key beside its value.
#[derive(Clone, Copy, Debug)]
struct Shown {
    synonyms: bool,
    documentation: bool,
}

fn row(resource: ConfigResource, described: Result<Vec<ConfigEntry>, Fault>, shown: Shown) -> Results {
    let (configs, fault) = match described {
        Ok(entries) => (entries.into_iter().map(|entry| config(entry, shown)).collect(), Ok(())),
        Err(fault) => (Vec::new(), Err(fault)),
    };
    let (error_code, error_message) = code_and_message(fault);
    Results {
        error_code,
        // As in Kafka it is empty where all is well, and not null.
        error_message: error_message.or(Some(String::new())),
        resource_type: resource.kind.0,
        resource_name: resource.name,
        configs,
    }
}

fn config(entry: ConfigEntry, shown: Shown) -> Configs {
    let synonyms = entry.synonyms.into_iter().filter(|_| shown.synonyms);
    Configs {
        name: entry.name,
        value: entry.value,
        read_only: entry.read_only,
        config_source: entry.source.code(),
        is_sensitive: entry.is_sensitive,
        synonyms: synonyms.map(synonym).collect(),
        config_type: entry.kind as i8,
        documentation: shown.documentation.then(|| entry.documentation.to_owned()),
    }
}

fn synonym(synonym: SynonymEntry) -> Synonyms {
    Synonyms { name: synonym.name.to_owned(), value: synonym.value, source: synonym.source.code() }
}

/// AlterConfigs, the older form: what a request does not name goes back to its default.
///
/// Source: KIP-133.
pub(crate) fn alter_configs(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: AlterConfigsRequest,
) {
    use alter_configs_response::Responses;
    let resources = request.resources.into_iter().map(|asked| ConfigChanges {
        resource: ConfigResource::new(ResourceType(asked.resource_type), asked.resource_name),
        changes: asked
            .configs
            .into_iter()
            .map(|config| ConfigChange {
                key: config.name,
                operation: ConfigChange::SET,
                value: config.value,
            })
            .collect(),
    });
    let request = AlterConfigs {
        resources: resources.collect(),
        mode: AlterMode::ReplaceAll,
        validate_only: request.validate_only,
    };
    alter(broker, cx, request, move |rows| {
        let responses = rows.into_iter().map(|row| Responses {
            error_code: row.error_code,
            error_message: row.error_message,
            resource_type: row.resource.kind.0,
            resource_name: row.resource.name,
        });
        exchange.reply(AlterConfigsResponse { responses: responses.collect(), ..Default::default() });
    });
}

/// IncrementalAlterConfigs: what a request does not name stays.
///
/// Source: KIP-339.
pub(crate) fn incremental_alter_configs(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    exchange: Exchange,
    request: IncrementalAlterConfigsRequest,
) {
    use incremental_alter_configs_response::Responses;
    let resources = request.resources.into_iter().map(|asked| ConfigChanges {
        resource: ConfigResource::new(ResourceType(asked.resource_type), asked.resource_name),
        changes: asked
            .configs
            .into_iter()
            .map(|config| ConfigChange {
                key: config.name,
                operation: config.config_operation,
                value: config.value,
            })
            .collect(),
    });
    let request = AlterConfigs {
        resources: resources.collect(),
        mode: AlterMode::Incremental,
        validate_only: request.validate_only,
    };
    alter(broker, cx, request, move |rows| {
        let responses = rows.into_iter().map(|row| Responses {
            error_code: row.error_code,
            error_message: row.error_message,
            resource_type: row.resource.kind.0,
            resource_name: row.resource.name,
        });
        exchange
            .reply(IncrementalAlterConfigsResponse { responses: responses.collect(), ..Default::default() });
    });
}

/// What became of one resource.
struct Altered {
    resource: ConfigResource,
    error_code: i16,
    error_message: Option<String>,
}

fn alter(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    request: AlterConfigs,
    then: impl FnOnce(Vec<Altered>) + Send + 'static,
) {
    let named: Vec<ConfigResource> =
        request.resources.iter().map(|changes| changes.resource.clone()).collect();
    ask_controller(broker, cx, Request::AlterConfigs(request), move |_, _, reply| {
        let results: Vec<(ConfigResource, Result<(), Fault>)> = match reply {
            Ok(Reply::AlterConfigs(results)) => results
                .into_iter()
                .map(|(resource, result)| (resource, result.map_err(|refusal| Fault::of(&refusal))))
                .collect(),
            Ok(other) => unreachable!("AlterConfigs was answered {other:?}"),
            Err(fault) => named.into_iter().map(|resource| (resource, Err(fault.clone()))).collect(),
        };
        let rows = results.into_iter().map(|(resource, result)| {
            let (error_code, error_message) = code_and_message(result);
            Altered { resource, error_code, error_message }
        });
        then(rows.collect());
    });
}

/// From this version on a request names kinds of resources; before, it means client metrics subscriptions.
const KINDS_FROM: i16 = 1;
/// The kinds that can be listed.
const LISTED_KINDS: [ResourceType; 5] = [
    ResourceType::TOPIC,
    ResourceType::BROKER,
    ResourceType::BROKER_LOGGER,
    ResourceType::CLIENT_METRICS,
    ResourceType::GROUP,
];

/// The resources that have, or could have, configurations.
///
/// Source: KIP-1142.
pub(crate) fn list_config_resources(
    broker: &Arc<Broker>,
    exchange: Exchange,
    request: ListConfigResourcesRequest,
) {
    let kinds = kinds(exchange.version(), &request.resource_types);
    let (kinds, code) = match kinds {
        Ok(kinds) => (kinds, ErrorCode::None),
        Err(code) => (BTreeSet::new(), code),
    };
    let image = broker.image();
    let found = kinds.into_iter().flat_map(|kind| {
        let names = resource_names(&image, kind).into_iter();
        names.map(move |resource_name| ConfigResources { resource_name, resource_type: kind.0 })
    });
    exchange.reply(ListConfigResourcesResponse {
        error_code: code.code(),
        config_resources: found.collect(),
        ..Default::default()
    });
}

fn kinds(version: i16, asked: &[i8]) -> Result<BTreeSet<ResourceType>, ErrorCode> {
    if version < KINDS_FROM {
        return Ok(BTreeSet::from([ResourceType::CLIENT_METRICS]));
    }
    if asked.is_empty() {
        return Ok(LISTED_KINDS.into());
    }
    let asked: BTreeSet<ResourceType> = asked.iter().copied().map(ResourceType).collect();
    if asked.iter().all(|kind| LISTED_KINDS.contains(kind)) {
        Ok(asked)
    } else {
        Err(ErrorCode::UnsupportedVersion)
    }
}

/// Topics and brokers whether or not anything is set for them, groups and subscriptions that have something set.
fn resource_names(image: &Image, kind: ResourceType) -> Vec<String> {
    match kind {
        ResourceType::TOPIC => image.topics().iter().map(|topic| topic.name.to_string()).collect(),
        ResourceType::BROKER | ResourceType::BROKER_LOGGER => {
            let alive = image.brokers().values().filter(|broker| broker.is_alive());
            alive.map(|broker| broker.id.to_string()).collect()
        }
        kind => {
            let configs = image.configs().of_kind(kind);
            configs.map(|(resource, _)| resource.name.clone()).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Version 0 lists client metrics alone; later an empty list is all kinds, and an unknown kind is refused.
    #[test]
    fn kinds_to_list() {
        assert_eq!(kinds(0, &[]), Ok(BTreeSet::from([ResourceType::CLIENT_METRICS])));
        assert_eq!(kinds(1, &[]).map(|kinds| kinds.len()), Ok(5));
        assert_eq!(kinds(1, &[4, 2, 4]), Ok(BTreeSet::from([ResourceType::TOPIC, ResourceType::BROKER])));
        assert_eq!(kinds(1, &[2, 0]), Err(ErrorCode::UnsupportedVersion));
    }
}
