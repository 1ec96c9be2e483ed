use super::*;

const OLD: ConnectionNumber = ConnectionNumber(1);
const NEW: ConnectionNumber = ConnectionNumber(2);

/// The producer id of "x" and "y".
const ID: ProducerId = ProducerId(7);

fn producer(id: &str, epoch: i16) -> ProducerName<'_> {
    ProducerName { transactional_id: id, producer_id: ID, producer_epoch: ProducerEpoch(epoch) }
}

fn batch(sequence: i32) -> Step {
    Step::Produce(TopicPartition::new("t", 0), Sequence(sequence))
}

/// The order of one producer that has been seen on `connections`, one after the other.
struct Order(Arrivals);

impl Order {
    fn after(connections: &[(ConnectionNumber, Step)]) -> Self {
        let mut order = Self(Arrivals::default());
        for (connection, step) in connections {
            assert!(order.takes(*connection, step));
        }
        order
    }

    /// Whether the request is believed.
    fn takes(&mut self, connection: ConnectionNumber, step: &Step) -> bool {
        let name = producer("x", 0);
        self.0.arrive(name, connection, step).unwrap_or_else(|| {
            self.0.begin(name, connection, step);
            Arrival::InOrder
        }) == Arrival::InOrder
    }
}

/// KAFKA-17754: the EndTxn whose retry has come on a newer connection is doubted, and so is everything that was under way on the
/// connection that was left; the newer connection is not.
#[test]
fn what_comes_on_a_connection_that_was_left_is_doubted() {
    let steps = [Step::Add, Step::End, Step::CommitOffsets, batch(0)];
    for late in &steps {
        let mut order = Order::after(&[(OLD, Step::Add), (NEW, Step::End), (NEW, Step::Add)]);
        assert!(!order.takes(OLD, late), "{late:?}");
        for step in &steps {
            assert!(order.takes(NEW, step), "{late:?}, then {step:?}");
        }
    }
}

/// A client that is there asks again. From then on its connection is as good as the newer one.
#[test]
fn who_asks_again_is_believed() {
    let mut order = Order::after(&[(OLD, Step::Add), (NEW, Step::Add)]);
    assert!(!order.takes(OLD, &Step::End));
    assert!(order.takes(OLD, &Step::End));
    for step in [Step::Add, Step::End, batch(0), batch(1)] {
        assert!(order.takes(OLD, &step) && order.takes(NEW, &step), "{step:?}");
    }
}

/// A client with several connections may give one of them up, too: when it opens another, all older ones have to ask again.
#[test]
fn a_believed_connection_is_doubted_when_a_newer_one_comes() {
    let newer = ConnectionNumber(3);
    let mut order = Order::after(&[(OLD, Step::Add), (NEW, Step::Add)]);
    assert!(!order.takes(OLD, &batch(0)) && order.takes(OLD, &batch(0)));
    assert!(order.takes(newer, &Step::Add));
    for connection in [OLD, NEW] {
        assert!(!order.takes(connection, &Step::End) && order.takes(connection, &Step::End));
        assert!(order.takes(connection, &Step::Add) && order.takes(newer, &Step::Add));
    }
}

/// Batches that were on their way together do not speak for one another: only the same one again does. Another request in
/// between does not make that forgotten.
#[test]
fn batches_in_flight_do_not_speak_for_one_another() {
    let mut order = Order::after(&[(OLD, Step::Add), (NEW, Step::Add)]);
    for sequence in 0..5 {
        assert!(!order.takes(OLD, &batch(sequence)), "{sequence}");
    }
    assert!(!order.takes(OLD, &Step::End));
    assert!(order.takes(OLD, &batch(0)));
    assert!(order.takes(OLD, &batch(1)));
}

/// Of very many batches the first ones are remembered, and no more: one of these will come again.
#[test]
fn however_many_are_doubted_the_first_can_come_again() {
    let mut order = Order::after(&[(OLD, Step::Add), (NEW, Step::Add)]);
    for sequence in 0..10 * ASKED_MAX as i32 {
        assert!(!order.takes(OLD, &batch(sequence)));
    }
    let first: Vec<_> = (0..ASKED_MAX as i32).map(batch).collect();
    assert_eq!(order.0.recent[&ID].older, [(OLD, Standing::Asked(first))]);
    assert!(order.takes(OLD, &batch(0)));
}

