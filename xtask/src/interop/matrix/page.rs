//! The table of `docs/clients.md`.

use super::CAPABILITIES;
use super::clients::CLIENTS;
use super::results::{Line, Outcome, Results};

/// The document.
pub const PAGE: &str = "docs/clients.md";

/// Longer reasons are cut; the files of the results have more.
const REASON_MAX: usize = 160;

/// The names of the columns, in the order of the capabilities.
const COLUMNS: [&str; 9] = [
    "produce, consume",
    "idempotent",
    "transactions: commit",
    "abort",
    "fencing of an old instance",
    "offsets in transactions",
    "groups: classic",
    "groups: KIP-848",
    "admin",
];

/// The table, and the reasons below it.
pub fn table(results: &Results) -> String {
    let mut notes = Vec::new();
    let mut text = format!("| client | version | {} |\n", COLUMNS.join(" | "));
    text += &format!("|---|---|{}\n", "---|".repeat(COLUMNS.len()));
    for (name, lines) in ordered(&results.fencepost) {
        let peer = results.kafka.iter().find(|(other, _)| other == name).map(|(_, lines)| lines.as_slice());
        text += &row(lines, peer.unwrap_or_default(), &mut notes);
    }
    for (number, note) in notes.iter().enumerate() {
        text += &format!("\n{}. {note}", number + 1);
    }
    text
}

/// In the order of the list of clients; what others left comes after.
fn ordered(all: &[(String, Vec<Line>)]) -> Vec<&(String, Vec<Line>)> {
    let place = |name: &str| CLIENTS.iter().position(|client| client.name == name).unwrap_or(CLIENTS.len());
    let mut ordered: Vec<_> = all.iter().collect();
    ordered.sort_by_key(|(name, _)| place(name));
    ordered
}

fn row(lines: &[Line], peer: &[Line], notes: &mut Vec<String>) -> String {
    let Some(first) = lines.first() else { return String::new() };
    let mut text = format!("| {} | {} |", first.client, first.version);
    for capability in CAPABILITIES {
        let find = |lines: &[Line]| lines.iter().find(|line| line.capability == capability).cloned();
        text += &format!(" {} |", cell(find(lines), find(peer), notes));
    }
    text + "\n"
}

fn cell(line: Option<Line>, peer: Option<Line>, notes: &mut Vec<String>) -> String {
    let Some(line) = line else { return "".into() };
    let peer = peer.filter(|peer| peer.outcome == Outcome::Fail);
    let (word, reason) = match (line.outcome, peer) {
        (Outcome::Pass, None) => return "pass".into(),
        (Outcome::Pass, Some(peer)) => ("pass", format!("fails on Apache Kafka: {}", peer.detail)),
        (Outcome::None, _) => ("none", line.detail),
        (Outcome::Fail, Some(_)) => ("the client's", format!("fails on Apache Kafka too: {}", line.detail)),
        (Outcome::Fail, None) => ("**fails**", line.detail),
    };
    let reason: String = reason.chars().take(REASON_MAX).collect();
    let reason = reason.replace('|', "\\|").replace('<', "&lt;");
    let number = match notes.iter().position(|note| *note == reason) {
        Some(number) => number + 1,
        None => {
            notes.push(reason);
            notes.len()
        }
    };
    format!("{word} ({number})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(client: &str, capability: &str, result: &str, detail: &str) -> Line {
        let text = format!(
            r#"{{"client":"{client}","version":"1","capability":"{capability}","result":"{result}","detail":"{detail}"}}"#
        );
        Line::parse(&text).unwrap()
    }

    // A failure that Apache Kafka shares is the client's own; reasons are numbered once; rows of other tasks come last.
    #[test]
    fn cells_tell_whose_failure_it_is() {
        let last = ("a-streams".to_string(), vec![line("streams", "commit", "pass", "")]);
        let ours = vec![
            line("kcat", "produce", "pass", "gzip"),
            line("kcat", "abort", "fail", "lost"),
            line("kcat", "commit", "fail", "late"),
            line("kcat", "classic", "none", "it has none"),
            line("kcat", "consumer", "none", "it has none"),
            line("kcat", "admin", "pass", ""),
        ];
        let theirs = vec![line("kcat", "abort", "fail", "lost"), line("kcat", "admin", "fail", "slow")];
        let results = Results {
            fencepost: vec![last, ("sarama".into(), ours)],
            kafka: vec![("sarama".into(), theirs)],
        };
        let text = table(&results);
        let rows: Vec<&str> = text.lines().skip(2).collect();
        let kcat = "| kcat | 1 | pass |  | **fails** (1) | the client's (2) |  |  | none (3) | none (3) | pass (4) |";
        assert_eq!(rows[0], kcat);
        assert_eq!(rows[1], "| streams | 1 |  |  | pass |  |  |  |  |  |  |");
        let notes =
            "1. late\n2. fails on Apache Kafka too: lost\n3. it has none\n4. fails on Apache Kafka: slow";
        assert_eq!(rows[3..].join("\n"), notes);
    }
}
