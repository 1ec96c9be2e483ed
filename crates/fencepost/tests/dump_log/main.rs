//! `fencepost dump-log` as a process: what it prints where, and how it ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../broker/testdata/dump")
}

fn dump_log(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    command.arg("dump-log").args(arguments).current_dir(directory).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A copy of a partition's directory, as `t-0` in a directory of its own.
fn copied(folder: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let partition = directory.path().join("t-0");
    fs::create_dir(&partition).unwrap();
    for entry in fs::read_dir(testdata().join("files").join(folder)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), partition.join(entry.file_name())).unwrap();
    }
    (directory, partition)
}

/// Kafka's options on files with commas between them give Kafka's text, and an exception of that tool status 1.
#[test]
fn kafkas_options_give_kafkas_text() {
    let folder = testdata().join("files/idempotent/codecs-0");
    let files = "00000000000000000000.log,00000000000000000035.log,00000000000000000066.log";
    for (options, wanted) in [
        (&["--print-data-log"][..], "idempotent-codecs-print-data.txt"),
        (&["--deep-iteration"], "idempotent-codecs-deep.txt"),
        (&[], "idempotent-codecs-plain.txt"),
    ] {
        let arguments = [&["--format", "kafka", "--files", files], options].concat();
        let output = dump_log(&folder, &arguments);
        assert_eq!(text(&output.stdout), fs::read_to_string(testdata().join("kafka").join(wanted)).unwrap());
        assert!(output.status.success());
    }
    let folder = testdata().join("files/unclean/faults/shifted-index-0");
    let output = dump_log(&folder, &["--format", "kafka", "00000000000000000000.index"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stderr), "fencepost: NoSuchElementException: null\n");
}

/// The exit status of a look for problems says whether there are any; the decoder is found from within the directory.
#[test]
fn problems_are_an_exit_status() {
    let (directory, partition) = copied("unclean/faults/as-killed-0");
    let sound = dump_log(directory.path(), &["--problems", "t-0"]);
    assert!(sound.status.success());
    assert!(text(&sound.stdout).starts_with("nothing is wrong with "), "{}", text(&sound.stdout));
    let log = partition.join("00000000000000000054.log");
    let mut bytes = fs::read(&log).unwrap();
    bytes[439] ^= 1;
    fs::write(&log, &bytes).unwrap();
    let damaged = dump_log(directory.path(), &["--problems", "--format", "ndjson", "t-0"]);
    assert_eq!(damaged.status.code(), Some(1));
    assert!(text(&damaged.stdout).contains("\"problem\":\"bad-crc\""), "{}", text(&damaged.stdout));
    assert!(text(&damaged.stderr).starts_with("fencepost: "), "{}", text(&damaged.stderr));
    assert_eq!(fs::read(&log).unwrap(), bytes);

    let within = testdata().join("files/coordinator/__transaction_state-0");
    let decoded = dump_log(&within, &["--print-data-log", "--format", "json", "00000000000000000000.log"]);
    assert!(text(&decoded.stdout).contains("\"transactionalId\":\"expired-empty\""));
}

/// Nothing to dump is a usage error; a reader that goes away is none.
#[test]
fn nothing_to_say_and_nobody_to_hear() {
    let here = tempfile::tempdir().unwrap();
    assert_eq!(dump_log(here.path(), &[]).status.code(), Some(2));
    assert_eq!(
        dump_log(here.path(), &["--offsets-decoder", "--cluster-metadata-decoder", "x"]).status.code(),
        Some(2)
    );

    let folder = testdata().join("files/cluster-metadata/static-voters/__cluster_metadata-0");
    let mut child = Command::new(env!("CARGO_BIN_EXE_fencepost"))
        .args(["dump-log", "--print-data-log", "--format", "kafka", "."])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
}
