//! One run of a scenario, with the power failing at one call to the disk, or never.

use std::rc::Rc;

use fencepost_protocol::Request;
use fencepost_protocol::messages::EndTxnResponse;
use fencepost_types::ErrorCode;

use crate::harness::requests::{init, transaction_state};
use crate::harness::{Producer, World};

/// A client asks so many times before somebody is stuck.
const ATTEMPTS_MAX: usize = 200;
/// A request is answered within so many steps of the engine, or in a step that something waits for.
const STEPS_MAX: usize = 2_000;
/// With nothing to do, time goes by.
const IDLE_MS: i64 = 5;
/// What may take time after the last request has taken it by then.
const AFTERWARDS_MS: i64 = 5_000;

/// What the failing power takes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The process: everything that was written is there.
    Process,
    /// The machine: of what was not synced any part is there, torn perhaps.
    Machine,
}

/// Where the power fails.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// The call, counted from the scenario's beginning.
    pub call: u64,
    /// Whether this call is still made.
    pub is_made: bool,
    pub loss: Loss,
}

/// A world in which a scenario takes place.
pub struct Run {
    pub world: Rc<World>,
    point: Option<Point>,
    began_at: u64,
    /// How many times the broker has died.
    pub deaths: usize,
}

impl Run {
    /// From here on calls to the disk are counted.
    pub fn begin(world: Rc<World>, point: Option<Point>) -> Self {
        let faults = &world.disk.faults;
        let began_at = faults.calls();
        if let Some(point) = point {
            faults.power_off_at(point.call, point.is_made);
        }
        Self { world, point, began_at, deaths: 0 }
    }

    /// Calls to the disk since the beginning.
    pub fn calls(&self) -> u64 {
        self.world.disk.faults.calls() - self.began_at
    }

    /// If the power has failed: it is back, and the broker starts on what is left.
    fn revive(&mut self) -> bool {
        let disk = &self.world.disk;
        if !disk.faults.is_off() {
            assert!(self.world.stops().is_empty(), "the broker stopped by itself: {:?}", self.world.stops());
            return false;
        }
        self.deaths += 1;
        self.world.kill();
        let point = self.point.expect("the power fails where it is to");
        match point.loss {
            Loss::Process => disk.repair(),
            Loss::Machine => disk.crash(point.call * 2 + u64::from(point.is_made)),
        }
        disk.faults.power_on();
        // What the dying process said about its disk says nothing about the next one.
        self.world.edge.stops.lock().unwrap().clear();
        self.world.start();
        true
    }

