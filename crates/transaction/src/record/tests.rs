use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::*;
use crate::TransactionShard;
use crate::testing::{Commit, Coordinator, P, T, TX, V0, V1, V2, orders, record, txn_at, txn_in};
use fencepost_coordinator::{LogPosition, Shard};
use fencepost_types::{Millis, Offset};
use proptest::prelude::*;

const LOG: &str = include_str!("../../testdata/kafka-4.4.0-transaction-state.txt");
const DESCRIBED: &str = include_str!("../../testdata/kafka-4.4.0-described.txt");

fn bytes(text: &str) -> Bytes {
    Bytes::from(hex::decode(text.replace(char::is_whitespace, "")).expect("hex"))
}

fn decode(key: &str, value: Option<&str>) -> Result<Option<TransactionRecord>, DecodeError> {
    TransactionRecord::decode(Some(&bytes(key)), value.map(bytes).as_ref())
}

const VECTOR_KEY: &str = "0000000474782d31";
const VECTOR_V1: &str = "000100000000000003e800030000ea600102076f726465727303000000000000
                         0001000000018bcfe5680a0000018bcfe568000102020002";
const VECTOR_V0: &str = "000000000000000003e800030000ea60010000000100066f7264657273000000
                         0200000000000000010000018bcfe5680a0000018bcfe56800";

fn vector(version: i16) -> TransactionRecord {
    let client_transaction_version = if version == 0 { V0 } else { V2 };
    let txn = TxnMetadata {
        producer_id: ProducerId(1000),
        previous_producer_id: ProducerId::NONE,
        replaced_producer_id: ProducerId::NONE,
        next_producer_id: ProducerId::NONE,
        producer_epoch: ProducerEpoch(3),
        last_producer_epoch: ProducerEpoch::NONE,
        timeout_ms: 60_000,
        state: TransactionState::Ongoing,
        partitions: orders(&[0, 1]).into_iter().collect(),
        start: Millis(T),
        last_update: Millis(T + 10),
        client_transaction_version,
    };
    let value = Some(TransactionValue { version, txn });
    TransactionRecord { transactional_id: TransactionalId::from("tx-1"), value }
}

/// storage-formats §17: the golden vectors, both ways.
#[test]
fn golden_vectors() {
    for (version, value) in [(0, VECTOR_V0), (1, VECTOR_V1)] {
        assert_eq!(decode(VECTOR_KEY, Some(value)), Ok(Some(vector(version))));
        assert_eq!(vector(version).encode(), (Some(bytes(VECTOR_KEY)), Some(bytes(value))));
    }
    let tombstone = TransactionRecord { value: None, ..vector(0) };
    assert_eq!(decode(VECTOR_KEY, None), Ok(Some(tombstone.clone())));
    assert_eq!(tombstone.encode(), (Some(bytes(VECTOR_KEY)), None));
}

/// The fields of a record as one line of the golden file says them.
fn fields(value: &TransactionValue) -> String {
    let TransactionValue { version, txn } = value;
    let names: Vec<_> = txn.partitions.iter().map(|partition| format!("{partition}")).collect();
    let partitions = match (txn.state, names.is_empty()) {
        (TransactionState::Empty, _) => String::from("null"),
        (_, true) => String::from("none"),
        (_, false) => names.join(","),
    };
    format!(
        "{version} {} {} {} {} {partitions} {} {} {} {} {}",
        txn.producer_id,
        txn.producer_epoch,
        txn.timeout_ms,
        txn.state,
        txn.last_update,
        txn.start,
        txn.previous_producer_id,
        txn.next_producer_id,
        txn.client_transaction_version.level()
    )
}

fn kafkas_log() -> Vec<(Bytes, Option<Bytes>, Option<&'static str>)> {
    let lines = LOG.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (record, fields) = line.split_once(" | ").map_or((line, None), |(a, b)| (a, Some(b)));
            let words: Vec<_> = record.split(' ').collect();
            let value = (words[3] != "tombstone").then(|| bytes(words[3]));
            (bytes(words[2]), value, fields)
        })
        .collect()
}

