//! The server over real sockets on this machine: many clients, hostile ones, the end of connections and of the server.

mod concurrent;
mod heavy;
mod hostile;
mod metrics;
mod serving;
mod stopping;
mod support;
