//! Back-to-back transactions of one record, by the clients that people use and by one that costs nothing, beside Apache Kafka.

use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::PAGE;
use super::{machine, median};
use crate::broker::{Broker, End, Program, Setup};
use crate::process::Guarded;
use crate::summary::Summary;
use crate::{interop, process, sections, workspace};

const STEP_MAX: Duration = Duration::from_secs(120);
/// Length of one measurement.
const SECONDS: u32 = 10;
/// A client may fail by its own mistake: the Java client now and then sends the end of a transaction before its record.
const ATTEMPTS: usize = 3;
/// Kafka's own promise: written to the page cache.
const PAGE_CACHE: &str = "fencepost.durability=page-cache";
/// Makes Kafka promise what `fsync` does: each batch is on the disk when it is acknowledged.
const KAFKA_FSYNC: &str = "log.flush.interval.messages=1";
const CONTENDERS: [Contender; 5] =
    [Contender::Kafka, Contender::PageCache, Contender::KafkaFsync, Contender::Fsync, Contender::Memory];
/// Each durability: its name, and the columns of Kafka and of Fencepost.
const DURABILITIES: [(&str, usize, usize); 2] = [("page-cache", 0, 1), ("fsync", 2, 3)];
/// The column of the client alone.
const ALONE: usize = 4;

/// Who answers.
#[derive(Clone, Copy)]
enum Contender {
    Kafka,
    PageCache,
    KafkaFsync,
    Fsync,
    /// Nobody: answers are repeated from memory, so what remains is the client.
    Memory,
}

impl Contender {
    fn name(self) -> &'static str {
        match self {
            Contender::Kafka => "Apache Kafka 4.4",
            Contender::PageCache => "Fencepost, `page-cache`",
            Contender::KafkaFsync => "Apache Kafka 4.4, flushing",
            Contender::Fsync => "Fencepost, `fsync`",
            Contender::Memory => "the client alone",
        }
    }

    fn program(self) -> Program {
        match self {
            Contender::Kafka | Contender::KafkaFsync => Program::Kafka,
            Contender::PageCache | Contender::Fsync | Contender::Memory => Program::Fencepost,
        }
    }
}

/// What the figures do not say.
const NOTES: &str = "\
- *The client alone*: `crates/client/examples/from_memory.rs` stands before a broker and, after 20 transactions, repeats the broker's
  last answers from memory. It is what the client makes when a transaction costs the broker nothing, and the most that any broker can
  reach with this client.
- librdkafka speaks transaction versions 0 and 1: AddPartitionsToTxn, Produce and EndTxn follow one another. After each answer to AddPartitionsToTxn
  it sets a timer of 1 ms, and the next transaction's AddPartitionsToTxn waits until that has run out; its threads wait in whole
  milliseconds. So one producer makes fewer than 1,000 transactions a second at any broker, and this wait gives Kafka the time to complete
  the last transaction: it seldom answers CONCURRENT_TRANSACTIONS to this client, and then costs it 20 ms.
- *Read-process-write*: a consumer of a group reads a record, the transaction holds one record and the consumer's offset. Its
  AddOffsetsToTxn waits for no timer: Kafka is still completing the last transaction, and its refusal costs the client 100 ms.
- *Flushing*: `log.flush.interval.messages=1`, by which Kafka promises what `fsync` does.
- `fsync`: a transaction costs four syncs, one after the other: its partition added, its record, the decision, the marker. Each is in another
  file than the one before, and must not outlive a loss of power without it. The completion shares the first sync of the next transaction.
- The ratio counts, not the rates: other work may have run on the machine meanwhile, for all alike. A busy machine delays Kafka more
  than a client that waits for its own timer.
";

/// Who asks.
#[derive(Clone, Copy)]
enum Client {
    Java,
    Raw,
    Librdkafka,
    LibrdkafkaReads,
}

impl Client {
    const ALL: [Client; 4] = [Client::Java, Client::Raw, Client::Librdkafka, Client::LibrdkafkaReads];

    fn name(self) -> &'static str {
        match self {
            Client::Java => "Java 4.4",
            Client::Raw => "raw (`crates/client`, transaction version 2)",
            Client::Librdkafka => "librdkafka (confluent-kafka for Python)",
            Client::LibrdkafkaReads => "librdkafka, read-process-write",
        }
    }

    /// How many times Kafka's rate is wanted.
    fn wanted(self) -> f64 {
        match self {
            Client::Java => 20.0,
            Client::Raw => 40.0,
            Client::Librdkafka | Client::LibrdkafkaReads => 10.0,
        }
    }
}

/// Of one client at one broker.
#[derive(Clone, Copy)]
struct Figures {
    per_second: f64,
    median_ms: f64,
    p99_ms: f64,
}

