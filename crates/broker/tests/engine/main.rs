//! The engine from outside: frames in, answers out, over a memory disk, with a clock and syncs in the test's hands.

mod cleaning;
mod completing;
mod crash_points;
mod delayed_requests;
mod delete_records;
mod disk_trouble;
mod durability;
mod fetch;
mod group_offsets;
mod groups;
mod harness;
mod manners;
mod marker_way;
mod partition_markers;
mod produce;
mod producer_budget;
mod restart;
mod topic_deletion;
mod transaction_late_commit;
mod transaction_rotation;
mod transaction_time;
mod transaction_traps;
mod transaction_versions;
mod transactional_ids;
mod transactions;
mod wire;
