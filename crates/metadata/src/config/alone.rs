//! What a node that stands alone cannot be asked for: another node's part in a cluster, or data in a second place. To ignore it
//! would begin a cluster of its own where one is, or leave data behind.

use alloc::format;
use alloc::string::{String, ToString};

use super::listeners::ListenerAddress;
use super::statics::{ConfigError, StaticConfig};

/// Refuses a configuration of a node that does not stand alone.
pub(super) fn check(config: &StaticConfig) -> Result<(), ConfigError> {
    check_roles(config)?;
    check_voters(config)?;
    check_bootstrap_servers(config)?;
    check_directories(config)?;
    match config.get("zookeeper.connect") {
        Some(value) => {
            Err(refused("zookeeper.connect", value, "this is a node of KRaft; migrate the cluster first"))
        }
        None => Ok(()),
    }
}

fn refused(key: &str, value: &str, because: &str) -> ConfigError {
    ConfigError::new(key, format!("{key}={value} cannot be: {because}."))
}

/// This node is broker and controller at once.
fn check_roles(config: &StaticConfig) -> Result<(), ConfigError> {
    let Some(value) = config.get("process.roles") else { return Ok(()) };
    let roles = config.list("process.roles");
    let has = |role: &str| roles.iter().any(|found| found == role);
    if has("broker") && has("controller") {
        return Ok(());
    }
    let because = "this node stands alone and is both; it cannot join the controllers of a cluster yet; use broker,controller";
    Err(refused("process.roles", value, because))
}

/// The one voter is this node: `ID@HOST:PORT`.
fn check_voters(config: &StaticConfig) -> Result<(), ConfigError> {
    const KEY: &str = "controller.quorum.voters";
    let voters = config.list(KEY);
    let node_id = config.number("node.id");
    let is_this_node =
        |voter: &String| voter.split_once('@').is_some_and(|(id, _)| id.trim() == node_id.to_string());
    if voters.is_empty() || (voters.len() == 1 && voters.iter().all(is_this_node)) {
        return Ok(());
    }
    let because = format!(
        "this node stands alone, and its id is {node_id}; name {node_id}@HOST:PORT alone, or leave the key out"
    );
    Err(refused(KEY, config.get(KEY).unwrap_or_default(), &because))
}

/// The one server to ask for the controllers is this node's own listener for them.
fn check_bootstrap_servers(config: &StaticConfig) -> Result<(), ConfigError> {
    const KEY: &str = "controller.quorum.bootstrap.servers";
    let servers = config.list(KEY);
    let own = config.controller_listeners()?;
    if servers.is_empty() || (servers.len() == 1 && servers.iter().all(|server| is_own(server, &own))) {
        return Ok(());
    }
    let because = "this node stands alone; name its own listener for controllers alone, or leave the key out";
    Err(refused(KEY, config.get(KEY).unwrap_or_default(), because))
}

/// Whether `server` may be one of the listeners. A listener on every interface has any of the machine's names.
fn is_own(server: &str, own: &[ListenerAddress]) -> bool {
    let Some((host, port)) = server.rsplit_once(':') else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_local = matches!(host, "localhost" | "127.0.0.1" | "::1");
    if own.is_empty() {
        return is_local;
    }
    own.iter().any(|listener| {
        let is_any = matches!(listener.host.as_str(), "" | "0.0.0.0" | "::");
        listener.port.to_string() == port.trim()
            && (is_any || is_local || listener.host.eq_ignore_ascii_case(host))
    })
}

/// All data lie in one directory, the metadata among them.
fn check_directories(config: &StaticConfig) -> Result<(), ConfigError> {
    let directories = config.list("log.dirs");
    if directories.len() > 1 {
        let because =
            "this broker keeps its data in one directory: the others would be left behind; name one";
        return Err(refused("log.dirs", config.get("log.dirs").unwrap_or_default(), because));
    }
    let data: Option<String> =
        directories.into_iter().next().or_else(|| config.get("log.dir").map(|text| text.trim().to_string()));
    match config.get("metadata.log.dir").map(str::trim) {
        Some(metadata) if data.as_deref() != Some(metadata) => {
            let because = "this broker keeps its metadata with its data: those that are there would be left behind; name the directory of log.dirs, or leave the key out";
            Err(refused("metadata.log.dir", metadata, because))
        }
        Some(_) | None => Ok(()),
    }
}
