//! From properties to settings: the file, then the environment, then the command line.

use std::path::PathBuf;

use fencepost_broker::{BrokerSettings, metadata};
use metadata::config::{key_of_variable, parse_properties};
use metadata::{BrokerConfig, StaticConfig};

use crate::server::{ServerError, ServerSettings, Storage};

/// Where to listen when nothing else is said.
const DEFAULT_LISTEN: &str = "127.0.0.1:9092";

/// Puts the settings together; of several values for a key, the command line's counts, then the environment's, then
/// the file's. A value out of range is one sentence.
pub fn settings_from(
    file: &str,
    environment: impl IntoIterator<Item = (String, String)>,
    given: Vec<(String, String)>,
    storage: Option<Storage>,
    default_storage: Storage,
    listen: Option<String>,
) -> Result<ServerSettings, ServerError> {
    let invalid = |text: String| ServerError::Configuration(text);
    let mut pairs = parse_properties(file).map_err(|error| invalid(error.to_string()))?;
    pairs.extend(environment.into_iter().filter_map(|(name, value)| Some((key_of_variable(&name)?, value))));
    pairs.extend(given);
    let statics = StaticConfig::new(pairs).map_err(|error| invalid(error.to_string()))?;
    for ignored in statics.ignored() {
        let hint = ignored.suggestion.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
        tracing::warn!("ignored setting {}{hint}", ignored.name);
    }
    let storage = storage.unwrap_or_else(|| {
        let config = BrokerConfig::from_static(&statics);
        let is_set = statics.get("log.dirs").or(statics.get("log.dir")).is_some();
        match config.log_directories().first() {
            Some(directory) if is_set => Storage::Directory(PathBuf::from(directory)),
            Some(_) | None => default_storage,
        }
    });
    let listeners = statics.broker_listeners().map_err(|error| invalid(error.to_string()))?;
    let listen = listen.unwrap_or_else(|| match listeners.first() {
        Some(listener) if statics.get("listeners").is_some() => {
            let host = if listener.host.is_empty() { "0.0.0.0" } else { &listener.host };
            format!("{host}:{}", listener.port)
        }
        Some(_) | None => DEFAULT_LISTEN.to_owned(),
    });
    let advertised = statics.advertised_listeners().map_err(|error| invalid(error.to_string()))?;
    let advertised = advertised.and_then(|listeners| listeners.into_iter().next());
    let statics = in_force(statics, &listen, &storage);
    let path = match &storage {
        Storage::Directory(path) => std::path::absolute(path).unwrap_or(path.clone()).display().to_string(),
        Storage::Ephemeral => "memory".to_owned(),
    };
    Ok(ServerSettings {
        storage,
        listen,
        advertised_host: advertised
            .as_ref()
            .map(|listener| listener.host.clone())
            .filter(|host| !host.is_empty()),
        advertised_port: advertised.map(|listener| listener.port),
        broker: BrokerSettings::new(statics, path),
    })
}

/// The settings with the listener and the directory that are in force, wherever they come from: DescribeConfigs shows them.
fn in_force(statics: StaticConfig, listen: &str, storage: &Storage) -> StaticConfig {
    let statics = match storage {
        Storage::Directory(path) => {
            let path = path.display().to_string();
            let is_shown = BrokerConfig::from_static(&statics).log_directories() == [path.as_str()];
            if is_shown { statics } else { statics.with_value_in_force("log.dirs", path) }
        }
        Storage::Ephemeral => statics,
    };
    listening_on(statics, listen)
}

/// The settings with the client's listener at `address`. The host stays empty where every interface was asked for.
pub(crate) fn listening_on(statics: StaticConfig, address: &str) -> StaticConfig {
    let (Ok(clients), Ok(controllers)) = (statics.broker_listeners(), statics.controller_listeners()) else {
        return statics;
    };
    let Some(client) = clients.first() else { return statics };
    let host_is_any = client.host.is_empty() && address.starts_with("0.0.0.0:");
    let address = if host_is_any { &address["0.0.0.0".len()..] } else { address };
    let is_v6 = client.host.contains(':');
    let host = if is_v6 { format!("[{}]", client.host) } else { client.host.clone() };
    if format!("{host}:{}", client.port) == address {
        return statics;
    }
    let mut listeners = vec![format!("{}://{address}", client.name)];
    listeners.extend(controllers.iter().map(|one| format!("{}://{}:{}", one.name, one.host, one.port)));
    statics.with_value_in_force("listeners", listeners.join(","))
}

/// The page of configuration keys.
pub fn configuration_page() -> String {
    metadata::config::render_configuration_page()
}