/// Every record of a log that Kafka wrote is read with every field, and written again to the same bytes; the previous producer
/// id is mostly the record's own (storage-formats trap 33). (Order of partitions means nothing; Kafka happened to write them in
/// order.)
#[test]
fn kafkas_log_is_read_and_written_again() {
    let log = kafkas_log();
    assert_eq!(log.len(), 126);
    for (key, value, expected) in log {
        let record = TransactionRecord::decode(Some(&key), value.as_ref()).unwrap().unwrap();
        assert_eq!(record.value.as_ref().map(fields).as_deref(), expected);
        assert_eq!(record.encode(), (Some(key), value));
    }
}

fn described(shard: &TransactionShard) -> BTreeMap<String, String> {
    let rows = shard.transactions().map(|(id, txn)| {
        let names: Vec<_> = txn.partitions.iter().map(|partition| format!("{partition}")).collect();
        let partitions = if names.is_empty() { String::from("none") } else { names.join(",") };
        let (state, producer_id, epoch) = (txn.state, txn.producer_id, txn.producer_epoch);
        (String::from(&**id), format!("{state} {producer_id} {epoch} {} {partitions}", txn.timeout_ms))
    });
    rows.collect()
}

fn kafka_described(when: &str) -> BTreeMap<String, String> {
    let lines = DESCRIBED.lines().filter_map(|line| line.strip_prefix(when)?.strip_prefix(' '));
    lines
        .map(|line| line.split_once(' ').expect("an id and its fields"))
        .map(|(id, fields)| (String::from(id), String::from(fields)))
        .collect()
}

/// Kafka's log, loaded: every id as Kafka described it before it was killed; and, with the markers written that are
/// owed, as Kafka described it after it had started again (§17.5).
#[test]
fn kafkas_log_is_loaded_and_carried_on() {
    let mut coordinator = Coordinator::new();
    for (offset, (key, value, _)) in kafkas_log().into_iter().enumerate() {
        let record = TransactionRecord::decode(Some(&key), value.as_ref()).unwrap().unwrap();
        coordinator.log.push((key, value));
        coordinator.shard.replay(LogPosition::plain(Offset(offset as i64)), &record);
        coordinator.shard.check();
    }
    coordinator.shard.loaded(coordinator.now);
    assert_eq!(described(&coordinator.shard), kafka_described("before"));
    coordinator.settle();
    assert_eq!(described(&coordinator.shard), kafka_described("after"));
}

/// coordinator trap 9: the last epoch is in the log. Where it follows from the rest, as at the end of a transaction
/// under version 2, a value is exactly Kafka's; elsewhere a tag of ours carries it.
#[test]
fn the_last_epoch_is_in_the_log() {
    let ends = |value: &TransactionRecord| hex::encode(value.encode().1.expect("a value"));
    let our_tag = "904e020004";
    for state in TransactionState::ALL {
        for version in [V0, V2] {
            let written = record(TX, txn_in(state, version));
            let (key, value) = written.encode();
            let read = TransactionRecord::decode(key.as_ref(), value.as_ref());
            assert_eq!(read, Ok(Some(written.clone())), "{state} {version:?}");
            let follows =
                version == V2 && !matches!(state, TransactionState::Empty | TransactionState::Ongoing);
            assert_eq!(ends(&written).ends_with(our_tag), !follows, "{state} {version:?}");
        }
    }
    // Right after a rotation under version 2.
    let mut rotated = txn_at(TransactionState::CompleteCommit, V2, 0);
    (rotated.previous_producer_id, rotated.last_producer_epoch) = (ProducerId(90), ProducerEpoch(32766));
    assert_eq!(rotated.derived_last_producer_epoch(), ProducerEpoch(32766));
    // A record of Kafka before 4.3 does not tell.
    rotated.previous_producer_id = ProducerId::NONE;
    assert_eq!(rotated.derived_last_producer_epoch(), ProducerEpoch::NONE);
    let none =
        TxnMetadata { last_producer_epoch: ProducerEpoch::NONE, ..txn_in(TransactionState::Empty, V0) };
    assert!(!ends(&record(TX, none)).contains("904e"));
}

