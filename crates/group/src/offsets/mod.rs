//! Offsets: committed, fetched, deleted, expired, and those of transactions.

pub mod commit;
pub mod delete;
pub mod expiry;
pub mod fetch;
pub mod store;
pub mod txn;
