//! How many producers the tables of all partitions may hold: clients choose how many producer ids they use, and each
//! takes memory until it expires.
//!
//! A partition that is full, or is part of a broker that is, first forgets who may be forgotten (see
//! `fencepost_partition`'s eviction). Where nobody may, the batch of a producer that is new to the partition is refused
//! with NOT_ENOUGH_REPLICAS, which every client retries. Markers are never refused: a transaction must end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use fencepost_metadata::BrokerConfig;
use fencepost_partition::PRODUCER_EVICTION_IDLE_MIN_MS;
use fencepost_types::{ErrorCode, Millis, Now, ProducerId};

use crate::Broker;
use crate::cx::Cx;
use crate::partition::State;

/// A full table forgets this part of its limit at once, so that not every new producer costs a look at all others.
const EVICTED_AT_ONCE: usize = 16;
/// After a look at all partitions that found nobody, the next one comes no sooner.
const LOOK_AGAIN_MS: i64 = 10_000;

/// The limits, and what became of them.
#[derive(Debug)]
pub(crate) struct ProducerBudget {
    entries_max: usize,
    partition_entries_max: usize,
    entries: AtomicUsize,
    evicted: AtomicU64,
    refused: AtomicU64,
    /// Whether a look at all partitions is on its way.
    is_looking: AtomicBool,
}

impl ProducerBudget {
    pub(crate) fn new(config: &BrokerConfig) -> Self {
        let limit = |value: i64| usize::try_from(value).unwrap_or(usize::MAX);
        Self {
            entries_max: limit(config.producer_entries_max),
            partition_entries_max: limit(config.producer_entries_partition_max),
            entries: AtomicUsize::new(0),
            evicted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            is_looking: AtomicBool::new(false),
        }
    }

    fn is_full(&self) -> bool {
        self.entries.load(Ordering::Relaxed) >= self.entries_max
    }

    /// A partition counted `before` producers and now has `after`.
    fn recount(&self, before: usize, after: usize) {
        if after != before {
            // Adding the difference, which may be negative.
            self.entries.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        }
    }
}

/// What a partition remembers of its part of the budget.
#[derive(Debug)]
pub(crate) struct ProducerCount {
    counted: usize,
    /// Until then nobody is old enough to be forgotten.
    look_again_at: Millis,
}

impl Default for ProducerCount {
    fn default() -> Self {
        Self { counted: 0, look_again_at: Millis::NONE }
    }
}

impl State {
    /// Brings the broker's count up to date with this partition.
    pub(crate) fn count_producers(&mut self, budget: &ProducerBudget) {
        let count = self.log.producer_states().producer_count();
        budget.recount(self.producer_count.counted, count);
        self.producer_count.counted = count;
    }

    /// The partition is gone, and its producers with it.
    pub(crate) fn forget_count(&mut self, budget: &ProducerBudget) {
        budget.recount(self.producer_count.counted, 0);
        self.producer_count.counted = 0;
    }

    /// Whether a batch of this producer may add it to the table; makes room for it if need be.
    pub(crate) fn admit(
        &mut self,
        broker: &Broker,
        cx: &mut Cx,
        producer_id: ProducerId,
    ) -> Result<(), ErrorCode> {
        let budget = &broker.producer_budget;
        if !self.is_full(budget) {
            return Ok(());
        }
        if producer_id.0 < 0 || self.log.producer_states().producer(producer_id).is_some() {
            return Ok(());
        }
        if cx.now.wall >= self.producer_count.look_again_at {
            let limit = budget.partition_entries_max.min(budget.entries_max);
            self.evict(budget, cx.now, PRODUCER_EVICTION_IDLE_MIN_MS, (limit / EVICTED_AT_ONCE).max(1));
        }
        if !self.is_full(budget) {
            return Ok(());
        }
        if budget.is_full() && !budget.is_looking.swap(true, Ordering::Relaxed) {
            // Others may have some to forget; the retry of this batch finds the room.
            cx.push(Box::new(|broker, cx| broker.evict_everywhere(cx)));
        }
        budget.refused.fetch_add(1, Ordering::Relaxed);
        Err(ErrorCode::NotEnoughReplicas)
    }

    fn is_full(&self, budget: &ProducerBudget) -> bool {
        self.log.producer_states().producer_count() >= budget.partition_entries_max || budget.is_full()
    }

    fn evict(&mut self, budget: &ProducerBudget, now: Now, idle_min_ms: i64, count: usize) -> usize {
        let evicted = self.log.producer_states_mut().evict(now.wall, idle_min_ms, count);
        if idle_min_ms == PRODUCER_EVICTION_IDLE_MIN_MS {
            self.producer_count.look_again_at = evicted.look_again_at.unwrap_or(Millis::NONE);
        }
        budget.evicted.fetch_add(evicted.producers as u64, Ordering::Relaxed);
        self.count_producers(budget);
        evicted.producers
    }
}

impl Broker {
    /// Forgets producers of all partitions, those that were silent longest first, until there is some room.
    fn evict_everywhere(self: &Arc<Self>, cx: &mut Cx) {
        let budget = &self.producer_budget;
        let wanted = budget.entries_max - (budget.entries_max / EVICTED_AT_ONCE).max(1);
        let mut idle_ms =
            i64::from(self.config().producer_id_expiration_ms).max(PRODUCER_EVICTION_IDLE_MIN_MS);
        let mut evicted = 0;
        loop {
            for partition in self.partitions.all() {
                let surplus = budget.entries.load(Ordering::Relaxed).saturating_sub(wanted);
                // A partition that is gone has no producers to lose.
                evicted += partition.with(|state| state.evict(budget, cx.now, idle_ms, surplus)).unwrap_or(0);
            }
            if budget.entries.load(Ordering::Relaxed) <= wanted || idle_ms == PRODUCER_EVICTION_IDLE_MIN_MS {
                break;
            }
            idle_ms = (idle_ms / 2).max(PRODUCER_EVICTION_IDLE_MIN_MS);
        }
        tracing::warn!(
            evicted,
            entries = self.producer_entries(),
            "the budget of producer entries is used up"
        );
        let delay_ms = if evicted == 0 { LOOK_AGAIN_MS } else { 0 };
        let done: crate::cx::Task =
            Box::new(|broker, _| broker.producer_budget.is_looking.store(false, Ordering::Relaxed));
        self.add_deadline(cx.now.mono.plus_ms(delay_ms), done);
    }

    /// How many producers the tables of all partitions hold.
    pub fn producer_entries(&self) -> usize {
        self.producer_budget.entries.load(Ordering::Relaxed)
    }

    /// How many producers were forgotten before they expired, since the start.
    pub fn producers_evicted(&self) -> u64 {
        self.producer_budget.evicted.load(Ordering::Relaxed)
    }

    /// How many batches were refused because no table had room for their producer, since the start.
    pub fn producers_refused(&self) -> u64 {
        self.producer_budget.refused.load(Ordering::Relaxed)
    }
}