/// The producer id before the current one is in the log: right after a rotation Kafka's previous producer id says it,
/// from then on a tag of ours does, because to Kafka that field is a right to end the open transaction.
#[test]
fn the_replaced_producer_id_is_in_the_log() {
    let our_tag = "914e08000000000000005a";
    for (state, previous, follows) in [
        (TransactionState::CompleteAbort, 90, true),
        (TransactionState::Empty, 90, true),
        (TransactionState::Empty, P.0, false),
        (TransactionState::Ongoing, P.0, false),
        (TransactionState::PrepareCommit, P.0, false),
        (TransactionState::CompleteCommit, P.0, false),
    ] {
        let mut txn = txn_at(state, V2, 1);
        (txn.previous_producer_id, txn.replaced_producer_id) = (ProducerId(previous), ProducerId(90));
        let written = record(TX, txn);
        let (key, value) = written.encode();
        let hex = hex::encode(value.as_ref().expect("a value"));
        assert_eq!(hex.ends_with(our_tag), !follows, "{state} {previous}");
        assert_eq!(TransactionRecord::decode(key.as_ref(), value.as_ref()), Ok(Some(written)), "{state}");
    }
}

/// coordinator trap 9, storage-formats trap 27: legal retries are answered after a failover as before (KAFKA-20310,
/// KAFKA-20357).
#[test]
fn a_failover_forgets_no_retry() {
    let mut one = Coordinator::with(V2, txn_in(TransactionState::Empty, V0));
    one.restart();
    assert_eq!(one.init(Some((P, 4))), "NONE 100/5");
    let mut two = Coordinator::with(V2, txn_in(TransactionState::Ongoing, V2));
    two.finish((P, 5), Commit, V2);
    two.restart();
    assert_eq!(two.end((P, 5), Commit, V2), "NONE 100/6");
    assert_eq!(two.init(Some((P, 5))), "NONE 100/6");
    // A rotation: the producer id that follows while it is in flight, the one before when it is done.
    let mut three = Coordinator::with(V2, txn_at(TransactionState::Ongoing, V2, 32766));
    assert_eq!(three.end((P, 32766), Commit, V2), "NONE 101/0");
    three.restart();
    three.settle();
    assert_eq!(three.state(), (TransactionState::CompleteCommit, ProducerId(101), 0));
    three.restart();
    assert_eq!(three.end((P, 32766), Commit, V2), "NONE 101/0");
    assert_eq!(three.init(Some((P, 32766))), "NONE 101/0");
}

/// coordinator trap 21: at level 0 a transaction of version 2 is written without the tags; it is not refused. What a
/// failover then forgets ends well nevertheless: markers of version 0, and a rotation at the next InitProducerId.
#[test]
fn level_0_writes_version_2_transactions_without_tags() {
    let mut coordinator = Coordinator::with(V0, txn_at(TransactionState::Ongoing, V2, 32766));
    assert_eq!(coordinator.end((P, 32766), Commit, V2), "NONE 101/0");
    let mut before_failover = coordinator.clone();
    before_failover.settle();
    assert_eq!(before_failover.state(), (TransactionState::CompleteCommit, ProducerId(101), 0));
    coordinator.restart();
    let owed = coordinator.shard.markers_owed_by(TX).expect("markers are owed");
    assert_eq!((owed.transaction_version, owed.producer_epoch), (V0, ProducerEpoch::MAX));
    coordinator.settle();
    assert_eq!(coordinator.state(), (TransactionState::CompleteCommit, P, 32767));
    assert_eq!(coordinator.init(None), "NONE 102/0");
}

/// §4: the level decides the version of values, from the next record on.
#[test]
fn the_level_decides_the_value_version() {
    for (level, version) in [(V0, 0), (V1, 1), (V2, 1)] {
        let mut coordinator = Coordinator::at_level(level);
        coordinator.init(None);
        let (_, value) = &coordinator.log[0];
        assert_eq!(value.as_ref().map(|value| value[..2].to_vec()), Some(Vec::from([0, version])));
    }
}

/// coordinator trap 9, issue 12, A2: at level 0 a value is flexible where it is the answer of an InitProducerId that may be lost, and
/// there alone; a failover then answers the retry as before.
#[test]
fn level_0_keeps_the_last_epoch() {
    let mut coordinator = Coordinator::at_level(V0);
    coordinator.init(None);
    coordinator.init(Some((P, 0)));
    assert_eq!(
        coordinator.ask(&crate::testing::add((P, 1), &[0], V0)),
        Ok(crate::request::Reply::PartitionsAdded)
    );
    coordinator.end((P, 1), Commit, V0);
    coordinator.settle();
    coordinator.init(Some((P, 1)));
    coordinator.init(None);
    let versions = coordinator.log.iter().map(|(_, value)| value.as_ref().map(|value| value[1]));
    assert_eq!(versions.collect::<Vec<_>>(), [0, 1, 0, 0, 0, 1, 0].map(Some));
    let mut retried = Coordinator::with(V0, txn_in(TransactionState::Empty, V0));
    assert_eq!(retried.init(Some((P, 5))), "NONE 100/6");
    retried.restart();
    assert_eq!(retried.init(Some((P, 5))), "NONE 100/6");
}

