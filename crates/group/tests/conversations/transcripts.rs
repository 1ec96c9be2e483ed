//! Transcripts: requests in, answers and records out, each a conversation that Kafka 4.4 has had as well.

use std::fs;
use std::path::Path;

/// Every transcript in `testdata` still reads the same. `RECORD=1 cargo test -p fencepost-group` writes them anew.
#[test]
fn transcripts_read_the_same() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut count = 0;
    for entry in fs::read_dir(&directory).expect("testdata is there") {
        let path = entry.expect("testdata can be listed").path();
        if path.extension().is_none_or(|extension| extension != "script") {
            continue;
        }
        let before = fs::read_to_string(&path).expect("a transcript can be read");
        let now = crate::script::run(&before);
        if std::env::var_os("RECORD").is_some() {
            fs::write(&path, &now).expect("a transcript can be written");
        } else {
            for (at, (before, now)) in before.lines().zip(now.lines()).enumerate() {
                assert_eq!(before, now, "{} line {}", path.display(), at + 1);
            }
            assert_eq!(before, now, "{}", path.display());
        }
        count += 1;
    }
    assert!(count > 0, "there are transcripts");
}
