//! Two-phase commit (KIP-939, as far as Kafka 4.4 has it): a prepared transaction is an open one that nobody times out. Whoever
//! knows its producer id and epoch decides it, whatever has crashed in between.

use fencepost_protocol::messages::InitProducerIdRequest;
use fencepost_types::ErrorCode;

use super::every_point;
use super::outcome::Outcome;
use super::run::Run;
use crate::harness::Producer;
use crate::harness::requests::init;

const SETTINGS: [(&str, &str); 5] = [
    ("transaction.two.phase.commit.enable", "true"),
    ("unstable.api.versions.enable", "true"),
    ("transaction.max.timeout.ms", "60000"),
    ("log.flush.offset.checkpoint.interval.ms", "3600000"),
    ("log.retention.check.interval.ms", "3600000"),
];
/// Many times the longest timeout that a producer without two-phase commit may ask for.
const VERY_LONG_MS: i64 = 600_000;

fn two_phase(keep_prepared_txn: bool) -> InitProducerIdRequest {
    InitProducerIdRequest { enable2_pc: true, keep_prepared_txn, ..init("x", 60_000) }
}

/// A transaction in two partitions, prepared: all is written, and the decision is up to somebody else. Ten minutes go by.
fn prepared(run: &mut Run) -> Producer {
    let answer = run.ask_until(6, &two_phase(false), |answer| answer.error_code);
    assert_eq!(answer.error_code, 0, "{answer:?}");
    let producer = Producer::holding(run.world.client(), "x", (answer.producer_id, answer.producer_epoch));
    run.produce(&producer, true, ("t", 0), "a");
    run.produce(&producer, true, ("t", 1), "a");
    run.advance_ms(VERY_LONG_MS);
    assert_eq!(run.state("x"), "Ongoing");
    producer
}

/// To keep a prepared transaction through InitProducerId is refused, and has no effect.
fn keep_is_refused(run: &mut Run) {
    let answer = run.ask_until(6, &two_phase(true), |answer| answer.error_code);
    assert_eq!(answer.error_code, ErrorCode::UnsupportedVersion.code());
    assert_eq!((answer.producer_id, answer.ongoing_txn_producer_id), (-1, -1));
    assert_eq!(run.state("x"), "Ongoing");
}

/// A prepared transaction is committed by the pair that wrote it.
#[test]
fn a_prepared_transaction_is_committed() {
    every_point(&SETTINGS, |run| {
        let producer = prepared(run);
        keep_is_refused(run);
        run.end(&producer, 5, true);
        run.produce(&producer, true, ("t", 0), "b");
        run.end(&producer, 5, true);
        Outcome::default().values("t", 0, &["a", "b"]).values("t", 1, &["a"]).state("x", "CompleteCommit")
    });
}

/// It is aborted.
#[test]
fn a_prepared_transaction_is_aborted() {
    every_point(&SETTINGS, |run| {
        let producer = prepared(run);
        keep_is_refused(run);
        run.end(&producer, 5, false);
        Outcome::default().values("t", 0, &[]).values("t", 1, &[]).state("x", "CompleteAbort")
    });
}

/// A new instance that does not ask to keep it aborts it; whoever would still decide it is fenced.
#[test]
fn a_new_instance_aborts_a_prepared_transaction() {
    every_point(&SETTINGS, |run| {
        let old = prepared(run);
        let next = run.start("x");
        assert_eq!(run.try_end(&old, 5, true).error_code, ErrorCode::ProducerFenced.code());
        run.produce(&next, true, ("t", 0), "b");
        run.end(&next, 5, true);
        Outcome::default().values("t", 0, &["b"]).values("t", 1, &[]).state("x", "CompleteCommit")
    });
}
