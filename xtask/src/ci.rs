//! `cargo xtask ci`: all that has to hold before a change is done, and one line that counts.

use std::time::Instant;

use anyhow::Result;

use crate::summary::Summary;
use crate::{check, conformance, interop, sim, test};

type Part = (&'static str, fn() -> Result<Summary>);

/// In the order of what they cost.
const PARTS: [Part; 5] = [
    ("check", || check::run(&[])),
    ("test", || test::run(None)),
    ("sim", || sim::run(&sim::Sim::default())),
    ("conformance", || conformance::run(&conformance::Conformance::default())),
    ("interop", || interop::run(&interop::Interop::default())),
];

/// Runs every part, also after one has failed. Conformance failures that are listed as known are not failures here.
pub fn run() -> Summary {
    let (mut passed, mut failed, mut lines) = (0, 0, Vec::new());
    for (name, part) in PARTS {
        println!("ci: {name}");
        let began = Instant::now();
        let summary = part().unwrap_or_else(|error| Summary {
            line: format!("{name}: {error:#}"),
            passed: 0,
            failed: 1,
        });
        println!("{}", summary.line);
        passed += summary.passed;
        failed += summary.failed;
        lines.push(format!("{} ({} s)", summary.line, began.elapsed().as_secs()));
    }
    println!("\n{}", lines.join("\n"));
    Summary { line: format!("{passed} passed, {failed} failed"), passed, failed }
}