    /// Asks as a client that lost its connection does: the same again until there is an answer.
    pub fn ask<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        for _ in 0..ATTEMPTS_MAX {
            let call = self.world.client().send(version, request);
            for _ in 0..STEPS_MAX {
                // An answer that left before the power failed has come.
                if call.is_done() {
                    let answer = call.answer();
                    self.revive();
                    return answer;
                }
                if self.revive() {
                    break;
                }
                self.step();
            }
        }
        panic!("a request is never answered");
    }

    /// [`Self::ask`], again for as long as the answer asks for that.
    pub fn ask_until<R: Request>(
        &mut self,
        version: i16,
        request: &R,
        code: impl Fn(&R::Response) -> i16,
    ) -> R::Response {
        const AGAIN: [ErrorCode; 5] = [
            ErrorCode::ConcurrentTransactions,
            ErrorCode::CoordinatorLoadInProgress,
            ErrorCode::CoordinatorNotAvailable,
            ErrorCode::NotCoordinator,
            ErrorCode::NotLeaderOrFollower,
        ];
        for _ in 0..ATTEMPTS_MAX {
            let answer = self.ask(version, request);
            if !AGAIN.iter().any(|again| again.code() == code(&answer)) {
                return answer;
            }
            self.step();
        }
        panic!("a request is told to come again, for ever");
    }

    fn step(&self) {
        if !self.world.sync_one() && !self.world.tick_if_due() {
            self.world.advance_ms(IDLE_MS);
        }
    }

    /// Everything that can be done now is done.
    pub fn settle(&mut self) {
        let mut has_waited = false;
        for _ in 0..STEPS_MAX {
            let has_died = self.revive();
            if !self.world.sync_one() && !self.world.tick_if_due() && !has_died && !self.revive() {
                if has_waited {
                    return;
                }
                // The sync of a completion is not due at once.
                self.world.advance_ms(5);
                has_waited = true;
            }
        }
        panic!("there is always something left to do");
    }

    /// Time goes by.
    pub fn advance_ms(&mut self, span_ms: i64) {
        self.world.advance_ms(span_ms);
        self.revive();
        self.world.advance_ms(0);
        self.settle();
    }

    /// After the last request: whatever is still to come has come, and the invariants hold.
    pub fn finish(&mut self) {
        self.settle();
        self.advance_ms(AFTERWARDS_MS);
        self.world.check();
    }

    /// A new instance of a producer.
    pub fn start(&mut self, id: &str) -> Producer {
        self.start_with(id, 60_000)
    }

    /// [`Self::start`] with a timeout for its transactions.
    pub fn start_with(&mut self, id: &str, timeout_ms: i32) -> Producer {
        let answer = self.ask_until(5, &init(id, timeout_ms), |answer| answer.error_code);
        assert_eq!(answer.error_code, 0, "{answer:?}");
        Producer::holding(self.world.client(), id, (answer.producer_id, answer.producer_epoch))
    }

    /// Produces one record, in the way of version 2 or of the older ones, and sees it acknowledged.
    pub fn produce(&mut self, producer: &Producer, is_version_2: bool, place: (&str, i32), value: &str) {
        if !is_version_2 {
            let request = producer.add_request(place.0, place.1);
            let code = |answer: &fencepost_protocol::messages::AddPartitionsToTxnResponse| {
                answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            };
            let answer = self.ask_until(3, &request, code);
            assert_eq!(code(&answer), 0, "{answer:?}");
        }
        let version = if is_version_2 { 12 } else { 11 };
        let code = self.try_produce(producer, version, place, value);
        assert_eq!(code, 0, "{place:?} {value}");
    }

    /// Produces one record; answers what became of it.
    pub fn try_produce(&mut self, producer: &Producer, version: i16, place: (&str, i32), value: &str) -> i16 {
        let request = producer.produce_request(place.0, place.1, &[value]);
        let code = |answer: &fencepost_protocol::messages::ProduceResponse| {
            answer.responses[0].partition_responses[0].error_code
        };
        code(&self.ask_until(version, &request, code))
    }

    /// Commits the offset of a group in the transaction (version 2).
    pub fn commit_offset(&mut self, producer: &Producer, group: &str, topic: &str, offset: i64) {
        let request = producer.offset_request(group, topic, offset);
        let code = |answer: &fencepost_protocol::messages::TxnOffsetCommitResponse| {
            answer.topics[0].partitions[0].error_code
        };
        let answer = self.ask_until(5, &request, code);
        assert_eq!(code(&answer), 0, "{answer:?}");
    }

    /// Ends the transaction and sees that confirmed. Who asks again after a crash is told the same.
    pub fn end(&mut self, producer: &Producer, version: i16, committed: bool) {
        let answer = self.try_end(producer, version, committed);
        producer.ended(&answer);
    }

    /// [`Self::end`] with whatever answer.
    pub fn try_end(&mut self, producer: &Producer, version: i16, committed: bool) -> EndTxnResponse {
        let request = producer.end_request(committed);
        let answer = self.ask_until(version, &request, |answer| answer.error_code);
        let deaths = self.deaths;
        self.settle();
        if self.deaths > deaths {
            let again = self.ask_until(version, &request, |answer| answer.error_code);
            assert_eq!(again, answer, "told two different things");
        }
        answer
    }

    /// The state of an id, by its name.
    pub fn state(&self, id: &str) -> String {
        transaction_state(&self.world.client(), id)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the run with the power failing at {:?}, {} deaths", self.point, self.deaths);
        }
    }
}