/// Measures all clients at all brokers, and writes the section. The contenders take turns, so that a busy moment of the machine
/// does not hit one alone.
pub fn run(runs: usize, fencepost: Option<&Path>) -> Result<Summary> {
    let began = Instant::now();
    let scratch = workspace::scratch("bench-txn")?;
    let examples = examples()?;
    let machine = format!("{}; load average {} before the run", machine::describe(&scratch), machine::load());
    let mut all = vec![vec![Vec::new(); CONTENDERS.len()]; Client::ALL.len()];
    for _ in 0..runs {
        for (column, contender) in CONTENDERS.into_iter().enumerate() {
            let data = scratch.join("data");
            let log = scratch.join("broker.log");
            let mut answering = Answering::start(contender, fencepost, &data, &log, &examples)?;
            for (row, client) in Client::ALL.into_iter().enumerate() {
                let figures = measure_again(client, &examples, answering.address)?;
                println!(
                    "bench: {}: {}: {:.0} a second",
                    contender.name(),
                    client.name(),
                    figures.per_second
                );
                all[row][column].push(figures);
            }
            answering.broker.end(End::Stop)?;
            std::fs::remove_dir_all(data)?;
        }
    }
    let table: Vec<Vec<Figures>> =
        all.into_iter().map(|row| row.into_iter().map(|runs| middle(&runs)).collect()).collect();
    sections::write(PAGE, "txn", &section(&table, &machine, runs))?;
    let (met, targets) = (targets_met(&table), Client::ALL.len() * DURABILITIES.len());
    let line =
        format!("bench: {met} of {targets} targets met, {PAGE} written; {} s", began.elapsed().as_secs());
    Ok(Summary { line, passed: met, failed: targets - met })
}

/// A broker, and what may stand before it.
struct Answering {
    broker: Broker,
    address: SocketAddr,
    _memory: Option<Guarded>,
}

impl Answering {
    fn start(
        contender: Contender,
        fencepost: Option<&Path>,
        data: &Path,
        log: &Path,
        examples: &Path,
    ) -> Result<Self> {
        let mut front = None;
        let settings = match contender {
            Contender::Kafka | Contender::Fsync => Vec::new(),
            Contender::KafkaFsync => vec![KAFKA_FSYNC.to_owned()],
            Contender::PageCache => vec![PAGE_CACHE.to_owned()],
            Contender::Memory => {
                let free = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
                front = Some(free);
                vec![PAGE_CACHE.to_owned(), format!("advertised.listeners=PLAINTEXT://{free}")]
            }
        };
        let program = contender.program();
        let executable = match fencepost {
            Some(path) if program == Program::Fencepost => path.to_owned(),
            _ => program.prepare()?,
        };
        let broker =
            Broker::start(Setup { executable, data: data.to_owned(), settings, log: log.to_owned() })?;
        let Some(front) = front else {
            let address = broker.address();
            return Ok(Self { broker, address, _memory: None });
        };
        let mut command = Command::new(examples.join("from_memory"));
        command.args([front.to_string(), broker.address().to_string()]);
        let mut memory = Guarded(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
        let said = memory.0.stdout.take().context("stdout is piped")?;
        BufReader::new(said).read_line(&mut String::new())?;
        Ok(Self { broker, address: front, _memory: Some(memory) })
    }
}

fn middle(runs: &[Figures]) -> Figures {
    let of = |figure: fn(&Figures) -> f64| median(runs.iter().map(figure).collect());
    Figures { per_second: of(|f| f.per_second), median_ms: of(|f| f.median_ms), p99_ms: of(|f| f.p99_ms) }
}

/// The rate of one column in rates of another.
fn ratio(row: &[Figures], column: usize, to: usize) -> f64 {
    row[column].per_second / row[to].per_second
}

/// How many clients reach what is wanted, in each durability for itself.
fn targets_met(table: &[Vec<Figures>]) -> usize {
    let all = Client::ALL.iter().zip(table);
    let each = all.flat_map(|pair| DURABILITIES.map(|durability| (pair, durability)));
    each.filter(|((client, row), (_, kafka, ours))| ratio(row, *ours, *kafka) >= client.wanted()).count()
}

/// Builds the programs of `crates/client/examples`, and returns where they are.
fn examples() -> Result<PathBuf> {
    let arguments = ["build", "--quiet", "--release", "--locked", "-p", "fencepost-client", "--examples"];
    ensure!(workspace::cargo().args(arguments).status()?.success(), "building the examples failed");
    Ok(workspace::target_dir().join("release/examples"))
}

fn measure_again(client: Client, examples: &Path, address: SocketAddr) -> Result<Figures> {
    let mut attempt = 1;
    loop {
        match measure(client, examples, address) {
            Err(error) if attempt < ATTEMPTS => println!("bench: {}, again: {error:#}", client.name()),
            done => return done.with_context(|| client.name()),
        }
        attempt += 1;
    }
}

fn measure(client: Client, examples: &Path, address: SocketAddr) -> Result<Figures> {
    let address = address.to_string();
    // A new name each time: an attempt that failed leaves its topic.
    let topic = |client: &str| -> Result<String> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        Ok(format!("{client}-{}", since.as_millis()))
    };
    let python = |topic: &str, seconds: u32| -> Result<Command> {
        let mut command = Command::new(interop::interpreter()?);
        command.arg("-B").arg(workspace::root().join("testing/bench/back_to_back.py"));
        command.args([&address, topic, &seconds.to_string()]);
        Ok(command)
    };
    let mut command = match client {
        Client::Java => {
            let mut command = interop::java_command("transactions")?;
            command.args(["--bootstrap", &address, "--seconds", &SECONDS.to_string()]);
            command
        }
        Client::Raw => {
            let topic = topic("raw")?;
            ensure!(process::succeeds(&mut python(&topic, 0)?, STEP_MAX)?, "no topic for the raw client");
            let mut command = Command::new(examples.join("back_to_back"));
            command.args([&address, &topic, &SECONDS.to_string()]);
            command
        }
        Client::Librdkafka => python(&topic("librdkafka")?, SECONDS)?,
        Client::LibrdkafkaReads => {
            let mut command = python(&topic("reads")?, SECONDS)?;
            command.arg("read");
            command
        }
    };
    let said = process::output(&mut command, STEP_MAX)?;
    let figures: Value = serde_json::from_str(&said).with_context(|| said)?;
    let of = |name: &str| figures[name].as_f64().with_context(|| format!("no {name}"));
    Ok(Figures { per_second: of("per_second")?, median_ms: of("median_ms")?, p99_ms: of("p99_ms")? })
}

