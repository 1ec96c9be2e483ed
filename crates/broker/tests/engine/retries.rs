//! Batches that are sent again after any stop (issue 12, A1): producers keep up to five batches in flight, the broker stops or
//! dies between append, sync and answer, and what was not answered is sent again. Each batch is in the log once, and each
//! answer says the offset at which it is.

use std::rc::Rc;

use bytes::Bytes;
use fencepost_protocol::messages::{InitProducerIdRequest, ProduceRequest};
use fencepost_records::Batches;
use proptest::prelude::*;

use crate::harness::requests::{READ_UNCOMMITTED, init, produce, read};
use crate::harness::{Call, Client, World, batch, values_of};

/// A producer may have so many batches in flight.
const IN_FLIGHT_MAX: usize = 5;
/// Checkpoints are written every minute.
const CHECKPOINT_MS: i64 = 60_001;
/// No transaction of this file times out, and no request.
const TIMEOUT_MS: i32 = i32::MAX;
/// Produce of transaction version 1, whose partitions are added by hand, and of version 2.
const VERSIONS: [i16; 2] = [11, 12];

/// What happens next.
#[derive(Clone, Debug)]
enum Step {
    /// A producer sends a batch of so many records, if it may.
    Send { producer: usize, records: usize },
    /// One partition becomes durable.
    Sync,
    /// Time goes by, and the next batch rolls the segment.
    Roll,
    /// The checkpoints are written: a restart looks only at what comes after them.
    Checkpoint,
    /// A producer ends its transaction, if everything that it sent was answered.
    End { producer: usize, committed: bool },
    /// The broker is gone and comes back; everybody sends again what was not answered.
    Stop(Stop),
}

#[derive(Clone, Copy, Debug)]
enum Stop {
    Clean,
    /// The process is killed.
    Kill,
    /// The machine loses power, and of what was not synced any part.
    Crash(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let stop = prop_oneof![Just(Stop::Clean), Just(Stop::Kill), any::<u64>().prop_map(Stop::Crash),];
    prop_oneof![
        12 => (0..3usize, 1..4usize).prop_map(|(producer, records)| Step::Send { producer, records }),
        2 => Just(Step::Sync),
        2 => Just(Step::Roll),
        1 => Just(Step::Checkpoint),
        2 => (0..3usize, any::<bool>()).prop_map(|(producer, committed)| Step::End { producer, committed }),
        3 => stop.prop_map(Step::Stop),
    ]
}

/// A batch that was sent.
struct Sent {
    records: Bytes,
    values: Vec<String>,
    call: Call<ProduceRequest>,
}

/// A producer: plain, or transactional under either version.
struct Sender {
    client: Client,
    transactional_id: Option<String>,
    version: i16,
    id: (i64, i16),
    next_sequence: i32,
    next_value: usize,
    in_flight: Vec<Sent>,
    in_transaction: bool,
    /// Values that were acknowledged, and where.
    acknowledged: Vec<(String, i64)>,
}

impl Sender {
    fn new(world: &Rc<World>, number: usize) -> Self {
        let version = VERSIONS[number % VERSIONS.len()];
        let transactional_id = (number > 0).then(|| format!("x{number}"));
        let client = world.client();
        let request =
            InitProducerIdRequest { transactional_id: transactional_id.clone(), ..init("", TIMEOUT_MS) };
        let answer = client.ask(4, &request);
        assert_eq!(answer.error_code, 0);
        Self {
            client,
            transactional_id,
            version,
            id: (answer.producer_id, answer.producer_epoch),
            next_sequence: 0,
            next_value: 0,
            in_flight: Vec::new(),
            in_transaction: false,
            acknowledged: Vec::new(),
        }
    }

    fn call(&self, records: &Bytes) -> Call<ProduceRequest> {
        let batches = vec![("t", 0, records.clone())];
        let request = ProduceRequest {
            timeout_ms: TIMEOUT_MS,
            ..produce(self.transactional_id.as_deref(), -1, batches)
        };
        self.client.send(self.version, &request)
    }

    fn send(&mut self, records: usize) {
        let values: Vec<String> =
            (0..records).map(|at| format!("{} {}", self.id.0, self.next_value + at)).collect();
        self.next_value += records;
        let texts: Vec<&str> = values.iter().map(String::as_str).collect();
        let wall = self.client.world().now().wall;
        let is_transactional = self.transactional_id.is_some();
        let bytes = batch(self.id, self.next_sequence, is_transactional, wall, &texts);
        self.next_sequence += records as i32;
        self.in_flight.push(Sent { call: self.call(&bytes), records: bytes, values });
        self.in_transaction |= is_transactional;
    }

    /// Takes the answers that have come, in their order.
    fn take_answers(&mut self) {
        while self.in_flight.first().is_some_and(|sent| sent.call.is_done()) {
            let sent = self.in_flight.remove(0);
            let answer = sent.call.answer();
            let row = &answer.responses[0].partition_responses[0];
            assert_eq!(row.error_code, 0, "{:?}: {answer:?}", sent.values);
            let offsets = row.base_offset..;
            self.acknowledged.extend(sent.values.into_iter().zip(offsets));
        }
    }

