//! `docs/conformance.md` and the list of known failures.

use std::fmt::Write;

use super::Outcomes;
use super::outcome::{Outcome, Scenario, Seen, Verdict};

/// The page. The same results give the same text.
pub fn page(scenarios: &[Scenario], seen: &Seen, verdict: &Verdict) -> String {
    let passed: usize = verdict.areas.values().map(|(passed, _)| passed).sum();
    let mut text = String::from("# Conformance\n\n");
    text += "Written by `cargo xtask conformance`, which holds every conversation of `testing/conformance` with a broker of this tree and compares\n";
    text += "the answers with those of Apache Kafka 4.4.0, or with better ones where Kafka is at fault (`testing/conformance/better`).\n\n";
    let _ = writeln!(text, "**{passed} of {} scenarios pass ({:.1}%).**\n", scenarios.len(), verdict.percent);
    text += "| area | passed | of |\n|---|---:|---:|\n";
    for (area, (passed, all)) in &verdict.areas {
        let _ = writeln!(text, "| {area} | {passed} | {all} |");
    }
    section(&mut text, "Not passing", scenarios, seen, |outcome| match outcome {
        Outcome::Passed | Outcome::Skipped(_) => None,
        Outcome::Failed => Some(String::new()),
        Outcome::Hung => Some(" (hung)".into()),
        Outcome::KilledBroker => Some(" (killed the broker)".into()),
        Outcome::NotRun => Some(" (did not run)".into()),
    });
    section(&mut text, "Skipped", scenarios, seen, |outcome| match outcome {
        Outcome::Skipped(why) => Some(format!(": {why}")),
        Outcome::Passed | Outcome::Failed | Outcome::Hung | Outcome::KilledBroker | Outcome::NotRun => None,
    });
    text += "\nThe four `timeout-id-*` scenarios need transactional ids that expire within seconds; they run in a pass of their own with\n";
    text += "`transactional.id.expiration.ms=3000`.\n";
    text
}

fn section(
    text: &mut String,
    title: &str,
    scenarios: &[Scenario],
    seen: &Seen,
    word: impl Fn(&Outcome) -> Option<String>,
) {
    let lines: Vec<String> = scenarios
        .iter()
        .filter_map(|s| Some(format!("- `{}`{}: {}", s.name, word(seen.outcomes.get(&s.name)?)?, s.about)))
        .collect();
    let _ = writeln!(text, "\n## {title}\n");
    *text += &if lines.is_empty() { "None.\n".to_string() } else { lines.join("\n") + "\n" };
}

/// The names that failed, one a line.
pub fn known_failures(outcomes: &Outcomes) -> String {
    let mut text = String::from(
        "# Scenarios that do not pass yet. `cargo xtask conformance --accept` writes this list.\n",
    );
    for (name, _) in outcomes.iter().filter(|(_, outcome)| outcome.is_failure()) {
        text += name;
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    // The page names what failed and what was skipped, with the reason.
    #[test]
    fn the_page_names_each_failure() {
        let outcomes = [
            ("a-1", Outcome::Passed),
            ("a-2", Outcome::Hung),
            ("b-1", Outcome::Skipped("needs more".into())),
        ];
        let scenarios: Vec<Scenario> = outcomes
            .iter()
            .map(|(name, _)| Scenario { name: (*name).into(), about: format!("about {name}") })
            .collect();
        let outcomes: Outcomes = outcomes.iter().map(|(n, o)| ((*n).to_string(), o.clone())).collect();
        assert!(known_failures(&outcomes).ends_with("list.\na-2\n"));
        let seen = Seen { outcomes, resident_bytes_max: (0, String::new()) };
        let text = page(&scenarios, &seen, &Verdict::new(&scenarios, &seen, &[], 0.0, 1));
        assert!(text.contains("**1 of 3 scenarios pass (33.3%).**"));
        assert!(text.contains("| a | 1 | 2 |\n| b | 0 | 1 |"));
        assert!(
            text.contains("- `a-2` (hung): about a-2\n") && text.contains("- `b-1`: needs more: about b-1\n")
        );
        assert!(!text.contains("- `a-1`"));
    }
}
