//! Which crate may import which: the table of the layout, held against `cargo metadata`.

use anyhow::Result;
use serde_json::Value;

/// A crate of ours and the crates of ours that it may import.
const ALLOWED: [(&str, &[&str]); 14] = [
    ("fencepost-types", &[]),
    ("fencepost-protocol", &["types"]),
    ("fencepost-records", &["types"]),
    ("fencepost-coordinator", &["types"]),
    ("fencepost-partition", &["types", "records", "coordinator"]),
    ("fencepost-transaction", &["types", "records", "coordinator"]),
    ("fencepost-group", &["types", "records", "coordinator"]),
    ("fencepost-metadata", &["types", "records", "coordinator"]),
    ("fencepost-storage", &["types", "records", "partition"]),
    (
        "fencepost-broker",
        &[
            "types",
            "protocol",
            "records",
            "coordinator",
            "partition",
            "transaction",
            "group",
            "metadata",
            "storage",
        ],
    ),
    ("fencepost-server", &["broker", "storage", "protocol", "types"]),
    ("fencepost-client", &["types", "protocol", "records"]),
    ("fencepost", &["server", "client"]),
    ("xtask", &[]),
];

/// What the core crates may take from others; the engine may also log, swap pointers and compute digests.
const CORE_TAKES: [&str; 10] =
    ["bytes", "thiserror", "crc32c", "flate2", "lz4_flex", "rpds", "snap", "zstd", "regex", "serde_json"];
const ENGINE_TAKES: [&str; 4] = ["tracing", "arc-swap", "hmac", "sha2"];
const CORE: [&str; 8] =
    ["types", "protocol", "records", "coordinator", "partition", "transaction", "group", "metadata"];
const ENGINE: [&str; 2] = ["storage", "broker"];

/// One sentence for each arrow that the table does not have.
pub fn violations(metadata: &Value) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let members: Vec<&Value> = metadata["workspace_members"].as_array().into_iter().flatten().collect();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        if members.contains(&&package["id"]) {
            package_violations(package, &mut found);
        }
    }
    Ok(found)
}

fn package_violations(package: &Value, found: &mut Vec<String>) {
    let name = package["name"].as_str().unwrap_or_default();
    let manifest = package["manifest_path"].as_str().unwrap_or_default();
    let in_testing = manifest.contains("/testing/");
    let row = ALLOWED.iter().find(|(n, _)| *n == name);
    if row.is_none() && !in_testing {
        found.push(format!("{name} is not in the table of imports (xtask/src/check/arrows.rs)"));
        return;
    }
    for dependency in package["dependencies"].as_array().into_iter().flatten() {
        let target = dependency["name"].as_str().unwrap_or_default();
        if dependency["path"].is_string() {
            // A crate that tests itself with a feature on names itself.
            if target != name
                && let Some((_, allowed)) = row
                && !target.strip_prefix("fencepost-").is_some_and(|t| allowed.contains(&t))
            {
                found.push(format!("{name} may not import {target}; it may import: {}", allowed.join(", ")));
            }
        } else if dependency["kind"].is_null() && !may_take(name, target) {
            found.push(format!(
                "{name} may not depend on {target}: its ring reaches the world through arguments only"
            ));
        }
    }
}

/// Whether the ring of a crate allows a crate from outside.
fn may_take(name: &str, target: &str) -> bool {
    let short = name.strip_prefix("fencepost-").unwrap_or_default();
    let engine = ENGINE.contains(&short);
    if !engine && !CORE.contains(&short) {
        return true;
    }
    CORE_TAKES.contains(&target) || engine && ENGINE_TAKES.contains(&target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn with(name: &str, directory: &str, dependency: Value) -> Vec<String> {
        let package = json!({"id": "p", "name": name, "manifest_path": format!("/r/{directory}/Cargo.toml"), "dependencies": [dependency]});
        violations(&json!({"workspace_members": ["p"], "packages": [package]})).unwrap()
    }

    fn ours(name: &str) -> Value {
        json!({"name": name, "path": "/r/x", "kind": null})
    }

    // Each wrong arrow is found: between siblings, upwards, and from a dev-dependency.
    #[test]
    fn an_arrow_outside_the_table_is_found() {
        for (from, to) in [
            ("fencepost-types", "fencepost-records"),
            ("fencepost-partition", "fencepost-protocol"),
            ("fencepost-group", "fencepost-transaction"),
            ("fencepost-server", "fencepost-metadata"),
            ("fencepost", "fencepost-sim"),
            ("xtask", "fencepost-types"),
        ] {
            assert_eq!(with(from, "crates/x", ours(to)).len(), 1, "{from} -> {to}");
        }
        let dev = json!({"name": "fencepost-broker", "path": "/r/x", "kind": "dev"});
        assert_eq!(with("fencepost-storage", "crates/storage", dev).len(), 1);
    }

    // The arrows of the table pass, and testing may import anything.
    #[test]
    fn an_arrow_of_the_table_passes() {
        for (from, to) in [
            ("fencepost-group", "fencepost-records"),
            ("fencepost-server", "fencepost-broker"),
            ("fencepost", "fencepost-client"),
        ] {
            assert_eq!(with(from, "crates/x", ours(to)), Vec::<String>::new());
        }
        assert!(with("fencepost-sim", "testing/sim", ours("fencepost-broker")).is_empty());
    }

    // A crate that nobody put into the table is refused.
    #[test]
    fn an_unknown_crate_is_found() {
        assert_eq!(with("fencepost-extra", "crates/extra", ours("fencepost-types")).len(), 1);
    }

    // The inner rings take no runtime, no randomness; the edge may.
    #[test]
    fn the_inner_rings_take_no_world() {
        let outside = |name: &str| json!({"name": name, "path": null, "kind": null});
        assert_eq!(with("fencepost-partition", "crates/partition", outside("tracing")).len(), 1);
        assert_eq!(with("fencepost-broker", "crates/broker", outside("tokio")).len(), 1);
        assert!(with("fencepost-broker", "crates/broker", outside("tracing")).is_empty());
        assert!(with("fencepost-server", "crates/server", outside("tokio")).is_empty());
    }
}