fn section(table: &[Vec<Figures>], machine: &str, runs: usize) -> String {
    let mut text = String::from("## Back-to-back transactions\n\n");
    text += "Written by `cargo xtask bench txn`: one producer, transactions of one record, the next one begun when the last one is answered.\n";
    let _ = writeln!(
        text,
        "Each cell: transactions a second; median / 99th percentile of one transaction in ms. Medians of {runs} runs of {SECONDS} s.\n"
    );
    let _ = writeln!(text, "Machine: {machine}.\n");
    text += "| client |";
    text += &CONTENDERS.iter().map(|contender| format!(" {} |", contender.name())).collect::<String>();
    text += &DURABILITIES.map(|(name, ..)| format!(" times Kafka, `{name}` |")).concat();
    text += " wanted |\n|---|";
    text += &"---:|".repeat(CONTENDERS.len() + DURABILITIES.len());
    text += "---:|\n";
    for (client, row) in Client::ALL.iter().zip(table) {
        let _ = write!(text, "| {} |", client.name());
        for Figures { per_second, median_ms, p99_ms } in row {
            let _ = write!(text, " {per_second:.0}; {median_ms:.2} / {p99_ms:.2} |");
        }
        text += &DURABILITIES.map(|durability| format!(" {} |", verdict(*client, row, durability))).concat();
        let _ = writeln!(text, " {:.0} |", client.wanted());
    }
    let raw_to_java = table[1][1].per_second / table[0][0].per_second;
    let _ = writeln!(
        text,
        "\nThe raw client at Fencepost makes {raw_to_java:.1} times the transactions of the Java client at Kafka.\n"
    );
    text += NOTES;
    text
}

/// How many times Kafka's rate it is in one durability, whether that is what is wanted, and where it is not, whether any broker could
/// reach it.
fn verdict(client: Client, row: &[Figures], (_, kafka, ours): (&str, usize, usize)) -> String {
    let (reached, most) = (ratio(row, ours, kafka), ratio(row, ALONE, kafka));
    match (reached >= client.wanted(), most >= client.wanted()) {
        (true, _) => format!("{reached:.1}: met"),
        (false, true) => format!("{reached:.1}: **not met**"),
        (false, false) => format!("{reached:.1}: **not met**; the client alone: {most:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Each row says for itself whether it is met, in each durability.
    #[test]
    fn each_client_can_miss() {
        let row = |rates: [f64; 5]| {
            rates.map(|per_second| Figures { per_second, median_ms: 1.0, p99_ms: 2.0 }).to_vec()
        };
        let rows = [
            row([50.0, 1000.0, 50.0, 999.0, 2000.0]),
            row([50.0, 1999.0, 50.0, 2000.0, 2000.0]),
            row([50.0, 500.0, 50.0, 500.0, 2000.0]),
            row([400.0, 500.0, 50.0, 499.0, 2000.0]),
        ];
        let text = section(&rows, "m", 1);
        let table: Vec<&str> =
            text.lines().filter(|line| line.contains("met |") || line.contains("alone:")).collect();
        let verdicts: Vec<Vec<&str>> =
            table.iter().map(|line| line.split(" | ").skip(6).take(2).collect()).collect();
        let wanted = [
            ["20.0: met", "20.0: **not met**"],
            ["40.0: **not met**", "40.0: met"],
            ["10.0: met", "10.0: met"],
            ["1.2: **not met**; the client alone: 5.0", "10.0: **not met**"],
        ];
        assert_eq!(verdicts, wanted);
        assert_eq!(targets_met(&rows), 4);
    }
}
