//! Every kind of file, in our own formats.

use fencepost_broker::dump::DumpOptions;
use fencepost_partition::{BatchContent, BatchFacts, ProducerStates};
use fencepost_types::{Millis, Offset, ProducerEpoch, ProducerId, Sequence};

use crate::files::{Format, disk_with, files_of, problems, run};

/// The rows of one file as JSON values, the file's own first.
fn rows(directory: &str, folder: &str, name: &str, options: &DumpOptions) -> Vec<serde_json::Value> {
    let disk = disk_with(directory, &files_of(folder));
    let path = if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") };
    let (text, _) = run(&disk, &[&path], options, Format::Ndjson);
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn data() -> DumpOptions {
    DumpOptions { print_data_log: true, ..DumpOptions::default() }
}

/// A log: batches, records with headers, markers.
#[test]
fn logs() {
    let rows = rows("", "idempotent/codecs-0", "00000000000000000000.log", &data());
    assert_eq!(rows[0]["kind"], "log");
    assert_eq!((&rows[0]["baseOffset"], &rows[0]["bytes"]), (&0.into(), &1471.into()));
    let batch = &rows[1];
    assert_eq!(
        (&batch["type"], &batch["baseOffset"], &batch["lastOffset"]),
        (&"batch".into(), &0.into(), &4.into())
    );
    assert_eq!((&batch["compression"], &batch["isValid"]), (&"none".into(), &true.into()));
    assert_eq!(batch["deleteHorizonMs"], serde_json::Value::Null);
    let with_headers = &rows[4];
    assert_eq!((&with_headers["key"], &with_headers["valueSize"]), (&"k2".into(), &(-1).into()));
    let keys: Vec<&str> = with_headers["headers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|header| header["key"].as_str().unwrap())
        .collect();
    assert_eq!(keys, ["a", "a", "empty", "null"]);
    assert_eq!(with_headers["headers"][3]["value"], serde_json::Value::Null);
    assert!(rows.iter().all(|row| row["type"] != "problem"));

    let markers = crate::kinds::rows("", "transactions/txns-0", "00000000000000000000.log", &data());
    let controls: Vec<&serde_json::Value> =
        markers.iter().filter(|row| row["control"].is_object()).map(|row| &row["control"]["type"]).collect();
    assert_eq!(controls, ["COMMIT", "COMMIT", "ABORT", "ABORT", "ABORT"]);
}

/// Kafka's own topics are decoded by the name of their directory, wherever it lies.
#[test]
fn internal_topics_are_known_by_their_directory() {
    for (directory, folder, name, key, value) in [
        (
            "data/__transaction_state-0",
            "coordinator/__transaction_state-0",
            "00000000000000000000.log",
            "/key/data/transactionalId",
            "/value/data/transactionStatus",
        ),
        (
            "__consumer_offsets-7",
            "offsets/__consumer_offsets-0",
            "00000000000000000000.log",
            "/key/data/group",
            "/value/data/protocolType",
        ),
        (
            "__cluster_metadata-0",
            "cluster-metadata/static-voters/__cluster_metadata-0",
            "00000000000000000000.log",
            "/value/type",
            "/value/data",
        ),
        (
            "__cluster_metadata-0",
            "cluster-metadata/dynamic-voters/__cluster_metadata-0",
            "00000000000000000000-0000000000.checkpoint",
            "/value/type",
            "/value/data/name",
        ),
    ] {
        let rows = rows(directory, folder, name, &data());
        let records: Vec<_> =
            rows.iter().filter(|row| row["type"] == "record" && row["control"].is_null()).collect();
        for pointer in [key, value] {
            assert!(records[0].pointer(pointer).is_some(), "{directory}: no {pointer} in {}", records[0]);
        }
        assert!(records.iter().all(|record| record.pointer("/key/note").is_none()), "{directory}");
    }
    let here = DumpOptions { working_directory: "/data/__transaction_state-3".to_owned(), ..data() };
    let rows = rows("", "coordinator/__transaction_state-0", "00000000000000000000.log", &here);
    assert_eq!(rows[2].pointer("/key/data/transactionalId"), Some(&"expired-empty".into()));
}

/// The four indexes and snapshots, row by row.
#[test]
fn indexes_and_snapshots() {
    let plain = DumpOptions::default();
    let index = rows("", "idempotent/codecs-0", "00000000000000000035.index", &plain);
    assert_eq!((&index[1]["offset"], &index[1]["position"]), (&49.into(), &352.into()));
    assert_eq!(index.len(), 3);
    let times = rows("", "idempotent/codecs-0", "00000000000000000066.timeindex", &plain);
    assert_eq!((&times[1]["timestamp"], &times[1]["offset"]), (&1_795_990_001_230_i64.into(), &69.into()));
    let empty = rows("", "idempotent/codecs-0", "00000000000000000066.index", &plain);
    assert_eq!(empty[1]["type"], "index-empty");
    let aborted = rows("", "transactions/txns-0", "00000000000000000018.txnindex", &plain);
    assert_eq!((&aborted[1]["producerId"], &aborted[1]["lastStableOffset"]), (&2.into(), &11.into()));
    let producers = rows("", "transactions/txns-0", "00000000000000000018.snapshot", &plain);
    assert_eq!(producers.len(), 5);
    assert_eq!(
        (&producers[2]["producerId"], &producers[2]["currentTxnFirstOffset"]),
        (&1.into(), &11.into())
    );
    assert_eq!(producers[1]["currentTxnFirstOffset"], serde_json::Value::Null);

    let sane = DumpOptions { index_sanity_check: true, ..plain.clone() };
    for name in ["00000000000000000035.index", "00000000000000000035.timeindex"] {
        assert_eq!(rows("", "idempotent/codecs-0", name, &sane)[1]["type"], "index-sane");
    }
    let quiet = DumpOptions { verify_index_only: true, ..plain };
    assert_eq!(rows("", "idempotent/codecs-0", "00000000000000000035.index", &quiet).len(), 1);
}

/// The text files: each line a row, in its own terms.
#[test]
fn text_files() {
    let plain = DumpOptions::default();
    let checkpoint = rows("", "data-dir", "replication-offset-checkpoint", &plain);
    assert_eq!(checkpoint.len(), 13);
    assert!(
        checkpoint.iter().any(|row| row["topic"] == "txns" && row["partition"] == 0 && row["offset"] == 24)
    );
    for name in
        ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "cleaner-offset-checkpoint"]
    {
        assert_eq!(rows("", "data-dir", name, &plain)[1]["type"], "checkpoint", "{name}");
    }
    let epochs = rows("", "idempotent/codecs-0", "leader-epoch-checkpoint", &plain);
    assert_eq!((&epochs[2]["epoch"], &epochs[2]["startOffset"]), (&2.into(), &70.into()));
    let metadata = rows("", "idempotent/codecs-0", "partition.metadata", &plain);
    assert_eq!((&metadata[2]["key"], &metadata[1]["value"]), (&"topic_id".into(), &"0".into()));
    let properties = rows("", "data-dir", "meta.properties", &plain);
    assert_eq!(properties.iter().filter(|row| row["type"] == "property").count(), 4);
    let quorum = rows("", "cluster-metadata/dynamic-voters/__cluster_metadata-0", "quorum-state", &plain);
    let state: serde_json::Value = serde_json::from_str(quorum[1]["text"].as_str().unwrap()).unwrap();
    assert_eq!(state["leaderEpoch"], 1);
    for rows in [checkpoint, epochs, metadata, properties, quorum] {
        assert!(rows.iter().all(|row| row["type"] != "problem"), "{rows:?}");
    }
}

/// One JSON document holds what the lines hold; a table says the same in columns.
#[test]
fn formats_agree() {
    let disk = disk_with("txns-0", &files_of("transactions/txns-0"));
    let (lines, line_summary) = run(&disk, &["txns-0"], &data(), Format::Ndjson);
    let (document, document_summary) = run(&disk, &["txns-0"], &data(), Format::Json);
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    let files = document.as_array().unwrap();
    let rows: usize = files.iter().map(|file| file["rows"].as_array().unwrap().len()).sum();
    assert_eq!(rows + files.len(), lines.lines().count());
    assert_eq!((line_summary.errors, line_summary.files), (0, files.len() as u64));
    assert_eq!(line_summary, document_summary);
    let (nothing, _) = run(&disk, &[], &data(), Format::Json);
    assert_eq!(nothing, "[]\n");

    let (table, _) = run(&disk, &["txns-0"], &data(), Format::Table);
    for part in [
        "txns-0/00000000000000000000.log (log, 1130 bytes)",
        "ABORT of coordinator epoch 0",
        "- = plain",
        "2026-",
    ] {
        assert!(table.contains(part), "no `{part}` in\n{table}");
    }
    assert!(table.lines().all(|line| line == line.trim_end()));
}

/// Files of a directory come in the order of the log: text files, then each segment with its indexes.
#[test]
fn a_directory_is_dumped_in_order() {
    let disk = disk_with("d/txns-0", &files_of("transactions/txns-0"));
    let (lines, _) = run(&disk, &["d"], &DumpOptions::default(), Format::Ndjson);
    let files: Vec<String> = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|line| line["type"] == "file")
        .map(|line| line["file"].as_str().unwrap().to_owned())
        .collect();
    let wanted = [
        "d",
        "d/txns-0",
        "d/txns-0/leader-epoch-checkpoint",
        "d/txns-0/partition.metadata",
        "d/txns-0/00000000000000000000.log",
        "d/txns-0/00000000000000000000.index",
        "d/txns-0/00000000000000000000.timeindex",
        "d/txns-0/00000000000000000000.txnindex",
        "d/txns-0/00000000000000000018.log",
    ];
    assert_eq!(files[..wanted.len()], wanted);
    let (slash, _) = run(&disk, &["d/txns-0"], &DumpOptions::default(), Format::Ndjson);
    assert!(slash.contains("\"file\":\"d/txns-0/00000000000000000018.log\""));
}

