//! The first section of `docs/performance.md`.

use std::fmt::Write;

use super::start::Figures;

/// A figure that is wanted.
pub struct Target {
    what: String,
    wanted: String,
    found: String,
    pub met: bool,
}

/// Columns: Apache Kafka, Fencepost with the same promise, Fencepost with the stronger one.
pub type Columns = [(&'static str, Figures)];

/// What is wanted of Fencepost, held against what was measured.
pub fn targets(columns: &Columns) -> Vec<Target> {
    let [(_, kafka), (_, ours), (_, durable)] = columns else { return Vec::new() };
    let first = durable.commit_ms.max(ours.commit_ms);
    let memory = ours.idle_mib.max(ours.busy_mib).max(durable.busy_mib);
    let kafka_memory = kafka.idle_mib.min(kafka.busy_mib);
    let rate = ours.per_second / kafka.per_second;
    vec![
        Target {
            what: "process start to first committed transaction, either durability".into(),
            wanted: "below 100 ms".into(),
            found: format!("{first:.0} ms (Kafka: {:.0} ms)", kafka.commit_ms),
            met: first < 100.0,
        },
        Target {
            what: "resident memory, idle and after the transactions".into(),
            wanted: "below 1/10 of Kafka's".into(),
            found: format!(
                "{memory:.0} MiB, 1/{:.0} of Kafka's {kafka_memory:.0} MiB",
                kafka_memory / memory
            ),
            met: memory < kafka_memory / 10.0,
        },
        Target {
            what: "transactions a second with the same durability".into(),
            wanted: "at least 10 times Kafka's".into(),
            found: format!("{rate:.1} times"),
            met: rate >= 10.0,
        },
    ]
}

/// The page.
pub fn page(columns: &Columns, machine: &str, runs: usize, transactions: u32) -> String {
    let mut text = String::from("## Start, memory, transactions of one producer\n\n");
    text += "Written by `cargo xtask bench start`, which runs Apache Kafka 4.4 and Fencepost one after the other on the same machine.\n\n";
    let _ = writeln!(text, "Machine: {machine}.\n");
    text += "| |";
    text += &columns.iter().map(|(name, _)| format!(" {name} |")).collect::<String>();
    text += "\n|---|";
    text += &"---:|".repeat(columns.len());
    text.push('\n');
    let rows: [(&str, fn(&Figures) -> String); 7] = [
        ("process start to an open port, ms", |f| format!("{:.0}", f.port_ms)),
        ("process start to first committed transaction, ms", |f| format!("{:.0}", f.commit_ms)),
        ("resident memory idle, MiB", |f| format!("{:.0}", f.idle_mib)),
        ("resident memory after the transactions, MiB", |f| format!("{:.0}", f.busy_mib)),
        ("one-record transactions a second, one Java producer", |f| format!("{:.0}", f.per_second)),
        ("such a transaction, median, ms", |f| format!("{:.2}", f.median_ms)),
        ("such a transaction, 99th percentile, ms", |f| format!("{:.2}", f.p99_ms)),
    ];
    for (label, figure) in rows {
        let _ = write!(text, "| {label} |");
        text += &columns.iter().map(|(_, figures)| format!(" {} |", figure(figures))).collect::<String>();
        text.push('\n');
    }
    text += "\n### Targets\n\n| what | wanted | found | |\n|---|---|---|---|\n";
    for target in targets(columns) {
        let mark = if target.met { "met" } else { "**not met**" };
        let _ = writeln!(text, "| {} | {} | {} | {mark} |", target.what, target.wanted, target.found);
    }
    text += "\n### How\n\n";
    let _ = writeln!(
        text,
        "- Medians of {runs} runs; memory is read once, idle 5 s after the start, then after {transactions} transactions."
    );
    text += "- Start: `testing/bench/first_commit.py`, a raw client that is already running, starts the process on a new directory, knocks every\n";
    text += "  millisecond, creates a topic and commits one transaction. Kafka's directory is formatted beforehand, uncounted.\n";
    text += "- Transactions: the unmodified Java client of Kafka 4.4, `Transactions` in `testing/interop/java`, back to back, after a warm-up.\n";
    text += "- `page-cache`: acknowledged means written to the page cache, Kafka's own rule, so these two columns compare. `fsync`: acknowledged\n";
    text += "  means on the disk, Fencepost's default; Kafka has no such column.\n";
    text += "- Kafka has a heap of 1 GiB, the default of its start script, and `group.initial.rebalance.delay.ms=0`; all else is as it comes.\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(commit_ms: f64, mib: f64, per_second: f64) -> Figures {
        Figures {
            port_ms: 1.0,
            commit_ms,
            idle_mib: mib,
            busy_mib: mib,
            per_second,
            median_ms: 1.0,
            p99_ms: 1.0,
        }
    }

    // Each target is missed by its own figure alone.
    #[test]
    fn each_target_can_be_missed() {
        let met = |ours: Figures| -> Vec<bool> {
            let columns =
                [("k", figures(5000.0, 410.0, 65.0)), ("f", ours), ("d", figures(50.0, 20.0, 300.0))];
            assert!(page(&columns, "m", 1, 1).contains("### Targets"));
            targets(&columns).iter().map(|t| t.met).collect()
        };
        assert_eq!(met(figures(99.0, 40.0, 650.0)), [true, true, true]);
        assert_eq!(met(figures(100.0, 40.0, 650.0)), [false, true, true]);
        assert_eq!(met(figures(99.0, 41.0, 650.0)), [true, false, true]);
        assert_eq!(met(figures(99.0, 40.0, 649.0)), [true, true, false]);
    }
}
