//! The hash that spreads groups and transactional ids over coordinator partitions.

use crate::PartitionIndex;

/// Java's `String.hashCode` over UTF-16 code units.
pub fn java_string_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// The coordinator partition of a group id or transactional id among `partition_count` (> 0).
/// The absolute value of `i32::MIN` counts as 0; it is not a mask with `0x7fffffff`.
///
/// Source: Kafka Utils.abs, TransactionStateManager.partitionFor.
pub fn partition_for(id: &str, partition_count: i32) -> PartitionIndex {
    assert!(partition_count > 0, "a coordinator topic has at least one partition, not {partition_count}");
    let hash = java_string_hash(id);
    let positive = if hash == i32::MIN { 0 } else { hash.abs() };
    PartitionIndex(positive % partition_count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// coordinator trap 1, storage-formats trap 25: abs with MIN → 0, over UTF-16 units.
    #[test]
    fn hash_is_javas_absolute_value() {
        assert_eq!(java_string_hash(""), 0);
        assert_eq!(java_string_hash("tx-1"), 3_572_520);
        assert_eq!(java_string_hash("polygenelubricants"), i32::MIN);
        assert_eq!(partition_for("polygenelubricants", 50), PartitionIndex(0));
        // "é" is one unit (233) but two UTF-8 bytes; a character beyond the basic plane is two units.
        assert_eq!(java_string_hash("é"), 233);
        assert_eq!(java_string_hash("\u{1F600}"), 0xD83D * 31 + 0xDE00);
        // A negative hash: the mask would give 44.
        assert_eq!(java_string_hash("my-app-1"), -1_912_099_804);
        assert_eq!(partition_for("my-app-1", 50), PartitionIndex(4));
    }
}
