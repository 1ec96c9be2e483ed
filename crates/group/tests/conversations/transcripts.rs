//! Transcripts: requests in, answers and records out, each a conversation that Kafka 4.4 has had as well.

use std::fs;
use std::path::Path;

/// Every transcript in `testdata` still reads the same. `RECORD=1 cargo test -p fencepost-group` writes them anew.
#[test]
fn transcripts_read_the_same() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let (mut count, mut different) = (0, Vec::new());
    for entry in fs::read_dir(&directory).expect("testdata is there") {
        let path = entry.expect("testdata can be listed").path();
        if path.extension().is_none_or(|extension| extension != "script") {
            continue;
        }
        let before = fs::read_to_string(&path).expect("a transcript can be read");
        let now = crate::script::run(&before);
        if std::env::var_os("RECORD").is_some() {
            fs::write(&path, &now).expect("a transcript can be written");
        } else if before != now {
            different.push(format!("{}:\n{}", path.display(), differences(&before, &now)));
        }
        count += 1;
    }
    assert!(count > 0, "there are transcripts");
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// The titles whose conversations differ, each with its first line that does.
fn differences(before: &str, now: &str) -> String {
    let mut lines = Vec::new();
    for (before, now) in before.split("\n== ").zip(now.split("\n== ")) {
        let first = before.lines().zip(now.lines()).find(|(before, now)| before != now);
        if before != now {
            let title = before.lines().next().unwrap_or_default();
            lines.push(format!("== {title}\n{first:?}"));
        }
    }
    lines.join("\n")
}
