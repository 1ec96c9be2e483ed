//! Listener addresses: `NAME://host:port`, and the security protocol that each name speaks.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::statics::{ConfigError, StaticConfig};
use crate::keys::Scope;

/// What is spoken on a listener; the numbers are those of registrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i16)]
pub enum SecurityProtocol {
    /// Neither encrypted nor authenticated.
    Plaintext = 0,
    /// TLS.
    Ssl = 1,
    /// SASL without TLS.
    SaslPlaintext = 2,
    /// SASL over TLS.
    SaslSsl = 3,
}

impl SecurityProtocol {
    /// From Kafka's name, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        [
            ("PLAINTEXT", Self::Plaintext),
            ("SSL", Self::Ssl),
            ("SASL_PLAINTEXT", Self::SaslPlaintext),
            ("SASL_SSL", Self::SaslSsl),
        ]
        .into_iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name.trim()))
        .map(|(_, protocol)| protocol)
    }

    /// The number in a registration.
    pub fn code(self) -> i16 {
        self as i16
    }
}

/// One listener.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListenerAddress {
    /// Its name, in capitals.
    pub name: String,
    /// The host to bind, or to tell clients; empty is every interface.
    pub host: String,
    /// The port; 0 picks a free one.
    pub port: u16,
    /// What is spoken there.
    pub security_protocol: SecurityProtocol,
}

impl StaticConfig {
    /// The listeners of the broker: `listeners` without those of the controllers.
    pub fn broker_listeners(&self) -> Result<Vec<ListenerAddress>, ConfigError> {
        self.listeners_of("listeners", |is_controller| !is_controller)
    }

    /// The listeners of the controller.
    pub fn controller_listeners(&self) -> Result<Vec<ListenerAddress>, ConfigError> {
        self.listeners_of("listeners", |is_controller| is_controller)
    }

    /// What clients are told to connect to, when that differs from the listeners.
    pub fn advertised_listeners(&self) -> Result<Option<Vec<ListenerAddress>>, ConfigError> {
        if self.get("advertised.listeners").is_none() {
            return Ok(None);
        }
        self.listeners_of("advertised.listeners", |is_controller| !is_controller).map(Some)
    }

    fn listeners_of(
        &self,
        key: &'static str,
        wanted: impl Fn(bool) -> bool,
    ) -> Result<Vec<ListenerAddress>, ConfigError> {
        let controllers: Vec<String> =
            self.list("controller.listener.names").iter().map(|name| name.to_ascii_uppercase()).collect();
        let protocols = self.protocols()?;
        let mut listeners: Vec<ListenerAddress> = Vec::new();
        for text in self.list(key) {
            let fault = |what: String| ConfigError::new(key, format!("{key}={text} cannot be: {what}."));
            let (name, host, port) = split_address(&text)
                .ok_or_else(|| fault("it is not of the form NAME://host:port".to_string()))?;
            let is_controller = controllers.contains(&name);
            let security_protocol = match protocols.get(&name) {
                Some(protocol) => *protocol,
                // Names of controllers need no entry, as in Kafka.
                None if is_controller => SecurityProtocol::Plaintext,
                None => return Err(fault(format!("listener.security.protocol.map does not name {name}"))),
            };
            if listeners.iter().any(|known| known.name == name) {
                return Err(fault(format!("the name {name} comes twice")));
            }
            listeners.push(ListenerAddress { name, host, port, security_protocol });
        }
        listeners.retain(|listener| wanted(controllers.contains(&listener.name)));
        Ok(listeners)
    }

    fn protocols(&self) -> Result<BTreeMap<String, SecurityProtocol>, ConfigError> {
        const KEY: &str = "listener.security.protocol.map";
        let key = Scope::Broker.find(KEY).expect("the table has it");
        let text = self.get(KEY).or(key.default).unwrap_or_default();
        let mut protocols = BTreeMap::new();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let parsed = pair.split_once(':').and_then(|(name, protocol)| {
                Some((name.trim().to_ascii_uppercase(), SecurityProtocol::from_name(protocol)?))
            });
            let (name, protocol) = parsed.ok_or_else(|| {
                ConfigError::new(KEY, format!("{KEY}={pair} cannot be: it is not of the form NAME:PROTOCOL."))
            })?;
            protocols.insert(name, protocol);
        }
        Ok(protocols)
    }

    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let key = Scope::Broker.find(name).unwrap_or_else(|| panic!("{name} is in the table"));
        self.value(key).and_then(|value| value.as_list().map(<[String]>::to_vec)).unwrap_or_default()
    }
}

/// Everything that can be wrong with listeners, at once: there is one for clients, it speaks what this broker speaks, and
/// clients are told of that one alone. A listener that asks for more must not be served in plain text, and one that is not
/// opened must not be promised.
pub(super) fn check(config: &StaticConfig) -> Result<(), ConfigError> {
    let listeners = config.broker_listeners()?;
    let Some((listener, others)) = listeners.split_first() else {
        let message = "listeners cannot be without a listener for clients.".to_string();
        return Err(ConfigError::new("listeners", message));
    };
    for listener in &listeners {
        must_be_plain(listener)?;
    }
    if let Some(other) = others.first() {
        let message = format!(
            "listeners={} cannot be: this broker opens one listener for clients; leave out {}.",
            config.get("listeners").unwrap_or_default(),
            other.name,
        );
        return Err(ConfigError::new("listeners", message));
    }
    for advertised in config.advertised_listeners()?.unwrap_or_default() {
        if advertised.name != listener.name {
            let message = format!(
                "advertised.listeners={} cannot be: there is no listener named {}; {} is the one that clients can use.",
                config.get("advertised.listeners").unwrap_or_default(),
                advertised.name,
                listener.name,
            );
            return Err(ConfigError::new("advertised.listeners", message));
        }
    }
    match config.get("inter.broker.listener.name").map(str::trim) {
        Some(name) if !name.eq_ignore_ascii_case(&listener.name) => {
            let message = format!(
                "inter.broker.listener.name={name} cannot be: there is no listener of that name; leave the key out."
            );
            Err(ConfigError::new("inter.broker.listener.name", message))
        }
        Some(_) | None => Ok(()),
    }
}

fn must_be_plain(listener: &ListenerAddress) -> Result<(), ConfigError> {
    let what = match listener.security_protocol {
        SecurityProtocol::Plaintext => return Ok(()),
        SecurityProtocol::Ssl => "SSL",
        SecurityProtocol::SaslPlaintext => "SASL_PLAINTEXT",
        SecurityProtocol::SaslSsl => "SASL_SSL",
    };
    let message = format!(
        "listeners={}://{}:{} cannot be: it asks for {what}, and this broker speaks PLAINTEXT alone so far; it would serve everybody.",
        listener.name, listener.host, listener.port,
    );
    Err(ConfigError::new("listeners", message))
}

/// Name, host and port; an address of IPv6 stands in brackets.
fn split_address(text: &str) -> Option<(String, String, u16)> {
    let (name, address) = text.trim().split_once("://")?;
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if name.is_empty() || host.contains(['[', ']', '/']) {
        return None;
    }
    Some((name.to_ascii_uppercase(), host.to_string(), port.parse().ok()?))
}
