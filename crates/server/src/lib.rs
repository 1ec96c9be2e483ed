//! The edge: listeners, the real disk and clock, the threads around the engine, shutdown. It moves bytes and decides
//! nothing.
//!
//! ```text
//! socket ─► connection.rs: frame ─► Broker::handle ─► Outcome ─► answers.rs ─► socket (in the order of the requests)
//!           edge.rs: timer ─► Broker::tick      syncers ─► Broker::sync_next
//!           metrics.rs, lag.rs: what the broker shows of itself ─► HTTP
//! ```
//!
//! Invariants
//! - E1: memory for a frame grows with the bytes that arrive, never with the size that is announced.
//! - E2: the ready line is printed when, and only when, the first request of every kind would succeed.
//! - E3: answers leave a connection in the order of its requests.
//! - E4: what one client can make us hold is bounded, however much it asks and however slowly it reads.

mod answers;
mod clock;
mod configuration;
mod connection;
mod disk;
pub mod dump;
mod edge;
mod farewell;
mod handles;
mod http;
mod lag;
mod load;
mod logging;
mod metrics;
mod server;
mod timer;
mod workers;

pub use clock::Clock;
pub use configuration::{configuration_page, settings_from};
pub use disk::RealDisk;
pub use fencepost_broker::{Reloaded, metadata::config::ConfigError};
pub use logging::{Logging, start_logging};
pub use server::{Server, ServerError, ServerSettings, Storage};