/// §4: unknown tags are skipped (one between Kafka's and ours, one beyond); unknown versions of keys and values are
/// not ours.
#[test]
fn what_is_not_known_is_skipped() {
    let v1 = VECTOR_V1.replace(char::is_whitespace, "");
    let kafkas = v1.strip_suffix("0102020002").expect("the tagged fields");
    let more = format!("{kafkas}0302020002030200 09a08d0601ff");
    assert_eq!(decode(VECTOR_KEY, Some(&more)), Ok(Some(vector(1))));
    assert_eq!(decode("0001000474782d31", Some(VECTOR_V1)), Ok(None));
    assert_eq!(decode(VECTOR_KEY, Some(&v1.replacen("0001", "0002", 1))), Ok(None));
    assert_eq!(decode(VECTOR_KEY, Some(&v1.replacen("0001", "ffff", 1))), Ok(None));
}

/// What cannot be a record is an error: no key, half a value, a state that is never written.
#[test]
fn what_is_broken_is_an_error() {
    assert_eq!(TransactionRecord::decode(None, None), Err(DecodeError::UnexpectedNull));
    let v1 = VECTOR_V1.replace(char::is_whitespace, "");
    assert_eq!(decode(VECTOR_KEY, Some(&v1[..v1.len() - 2])), Err(DecodeError::Truncated));
    for state in ["06", "07", "ff"] {
        let odd = v1.replacen("ea6001", &format!("ea60{state}"), 1);
        assert_eq!(decode(VECTOR_KEY, Some(&odd)), Err(DecodeError::UnsupportedVersion));
    }
}

/// storage-formats §14: Empty has a null list, the other states have one that may be empty.
#[test]
fn only_empty_has_no_list() {
    for state in TransactionState::ALL {
        let mut txn = txn_in(state, V1);
        txn.partitions.clear();
        let value = record(TX, txn).encode().1.expect("a value");
        assert_eq!(value[17], u8::from(state != TransactionState::Empty), "{state}");
    }
}

prop_compose! {
    fn any_txn()(
        ids in (-1..i64::MAX, -1..i64::MAX, -1..i64::MAX, -1..i64::MAX),
        epochs in (any::<i16>(), any::<i16>()),
        timeout_ms: i32,
        state in 0..6i8,
        partitions in prop::collection::btree_set(("[a-c]{1,2}", 0..4i32), 0..6),
        times: (i64, i64),
        level in 0..3i16,
    ) -> TxnMetadata {
        let state = TransactionState::from_byte(state).expect("a state");
        let partitions = partitions.into_iter().map(|(topic, index)| TopicPartition::new(topic, index));
        TxnMetadata {
            producer_id: ProducerId(ids.0),
            previous_producer_id: ProducerId(ids.1),
            replaced_producer_id: ProducerId(ids.3),
            next_producer_id: ProducerId(ids.2),
            producer_epoch: ProducerEpoch(epochs.0),
            last_producer_epoch: ProducerEpoch(epochs.1),
            timeout_ms,
            state,
            partitions: if state == TransactionState::Empty { BTreeSet::new() } else { partitions.collect() },
            start: Millis(times.0),
            last_update: Millis(times.1),
            client_transaction_version: TransactionVersion::from_level(level),
        }
    }
}

