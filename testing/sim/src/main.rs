//! `fencepost-sim`: plays fresh seeds and all saved ones, or one seed line by line.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Parser;
use fencepost_sim::runner::{self, Run};
use fencepost_sim::scenarios::Scenario;

/// The simulator: the engine on a simulated disk, network and clock.
#[derive(Parser, Debug)]
struct Options {
    /// How many fresh seeds of each scenario.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    base: u64,
    /// One seed alone.
    #[arg(long)]
    seed: Option<u64>,
    /// One scenario alone.
    #[arg(long)]
    scenario: Option<String>,
    /// With --seed: print what happens, line by line, and what the engine logs.
    #[arg(long)]
    trace: bool,
}

/// Where the seeds are that once found something.
const SAVED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/seeds");

/// How many runs there are, and how many have passed.
static RUNS: AtomicUsize = AtomicUsize::new(0);
static PASSED: AtomicUsize = AtomicUsize::new(0);

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(code) => code,
        Err(sentence) => {
            eprintln!("fencepost-sim: {sentence}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<ExitCode, String> {
    let scenarios = match &options.scenario {
        None => Scenario::ALL.to_vec(),
        Some(name) => vec![Scenario::from_name(name).ok_or_else(|| format!("there is no scenario {name}"))?],
    };
    report_failures();
    if let Some(seed) = options.seed {
        RUNS.store(scenarios.len(), Ordering::Relaxed);
        for scenario in scenarios {
            play_one(Run { scenario, seed }, options.trace);
        }
        return Ok(summarise());
    }
    let seeds = options.base..options.base + options.seeds;
    println!("fresh seeds {} to {}, each twice", seeds.start, seeds.end.saturating_sub(1));
    let fresh = scenarios.iter().flat_map(|&scenario| seeds.clone().map(move |seed| Run { scenario, seed }));
    let saved = runner::saved(Path::new(SAVED))?;
    let runs: Vec<Run> =
        fresh.chain(saved.into_iter().filter(|run| scenarios.contains(&run.scenario))).collect();
    RUNS.store(runs.len(), Ordering::Relaxed);
    play_all(&runs);
    Ok(summarise())
}

fn play_one(run: Run, trace: bool) {
    if trace {
        let subscriber = tracing_subscriber::fmt()
            .without_time()
            .with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG);
        subscriber.with_writer(std::io::stdout).init();
        println!("{:?}", run.play(true));
        PASSED.fetch_add(1, Ordering::Relaxed);
    } else if run.passes() {
        PASSED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Each run is single-threaded; several are played at a time.
fn play_all(runs: &[Run]) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            if run.passes() {
                PASSED.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
}

/// Lets a panic say how to see it again. Where a panic ends the process, the last line is printed here.
fn report_failures() {
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        say(panic);
        if let Some(run) = runner::playing() {
            println!("FAILED {} seed {}; again: {}", run.scenario.name(), run.seed, run.command());
        }
        if cfg!(panic = "abort") {
            std::process::exit(i32::from(print_summary()));
        }
    }));
}

fn summarise() -> ExitCode {
    ExitCode::from(print_summary())
}

/// Prints the last line; answers the process's exit code.
fn print_summary() -> u8 {
    let (runs, passed) = (RUNS.load(Ordering::Relaxed), PASSED.load(Ordering::Relaxed));
    // With the first failure the process may end: what was not played counts as neither.
    let failed = if cfg!(panic = "abort") { usize::from(passed < runs) } else { runs - passed };
    println!("{runs} seeds: {passed} passed, {failed} failed");
    u8::from(failed > 0)
}
