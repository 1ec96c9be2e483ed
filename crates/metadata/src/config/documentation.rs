//! The page `docs/configuration.md`, made from the table.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::keys::{Key, Scope};

/// The whole text of the page.
pub fn render_configuration_page() -> String {
    let mut page = String::from(HEAD);
    for scope in Scope::ALL {
        let keys: Vec<&Key> = scope.keys();
        let used: Vec<&Key> = keys.iter().copied().filter(|key| key.used).collect();
        page.push_str(&format!("\n## {}\n\n", title(scope)));
        if !used.is_empty() {
            page.push_str(
                "| Key | Type | Default | Values | Change | Meaning |\n|---|---|---|---|---|---|\n",
            );
            used.iter().for_each(|key| page.push_str(&row(key)));
        }
        let refused: Vec<String> = keys.iter().filter_map(|key| refusal(key)).collect();
        if !refused.is_empty() {
            page.push_str("\nAny other value stops the start, as ignoring it would cost safety or data:\n\n");
            refused.iter().for_each(|line| page.push_str(line));
        }
        let ignored: Vec<String> = keys
            .iter()
            .filter(|key| !key.used && !key.internal && key.only.is_none())
            .map(|key| format!("`{}` ({})\n", key.name, key.documentation.trim_end_matches('.')))
            .collect();
        if !ignored.is_empty() {
            page.push_str("\nAccepted, shown by DescribeConfigs, and without effect:\n\n");
            ignored.iter().for_each(|line| page.push_str(&format!("- {line}")));
        }
    }
    page
}

const HEAD: &str = "<!-- Generated from the table of keys in crates/metadata/src/keys; do not edit. -->
# Configuration

Keys have Kafka's names, units and defaults. They are read from the file given with `--config`, then from environment
variables (`KAFKA_LOG_RETENTION_MS` is `log.retention.ms`: a dot becomes `_`, an underscore `__`, a dash `___`), then from
`-X key=value`; the last one counts. A value out of range stops the start. A key that has no effect is listed at start.

So far a node stands alone and speaks PLAINTEXT on one listener. What asks for more stops the start with one sentence: a second listener or
one that asks for SSL or SASL, a second directory, another `metadata.log.dir` than the directory of the data, `process.roles` without
`broker` or without `controller`, voters or bootstrap servers that are not this node, `zookeeper.connect`.

While the broker runs, the value in force is the first of: the topic's or group's own, the broker's (IncrementalAlterConfigs),
that of all brokers, the one given at start, the default. The column Change says what can be set while it runs.
";

fn title(scope: Scope) -> &'static str {
    match scope {
        Scope::Broker => "Broker",
        Scope::Topic => "Topics",
        Scope::Group => "Groups",
        Scope::ClientMetrics => "Client metrics subscriptions",
    }
}

fn refusal(key: &Key) -> Option<String> {
    let only = key.only?;
    let accepted: Vec<String> = only
        .accepted
        .iter()
        .map(|text| if text.is_empty() { "empty".to_string() } else { format!("`{text}`") })
        .collect();
    Some(format!("- `{}`: {}; anything else {}.\n", key.name, accepted.join(" or "), only.because))
}

fn row(key: &Key) -> String {
    let default = match key.default {
        None => "none".to_string(),
        Some("") => "empty".to_string(),
        Some(text) => format!("`{text}`"),
    };
    let kafka = match key.kafka_default {
        None => String::new(),
        Some(None) => " (Kafka: none)".to_string(),
        Some(Some(text)) => format!(" (Kafka: `{text}`)"),
    };
    let unit = match key.unit() {
        "" => String::new(),
        unit => format!(", {unit}"),
    };
    format!(
        "| `{}` | {}{unit} | {default}{kafka} | {} | {} | {} |\n",
        key.name,
        key.kind.name(),
        key.rule.describe(),
        key.update.name(),
        key.documentation
    )
}
