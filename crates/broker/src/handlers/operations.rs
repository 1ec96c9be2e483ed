//! What anybody may do where nothing is forbidden, as the bit sets of `authorizedOperations`.
//!
//! Source: KIP-430, Kafka AclEntry.supportedOperations. Bit n is operation n of Kafka's AclOperation.

/// "Not asked for."
pub(crate) const OPERATIONS_UNKNOWN: i32 = i32::MIN;

const READ: i32 = 1 << 3;
const WRITE: i32 = 1 << 4;
const CREATE: i32 = 1 << 5;
const DELETE: i32 = 1 << 6;
const ALTER: i32 = 1 << 7;
const DESCRIBE: i32 = 1 << 8;
const CLUSTER_ACTION: i32 = 1 << 9;
const DESCRIBE_CONFIGS: i32 = 1 << 10;
const ALTER_CONFIGS: i32 = 1 << 11;
const IDEMPOTENT_WRITE: i32 = 1 << 12;

/// On a topic.
pub(crate) const OPERATIONS_OF_TOPIC: i32 =
    READ | WRITE | CREATE | DELETE | ALTER | DESCRIBE | DESCRIBE_CONFIGS | ALTER_CONFIGS;
/// On a group.
pub(crate) const OPERATIONS_OF_GROUP: i32 = READ | DELETE | DESCRIBE | DESCRIBE_CONFIGS | ALTER_CONFIGS;
/// On the cluster.
pub(crate) const OPERATIONS_OF_CLUSTER: i32 =
    CREATE | ALTER | DESCRIBE | CLUSTER_ACTION | DESCRIBE_CONFIGS | ALTER_CONFIGS | IDEMPOTENT_WRITE;

/// The bits if they were asked for.
pub(crate) fn if_asked(asked: bool, operations: i32) -> i32 {
    if asked { operations } else { OPERATIONS_UNKNOWN }
}
