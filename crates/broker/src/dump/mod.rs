//! Reading a log directory's files for people: what DumpLogSegments does, and what only a whole directory tells.
//!
//! ```text
//!  paths ─► directory.rs ─► log_file.rs   ─► batches, records ─► content.rs (decoders by layout/)
//!             │             index_file.rs ─► entries, compared with the log beside them
//!             │             txn_index.rs, snapshot.rs, producer_windows.rs, text_file.rs
//!             ▼                  │ Row, Problem
//!        partition_check.rs      ▼
//!                             Sink ─► render/: Kafka's text, JSON, a table
//! ```
//!
//! - Nothing is written: of the [`Disk`] only `open`, `list`, and a file's `bytes` and `read_at` are called.
//! - No content of a file makes it panic: what cannot be read is a [`Problem`], and the next file is read.
//! - Memory is bounded whatever a file announces: 64 KiB of each open file, one batch of at most 128 MiB and its records
//!   where records are read, a record of at most a million values, a text file of at most 32 MiB.
//!
//! Source: Kafka DumpLogSegments.

use std::fmt;

use fencepost_storage::Disk;

mod batches;
mod content;
mod directory;
mod index_file;
mod json;
mod kind;
mod layout;
mod log_file;
mod options;
mod output;
mod partition_check;
mod problem;
mod producer_windows;
pub mod render;
mod row;
mod snapshot;
mod text_file;
mod txn_index;
mod window;

pub use content::Content;
pub use json::Json;
pub use kind::FileKind;
pub use options::{Decoder, DumpOptions};
pub use output::{Sink, Summary};
pub use problem::{Problem, Severity};
pub use row::{BatchRow, ControlRow, FileHead, ProducerRow, RecordRow, Row};

/// Dumps files and directories, in the order given. A directory is a partition's or a whole log directory.
///
/// Errors: the sink's own; what is wrong with files goes to the sink.
pub fn dump(
    disk: &dyn Disk,
    paths: &[String],
    options: &DumpOptions,
    sink: &mut dyn Sink,
) -> Result<Summary, fmt::Error> {
    let mut output = output::Output::new(sink, options.problems_only, options.like_kafka);
    let mut run = directory::Run { disk, options, output: &mut output };
    let walked = paths.iter().try_for_each(|path| run.path(path)).and_then(|()| output.finish());
    match walked {
        Err(output::Stop::Output(error)) => Err(error),
        // What the disk says of one file is a problem of that file; here it can only be a run that died as Kafka does.
        Err(output::Stop::Disk(_) | output::Stop::Dead) | Ok(()) => Ok(output.summary),
    }
}
