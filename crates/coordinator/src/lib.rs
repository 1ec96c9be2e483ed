//! What every coordinator shares: a state machine that is a fold of its log.
//!
//! ```text
//! request ──► decide (reads the state) ──► records + reply
//!                                            │ appended as one batch
//!                                            ▼
//!                                          replay (the only way the state changes)
//!                                            │
//!                                            ▼ high watermark passes the records
//!                                          reply
//! ```
//!
//! Invariants
//! - C1: `decide` changes nothing; a failed append therefore has changed nothing.
//! - C2: state after any run equals state replayed from the log.
//! - C3: work that is owed (markers, expiry) is read off the state, never kept beside it.
//!
//! Source: Kafka CoordinatorShard, CoordinatorResult, CoordinatorRuntime.

#![no_std]

extern crate alloc;

use alloc::vec::Vec;
use bytes::Bytes;
use fencepost_types::wire::DecodeError;
use fencepost_types::{Deadline, ErrorCode, Now, Offset, ProducerEpoch, ProducerId, TransactionResult};

/// Names one parked request within a shard; the engine hands them out and keeps who is waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// One coordinator partition as a state machine. See the page of this crate.
///
/// State comes in two kinds, never mixed: what the log says (changed by `replay` alone) and what is only hoped for
/// (sessions, members that wait in a rebalance: changed by `absorb` alone, gone after a restart, as in Kafka).
pub trait Shard {
    /// What can be asked. `decide` may see one request several times, so it takes a reference.
    type Request;
    /// What is written to the log, one value per record.
    type Record: Record;
    /// A change to the volatile part of the state. Shards without one use [`core::convert::Infallible`].
    type Soft;
    /// What is answered once the records are durable.
    type Reply;
    /// What is answered at once when nothing may be done.
    type Refusal: Refusal;

    /// Decides. Reads the state and changes nothing. `token` names the request: a decision that does not answer it
    /// leaves it parked, and a later decision answers it.
    fn decide(
        &self,
        now: Now,
        token: Token,
        request: &Self::Request,
    ) -> Result<Decision<Self::Record, Self::Soft, Self::Reply>, Self::Refusal>;

    /// Takes in one record that is already in the log, live or at load. Cannot fail.
    fn replay(&mut self, at: LogPosition, record: &Self::Record);

    /// Takes in a transaction marker that is already in this shard's log. Shards whose log holds no transactional
    /// records ignore it.
    fn replay_marker(&mut self, at: LogPosition, result: TransactionResult) {
        let _ = (at, result);
    }

    /// Takes in a volatile change, after the decision's records have been appended and replayed.
    fn absorb(&mut self, now: Now, soft: Self::Soft);

    /// Called once, between the replay of the whole log and the first `decide`: what is waited for in memory from here
    /// on begins at `now`.
    fn loaded(&mut self, now: Now) {
        let _ = now;
    }

    /// When something becomes due by itself, if ever: the engine then asks [`Shard::tick`]'s request.
    fn next_deadline(&self) -> Option<Deadline>;

    /// The request that the engine asks when [`Shard::next_deadline`] is due, again and again while it is.
    fn tick() -> Self::Request;

    /// Panics if an invariant is broken. Called after every step in tests, simulation and models.
    fn check(&self);
}

/// Where a record lies, and the producer of its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogPosition {
    /// The record's offset.
    pub offset: Offset,
    /// The batch's producer id, or [`ProducerId::NONE`].
    pub producer_id: ProducerId,
    /// The batch's producer epoch, or [`ProducerEpoch::NONE`].
    pub producer_epoch: ProducerEpoch,
    /// Whether the batch is transactional.
    pub is_transactional: bool,
}

impl LogPosition {
    /// A record of an ordinary batch.
    pub fn plain(offset: Offset) -> Self {
        Self {
            offset,
            producer_id: ProducerId::NONE,
            producer_epoch: ProducerEpoch::NONE,
            is_transactional: false,
        }
    }
}

/// What a shard decided: records to append as one batch, and the replies that wait until they are durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<R, S, P> {
    /// Appended as one batch, in order. Empty: nothing is written, and the replies wait for what is outstanding.
    pub records: Vec<R>,
    /// Set when the batch belongs to a producer's transaction.
    pub transactional: Option<(ProducerId, ProducerEpoch)>,
    /// Volatile changes, absorbed in order once the records have been replayed.
    pub soft: Vec<S>,
    /// Answers, to the request itself or to any that is parked. A request that none of them names stays parked.
    pub replies: Vec<(Token, P)>,
}

impl<R, S, P> Decision<R, S, P> {
    /// Does nothing and answers nobody.
    pub fn nothing() -> Self {
        Self { records: Vec::new(), transactional: None, soft: Vec::new(), replies: Vec::new() }
    }

    /// Writes `records` as one ordinary batch, then answers `token`.
    pub fn write(records: Vec<R>, token: Token, reply: P) -> Self {
        Self { records, transactional: None, soft: Vec::new(), replies: alloc::vec![(token, reply)] }
    }

    /// Writes nothing; answers `token` once what is outstanding is durable.
    pub fn answer(token: Token, reply: P) -> Self {
        Self::write(Vec::new(), token, reply)
    }
}

/// A value that is kept in a coordinator's log.
pub trait Record: Sized {
    /// The record's key and value as Kafka writes them; a `None` value is a tombstone. Metadata records have no key.
    fn encode(&self) -> (Option<Bytes>, Option<Bytes>);

    /// Reads a record back. `Ok(None)`: a type or version that is not ours, to be skipped.
    fn decode(key: Option<&Bytes>, value: Option<&Bytes>) -> Result<Option<Self>, DecodeError>;
}

/// Why a shard refused.
pub trait Refusal {
    /// The code that goes on the wire, before any mapping for old clients.
    fn code(&self) -> ErrorCode;
}
