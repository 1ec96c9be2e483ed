//! Environment variables that stand for keys, as the Kafka container images read them.

use alloc::string::String;

/// Variables that begin with `KAFKA_` and stand for no key: they steer Kafka's scripts and its virtual machine.
const NOT_KEYS: [&str; 12] = [
    "KAFKA_CLUSTER_ID",
    "KAFKA_GC_LOG_OPTS",
    "KAFKA_HEAP_OPTS",
    "KAFKA_JMX_HOSTNAME",
    "KAFKA_JMX_OPTS",
    "KAFKA_JMX_PORT",
    "KAFKA_JVM_PERFORMANCE_OPTS",
    "KAFKA_LOG4J_LOGGERS",
    "KAFKA_LOG4J_OPTS",
    "KAFKA_LOG4J_ROOT_LOGLEVEL",
    "KAFKA_OPTS",
    "KAFKA_VERSION",
];
const PREFIX: &str = "KAFKA_";

/// The key that a variable stands for: `KAFKA_LOG_RETENTION_MS` is `log.retention.ms`. One underscore is a dot, two are
/// an underscore, three a dash. `None`: it stands for none.
pub fn key_of_variable(name: &str) -> Option<String> {
    if NOT_KEYS.contains(&name) {
        return None;
    }
    let mut rest = name.strip_prefix(PREFIX).filter(|rest| !rest.is_empty())?;
    let mut key = String::with_capacity(rest.len());
    while let Some(c) = rest.chars().next() {
        let (taken, put) = if rest.starts_with("___") {
            (3, '-')
        } else if rest.starts_with("__") {
            (2, '_')
        } else if c == '_' {
            (1, '.')
        } else {
            (c.len_utf8(), c.to_ascii_lowercase())
        };
        key.push(put);
        rest = &rest[taken..];
    }
    Some(key)
}

/// The variable that stands for a key.
pub fn variable_of_key(key: &str) -> String {
    let mut name = String::from(PREFIX);
    for c in key.chars() {
        match c {
            '.' => name.push('_'),
            '_' => name.push_str("__"),
            '-' => name.push_str("___"),
            other => name.push(other.to_ascii_uppercase()),
        }
    }
    name
}
