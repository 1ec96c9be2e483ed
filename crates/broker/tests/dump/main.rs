//! The dump of a log directory's files: the same text as Kafka's tool, every kind of file in every format, and what it
//! says to damage.

mod damage;
mod files;
mod golden;
mod hostile;
mod kinds;
