//! What became of each scenario, and whether that is good enough.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Outcomes;
use crate::summary::Summary;

/// One scripted conversation.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name; the part before the first hyphen is its area.
    pub name: String,
    /// What it is about, in one line.
    pub about: String,
}

impl Scenario {
    /// Reads a line of `run.py --list`.
    pub fn parse(line: &str) -> Option<Scenario> {
        let (name, about) = line.split_once(' ')?;
        Some(Scenario { name: name.to_string(), about: about.trim().to_string() })
    }
}

/// The area of a scenario: the first part of its name.
pub fn area(name: &str) -> &str {
    name.split('-').next().unwrap_or(name)
}

/// How one scenario ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every answer was as wanted.
    Passed,
    /// An answer differed, or the conversation broke.
    Failed,
    /// No end within the limit.
    Hung,
    /// The broker was dead afterwards.
    KilledBroker,
    /// The scenario says why it did not run.
    Skipped(String),
    /// The time of the whole run was over.
    NotRun,
}

impl Outcome {
    /// Whether it counts as a failure.
    pub fn is_failure(&self) -> bool {
        match self {
            Outcome::Passed | Outcome::Skipped(_) => false,
            Outcome::Failed | Outcome::Hung | Outcome::KilledBroker | Outcome::NotRun => true,
        }
    }
}

/// What a run has seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// By name of the scenario.
    pub outcomes: Outcomes,
    /// The most resident memory of a broker, and the scenario after which it was seen.
    pub resident_bytes_max: (u64, String),
}

impl Seen {
    /// Adds what another lane has seen.
    pub fn add(&mut self, other: Seen) {
        self.outcomes.extend(other.outcomes);
        if other.resident_bytes_max > self.resident_bytes_max {
            self.resident_bytes_max = other.resident_bytes_max;
        }
    }
}

/// Passed and all of an area.
pub type Areas = BTreeMap<String, (usize, usize)>;

/// Passed and all, by area.
pub fn areas(outcomes: &Outcomes) -> Areas {
    let mut areas = Areas::new();
    for (name, outcome) in outcomes {
        let (passed, all) = areas.entry(area(name).to_string()).or_default();
        *passed += usize::from(*outcome == Outcome::Passed);
        *all += 1;
    }
    areas
}

/// The judgement over a run.
#[derive(Debug)]
pub struct Verdict {
    /// Passed and all, by area.
    pub areas: Areas,
    /// Share of the scenarios that passed.
    pub percent: f64,
    /// Failures that the list of known ones does not name.
    pub new_failures: Vec<String>,
    /// How many failures the list names.
    pub known_failures: usize,
    /// Names on the list that passed.
    pub no_longer_failing: Vec<String>,
    /// What else is wrong: below the threshold, an area at zero, a hang, a dead broker, memory.
    pub complaints: Vec<String>,
}

impl Verdict {
    /// Judges a run.
    pub fn new(
        scenarios: &[Scenario],
        seen: &Seen,
        known: &[&str],
        wanted_percent: f64,
        bytes_max: u64,
    ) -> Verdict {
        let areas = areas(&seen.outcomes);
        let passed: usize = areas.values().map(|(passed, _)| passed).sum();
        let percent = 100.0 * passed as f64 / scenarios.len() as f64;
        let failures = seen.outcomes.iter().filter(|(_, o)| o.is_failure()).map(|(name, _)| name.clone());
        let (listed, new_failures): (Vec<String>, Vec<String>) =
            failures.partition(|name| known.contains(&name.as_str()));
        let passes = |name: &&str| seen.outcomes.get(*name) == Some(&Outcome::Passed);
        let mut complaints = Vec::new();
        if percent < wanted_percent {
            complaints.push(format!("{percent:.1}% pass, the threshold is {wanted_percent}%"));
        }
        for (area, _) in areas.iter().filter(|(_, (passed, all))| *passed == 0 && *all > 0) {
            complaints.push(format!("no scenario of `{area}` passes"));
        }
        for (name, outcome) in &seen.outcomes {
            match outcome {
                Outcome::Hung => complaints.push(format!("{name} hung")),
                Outcome::KilledBroker => complaints.push(format!("{name} killed the broker")),
                Outcome::NotRun => complaints.push(format!("{name} did not run: the time was over")),
                Outcome::Passed | Outcome::Failed | Outcome::Skipped(_) => {}
            }
        }
        if seen.resident_bytes_max.0 > bytes_max {
            complaints.push(format!("the broker grew to {} MiB", seen.resident_bytes_max.0 >> 20));
        }
        Verdict {
            areas,
            percent,
            new_failures,
            known_failures: listed.len(),
            no_longer_failing: known
                .iter()
                .filter(|name| passes(name))
                .map(|name| (*name).to_string())
                .collect(),
            complaints,
        }
    }

