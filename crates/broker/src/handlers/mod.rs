//! One file per family of APIs: wire messages to the core's requests, and back. Rules live in the core crates; what
//! depends on the version of an API lives here.

pub(crate) mod acls;
pub(crate) mod add_partitions;
pub(crate) mod api_versions;
mod asking;
pub(crate) mod cluster;
pub(crate) mod configs;
pub(crate) mod consumer_groups;
pub(crate) mod fetch;
pub(crate) mod find_coordinator;
pub(crate) mod group_admin;
pub(crate) mod groups;
pub(crate) mod list_offsets;
pub(crate) mod log_dirs;
pub(crate) mod membership;
pub(crate) mod metadata;
pub(crate) mod offset_fetch;
pub(crate) mod offset_places;
pub(crate) mod offsets;
mod operations;
pub(crate) mod placement;
pub(crate) mod produce;
pub(crate) mod quotas;
pub(crate) mod records;
mod repeats;
pub(crate) mod sasl;
pub(crate) mod scram;
pub(crate) mod share_state;
pub(crate) mod switched_off;
pub(crate) mod telemetry;
pub(crate) mod tokens;
pub(crate) mod topics;
pub(crate) mod transactions;
pub(crate) mod txn_admin;
pub(crate) mod txn_markers;
pub(crate) mod txn_offsets;