    /// After a restart, on a connection of its own.
    fn send_again(&mut self, world: &Rc<World>) {
        self.client = world.client();
        let calls: Vec<_> = self.in_flight.iter().map(|sent| self.call(&sent.records)).collect();
        for (sent, call) in self.in_flight.iter_mut().zip(calls) {
            sent.call = call;
        }
    }
}

struct Life {
    world: Rc<World>,
    senders: Vec<Sender>,
}

impl Life {
    fn new() -> Self {
        let world = World::with(&[("transaction.max.timeout.ms", &TIMEOUT_MS.to_string())]);
        world.create_topic_with("t", 1, &[("segment.ms", "1000")]);
        let senders = (0..3).map(|number| Sender::new(&world, number)).collect();
        Self { world, senders }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Send { producer, records } => self.send(producer, records),
            Step::Sync => {
                self.world.sync_one();
            }
            Step::Roll => self.world.advance_ms(1_001),
            Step::Checkpoint => self.world.advance_ms(CHECKPOINT_MS),
            Step::End { producer, committed } => self.end(producer, committed),
            Step::Stop(stop) => self.stop(stop),
        }
        self.senders.iter_mut().for_each(Sender::take_answers);
    }

    fn send(&mut self, producer: usize, records: usize) {
        let sender = &mut self.senders[producer];
        if sender.in_flight.len() == IN_FLIGHT_MAX {
            return;
        }
        if sender.version < 12 && sender.transactional_id.is_some() && !sender.in_transaction {
            add(sender);
        }
        sender.send(records);
    }

    fn end(&mut self, producer: usize, committed: bool) {
        let sender = &mut self.senders[producer];
        let Some(id) = sender.transactional_id.clone() else { return };
        if !sender.in_transaction || !sender.in_flight.is_empty() {
            return;
        }
        let ending = crate::harness::Producer::holding(self.world.client(), &id, sender.id);
        ending.end(if sender.version < 12 { 4 } else { 5 }, committed);
        if ending.id.get() != sender.id {
            (sender.id, sender.next_sequence) = (ending.id.get(), 0);
        }
        sender.in_transaction = false;
    }

    fn stop(&mut self, stop: Stop) {
        match stop {
            Stop::Clean => self.world.stop_and_start(),
            Stop::Kill => self.world.restart(),
            Stop::Crash(seed) => {
                self.world.kill();
                self.world.disk.crash(seed);
                self.world.start();
            }
        }
        // A transaction that was decided gets its markers first: who meets it is told to come again.
        self.world.settle();
        for sender in &mut self.senders {
            // Answers that left in the stop are lost, as with a connection that breaks.
            sender.send_again(&self.world);
        }
    }

    /// The values in the log, and where they are.
    fn log(&self) -> Vec<(String, i64)> {
        let client = self.world.client();
        let (mut found, mut at) = (Vec::new(), 0);
        // A read ends with its segment.
        while at < self.world.log_ends("t")[0] {
            let records = read(&client, "t", 0, at, READ_UNCOMMITTED).records.unwrap();
            for batch in Batches::new(records.into_bytes()).map(Result::unwrap) {
                at = batch.header().next_offset().0;
                if !batch.header().is_control() {
                    let offsets = batch.base_offset().0..;
                    found.extend(values_of(&batch.into_bytes().into()).into_iter().zip(offsets));
                }
            }
        }
        found
    }

    /// Everything that was sent is in the log once, where its answer says.
    fn check(mut self) {
        self.world.settle();
        self.senders.iter_mut().for_each(Sender::take_answers);
        let mut found = self.log();
        let mut sent: Vec<_> = self.senders.iter().flat_map(|sender| sender.acknowledged.clone()).collect();
        assert!(self.senders.iter().all(|sender| sender.in_flight.is_empty()), "everything is answered");
        found.sort();
        sent.sort();
        assert_eq!(found, sent);
    }
}

fn add(sender: &Sender) {
    let id = sender.transactional_id.as_deref().expect("a transactional producer");
    let adding = crate::harness::Producer::holding(sender.client.world().client(), id, sender.id);
    adding.add_partition("t", 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// See the page of this file (producer-state trap 16).
    #[test]
    fn what_is_sent_again_is_in_the_log_once(steps in prop::collection::vec(step(), 1..60)) {
        let mut life = Life::new();
        steps.iter().for_each(|step| life.step(step));
        life.check();
    }
}

/// The case of the property that a client meets at every stop: five batches were appended, none was answered, all come again.
/// With and without a snapshot between them, from which the next start goes on.
#[test]
fn five_batches_are_known_after_a_stop() {
    for producer in 0..3 {
        for stop in [Stop::Clean, Stop::Kill, Stop::Crash(7)] {
            for rolls_at in 0..5 {
                let mut life = Life::new();
                for batch in 0..5 {
                    if batch == rolls_at {
                        life.step(&Step::Roll);
                    }
                    life.send(producer, 2);
                }
                // Durable, and their answers are lost.
                life.world.settle();
                life.world.advance_ms(CHECKPOINT_MS);
                life.step(&Step::Stop(stop));
                life.check();
            }
        }
    }
}
