use super::*;

fn offsets(lines: &[(&str, i32, i64)]) -> BTreeMap<TopicPartition, Offset> {
    lines
        .iter()
        .map(|(topic, partition, offset)| (TopicPartition::new(*topic, *partition), Offset(*offset)))
        .collect()
}

/// Checkpoints as Kafka writes them; no bytes means empty, and so does a count of zero (storage-formats §8.3).
#[test]
fn offset_checkpoints() {
    let text = "0\n2\n__consumer_offsets 0 1\ntxns-a 12 24\n";
    let values = offsets(&[("__consumer_offsets", 0, 1), ("txns-a", 12, 24)]);
    assert_eq!(parse_offsets(text), Some(values.clone()));
    assert_eq!(format_offsets(&values), text);
    assert_eq!(parse_offsets(""), Some(BTreeMap::new()));
    assert_eq!(parse_offsets("0\n0\n"), Some(BTreeMap::new()));
    assert_eq!(format_offsets(&BTreeMap::new()), "0\n0\n");
    for broken in [
        "1\n0\n",
        "0\n1\n",
        "0\n2\na 0 1\n",
        "0\n1\na 0\n",
        "0\n1\na 0 1 2\n",
        "0\n1\na 0 x\n",
        "0\n1\na 0 1",
    ] {
        assert_eq!(parse_offsets(broken), None, "{broken:?}");
    }
}

/// Epochs rise strictly, their offsets do not fall (storage-formats §7.6).
#[test]
fn epoch_checkpoints() {
    let values = vec![(LeaderEpoch(0), Offset(0)), (LeaderEpoch(2), Offset(24))];
    assert_eq!(parse_epochs("0\n2\n0 0\n2 24\n"), Some(values.clone()));
    assert_eq!(format_epochs(&values), "0\n2\n0 0\n2 24\n");
    for broken in ["0\n2\n2 0\n2 24\n", "0\n2\n0 24\n2 0\n", "0\n1\n-1 0\n", "\0\0\0\0", "0\n1\n0 0 0\n"] {
        assert_eq!(parse_epochs(broken), None, "{broken:?}");
    }
}

/// No newline at the end, and an id of zero is none (storage-formats §7.7, storage-formats
/// trap 20).
#[test]
fn partition_metadata() {
    let id = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
    let text = format_partition_metadata(id);
    assert!(!text.ends_with('\n'));
    assert_eq!(parse_partition_metadata(&text), Some(id));
    assert_eq!(
        format_partition_metadata(Uuid::METADATA_TOPIC),
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    );
    for broken in [
        "",
        "version: 0",
        "version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
    ] {
        assert_eq!(parse_partition_metadata(broken), None, "{broken:?}");
    }
}

/// Java properties: comments, any order, escapes (storage-formats §8.1).
#[test]
fn meta_properties() {
    let kafkas = "#\n#Sun Nov 29 23:46:01 UTC 2026\nnode.id=1\ndirectory.id=RBiIgzqn9ZcEEUDR6ZAVJA\nversion=1\ncluster.id=ZmVuY2Vwb3N0LXBlZXIwMAo\n";
    let meta = MetaProperties::parse(kafkas).unwrap();
    assert_eq!(meta.cluster_id, "ZmVuY2Vwb3N0LXBlZXIwMAo");
    assert_eq!(meta.node_id, BrokerId(1));
    assert_eq!(meta.directory_id, Uuid::parse("RBiIgzqn9ZcEEUDR6ZAVJA"));
    assert_eq!(MetaProperties::parse(&meta.format()), Ok(meta));

    let old = MetaProperties::parse("  ! old\nversion : 0\nbroker.id 7\ncluster.id=a\\=b\\u0041").unwrap();
    assert_eq!((old.cluster_id.as_str(), old.node_id, old.directory_id), ("a=bA", BrokerId(7), None));

    let odd = MetaProperties { cluster_id: " a=b:c\\#\n".into(), node_id: BrokerId(2), directory_id: None };
    assert_eq!(MetaProperties::parse(&odd.format()), Ok(odd));

    for broken in [
        "",
        "version=2\n",
        "version=1\nnode.id=x\ncluster.id=a\n",
        "version=1\nnode.id=1\n",
        "version=1\nnode.id=1\ncluster.id=a\ndirectory.id=b",
    ] {
        assert!(MetaProperties::parse(broken).is_err(), "{broken:?}");
    }
}

/// One line of JSON; what cannot be read only means "no epoch known" (storage-formats §8.2).
#[test]
fn clean_shutdown_mark() {
    assert_eq!(format_clean_shutdown(22), "{\"version\":0,\"brokerEpoch\":22}");
    assert_eq!(parse_clean_shutdown("{\"version\":0,\"brokerEpoch\":22}"), 22);
    assert_eq!(parse_clean_shutdown("{ \"brokerEpoch\" : -5 , \"version\":0}"), -5);
    for unknown in ["", "{}", "garbage", "{\"brokerEpoch\":}"] {
        assert_eq!(parse_clean_shutdown(unknown), -1, "{unknown:?}");
    }
}
