//! What an administrator asks of groups.

pub mod delete;
pub mod describe;
pub mod list;
