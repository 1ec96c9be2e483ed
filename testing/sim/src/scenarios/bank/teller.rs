//! Somebody who makes transfers, one transaction each, and copes with whatever comes back.

use std::rc::Rc;

use fencepost_client::requests::{
    ADD_PARTITIONS_VERSION, INIT_PRODUCER_ID_VERSION, Identity, Versions, add_partitions_code, code,
    produce_code, txn_offset_commit_code,
};
use fencepost_protocol::Request;
use fencepost_protocol::messages::ProduceRequest;
use fencepost_types::{
    ErrorCode, Offset, ProducerEpoch, ProducerId, Sequence, TopicPartition, TransactionResult,
    TransactionVersion,
};

use super::ledger::{Outcome, TransferId};
use super::{ACCOUNT_COUNT, SharedLedger, account};
use crate::actors::Handle;
use crate::client::SimClient;
use crate::rng::Rng;

/// A write is tried so often before the transaction is given up.
const WRITE_TRIES_MAX: u64 = 12;
/// The end of a transaction is asked for so often before its outcome stays unknown.
const END_TRIES_MAX: u64 = 8;
/// How long a Produce may wait in the broker.
const PRODUCE_TIMEOUT_MS: i32 = 1_000;
const ADD_OFFSETS_VERSION: i16 = 4;

/// How a teller goes about it.
#[derive(Clone, Debug)]
pub struct Habits {
    /// Tells it from others.
    pub number: u64,
    /// Its transaction version: 2, or one below.
    pub version: TransactionVersion,
    /// How many transfers it makes.
    pub transfers: u64,
    /// The timeout of its transactions.
    pub timeout_ms: i32,
    /// The group whose offsets it commits in its transactions.
    pub group: Option<String>,
    /// Pause between two steps, at most.
    pub pause_ms_max: u64,
}

/// How a transaction is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Commit,
    Abort,
    /// Left to its timeout, or to the next InitProducerId.
    Abandon,
}

/// A write did not come through: refused for good, or never answered. The transaction is lost.
struct Lost;

/// See the page of this module.
pub struct Teller {
    handle: Handle,
    ledger: SharedLedger,
    rng: Rng,
    client: SimClient,
    habits: Habits,
    versions: Versions,
    identity: Identity,
    sequences: [Sequence; ACCOUNT_COUNT as usize],
    /// The last write, and the identity it was made under.
    last_write: Option<(Identity, ProduceRequest)>,
}

impl Teller {
    /// A teller before its first InitProducerId.
    pub fn new(handle: &Handle, ledger: &SharedLedger, habits: Habits) -> Self {
        let name = format!("teller-{}", habits.number);
        // Below version 2 a request that comes late can hit the next transaction: KIP-890 is about that.
        let bears_late = habits.version.bumps_epoch();
        Self {
            handle: handle.clone(),
            ledger: Rc::clone(ledger),
            rng: handle.fork_rng(),
            client: SimClient::new(handle, name.clone(), bears_late),
            versions: Versions::of(habits.version),
            identity: Identity::new(name),
            habits,
            sequences: Default::default(),
            last_write: None,
        }
    }

    /// Makes all transfers.
    pub async fn work(mut self) {
        self.begin_anew().await;
        for number in 0..self.habits.transfers {
            self.transfer(TransferId::new(self.habits.number, number), number as i64).await;
            self.pause().await;
        }
        self.ledger.borrow_mut().tellers_at_work -= 1;
    }

    async fn transfer(&mut self, id: TransferId, number: i64) {
        let amount = self.rng.range(1, 100) as i64 * if self.rng.one_in(2) { 1 } else { -1 };
        let group = self.habits.group.clone().filter(|_| !self.rng.one_in(3));
        self.ledger.borrow_mut().begin(id, amount, group.is_some().then_some(number));
        let ending =
            self.rng.pick(&[Ending::Commit, Ending::Commit, Ending::Commit, Ending::Abort, Ending::Abandon]);
        self.handle.note(&format!("teller-{}: {id:?}, {amount}, {ending:?}", self.habits.number));
        if self.write(id, amount, group.as_deref(), number).await.is_err() {
            if self.rng.one_in(2) {
                // What a client does after a refusal that only ends the transaction; it may well be refused, too.
                self.end(id, TransactionResult::Abort).await;
            }
            return self.begin_anew().await;
        }
        self.dawdle().await;
        match ending {
            Ending::Commit => self.end(id, TransactionResult::Commit).await,
            Ending::Abort => self.end(id, TransactionResult::Abort).await,
            Ending::Abandon => {
                if self.rng.one_in(2) {
                    self.handle.sleep(self.habits.timeout_ms as u64 + 50).await;
                }
                self.begin_anew().await;
                self.haunt().await;
            }
        }
    }

