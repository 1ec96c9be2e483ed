//! A read_committed reader who checks, along the way, everything that can be checked then.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use fencepost_client::committed::{CommittedRecord, committed};
use fencepost_client::requests::{FETCH_VERSION, code, fetch_committed};
use fencepost_protocol::messages::FetchResponse;
use fencepost_protocol::messages::fetch_response::Partitions;
use fencepost_types::{ErrorCode, Offset};

use super::ledger::{Entry, TransferId};
use super::{ACCOUNT_COUNT, SharedLedger, account};
use crate::actors::Handle;
use crate::client::SimClient;
use crate::rng::Rng;

/// The second side of a transfer is there at most so long after the first, accidents and all.
const HALF_MS_MAX: u64 = 20_000;
/// Pause between two audits, at most.
const PAUSE_MS_MAX: u64 = 150;

/// See the page of this module.
pub struct Auditor {
    handle: Handle,
    ledger: SharedLedger,
    rng: Rng,
    client: SimClient,
    /// What has been seen of each account, from its start.
    seen: [Vec<Entry>; ACCOUNT_COUNT as usize],
    /// The highest high watermark and last stable offset that a reader was told.
    told: [(i64, i64); ACCOUNT_COUNT as usize],
    /// Transfers with one side only, and since when.
    halves: BTreeMap<TransferId, u64>,
}

/// Where the auditor sits while he is not at work.
pub type Desk = Rc<Cell<Option<Auditor>>>;

/// Audits until the last teller has gone home.
pub async fn audit_along(desk: Desk) {
    let mut auditor = desk.take().expect("the auditor is there");
    while auditor.ledger.borrow().tellers_at_work > 0 {
        auditor.audit().await;
        let pause = auditor.rng.range(1, PAUSE_MS_MAX);
        auditor.handle.sleep(pause).await;
    }
    desk.set(Some(auditor));
}

impl Auditor {
    /// An auditor who has seen nothing.
    pub fn new(handle: &Handle, ledger: &SharedLedger) -> Self {
        Self {
            handle: handle.clone(),
            ledger: Rc::clone(ledger),
            rng: handle.fork_rng(),
            client: SimClient::new(handle, "auditor", true),
            seen: Default::default(),
            told: Default::default(),
            halves: BTreeMap::new(),
        }
    }

    /// What has been seen.
    pub fn seen(&self) -> &[Vec<Entry>; ACCOUNT_COUNT as usize] {
        &self.seen
    }

    /// The books.
    pub fn ledger(&self) -> &SharedLedger {
        &self.ledger
    }

    /// For other questions.
    pub fn client(&mut self) -> &mut SimClient {
        &mut self.client
    }

    /// Reads both accounts and judges them.
    pub async fn audit(&mut self) {
        for number in 0..ACCOUNT_COUNT as usize {
            if self.rng.one_in(4) {
                self.read_again(number).await;
            } else {
                self.read_on(number).await;
            }
        }
        let judged = self.ledger.borrow().judge(&self.seen);
        let halves = judged.unwrap_or_else(|sentence| panic!("the audit: {sentence}"));
        let now = self.handle.elapsed_ms();
        self.halves.retain(|id, _| halves.contains(id));
        for id in halves {
            let since = *self.halves.entry(id).or_insert(now);
            assert!(now - since < HALF_MS_MAX, "the audit: {id:?} has one side since {since} ms");
        }
    }

    /// Reads what is new.
    async fn read_on(&mut self, number: usize) {
        let from = self.seen[number].last().map_or(0, |entry| entry.offset + 1);
        let new = self.read(number, from).await;
        self.seen[number].extend(new);
    }

    /// Reads everything: what was seen before must be there again, and in the same place.
    async fn read_again(&mut self, number: usize) {
        let all = self.read(number, 0).await;
        let before = &self.seen[number];
        assert!(all.starts_with(before), "the audit: account {number} was {before:?} and is {all:?}");
        self.seen[number] = all;
    }

    /// Reads from an offset to the last stable offset. Sometimes waits there for more.
    async fn read(&mut self, number: usize, from: i64) -> Vec<Entry> {
        let wait_ms = self.rng.pick(&[0, 0, 20, 90]);
        let (mut records, mut at) = (Vec::new(), Offset(from));
        loop {
            let request = fetch_committed(&account(number as i32), at, wait_ms);
            let answer = self.client.ask(FETCH_VERSION, &request, fetch_code).await;
            assert_eq!(answer.code, ErrorCode::None, "Fetch of account {number} from {at}");
            let partition = &answer.response.responses[0].partitions[0];
            self.check_told(number, partition);
            let next = committed(partition, at, &mut records);
            let next = next.unwrap_or_else(|error| panic!("the records of account {number}: {error}"));
            let stable = partition.last_stable_offset;
            assert!(next == at || next.0 <= stable, "account {number}: {next} is read, {stable} is stable");
            if next == at {
                return records.iter().map(entry).collect();
            }
            at = next;
        }
    }

    /// Invariant 2: what was exposed stays exposed.
    fn check_told(&mut self, number: usize, partition: &Partitions) {
        let (high_watermark, last_stable_offset) = &mut self.told[number];
        let (now_high, now_stable) = (partition.high_watermark, partition.last_stable_offset);
        let told = format!(
            "account {number}: {high_watermark}, {last_stable_offset}, then {now_high}, {now_stable}"
        );
        assert!(now_high >= *high_watermark, "the high watermark goes back, {told}");
        assert!(now_stable >= *last_stable_offset, "the last stable offset goes back, {told}");
        assert!(now_stable <= now_high, "the last stable offset is above the high watermark, {told}");
        (*high_watermark, *last_stable_offset) = (now_high, now_stable);
    }
}

fn fetch_code(response: &FetchResponse) -> ErrorCode {
    match code(response.error_code) {
        ErrorCode::None => code(response.responses[0].partitions[0].error_code),
        code => code,
    }
}

fn entry(record: &CommittedRecord) -> Entry {
    let bytes = |field: &Option<bytes::Bytes>| <[u8; 8]>::try_from(field.as_deref().unwrap_or_default());
    let (Ok(key), Ok(value)) = (bytes(&record.key), bytes(&record.value)) else {
        panic!("a record that nobody wrote: {record:?}");
    };
    let transfer = TransferId(u64::from_be_bytes(key));
    Entry { offset: record.offset.0, transfer, amount: i64::from_be_bytes(value) }
}