    /// The closing line. Known failures are counted apart.
    pub fn summary(&self, seen: &Seen, took: Duration) -> Summary {
        for name in &self.new_failures {
            println!("conformance: FAILED {name}");
        }
        for name in &self.no_longer_failing {
            println!("conformance: {name} passes: take it off testing/conformance/known-failures");
        }
        for complaint in &self.complaints {
            println!("conformance: {complaint}");
        }
        let passed: usize = self.areas.values().map(|(passed, _)| passed).sum();
        let skipped = seen.outcomes.values().filter(|o| matches!(o, Outcome::Skipped(_))).count();
        let line = format!(
            "conformance: {passed} of {} scenarios pass ({:.1}%), {} new failures, {} known failures, {skipped} skipped; broker at most {} MiB resident; {} s",
            seen.outcomes.len(),
            self.percent,
            self.new_failures.len(),
            self.known_failures,
            seen.resident_bytes_max.0 >> 20,
            took.as_secs(),
        );
        Summary { line, passed, failed: self.new_failures.len() + self.complaints.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(outcomes: &[(&str, Outcome)], known: &[&str], wanted_percent: f64) -> Verdict {
        let scenarios: Vec<Scenario> = outcomes
            .iter()
            .map(|(name, _)| Scenario { name: (*name).into(), about: String::new() })
            .collect();
        let outcomes =
            outcomes.iter().map(|(name, outcome)| ((*name).to_string(), outcome.clone())).collect();
        Verdict::new(
            &scenarios,
            &Seen { outcomes, resident_bytes_max: (0, String::new()) },
            known,
            wanted_percent,
            1,
        )
    }

    // A failure counts unless it is listed; a listed one that passes is reported.
    #[test]
    fn known_failures_do_not_count() {
        let seen = [("a-1", Outcome::Passed), ("a-2", Outcome::Failed), ("a-3", Outcome::Failed)];
        let v = verdict(&seen, &["a-1", "a-2"], 30.0);
        assert_eq!((v.new_failures.as_slice(), v.known_failures), (["a-3".to_string()].as_slice(), 1));
        assert_eq!(v.no_longer_failing, ["a-1"]);
        assert!(v.complaints.is_empty());
    }

    // Below the threshold, an area at zero, a hang and a dead broker each fail the run, listed or not.
    #[test]
    fn what_fails_a_run() {
        let passing = ("a-1", Outcome::Passed);
        assert_eq!(verdict(&[passing.clone(), ("a-2", Outcome::Failed)], &["a-2"], 51.0).complaints.len(), 1);
        assert_eq!(
            verdict(&[passing.clone(), ("b-1", Outcome::Failed)], &["b-1"], 50.0).complaints,
            ["no scenario of `b` passes"]
        );
        for outcome in [Outcome::Hung, Outcome::KilledBroker, Outcome::NotRun] {
            assert_eq!(verdict(&[passing.clone(), ("a-2", outcome)], &["a-2"], 50.0).complaints.len(), 1);
        }
        let grown = Seen { outcomes: Outcomes::new(), resident_bytes_max: (2, "a-1".into()) };
        assert_eq!(Verdict::new(&[], &grown, &[], 0.0, 1).complaints.len(), 1);
    }
}
