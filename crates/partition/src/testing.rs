//! A partition replica in small, for the tests of this crate: a log of batch facts, two offsets, and the states.

use alloc::vec::Vec;

use fencepost_types::{
    CoordinatorEpoch, ErrorCode, Millis, Offset, ProducerEpoch, ProducerId, Sequence, TransactionResult,
};

use crate::{
    AbortedTxn, AppendOrigin, BatchContent, BatchFacts, CompletedTxn, Marker, ProducerStates, Staged,
    VerificationGuard,
};

/// Where the clocks of the tests begin.
pub(crate) const START: Millis = Millis(1_000_000);

/// A client's plain batch of `count` records.
pub(crate) fn data(producer_id: i64, epoch: i16, sequence: i32, count: i32) -> BatchFacts {
    BatchFacts {
        base_offset: Offset(0),
        last_offset_delta: count - 1,
        producer_id: ProducerId(producer_id),
        producer_epoch: ProducerEpoch(epoch),
        base_sequence: Sequence(sequence),
        max_timestamp: START,
        is_transactional: false,
        content: BatchContent::Data,
    }
}

/// A transactional batch of `count` records.
pub(crate) fn txn(producer_id: i64, epoch: i16, sequence: i32, count: i32) -> BatchFacts {
    BatchFacts { is_transactional: true, ..data(producer_id, epoch, sequence, count) }
}

fn marker(producer_id: i64, epoch: i16, coordinator_epoch: i32, result: TransactionResult) -> BatchFacts {
    let marker = Marker { result, coordinator_epoch: CoordinatorEpoch(coordinator_epoch) };
    BatchFacts { content: BatchContent::Marker(marker), ..txn(producer_id, epoch, -1, 1) }
}

/// A commit marker.
pub(crate) fn commit(producer_id: i64, epoch: i16, coordinator_epoch: i32) -> BatchFacts {
    marker(producer_id, epoch, coordinator_epoch, TransactionResult::Commit)
}

/// An abort marker.
pub(crate) fn abort(producer_id: i64, epoch: i16, coordinator_epoch: i32) -> BatchFacts {
    marker(producer_id, epoch, coordinator_epoch, TransactionResult::Abort)
}

/// One replica.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub(crate) states: ProducerStates,
    pub(crate) log: Vec<BatchFacts>,
    pub(crate) end: Offset,
    pub(crate) high_watermark: Offset,
    pub(crate) now: Millis,
    pub(crate) aborted: Vec<AbortedTxn>,
}

impl Replica {
    pub(crate) fn new() -> Self {
        Self {
            states: ProducerStates::new(Offset(0)),
            log: Vec::new(),
            end: Offset(0),
            high_watermark: Offset(0),
            now: START,
            aborted: Vec::new(),
        }
    }

    /// A batch of Produce ≤ 11: a transactional one is verified first where it must be, and the coordinator agrees.
    pub(crate) fn produce(&mut self, facts: BatchFacts) -> Result<i64, ErrorCode> {
        let guard = self.verify(&facts, false)?;
        self.produce_with(facts, guard)
    }

    /// A batch of Produce ≥ 12: the partition is added to the transaction.
    pub(crate) fn produce_v2(&mut self, facts: BatchFacts) -> Result<i64, ErrorCode> {
        let guard = self.verify(&facts, true)?;
        self.produce_with(facts, guard)
    }

    /// The first half of a transactional append.
    pub(crate) fn verify(
        &mut self,
        facts: &BatchFacts,
        supports_epoch_bump: bool,
    ) -> Result<Option<VerificationGuard>, ErrorCode> {
        if !facts.is_transactional {
            return Ok(None);
        }
        let (id, epoch, sequence) = (facts.producer_id, facts.producer_epoch, facts.base_sequence);
        let started = self.states.start_verification(self.now, id, epoch, sequence, supports_epoch_bump);
        self.states.check();
        started.map_err(|refusal| refusal.code())
    }

    /// The second half: the answer is the base offset, of the original where the batch is a duplicate.
    pub(crate) fn produce_with(
        &mut self,
        facts: BatchFacts,
        guard: Option<VerificationGuard>,
    ) -> Result<i64, ErrorCode> {
        match self.states.stage(AppendOrigin::Client, &facts, guard, true) {
            Ok(Staged::Append) => {
                let base_offset = self.end;
                assert_eq!(self.append(facts), None);
                Ok(base_offset.0)
            }
            Ok(Staged::Duplicate { base_offset, .. }) => Ok(base_offset.0),
            Err(refusal) => Err(refusal.code()),
        }
    }

    /// A marker with the transaction version of the request.
    pub(crate) fn mark(
        &mut self,
        facts: BatchFacts,
        version: Option<i8>,
    ) -> Result<Option<CompletedTxn>, ErrorCode> {
        let BatchContent::Marker(content) = facts.content else { panic!("{facts:?} is no marker") };
        let (id, epoch) = (facts.producer_id, facts.producer_epoch);
        let origin = AppendOrigin::Coordinator;
        let staged = self.states.stage_marker(origin, id, epoch, content.coordinator_epoch, version);
        staged.map_err(|refusal| refusal.code())?;
        Ok(self.append(facts))
    }

    /// Appends without asking, as replication does, and replays.
    pub(crate) fn append(&mut self, facts: BatchFacts) -> Option<CompletedTxn> {
        let facts = BatchFacts { base_offset: self.end, ..facts };
        self.end = facts.next_offset();
        self.log.push(facts);
        let completed = self.states.replay(Some(self.now), &facts);
        self.aborted.extend(completed.and_then(|completed| self.states.aborted_txn(&completed)));
        self.states.check();
        completed
    }

    /// Everything so far is replicated.
    pub(crate) fn replicate(&mut self) {
        self.replicate_to(self.end.0);
    }

    /// Everything below `offset` is replicated.
    pub(crate) fn replicate_to(&mut self, offset: i64) {
        self.high_watermark = Offset(offset);
        self.states.on_high_watermark(self.high_watermark);
        self.states.check();
    }

    pub(crate) fn last_stable_offset(&self) -> i64 {
        self.states.last_stable_offset(self.high_watermark, Offset(0)).0
    }

    /// Stopped and started: the snapshot of the log's end is loaded.
    pub(crate) fn restart(&mut self) {
        let bytes = self.states.encode_snapshot();
        self.states = ProducerStates::new(Offset(0));
        self.states.load_snapshot(&bytes, self.end, self.now, i64::MAX).unwrap();
        self.states.check();
    }
}