    /// Both sides, and the offset; in some order.
    async fn write(
        &mut self,
        id: TransferId,
        amount: i64,
        group: Option<&str>,
        group_offset: i64,
    ) -> Result<(), Lost> {
        let is_classic = !self.habits.version.bumps_epoch();
        if is_classic {
            let partitions: Vec<TopicPartition> = (0..ACCOUNT_COUNT).map(account).collect();
            let request = self.identity.add_partitions(&partitions);
            self.ask(ADD_PARTITIONS_VERSION, &request, add_partitions_code).await?;
        }
        let offsets_first = self.rng.one_in(2);
        if let Some(group) = group.filter(|_| offsets_first) {
            self.commit_offset(group, group_offset).await?;
        }
        let sides = [(0, amount), (1, -amount)];
        match self.rng.range(0, 3) {
            0 => self.produce(id, &sides).await?,
            1 => {
                self.produce(id, &sides[..1]).await?;
                self.pause().await;
                self.produce(id, &sides[1..]).await?;
            }
            _ => {
                self.produce(id, &sides[1..]).await?;
                self.pause().await;
                self.produce(id, &sides[..1]).await?;
            }
        }
        if let Some(group) = group.filter(|_| !offsets_first) {
            self.commit_offset(group, group_offset).await?;
        }
        Ok(())
    }

    async fn produce(&mut self, id: TransferId, sides: &[(i32, i64)]) -> Result<(), Lost> {
        let time = self.handle.wall();
        let key = id.0.to_be_bytes();
        let batches: Vec<_> = sides
            .iter()
            .map(|(number, amount)| {
                let record = (Some(key.as_slice()), Some(&amount.to_be_bytes()[..]));
                let sequence = self.sequences[*number as usize];
                (account(*number), self.identity.batch(sequence, time, &[record]))
            })
            .collect();
        let request = self.identity.produce(&batches, PRODUCE_TIMEOUT_MS);
        self.last_write = Some((self.identity.clone(), request.clone()));
        self.ask(self.versions.produce, &request, produce_code).await?;
        for (number, _) in sides {
            let sequence = &mut self.sequences[*number as usize];
            *sequence = sequence.next();
        }
        Ok(())
    }

    async fn commit_offset(&mut self, group: &str, offset: i64) -> Result<(), Lost> {
        if !self.habits.version.bumps_epoch() {
            let request = self.identity.add_offsets(group);
            self.ask(ADD_OFFSETS_VERSION, &request, |answer| code(answer.error_code)).await?;
        }
        let request = self.identity.txn_offset_commit(group, &[(account(0), Offset(offset))]);
        self.ask(self.versions.txn_offset_commit, &request, txn_offset_commit_code).await
    }

    /// Asks for one step of a transaction. What a client cannot mend loses the transaction; what cannot be at all is a
    /// finding.
    async fn ask<R: Request>(
        &mut self,
        version: i16,
        request: &R,
        code: impl Fn(&R::Response) -> ErrorCode,
    ) -> Result<(), Lost> {
        let tries = self.rng.range(1, WRITE_TRIES_MAX + 1) as u32;
        let answer = self.client.try_ask(version, request, code, tries).await;
        match answer.map(|answer| answer.code) {
            Some(ErrorCode::None) => Ok(()),
            None => Err(Lost),
            Some(code) if ends_a_transaction(code) => Err(Lost),
            Some(code) => panic!("{:?}: {} is answered {code}", self.identity, R::API_KEY.name()),
        }
    }

