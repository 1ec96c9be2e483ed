//! `fencepost dump-log`: what is in the files of a log directory, and what is wrong with them. Reads, never writes.

use std::fmt;
use std::io::{self, BufWriter, ErrorKind, Write};

use anyhow::{anyhow, bail};
use clap::{Args, ValueEnum};
use fencepost_server::dump::render::{JsonText, KafkaText, NdjsonText, TableText};
use fencepost_server::dump::{Decoder, DumpOptions, Summary, dump, working_directory};

/// What can be said on the command line. Options that Kafka's kafka-dump-log has are named as there.
#[derive(Args)]
pub struct DumpLogArguments {
    /// Files, partition directories, or whole log directories.
    #[arg(value_name = "PATH", required_unless_present = "files")]
    paths: Vec<String>,
    /// Files, with commas between them.
    #[arg(long, value_name = "FILE,…", value_delimiter = ',')]
    files: Vec<String>,
    /// How to write: columns, one JSON document, one JSON object to a line, or the text of Kafka's own tool.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Read everything, say only what is wrong; the exit status tells whether anything is.
    #[arg(long)]
    problems: bool,
    /// Show the records of each batch.
    #[arg(long)]
    deep_iteration: bool,
    /// Show keys and values of records too. Those of Kafka's own topics are decoded.
    #[arg(long)]
    print_data_log: bool,
    /// Show contents of records without their offsets, times and sizes (Kafka's format only).
    #[arg(long)]
    skip_record_metadata: bool,
    /// Compare indexes with the log, do not show their entries.
    #[arg(long)]
    verify_index_only: bool,
    /// Look at indexes only as a start-up would.
    #[arg(long)]
    index_sanity_check: bool,
    /// Decode records as those of __consumer_offsets.
    #[arg(long, group = "decoder")]
    offsets_decoder: bool,
    /// Decode records as those of __transaction_state.
    #[arg(long, group = "decoder")]
    transaction_log_decoder: bool,
    /// Decode records as those of __cluster_metadata.
    #[arg(long, group = "decoder")]
    cluster_metadata_decoder: bool,
    /// Decode records as those of __share_group_state.
    #[arg(long, group = "decoder")]
    share_group_state_decoder: bool,
    /// Read so many bytes of each log, in whole batches.
    #[arg(long, value_name = "BYTES")]
    max_bytes: Option<u64>,
    /// The largest batch that an index entry may point at.
    #[arg(long, value_name = "BYTES", default_value_t = DumpOptions::MAX_MESSAGE_SIZE)]
    max_message_size: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    Ndjson,
    Kafka,
}

/// Dumps to the standard output.
pub fn run(arguments: &DumpLogArguments) -> anyhow::Result<()> {
    let paths: Vec<String> = arguments.paths.iter().chain(&arguments.files).cloned().collect();
    let options = arguments.options();
    let mut out = Text::new(io::stdout().lock());
    let mut aside = Text::new(io::stderr().lock());
    let dumped = match arguments.format {
        Format::Table => dump(&paths, &options, &mut TableText::new(&mut out)),
        Format::Json => dump(&paths, &options, &mut JsonText::new(&mut out)),
        Format::Ndjson => dump(&paths, &options, &mut NdjsonText::new(&mut out)),
        Format::Kafka => dump(&paths, &options, &mut KafkaText::new(&mut out, &mut aside, &options)),
    };
    let written = out.end().and(aside.end());
    match (written, dumped) {
        // Whoever reads has seen enough.
        (Err(error), _) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        (Err(error), _) => Err(error.into()),
        (Ok(()), Err(error)) => Err(error.into()),
        (Ok(()), Ok(summary)) => verdict(&summary, arguments),
    }
}

fn verdict(summary: &Summary, arguments: &DumpLogArguments) -> anyhow::Result<()> {
    if let Some(exception) = &summary.died_of {
        return Err(anyhow!("{exception}"));
    }
    if !arguments.problems {
        return Ok(());
    }
    let Summary { files, errors, notices, .. } = summary;
    if *errors > 0 {
        bail!("{errors} errors in {files} files and directories");
    }
    if *notices == 0 && arguments.format == Format::Table {
        println!("nothing is wrong with {files} files and directories");
    }
    Ok(())
}

impl DumpLogArguments {
    fn options(&self) -> DumpOptions {
        DumpOptions {
            deep_iteration: self.deep_iteration,
            print_data_log: self.print_data_log,
            verify_index_only: self.verify_index_only,
            index_sanity_check: self.index_sanity_check,
            skip_record_metadata: self.skip_record_metadata,
            decoder: self.decoder(),
            working_directory: working_directory(),
            max_bytes: self.max_bytes.unwrap_or(u64::MAX),
            max_message_size: self.max_message_size,
            problems_only: self.problems,
            like_kafka: self.format == Format::Kafka,
        }
    }

    fn decoder(&self) -> Option<Decoder> {
        let asked = [
            (self.offsets_decoder, Decoder::Offsets),
            (self.transaction_log_decoder, Decoder::TransactionLog),
            (self.cluster_metadata_decoder, Decoder::ClusterMetadata),
            (self.share_group_state_decoder, Decoder::ShareGroupState),
        ];
        asked.into_iter().find(|(is_asked, _)| *is_asked).map(|(_, decoder)| decoder)
    }
}

/// Text on its way to a file of the process. An error stops it, and is told at the end.
struct Text<W: Write> {
    out: BufWriter<W>,
    failed: Option<io::Error>,
}

impl<W: Write> Text<W> {
    fn new(out: W) -> Self {
        Self { out: BufWriter::new(out), failed: None }
    }

    fn end(mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        self.failed.map_or(flushed, Err)
    }
}

impl<W: Write> fmt::Write for Text<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.out.write_all(text.as_bytes()).map_err(|error| {
            self.failed = Some(error);
            fmt::Error
        })
    }
}
