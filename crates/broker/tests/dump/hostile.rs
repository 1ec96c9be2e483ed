//! Whatever is in a file, a dump of it ends, and says something.

use fencepost_broker::dump::{Decoder, DumpOptions};
use fencepost_records::{BatchBuilder, Compression, CompressionType};
use fencepost_types::{LeaderEpoch, Millis, Offset};
use proptest::prelude::*;

use crate::files::{Format, disk_with, files_of, run, run_like_kafka};

type Files = Vec<(String, Vec<u8>)>;

const FOLDERS: [&str; 6] = [
    "unclean/faults/as-killed-0",
    "transactions/compacted-0",
    "idempotent/codecs-0",
    "coordinator/__transaction_state-0",
    "offsets/__consumer_offsets-0",
    "cluster-metadata/dynamic-voters/__cluster_metadata-0",
];

/// Every way to dump a directory.
fn dump_all_ways(directory: &str, files: &Files) {
    let disk = disk_with(directory, files);
    let deep = DumpOptions { print_data_log: true, ..DumpOptions::default() };
    for format in [Format::Table, Format::Json, Format::Ndjson] {
        let (text, _) = run(&disk, &[directory], &deep, format);
        assert!(!text.is_empty());
        if let Format::Json = format {
            serde_json::from_str::<serde_json::Value>(&text)
                .unwrap_or_else(|error| panic!("{error}: {text}"));
        }
    }
    let options = [
        DumpOptions { problems_only: true, ..DumpOptions::default() },
        DumpOptions { index_sanity_check: true, ..DumpOptions::default() },
        DumpOptions { decoder: Some(Decoder::Offsets), max_bytes: 700, ..DumpOptions::default() },
        DumpOptions {
            decoder: Some(Decoder::ShareGroupState),
            max_message_size: 0,
            ..DumpOptions::default()
        },
    ];
    for options in options {
        run(&disk, &[directory], &options, Format::Ndjson);
    }
    for (name, _) in files {
        run_like_kafka(&disk, &[&format!("{directory}/{name}")], &deep);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Files of Kafka's with bytes changed, cut off, or put in.
    #[test]
    fn damaged_files_are_survived(
        folder in 0..FOLDERS.len(),
        damage in proptest::collection::vec(
            (any::<proptest::sample::Index>(), any::<proptest::sample::Index>(), any::<u8>(), 0..4), 1..6),
    ) {
        let mut files = files_of(FOLDERS[folder]);
        for (file, at, byte, kind) in damage {
            let bytes = &mut file.get_mut(&mut files).1;
            let at = at.index(bytes.len() + 1);
            match kind {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, byte),
                2 => bytes[at..].fill(byte),
                _ => if let Some(there) = bytes.get_mut(at) { *there = byte },
            }
        }
        let name = FOLDERS[folder].rsplit('/').next().unwrap();
        dump_all_ways(name, &files);
    }

    /// Files of nothing but noise, of every kind.
    #[test]
    fn noise_is_survived(noise in proptest::collection::vec(any::<u8>(), 0..400)) {
        let names = [
            "00000000000000000000.log", "00000000000000000000.index", "00000000000000000000.timeindex",
            "00000000000000000000.txnindex", "00000000000000000000.snapshot", "00000000000000000000-0000000000.checkpoint",
            "bootstrap.checkpoint", "leader-epoch-checkpoint", "partition.metadata", "meta.properties", "quorum-state",
            "replication-offset-checkpoint", ".kafka_cleanshutdown", "09223372036854775807.index", "9223372036854775807.log",
        ];
        let files: Files = names.iter().map(|name| (name.to_string(), noise.clone())).collect();
        dump_all_ways("__consumer_offsets-0", &files);
    }

    /// Records of any content under every decoder.
    #[test]
    fn any_content_is_survived(
        records in proptest::collection::vec(
            (proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)),
             proptest::option::of(proptest::collection::vec(any::<u8>(), 0..60))), 1..8),
        is_control in any::<bool>(),
        first in 0i16..30,
    ) {
        let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch(0)).control(is_control);
        for (at, (key, value)) in records.into_iter().enumerate() {
            // Half of the keys begin as a coordinator's, half of the values as a metadata record.
            let key = key.map(|key| if at % 2 == 0 { [&first.to_be_bytes()[..], &key].concat() } else { key });
            let value = value.map(|value| if at % 2 == 0 { [&[1, first as u8, 0][..], &value].concat() } else { value });
            builder.append(Millis(at as i64), key.as_deref(), value.as_deref(), &[]);
        }
        let log = builder.build().unwrap().into_bytes().to_vec();
        for directory in ["t-0", "__consumer_offsets-0", "__transaction_state-0", "__cluster_metadata-0",
                          "__share_group_state-0"] {
            dump_all_ways(directory, &vec![("00000000000000000000.log".to_owned(), log.clone())]);
        }
    }
}

/// Every file of every kind, cut at every length up to 300.
#[test]
fn cut_files_are_survived() {
    let files = files_of("unclean/faults/as-killed-0");
    for length in 0..300 {
        let mut cut = files.clone();
        cut.iter_mut().for_each(|(_, bytes)| bytes.truncate(length));
        let disk = disk_with("t-0", &cut);
        let options = DumpOptions { problems_only: true, ..DumpOptions::default() };
        let (_, summary) = run(&disk, &["t-0"], &options, Format::Ndjson);
        assert!(length > 250 || summary.errors > 0, "{length}");
    }
}

/// A length of two gigabytes in a small file is not believed, and a few bytes that inflate to gigabytes are not inflated.
#[test]
fn announcements_are_not_believed() {
    let mut log = vec![0; 61];
    log[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
    log[16] = 2;
    let disk = disk_with("", &[("00000000000000000000.log".to_owned(), log)]);
    let deep = DumpOptions { deep_iteration: true, ..DumpOptions::default() };
    let (text, summary) = run(&disk, &["00000000000000000000.log"], &deep, Format::Ndjson);
    assert_eq!(summary.errors, 1, "{text}");

    let zeros = vec![0; 300 * 1024 * 1024];
    let bomb = Compression::new(CompressionType::Zstd).compress(&zeros).unwrap();
    drop(zeros);
    let mut builder = BatchBuilder::new(Offset(0), LeaderEpoch(0));
    builder.append(Millis(0), None, Some(&bomb), &[]);
    let mut batch = builder.build().unwrap().into_bytes().to_vec();
    // The payload is the bomb itself, and the attributes say zstd.
    batch.truncate(61);
    batch.extend(&bomb);
    let length = (batch.len() - 12) as i32;
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    batch[22] = 4;
    let disk = disk_with("", &[("00000000000000000000.log".to_owned(), batch)]);
    let (text, _) = run(&disk, &["00000000000000000000.log"], &deep, Format::Ndjson);
    assert!(text.contains("bad-records") && text.contains("inflate"), "{text}");
}