proptest! {
    /// What is written is read back; version 0 keeps what it can.
    #[test]
    fn records_round_trip(txn in any_txn(), id in ".{0,20}", version in 0..2i16) {
        let kept = if version == 0 { txn.as_version_0() } else { txn.clone() };
        let record = |txn| TransactionRecord {
            transactional_id: TransactionalId::from(&*id),
            value: Some(TransactionValue { version, txn }),
        };
        let (key, value) = record(txn).encode();
        prop_assert_eq!(TransactionRecord::decode(key.as_ref(), value.as_ref()), Ok(Some(record(kept))));
    }

    /// The codec generated from Kafka's schema reads what we write, but for our own fields, and we read what it writes.
    #[test]
    fn the_generated_codec_agrees(txn in any_txn(), version in 0..2i16) {
        use fencepost_records::persisted::transaction_log_key::TransactionLogKey;
        use fencepost_records::persisted::transaction_log_value::{TransactionLogValue, TransactionPartitions};
        let partitions = by_topic(&txn.partitions).into_iter().map(|(topic, indexes)| TransactionPartitions {
            topic: String::from(&**topic),
            partition_ids: indexes.iter().map(|index| index.0).collect(),
        });
        let flexible = version == 1;
        let kafkas = TransactionLogValue {
            producer_id: txn.producer_id.0,
            producer_epoch: txn.producer_epoch.0,
            transaction_timeout_ms: txn.timeout_ms,
            transaction_status: txn.state.byte(),
            transaction_partitions: (txn.state != TransactionState::Empty).then(|| partitions.collect()),
            transaction_last_update_timestamp_ms: txn.last_update.0,
            transaction_start_timestamp_ms: txn.start.0,
            previous_producer_id: if flexible { txn.previous_producer_id.0 } else { -1 },
            next_producer_id: if flexible { txn.next_producer_id.0 } else { -1 },
            client_transaction_version: if flexible { txn.client_transaction_version.level() } else { 0 },
            next_producer_epoch: -1,
        };
        let (key, value) = TransactionRecord {
            transactional_id: TransactionalId::from(TX),
            value: Some(TransactionValue { version, txn: txn.clone() }),
        }.encode();
        let (key, value) = (key.unwrap(), value.unwrap());
        let read = TransactionLogValue::decode(&mut Reader::new(value.slice(2..)), version);
        prop_assert_eq!(read.as_ref(), Ok(&kafkas));
        let read = TransactionLogKey::decode(&mut Reader::new(key.slice(2..)), 0);
        prop_assert_eq!(read.map(|key| key.transactional_id), Ok(String::from(TX)));

        let mut w = Writer::new();
        w.i16(version);
        kafkas.encode(&mut w, version);
        let kept = if flexible { txn } else { txn.as_version_0() };
        let last_producer_epoch = kept.derived_last_producer_epoch();
        let replaced_producer_id = kept.derived_replaced_producer_id();
        let expected = TxnMetadata { last_producer_epoch, replaced_producer_id, ..kept };
        let read = TransactionRecord::decode(Some(&key), Some(&w.into_bytes()));
        prop_assert_eq!(read.unwrap().unwrap().value.unwrap().txn, expected);
    }

    /// Arbitrary bytes never make the reader panic.
    #[test]
    fn garbage_is_an_error(key: Vec<u8>, value: Vec<u8>, version in 0..2u8) {
        let _ = TransactionRecord::decode(Some(&Bytes::from(key)), Some(&Bytes::from(value.clone())));
        let value = Bytes::from_iter([0, version].into_iter().chain(value));
        let _ = TransactionRecord::decode(Some(&bytes(VECTOR_KEY)), Some(&value));
    }

    /// A record of any content harms nobody: whatever is asked then is decided or refused, without a panic.
    #[test]
    fn odd_records_are_survived(txn in any_txn(), ms: i64, epoch_below in 0..2i16) {
        use crate::testing::*;
        let mut shard = TransactionShard::new(crate::ShardConfig::default());
        let producer = (txn.producer_id, txn.producer_epoch.0.saturating_sub(epoch_below));
        shard.replay(LogPosition::plain(Offset(0)), &record(TX, txn));
        let now = fencepost_types::Now { wall: Millis(ms), ..Default::default() };
        let mut requests = Vec::from([
            with_fresh(init(None)), with_fresh(init(Some(producer))), verify(producer, &[0]),
            add(producer, &[0], V0), add(producer, &[0], V2), with_fresh(TransactionShard::tick()),
            crate::Request::List(crate::ListFilter { duration_ms: 0, ..Default::default() }),
            crate::Request::Describe { transactional_id: TransactionalId::from(TX) },
        ]);
        for version in [V0, V2] {
            for result in [Commit, Abort] {
                requests.push(with_fresh(end(producer, result, version)));
            }
        }
        requests.extend(shard.markers_owed().map(|owed| crate::Request::MarkersWritten(news(&owed))));
        let _ = shard.next_deadline();
        for request in requests {
            let _ = shard.decide(now, fencepost_coordinator::Token(0), &request);
        }
    }
}
