//! Rows and problems as text.

mod json;
mod kafka;
mod table;

pub use json::{JsonText, NdjsonText};
pub use kafka::KafkaText;
pub use table::TableText;
