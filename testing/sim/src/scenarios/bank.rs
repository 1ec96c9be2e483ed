//! Transfers between two accounts, each account a partition.
//!
//! A transfer is one transaction: −amount in one partition, +amount in the other, and sometimes an offset of a group.
//! Tellers make them, under either transaction version; they commit, abort, or leave them to their timeout, retry what
//! was not answered, and begin anew when they are fenced. An auditor reads along as a read_committed consumer does.
//!
//! What must hold, whatever happens to requests, answers, the process and the machine:
//! - a committed transfer is seen once, in both partitions; any other never (invariant 1);
//! - what was seen once is seen again, and stays where it was (invariants 2, 5);
//! - a transaction that nobody ends ends by its timeout, and then everything can be read (invariant 7);
//! - live state is what the logs say, at every look (invariant 3).

mod auditor;
mod ending;
mod ledger;
mod teller;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use fencepost_broker::BrokerSettings;
use fencepost_broker::metadata::StaticConfig;
use fencepost_client::requests::code;
use fencepost_protocol::messages::create_topics_request::{Configs, Topics};
use fencepost_protocol::messages::{CreateTopicsRequest, CreateTopicsResponse};
use fencepost_types::{ErrorCode, TopicPartition, TransactionVersion};

use crate::actors::{self, Actor, Handle};
use crate::client::SimClient;
use crate::faults::Faults;
use crate::rng::Rng;
use crate::scenarios::Summary;
use crate::trace::Trace;
use crate::world::World;

use auditor::Auditor;
use ledger::Ledger;
use teller::{Habits, Teller};

/// The topic of the accounts.
const ACCOUNTS: &str = "accounts";
/// Its partitions.
const ACCOUNT_COUNT: i32 = 2;
/// Partitions of each internal topic.
const INTERNAL_PARTITIONS: &str = "2";
/// The longest transaction timeout of a teller.
const TIMEOUT_MS_MAX: u64 = 2_000;
const CREATE_TOPICS_VERSION: i16 = 7;

/// The partition of account `number`.
fn account(number: i32) -> TopicPartition {
    TopicPartition::new(ACCOUNTS, number)
}

/// The ledger as all actors share it.
type SharedLedger = Rc<RefCell<Ledger>>;

/// Plays it.
pub fn run(seed: u64, trace: Trace) -> Summary {
    let mut rng = Rng::new(seed);
    let settings = settings(&mut rng);
    let faults = Faults::any(&mut rng, settings.durability);
    let world = World::new(rng.bits(), faults, settings, trace);
    let handle = Handle::new(&world);
    let ledger = SharedLedger::default();

    let segment_ms = rng.pick(&[50, 1_000, 600_000]);
    actors::run(&world, vec![Box::pin(open_accounts(handle.clone(), segment_ms))]);

    let tellers = rng.range(1, 6);
    ledger.borrow_mut().tellers_at_work = tellers;
    let mut all: Vec<Actor> = Vec::new();
    for number in 0..tellers {
        let habits = habits(&mut rng, number);
        all.push(Box::pin(Teller::new(&handle, &ledger, habits).work()));
    }
    let desk = Rc::new(Cell::new(Some(Auditor::new(&handle, &ledger))));
    all.push(Box::pin(auditor::audit_along(Rc::clone(&desk))));
    actors::run(&world, all);
    actors::run(&world, vec![Box::pin(ending::settle(handle.clone(), desk))]);

    let (committed, unknown, aborted) = ledger.borrow().counts();
    let mut world = world.borrow_mut();
    let accidents = world.accidents();
    Summary { fingerprint: world.fingerprint(), accidents, committed, unknown, aborted }
}

fn settings(rng: &mut Rng) -> BrokerSettings {
    let pairs = [
        ("fencepost.durability", rng.pick(&["fsync", "fsync", "page-cache"])),
        ("offsets.topic.num.partitions", INTERNAL_PARTITIONS),
        ("transaction.state.log.num.partitions", INTERNAL_PARTITIONS),
        ("log.roll.ms", rng.pick(&["50", "1000", "604800000"])),
        ("log.cleaner.backoff.ms", rng.pick(&["20", "300", "15000"])),
        ("log.cleaner.min.cleanable.ratio", rng.pick(&["0", "0.5"])),
        ("log.cleaner.delete.retention.ms", rng.pick(&["0", "100", "86400000"])),
        ("log.flush.offset.checkpoint.interval.ms", rng.pick(&["50", "1000", "60000"])),
    ];
    let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let statics =
        StaticConfig::new(pairs).unwrap_or_else(|error| panic!("the settings must be good: {error}"));
    BrokerSettings::new(statics, "/simulated".to_owned())
}

fn habits(rng: &mut Rng, number: u64) -> Habits {
    let version = rng.pick(&[TransactionVersion::V2, TransactionVersion::V2, TransactionVersion::V0]);
    Habits {
        number,
        version,
        transfers: rng.range(3, 16),
        timeout_ms: rng.pick(&[300, 900, TIMEOUT_MS_MAX as i32]),
        group: rng.one_in(2).then(|| format!("group-{number}")),
        pause_ms_max: rng.pick(&[3, 30, 200]),
    }
}

/// Makes the topic; its segments are closed after `segment_ms`, so that there are several.
async fn open_accounts(handle: Handle, segment_ms: u64) {
    let mut client = SimClient::new(&handle, "admin", true);
    let topic = Topics {
        name: ACCOUNTS.to_owned(),
        num_partitions: ACCOUNT_COUNT,
        replication_factor: 1,
        configs: vec![Configs { name: "segment.ms".to_owned(), value: Some(segment_ms.to_string()) }],
        ..Topics::default()
    };
    let request =
        CreateTopicsRequest { topics: vec![topic], timeout_ms: 1_000, ..CreateTopicsRequest::default() };
    let topic_code = |response: &CreateTopicsResponse| code(response.topics[0].error_code);
    let answer = client.ask(CREATE_TOPICS_VERSION, &request, topic_code).await;
    let made = [ErrorCode::None, ErrorCode::TopicAlreadyExists];
    assert!(made.contains(&answer.code), "the accounts cannot be made: {}", answer.code);
}