/// Directories that Kafka left in order have no errors; compaction leaves gaps and files to be removed.
#[test]
fn sound_directories_have_no_errors() {
    for folder in ["transactions/txns-0", "unclean/faults/as-killed-0"] {
        let disk = disk_with("t-0", &files_of(folder));
        assert_eq!(problems(&disk, &["t-0"]), [], "{folder}");
    }
    let disk = disk_with("t-0", &files_of("transactions/compacted-0"));
    let mut names: Vec<String> = problems(&disk, &["t-0"]).into_iter().map(|(_, name)| name).collect();
    names.dedup();
    assert_eq!(names, ["leftovers", "gaps", "gap-between-segments"]);
    let options = DumpOptions { problems_only: true, ..DumpOptions::default() };
    assert_eq!(run(&disk, &["t-0"], &options, Format::Table).1.errors, 0);
}

/// The windows of producers beside a snapshot: a row for each batch; whatever is wrong with the bytes is said.
#[test]
fn producer_windows() {
    let mut states = ProducerStates::new(Offset(0));
    for sequence in 0..7 {
        states.replay(
            None,
            &BatchFacts {
                base_offset: Offset(i64::from(sequence) * 2),
                last_offset_delta: 1,
                producer_id: ProducerId(9),
                producer_epoch: ProducerEpoch(3),
                base_sequence: Sequence(sequence * 2),
                max_timestamp: Millis(1_000 + i64::from(sequence)),
                is_transactional: false,
                content: BatchContent::Data,
            },
        );
    }
    let snapshot = states.encode_snapshot();
    let windows = states.encode_windows(&snapshot).unwrap();
    let name = "00000000000000000014.window";
    let dump = |content: &[u8]| {
        let files = [
            (name.to_owned(), content.to_vec()),
            ("00000000000000000014.snapshot".to_owned(), snapshot.clone()),
        ];
        let (text, _) = run(
            &disk_with("t-0", &files),
            &[&format!("t-0/{name}")],
            &DumpOptions::default(),
            Format::Ndjson,
        );
        let rows = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        rows.collect::<Vec<_>>()
    };
    let rows = dump(&windows);
    assert_eq!((&rows[0]["kind"], rows.len()), (&"window".into(), 6));
    assert_eq!((&rows[1]["producerId"], &rows[1]["lastSequence"]), (&9.into(), &5.into()));
    assert_eq!((&rows[5]["lastOffset"], &rows[5]["lastTimestamp"]), (&13.into(), &1_006.into()));
    for at in 0..windows.len() {
        let mut flipped = windows.clone();
        flipped[at] ^= 1;
        assert_eq!(dump(&flipped)[1]["type"], "problem", "byte {at}");
        assert_eq!(dump(&windows[..at])[1]["type"], "problem", "{at} bytes");
    }
}
