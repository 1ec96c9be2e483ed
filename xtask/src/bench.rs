//! `cargo xtask bench`: figures beside Apache Kafka on the same machine.

mod compaction;
mod machine;
mod metadata;
mod page;
mod start;
mod txn;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::summary::Summary;

/// Where the figures are written.
const PAGE: &str = "docs/performance.md";

/// What to measure.
#[derive(Args, Debug)]
pub struct Bench {
    /// The benchmark.
    #[arg(value_enum, default_value = "start")]
    name: Name,
    /// How often each figure is measured; the page has the medians.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Transactions of the run after which memory is read.
    #[arg(long, default_value_t = 10_000)]
    transactions: u32,
    /// Offset commits, and transactions, of the larger run of `compaction`; changes of each run of `metadata`.
    #[arg(long, default_value_t = 1_000_000)]
    count: u32,
    /// Use this executable of Fencepost, which knows `serve`, instead of building one; for `txn`.
    #[arg(long)]
    executable: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    /// Start to first committed transaction, memory, transactions per second; writes docs/performance.md.
    Start,
    /// Back-to-back transactions of three clients; writes its section of docs/performance.md.
    Txn,
    /// What a million offset commits and a million transactions leave behind; writes its section of docs/performance.md.
    Compaction,
    /// What a million changes of the metadata cost and leave behind; writes its section of docs/performance.md.
    Metadata,
}

/// Runs the benchmark.
pub fn run(options: &Bench) -> Result<Summary> {
    match options.name {
        Name::Start => start::run(options.runs, options.transactions),
        Name::Txn => txn::run(options.runs, options.executable.as_deref()),
        Name::Compaction => compaction::run(options.count),
        Name::Metadata => metadata::run(options.count),
    }
}

/// The middle value; the mean of the two middle ones of an even count.
fn median(mut values: Vec<f64>) -> f64 {
    assert!(!values.is_empty(), "a figure was measured at least once");
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::median;

    // The median does not care for the order or for one outlier.
    #[test]
    fn the_middle_value() {
        assert_eq!(median(vec![900.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
