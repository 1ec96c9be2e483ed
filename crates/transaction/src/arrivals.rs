//! In which order the requests of a producer arrive, by the connections they come on (KAFKA-17754).
//!
//! Below version 2 all transactions of a producer carry one epoch. A request whose answer did not come is sent again on
//! another connection, and the first copy may still arrive, much later: in the middle of the next transaction, of which
//! nothing in it can be told apart. But a client that stops waiting for an answer closes the connection, and uses the
//! older connection never again. So a request on a connection that a newer one has replaced is *doubtful*: it is told to
//! come again, once. Of a request that was delayed nobody hears the answer. A client that is there, and uses several
//! connections at a time, asks again, and is believed on that connection until it opens a newer one.
//!
//! Nothing of this is persisted: after a restart there are no older connections.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use fencepost_types::{ProducerEpoch, ProducerId, Sequence, TopicPartition};

use crate::state::TransactionalId;

/// Older connections that are remembered of a producer. Beyond them only those of the same kind of work are doubted.
const OLDER_MAX: usize = 8;
/// Batches that are remembered of a connection on which they were told to come again.
const ASKED_MAX: usize = 16;
/// Producers that one [`Arrivals`] remembers at least; up to twice as many are.
const PRODUCERS_MIN: usize = 256;

/// A connection, by its place in the order in which connections were accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionNumber(pub u64);

/// A producer as its requests name it. It borrows from the request: every batch of an older client is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerName<'a> {
    /// Its transactional id.
    pub transactional_id: &'a str,
    /// Its id.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: ProducerEpoch,
}

/// What a request wants. Clients have a connection for each kind of work, or one for all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// AddPartitionsToTxn or AddOffsetsToTxn of a client.
    Add,
    /// EndTxn.
    End,
    /// TxnOffsetCommit.
    CommitOffsets,
    /// Produce: one batch. Up to five may be on their way at once, so the batch says which one asks again.
    Produce(TopicPartition, Sequence),
}

impl Step {
    fn is_batch(&self) -> bool {
        matches!(self, Self::Produce(..))
    }

    fn work(&self) -> usize {
        match self {
            Self::Add | Self::End => 0,
            Self::CommitOffsets => 1,
            Self::Produce(..) => 2,
        }
    }
}

/// The kinds of work of [`Step`]: asking the transaction coordinator, the group coordinator, the leaders.
const WORKS: usize = 3;

/// What is known of a request's place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// Nothing speaks against it.
    InOrder,
    /// It came on a connection that the producer seems to have left. Answered with a code that every client asks again
    /// after.
    Doubtful,
}

/// Who has used which connections. Bounded; whoever is forgotten is believed. To look at a request in order takes no
/// allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Arrivals {
    recent: BTreeMap<ProducerId, Seen>,
    /// Those that were recent before; forgotten when there are enough recent ones again.
    before: BTreeMap<ProducerId, Seen>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Seen {
    transactional_id: TransactionalId,
    producer_epoch: ProducerEpoch,
    /// The newest connection of each kind of work.
    newest: [Option<ConnectionNumber>; WORKS],
    /// Connections that a newer one has replaced, in the order in which that was seen.
    older: Vec<(ConnectionNumber, Standing)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Standing {
    /// Nothing has come on it since.
    Left,
    /// These have come, and were told to come again.
    Asked(Vec<Step>),
    /// Somebody is there who hears answers.
    Alive,
}

impl Arrivals {
    /// Takes note of a request. `None` where the producer is not known under this pair: if it is the one in force,
    /// [`Self::begin`] makes it known.
    pub fn arrive(
        &mut self,
        producer: ProducerName<'_>,
        connection: ConnectionNumber,
        step: &Step,
    ) -> Option<Arrival> {
        if let Some(seen) = self.before.remove(&producer.producer_id) {
            self.remember(producer.producer_id, seen);
        }
        let seen = self.recent.get_mut(&producer.producer_id)?;
        let is_same = *seen.transactional_id == *producer.transactional_id
            && seen.producer_epoch == producer.producer_epoch;
        is_same.then(|| seen.arrive(connection, step))
    }

    /// The first request that is seen of the pair in force. It forgets the epoch before.
    pub fn begin(&mut self, producer: ProducerName<'_>, connection: ConnectionNumber, step: &Step) {
        let mut newest = [None; WORKS];
        newest[step.work()] = Some(connection);
        let ProducerName { transactional_id, producer_id, producer_epoch } = producer;
        let transactional_id = transactional_id.into();
        self.remember(producer_id, Seen { transactional_id, producer_epoch, newest, older: Vec::new() });
    }

    fn remember(&mut self, id: ProducerId, seen: Seen) {
        if self.recent.len() >= PRODUCERS_MIN && !self.recent.contains_key(&id) {
            self.before = core::mem::take(&mut self.recent);
        }
        self.before.remove(&id);
        self.recent.insert(id, seen);
    }
}

impl Seen {
    fn arrive(&mut self, connection: ConnectionNumber, step: &Step) -> Arrival {
        let arrival = self.place(connection, step);
        if arrival == Arrival::InOrder && *step == Step::End {
            self.forget_batches();
        }
        arrival
    }

    /// A batch that has not come again by the end of its transaction never will: it must not take the room of one that may.
    fn forget_batches(&mut self) {
        for (_, standing) in &mut self.older {
            match standing {
                Standing::Asked(asked) => asked.retain(|step| !step.is_batch()),
                Standing::Left | Standing::Alive => {}
            }
        }
    }

    fn place(&mut self, connection: ConnectionNumber, step: &Step) -> Arrival {
        if let Some((_, standing)) = self.older.iter_mut().find(|(number, _)| *number == connection) {
            return standing.arrive(step);
        }
        let newest = self.newest[step.work()].replace(connection);
        match newest {
            Some(newest) if connection < newest => {
                self.newest[step.work()] = Some(newest);
                self.replaced(connection, Standing::Asked(Vec::from([step.clone()])));
                Arrival::Doubtful
            }
            Some(left) if left < connection => {
                self.doubt_again();
                self.replaced(left, Standing::Left);
                Arrival::InOrder
            }
            Some(_) | None => Arrival::InOrder,
        }
    }

    /// A newer connection may stand for any of those that were believed.
    fn doubt_again(&mut self) {
        for (_, standing) in &mut self.older {
            match standing {
                Standing::Alive => *standing = Standing::Left,
                Standing::Left | Standing::Asked(_) => {}
            }
        }
    }

    fn replaced(&mut self, connection: ConnectionNumber, standing: Standing) {
        if self.older.iter().any(|(number, _)| *number == connection) {
            return;
        }
        if self.older.len() >= OLDER_MAX {
            self.older.remove(0);
        }
        self.older.push((connection, standing));
    }
}

impl Standing {
    fn arrive(&mut self, step: &Step) -> Arrival {
        match self {
            Self::Alive => return Arrival::InOrder,
            Self::Asked(asked) if asked.contains(step) => {
                *self = Self::Alive;
                return Arrival::InOrder;
            }
            // It may have been on its way already, behind the one that was asked.
            Self::Asked(asked) if asked.len() < ASKED_MAX => asked.push(step.clone()),
            Self::Asked(asked) if !step.is_batch() => asked.push(step.clone()),
            // The first batches to come again speak for all.
            Self::Asked(_) => {}
            Self::Left => *self = Self::Asked(Vec::from([step.clone()])),
        }
        Arrival::Doubtful
    }
}

#[cfg(test)]
mod tests;
