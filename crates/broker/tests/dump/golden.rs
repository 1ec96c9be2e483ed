//! The same text as Kafka 4.4.0's own tool over the same files (storage-formats §18).

use fencepost_broker::dump::{Decoder, DumpOptions};

use crate::files::{disk_with, files_of, run_like_kafka, testdata};

/// Options as they stand on a command line.
fn options(words: &[String]) -> DumpOptions {
    let mut options = DumpOptions { working_directory: "/golden".to_owned(), ..DumpOptions::default() };
    for word in words {
        match word.as_str() {
            "--print-data-log" => options.print_data_log = true,
            "--deep-iteration" => options.deep_iteration = true,
            "--index-sanity-check" => options.index_sanity_check = true,
            "--verify-index-only" => options.verify_index_only = true,
            "--transaction-log-decoder" => options.decoder = Some(Decoder::TransactionLog),
            "--offsets-decoder" => options.decoder = Some(Decoder::Offsets),
            "--cluster-metadata-decoder" => options.decoder = Some(Decoder::ClusterMetadata),
            other => panic!("{other}"),
        }
    }
    options
}

/// Batches, records, indexes, sanity checks, snapshots, transaction indexes, both coordinators' topics, the metadata log, a
/// metadata snapshot, and five kinds of damage.
#[test]
fn the_text_is_that_of_kafkas_tool() {
    let expect = std::fs::read_to_string(testdata().join("kafka/expect.json")).unwrap();
    let expect: serde_json::Value = serde_json::from_str(&expect).unwrap();
    let expect = expect.as_array().unwrap();
    assert_eq!(expect.len(), 19);
    for case in expect {
        let strings = |name: &str| -> Vec<String> {
            let list = case[name].as_array().unwrap();
            list.iter().map(|word| word.as_str().unwrap().to_owned()).collect()
        };
        let name = case["output"].as_str().unwrap();
        let wanted = std::fs::read_to_string(testdata().join("kafka").join(name)).unwrap();
        let disk = disk_with("", &files_of(case["folder"].as_str().unwrap()));
        let names = strings("files");
        let paths: Vec<&str> = names.iter().map(String::as_str).collect();
        let (mut found, _, died_of) = run_like_kafka(&disk, &paths, &options(&strings("options")));
        found.extend(died_of.map(|exception| format!("{exception}\n")));
        for (number, (found, wanted)) in found.lines().zip(wanted.lines()).enumerate() {
            assert_eq!(found, wanted, "{name}, line {}", number + 1);
        }
        assert!(found == wanted, "{name}: {} lines, not {}", found.lines().count(), wanted.lines().count());
    }
}

/// What Kafka's tool says at the end, on its standard error: offsets of records that are not consecutive (it counts from −1
/// in each file), and index entries that do not fit the log.
#[test]
fn the_last_words_are_those_of_kafkas_tool() {
    let disk = disk_with("", &files_of("transactions/compacted-0"));
    let deep = DumpOptions { deep_iteration: true, ..options(&[]) };
    let (_, aside, _) =
        run_like_kafka(&disk, &["00000000000000000000.log", "00000000000000000049.log"], &deep);
    let wanted = "Non-consecutive offsets in /golden/00000000000000000000.log
  -1 is followed by 2
  2 is followed by 5
  5 is followed by 8
  8 is followed by 11
Non-consecutive offsets in /golden/00000000000000000049.log
  -1 is followed by 49
";
    assert_eq!(aside, wanted);

    let mut files = files_of("idempotent/codecs-0");
    for (name, bytes) in &mut files {
        match name.as_str() {
            // The second entry moves one offset down, to 18 where 19 is.
            "00000000000000000000.index" => bytes[8 + 3] -= 1,
            // The first entry's timestamp is one too high, the second's offset is 18, the third's time not above.
            "00000000000000000000.timeindex" => {
                bytes[7] += 1;
                bytes[12 + 11] -= 1;
                let second: [u8; 8] = bytes[12..20].try_into().unwrap();
                bytes[24..32].copy_from_slice(&second);
            }
            _ => {}
        }
    }
    let disk = disk_with("", &files);
    let paths = ["00000000000000000000.index", "00000000000000000000.timeindex", "x.unknown"];
    let (out, aside, died_of) = run_like_kafka(&disk, &paths, &options(&["--verify-index-only".to_owned()]));
    assert_eq!(died_of, None);
    assert_eq!(
        out,
        "Dumping 00000000000000000000.index\nDumping 00000000000000000000.timeindex\nDumping x.unknown\n"
    );
    let wanted = "Ignoring unknown file x.unknown
Mismatches in :/golden/00000000000000000000.index
  Index offset: 18, log offset: 19
Found timestamp mismatch in :/golden/00000000000000000000.timeindex
  Index timestamp: 1795990000141, log timestamp: 1795990000140
  Index timestamp: 1795990000350, log timestamp: 1795990000560
Found out of order timestamp in :/golden/00000000000000000000.timeindex
  Index timestamp: 1795990000350, Previously indexed timestamp: 1795990000350
The following indexed offsets are not found in :/golden/00000000000000000000.timeindex
Indexed offset: 18, found log offset: 19
";
    assert_eq!(aside, wanted);
}

/// Contents without offsets, times and sizes; control records leave an empty line.
#[test]
fn record_metadata_is_left_out_on_demand() {
    let disk = disk_with("", &files_of("transactions/txns-0"));
    let options =
        DumpOptions { skip_record_metadata: true, print_data_log: true, max_bytes: 240, ..options(&[]) };
    let (out, ..) = run_like_kafka(&disk, &["00000000000000000000.log"], &options);
    let records: Vec<&str> = out.lines().filter(|line| !line.starts_with("baseOffset")).collect();
    let wanted = [
        "Dumping 00000000000000000000.log",
        "Log starting offset: 0",
        "| payload: a1",
        "| payload: a2",
        "",
        "| payload: b1",
    ];
    assert_eq!(records, wanted);
}