    /// Ends the transaction and notes what is known of it then. Afterwards the teller can begin another one.
    async fn end(&mut self, id: TransferId, result: TransactionResult) {
        if result.is_commit() {
            self.ledger.borrow_mut().set(id, Outcome::Unknown);
        }
        let request = self.identity.end_txn(result);
        let tries = self.rng.range(1, END_TRIES_MAX + 1) as u32;
        let answer =
            self.client.try_ask(self.versions.end_txn, &request, |end| code(end.error_code), tries).await;
        match answer {
            Some(answer) if answer.code.is_none() => {
                let outcome = if result.is_commit() { Outcome::Committed } else { Outcome::Aborted };
                self.ledger.borrow_mut().set(id, outcome);
                if self.habits.version.bumps_epoch() {
                    let end = answer.response;
                    self.become_producer(end.producer_id, end.producer_epoch);
                } else if !result.is_commit() {
                    // Whether the last write came through may be unknown, and so the next sequence.
                    self.begin_anew().await;
                }
            }
            Some(answer) => {
                let code = answer.code;
                assert!(ends_a_transaction(code), "{:?}: EndTxn is answered {code}", self.identity);
                if result.is_commit() && answer.is_certain {
                    self.ledger.borrow_mut().set(id, Outcome::Open);
                }
                self.begin_anew().await;
            }
            None => self.begin_anew().await,
        }
    }

    /// InitProducerId: as the same instance, for the next epoch, or as a new one. Whatever was open is aborted by it.
    async fn begin_anew(&mut self) {
        if self.rng.one_in(2) {
            (self.identity.producer_id, self.identity.producer_epoch) =
                (ProducerId::NONE, ProducerEpoch::NONE);
        }
        loop {
            let request = self.identity.init_producer_id(self.habits.timeout_ms);
            let answer =
                self.client.ask(INIT_PRODUCER_ID_VERSION, &request, |init| code(init.error_code)).await;
            match answer.code {
                ErrorCode::None => {
                    let init = answer.response;
                    return self.become_producer(init.producer_id, init.producer_epoch);
                }
                code => {
                    assert_eq!(code, ErrorCode::ProducerFenced, "InitProducerId of {:?}", self.identity);
                    assert_ne!(self.identity.producer_id, ProducerId::NONE, "a new instance was fenced");
                    self.identity.producer_id = ProducerId::NONE;
                    self.identity.producer_epoch = ProducerEpoch::NONE;
                }
            }
        }
    }

    fn become_producer(&mut self, producer_id: i64, producer_epoch: i16) {
        let old = (self.identity.producer_id, self.identity.producer_epoch);
        let new = (ProducerId(producer_id), ProducerEpoch(producer_epoch));
        assert!(new.0.0 >= 0 && new.1.0 >= 0, "a producer without identity: {new:?}");
        (self.identity.producer_id, self.identity.producer_epoch) = new;
        if old != new {
            self.sequences = Default::default();
        }
    }

    /// An instance that was fenced tries what it did last, once more. It must be refused.
    async fn haunt(&mut self) {
        let Some((identity, request)) = self.last_write.take() else { return };
        assert_ne!(identity, self.identity, "the same epoch twice");
        if self.rng.one_in(2) {
            let answer = self.client.try_ask(self.versions.produce, &request, produce_code, 3).await;
            let code = answer.map(|answer| answer.code);
            assert!(code.is_none_or(ends_a_transaction), "a fenced producer writes: {code:?}");
        } else {
            let request = identity.end_txn(TransactionResult::Commit);
            let end = |answer: &fencepost_protocol::messages::EndTxnResponse| code(answer.error_code);
            let answer = self.client.try_ask(self.versions.end_txn, &request, end, 3).await;
            let code = answer.map(|answer| answer.code);
            assert!(code.is_none_or(ends_a_transaction), "a fenced producer commits: {code:?}");
        }
    }

    async fn pause(&mut self) {
        let pause = self.rng.range(0, self.habits.pause_ms_max + 1);
        self.handle.sleep(pause).await;
    }

    /// Sometimes the end comes late, perhaps too late.
    async fn dawdle(&mut self) {
        if self.rng.one_in(8) {
            let pause = self.rng.range(0, self.habits.timeout_ms as u64 * 2);
            self.handle.sleep(pause).await;
        }
    }
}

/// What a producer is answered when its transaction is over, by its timeout or by another instance.
fn ends_a_transaction(code: ErrorCode) -> bool {
    let codes = [
        ErrorCode::ProducerFenced,
        ErrorCode::InvalidProducerEpoch,
        ErrorCode::InvalidProducerIdMapping,
        ErrorCode::InvalidTxnState,
        ErrorCode::TransactionAbortable,
    ];
    codes.contains(&code)
}
