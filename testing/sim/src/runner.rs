//! Plays seeds and says which one found something.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::scenarios::{Scenario, Summary};
use crate::trace::Trace;

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// What is played.
    pub scenario: Scenario,
    /// From which seed.
    pub seed: u64,
}

thread_local! {
    static PLAYING: Cell<Option<Run>> = const { Cell::new(None) };
}

impl Run {
    /// The command that plays it again, line by line.
    pub fn command(self) -> String {
        format!("cargo xtask sim --seed {} --scenario {} --trace", self.seed, self.scenario.name())
    }

    /// Plays it. Panics when something is found.
    pub fn play(self, prints: bool) -> Summary {
        PLAYING.set(Some(self));
        let summary = self.scenario.run(self.seed, Trace::new(prints));
        PLAYING.set(None);
        summary
    }

    /// Plays it twice: S1. Panics when something is found, or when the runs differ.
    pub fn play_twice(self) -> Summary {
        let first = self.play(false);
        let second = self.play(false);
        PLAYING.set(Some(self));
        assert_eq!(first, second, "S1: the same seed gives another trace");
        PLAYING.set(None);
        first
    }

    /// Whether it passes; what is found is printed. Where a panic ends the process, this does not return.
    pub fn passes(self) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.play_twice())).is_ok()
    }
}

/// The run that this thread is playing.
pub fn playing() -> Option<Run> {
    PLAYING.get()
}

/// The runs that once found something: lines of scenario and seed in the files of `directory`; what follows a `#` is a
/// remark. Errors: a sentence.
pub fn saved(directory: &Path) -> Result<Vec<Run>, String> {
    let unreadable = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mut files = Vec::new();
    // allow(disk): the seeds are files of the repository, not of the simulated world.
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        files.push(entry.map_err(unreadable)?.path());
    }
    files.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    let mut runs = Vec::new();
    for path in files {
        // allow(disk): as above.
        let text = std::fs::read_to_string(&path).map_err(unreadable)?;
        for line in text.lines() {
            let words = line.split('#').next().unwrap_or_default();
            if !words.trim().is_empty() {
                let run = parse(words).ok_or_else(|| format!("{}: no run: {line}", path.display()))?;
                runs.push(run);
            }
        }
    }
    Ok(runs)
}

fn parse(words: &str) -> Option<Run> {
    let (scenario, seed) = words.trim().split_once(' ')?;
    Some(Run { scenario: Scenario::from_name(scenario)?, seed: seed.trim().parse().ok()? })
}
