//! What a scenario plays on: a broker, one who feeds, one who watches the outputs, and the instances of the application.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};

use super::super::crash::Random;
use super::super::java;
use super::talker::{LOOK, Talker};
use crate::broker::{Broker, Setup};

/// Lines, and pairs of records to be joined, that are fed in a second.
const RATE: u32 = 40;
const START_MAX: Duration = Duration::from_secs(120);
/// Kafka looks for timed-out transactions and dead members at intervals of ten seconds; several may come one after the other.
const RECOVERY_MAX: Duration = Duration::from_secs(300);
const END_MAX: Duration = Duration::from_secs(300);

/// What differs between scenarios.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// `num.standby.replicas`.
    pub standbys: u32,
    /// `group.protocol`.
    pub protocol: &'static str,
}

/// How long it took until every output partition had a new committed record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recoveries {
    /// How many there were.
    pub count: u32,
    /// All of them together.
    pub sum: Duration,
    /// The longest.
    pub longest: Duration,
}

/// All that runs.
pub struct Stage {
    /// The broker, which scenarios end and start.
    pub broker: Broker,
    /// Choices that the seed repeats.
    pub random: Random,
    /// What has been measured.
    pub recoveries: Recoveries,
    manner: Manner,
    directory: PathBuf,
    base_ms: u128,
    feeder: Talker,
    watcher: Talker,
    /// Committed records of each output partition.
    seen: Vec<u64>,
    instances: BTreeMap<&'static str, Talker>,
    restored: u64,
    complete: bool,
}

/// One of the Java programs, built where its source has changed.
pub fn program(name: &str) -> Result<Command> {
    java::main("streams", "fencepost.streams.Main", name)
}

impl Stage {
    /// Starts the broker on a new directory, the feeder and the watcher.
    pub fn open(setup: Setup, manner: Manner, seed: u64) -> Result<Stage> {
        let directory = setup.data.clone().with_extension("application");
        fs::create_dir_all(&directory)?;
        let broker = Broker::start(setup)?;
        let base_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        let bootstrap = broker.address().to_string();
        let start = |name: &str, options: &[&str]| {
            let mut command = program(name)?;
            command.args(["--bootstrap", &bootstrap]).args(options);
            Talker::start(name, command, &directory.join(format!("{name}.log")))
        };
        let mut feeder = start("feed", &["--base", &base_ms.to_string(), "--rate", &RATE.to_string()])?;
        feeder.wait_for("topics", START_MAX)?;
        let watcher = start("watch", &[])?;
        Ok(Stage {
            broker,
            random: Random::new(seed),
            recoveries: Recoveries::default(),
            manner,
            directory,
            base_ms,
            feeder,
            watcher,
            seen: Vec::new(),
            instances: BTreeMap::new(),
            restored: 0,
            complete: false,
        })
    }

    /// Starts an instance, on the state that an earlier one of that name has left.
    pub fn start(&mut self, name: &'static str) -> Result<()> {
        let state = self.directory.join(name);
        fs::create_dir_all(state.join("native"))?;
        let mut command = program("run")?;
        command.env("ROCKSDB_SHAREDLIB_DIR", state.join("native"));
        command.args(["--bootstrap", &self.broker.address().to_string(), "--name", name]);
        command.arg("--state").arg(&state).args(["--group-protocol", self.manner.protocol]);
        command.args(["--standbys", &self.manner.standbys.to_string(), "--log", "INFO"]);
        let log = self.directory.join(format!("{name}.log"));
        self.instances.insert(name, Talker::start(name, command, &log)?);
        Ok(())
    }

    /// Kills an instance (SIGKILL).
    pub fn kill(&mut self, name: &str) {
        self.instances.remove(name).expect("the instance runs");
    }

    /// Forgets what an instance has stored on its disk: its stores must come from the changelogs.
    pub fn wipe(&self, name: &str) -> Result<()> {
        fs::remove_dir_all(self.directory.join(name)).with_context(|| format!("wiping {name}"))
    }

    /// Waits until an instance has said something.
    pub fn until(&mut self, name: &'static str, line: &str) -> Result<()> {
        let deadline = Instant::now() + RECOVERY_MAX;
        loop {
            if self.look()?.iter().any(|(who, said)| *who == name && said == line) {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "{name} did not say `{line}`");
        }
    }

    /// Lets everything run for a while.
    pub fn run_for(&mut self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.look()?;
        }
        Ok(())
    }

    /// Lets everything run for some time of which only the seed knows.
    pub fn run_a_while(&mut self) -> Result<()> {
        let time = Duration::from_millis(500 + self.random.below(2000));
        self.run_for(time)
    }

    /// Waits until every output partition has a new committed record.
    pub fn progress(&mut self) -> Result<()> {
        let before = self.seen.clone();
        let deadline = Instant::now() + RECOVERY_MAX;
        while self.seen.is_empty()
            || self.seen.iter().enumerate().any(|(n, now)| *now <= before.get(n).copied().unwrap_or(0))
        {
            ensure!(Instant::now() < deadline, "no progress: {before:?}, then {:?}", self.seen);
            self.look()?;
        }
        Ok(())
    }

    /// Lets come what was committed before a kill, so that it is not taken for the progress after it.
    fn quiet(&mut self) -> Result<()> {
        self.run_for(Duration::from_millis(300))
    }

    /// Waits for progress, and counts the time since the kill as a recovery.
    pub fn recovered(&mut self, what: &str, killed: Instant) -> Result<()> {
        self.quiet()?;
        self.progress().with_context(|| format!("after {what}"))?;
        let took = killed.elapsed();
        println!("  {what}: {:.2} s", took.as_secs_f64());
        self.recoveries.count += 1;
        self.recoveries.sum += took;
        self.recoveries.longest = self.recoveries.longest.max(took);
        Ok(())
    }

    /// Ends the input, waits for all that is due, closes the application and compares. Returns what the watcher says.
    pub fn close(mut self) -> Result<String> {
        self.feeder.tell("end")?;
        let fed = self.feeder.wait_for("fed ", END_MAX)?;
        self.watcher.tell(&format!("end {} {}", self.base_ms, fed.trim_start_matches("fed ")))?;
        let deadline = Instant::now() + END_MAX;
        while !self.complete {
            self.look()?;
            if Instant::now() > deadline {
                // What the watcher finds missing says more than the time does.
                self.watcher.tell("check")?;
                let said = self.watcher.wait_for("exact", END_MAX)?;
                bail!("the outputs were complete too late: {said}");
            }
        }
        for (name, instance) in &mut self.instances {
            instance.tell("end").with_context(|| format!("closing {name}"))?;
        }
        for instance in self.instances.values_mut() {
            instance.wait_for("closed", END_MAX)?;
        }
        self.watcher.tell("check")?;
        let said = self.watcher.wait_for("exact: ", END_MAX)?;
        Ok(format!("{said}, {} restored", self.restored))
    }

    /// Takes in what all have said in the next moment.
    fn look(&mut self) -> Result<Vec<(&'static str, String)>> {
        std::thread::sleep(LOOK);
        for line in self.watcher.said()? {
            if let Some(counts) = line.strip_prefix("seen ") {
                self.seen = counts.split(' ').map(str::parse).collect::<Result<_, _>>()?;
            }
            self.complete |= line == "complete";
        }
        let mut said = Vec::new();
        for (name, instance) in &mut self.instances {
            for line in instance.said()? {
                if let Some(records) = line.strip_prefix("restored ") {
                    self.restored += records.parse::<u64>()?;
                }
                said.push((*name, line));
            }
        }
        Ok(said)
    }
}