/// A client that gives up what it was told to send again is heard with its next requests: neither very many batches nor the
/// transactions that it aborts take their room.
#[test]
fn what_is_given_up_takes_no_room() {
    let mut order = Order::after(&[(OLD, Step::Add), (NEW, Step::Add)]);
    for sequence in 0..10 * ASKED_MAX as i32 {
        assert!(!order.takes(OLD, &batch(sequence)));
    }
    let mut on_one = order.0.clone();
    assert_eq!(on_one.arrive(producer("x", 0), OLD, &Step::End), Some(Arrival::Doubtful));
    assert_eq!(on_one.arrive(producer("x", 0), OLD, &Step::End), Some(Arrival::InOrder));

    assert!(order.takes(NEW, &Step::End));
    assert!(!order.takes(OLD, &batch(0)), "of the transaction before");
    assert!(!order.takes(OLD, &batch(1_000)));
    assert!(order.takes(OLD, &batch(1_000)));
}

/// A client with a connection for each kind of work is never doubted, whichever of them it opened first and however
/// often it opens one anew.
#[test]
fn a_connection_for_each_kind_of_work_is_in_order() {
    let [leader, group, coordinator, later] = [1, 2, 3, 4].map(ConnectionNumber);
    let mut order = Order::after(&[]);
    for round in 0..3 {
        for (connection, step) in [
            (coordinator, Step::Add),
            (leader, batch(round)),
            (group, Step::CommitOffsets),
            (coordinator, Step::End),
        ] {
            assert!(order.takes(connection, &step), "{step:?} in round {round}");
        }
    }
    assert!(order.takes(later, &Step::Add));
    assert!(order.takes(leader, &batch(3)), "the leader's connection was never the coordinator's");
    assert!(!order.takes(coordinator, &Step::End));
}

/// The order is that of one producer id and epoch: what carries another is left to the coordinator, and the next epoch
/// begins anew.
#[test]
fn another_epoch_begins_anew() {
    let mut arrivals = Arrivals::default();
    arrivals.begin(producer("x", 1), NEW, &Step::Add);
    assert_eq!(arrivals.arrive(producer("x", 0), OLD, &Step::End), None);
    assert_eq!(arrivals.arrive(producer("y", 1), OLD, &Step::End), None);
    assert_eq!(arrivals.arrive(producer("x", 1), OLD, &Step::End), Some(Arrival::Doubtful));
    arrivals.begin(producer("x", 2), OLD, &Step::Add);
    assert_eq!(arrivals.arrive(producer("x", 2), OLD, &Step::End), Some(Arrival::InOrder));
}

/// Connections that come and go: the oldest ones are forgotten, and still doubted at the work that they did.
#[test]
fn many_reconnections_are_bounded() {
    let mut order = Order::after(&[]);
    for number in 1..=10 * OLDER_MAX as u64 {
        assert!(order.takes(ConnectionNumber(number), &Step::Add));
    }
    assert!(!order.takes(OLD, &Step::End));
    assert_eq!(order.0.recent[&ID].older.len(), OLDER_MAX);
}

/// Producers that were not heard of for long are forgotten, those in use are not.
#[test]
fn what_is_remembered_is_bounded() {
    let mut arrivals = Arrivals::default();
    let other = |number: usize| ProducerName {
        producer_id: ProducerId(1_000 + number as i64),
        ..producer("other", 0)
    };
    arrivals.begin(producer("used", 0), NEW, &Step::Add);
    for number in 0..5 * PRODUCERS_MIN {
        arrivals.begin(other(number), NEW, &Step::Add);
        if number % 100 == 0 {
            assert_eq!(arrivals.arrive(producer("used", 0), NEW, &Step::End), Some(Arrival::InOrder));
        }
        assert!(arrivals.recent.len() + arrivals.before.len() <= 2 * PRODUCERS_MIN);
    }
    assert_eq!(arrivals.arrive(other(0), OLD, &Step::End), None);
    assert_eq!(arrivals.arrive(producer("used", 0), OLD, &Step::End), Some(Arrival::Doubtful));
}
