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

/// The page of configuration keys.
pub fn configuration_page() -> String {
    metadata::config::render_configuration_page()
}
