//! Records of `__transaction_state`, byte for byte as Kafka writes them.
//!
//! The codec is written here, and compared with the one that is generated from Kafka's schema, because a value may
//! carry two fields of ours: the last epoch, which Kafka 4.4 forgets (`coordinator trap 9`), and the producer id that
//! the current one took over from, of which Kafka keeps nothing beyond the next record. They are tagged fields far
//! above Kafka's, which every reader skips, and they are written only where they do not follow from the rest, so most
//! values are exactly Kafka's.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use bytes::Bytes;
use fencepost_coordinator::Record;
use fencepost_types::wire::{DecodeError, Decoded, Reader, Writer};
use fencepost_types::{
    Millis, PartitionIndex, ProducerEpoch, ProducerId, TopicName, TopicPartition, TransactionVersion,
};

use crate::state::{TransactionState, TransactionalId, TxnMetadata};

/// The version of every key.
const KEY_VERSION: i16 = 0;
/// The newest version of a value that we read and write.
const VALUE_VERSION_MAX: i16 = 1;
const PREVIOUS_PRODUCER_ID_TAG: u32 = 0;
const NEXT_PRODUCER_ID_TAG: u32 = 1;
const CLIENT_TRANSACTION_VERSION_TAG: u32 = 2;
/// Ours. Kafka's own tag for this field (KAFKA-20357) is not among the released ones.
const LAST_PRODUCER_EPOCH_TAG: u32 = 10_000;
/// Ours. Kafka's previous producer id would say it too, but where that differs from the current one Kafka lets its
/// holder end the transaction of the current one.
const REPLACED_PRODUCER_ID_TAG: u32 = 10_001;

/// One record of `__transaction_state`: the newest of an id is the truth about it.
///
/// Source: Kafka TransactionLogKey, TransactionLogValue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TransactionRecord {
    /// The record's key.
    pub transactional_id: TransactionalId,
    /// The record's value; `None` is a tombstone: the id is forgotten.
    pub value: Option<TransactionValue>,
}

/// The value of a record, with the version that it is written in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TransactionValue {
    /// 0, or 1 for the flexible form with tagged fields.
    pub version: i16,
    /// What is known of the id.
    pub txn: TxnMetadata,
}

/// The version of the value in which `txn` is written at a finalized level of `transaction.version`.
///
/// Differs from Kafka: at level 0, too, the answer to an InitProducerId that may have been lost is written in the flexible form,
/// which alone has room for the last epoch. Kafka reads either form at every level.
pub fn value_version(finalized: TransactionVersion, txn: &TxnMetadata) -> i16 {
    let may_be_lost = txn.state == TransactionState::Empty && txn.last_producer_epoch != ProducerEpoch::NONE;
    match finalized {
        TransactionVersion::V0 => i16::from(may_be_lost),
        TransactionVersion::V1 | TransactionVersion::V2 => 1,
    }
}

impl Record for TransactionRecord {
    fn encode(&self) -> (Option<Bytes>, Option<Bytes>) {
        let mut key = Writer::new();
        key.i16(KEY_VERSION);
        key.string(&self.transactional_id, false);
        (Some(key.into_bytes()), self.value.as_ref().map(encode_value))
    }

    fn decode(key: Option<&Bytes>, value: Option<&Bytes>) -> Result<Option<Self>, DecodeError> {
        let mut key = Reader::new(key.ok_or(DecodeError::UnexpectedNull)?.clone());
        if key.i16()? != KEY_VERSION {
            return Ok(None);
        }
        let transactional_id = TransactionalId::from(key.string(false)?);
        let Some(value) = value else { return Ok(Some(Self { transactional_id, value: None })) };
        let mut reader = Reader::new(value.clone());
        let version = reader.i16()?;
        if !(0..=VALUE_VERSION_MAX).contains(&version) {
            return Ok(None);
        }
        let txn = decode_value(&mut reader, version >= 1)?;
        Ok(Some(Self { transactional_id, value: Some(TransactionValue { version, txn }) }))
    }
}

fn encode_value(value: &TransactionValue) -> Bytes {
    let TransactionValue { version, txn } = value;
    let is_flexible = *version >= 1;
    let mut w = Writer::new();
    w.i16(*version);
    w.i64(txn.producer_id.0);
    w.i16(txn.producer_epoch.0);
    w.i32(txn.timeout_ms);
    w.i8(txn.state.byte());
    encode_partitions(&mut w, txn, is_flexible);
    w.i64(txn.last_update.0);
    w.i64(txn.start.0);
    if is_flexible {
        encode_tags(&mut w, txn);
    }
    w.into_bytes()
}

/// An Empty value has no partitions at all (null); in the other states the list may be empty.
fn encode_partitions(w: &mut Writer, txn: &TxnMetadata, is_flexible: bool) {
    if txn.state == TransactionState::Empty {
        return w.array_count(None, is_flexible);
    }
    let topics = by_topic(&txn.partitions);
    w.array_count(Some(topics.len()), is_flexible);
    for (topic, partitions) in topics {
        w.string(topic, is_flexible);
        w.array_count(Some(partitions.len()), is_flexible);
        partitions.iter().for_each(|partition| w.i32(partition.0));
        if is_flexible {
            w.uvarint(0);
        }
    }
}

/// The set is in order of its topics, so those of one topic stand together.
fn by_topic(partitions: &BTreeSet<TopicPartition>) -> Vec<(&TopicName, Vec<PartitionIndex>)> {
    let mut topics: Vec<(&TopicName, Vec<PartitionIndex>)> = Vec::new();
    for TopicPartition { topic, partition } in partitions {
        match topics.last_mut() {
            Some((last, indexes)) if *last == topic => indexes.push(*partition),
            Some(_) | None => topics.push((topic, Vec::from([*partition]))),
        }
    }
    topics
}

/// Tagged fields stand in order of their tags, and only where they differ from their defaults.
fn encode_tags(w: &mut Writer, txn: &TxnMetadata) {
    let mut tags: Vec<(u32, Writer)> = Vec::new();
    if txn.previous_producer_id != ProducerId::NONE {
        tags.push((PREVIOUS_PRODUCER_ID_TAG, long(txn.previous_producer_id.0)));
    }
    if txn.next_producer_id != ProducerId::NONE {
        tags.push((NEXT_PRODUCER_ID_TAG, long(txn.next_producer_id.0)));
    }
    if txn.client_transaction_version != TransactionVersion::V0 {
        tags.push((CLIENT_TRANSACTION_VERSION_TAG, short(txn.client_transaction_version.level())));
    }
    if txn.last_producer_epoch != txn.derived_last_producer_epoch() {
        tags.push((LAST_PRODUCER_EPOCH_TAG, short(txn.last_producer_epoch.0)));
    }
    if txn.replaced_producer_id != txn.derived_replaced_producer_id() {
        tags.push((REPLACED_PRODUCER_ID_TAG, long(txn.replaced_producer_id.0)));
    }
    w.uvarint(tags.len() as u32);
    tags.into_iter().for_each(|(tag, content)| w.tagged_field(tag, content));
}

fn long(number: i64) -> Writer {
    let mut content = Writer::new();
    content.i64(number);
    content
}

fn short(number: i16) -> Writer {
    let mut content = Writer::new();
    content.i16(number);
    content
}

fn decode_value(r: &mut Reader, is_flexible: bool) -> Decoded<TxnMetadata> {
    let producer_id = ProducerId(r.i64()?);
    let producer_epoch = ProducerEpoch(r.i16()?);
    let timeout_ms = r.i32()?;
    let state = TransactionState::from_byte(r.i8()?).ok_or(DecodeError::UnsupportedVersion)?;
    let partitions = decode_partitions(r, is_flexible)?;
    let last_update = Millis(r.i64()?);
    let start = Millis(r.i64()?);
    let mut txn = TxnMetadata {
        producer_id,
        previous_producer_id: ProducerId::NONE,
        replaced_producer_id: ProducerId::NONE,
        next_producer_id: ProducerId::NONE,
        producer_epoch,
        last_producer_epoch: ProducerEpoch::NONE,
        timeout_ms,
        state,
        partitions,
        start,
        last_update,
        client_transaction_version: TransactionVersion::V0,
    };
    if is_flexible {
        decode_tags(r, &mut txn)?;
    }
    Ok(txn)
}

fn decode_partitions(r: &mut Reader, is_flexible: bool) -> Decoded<BTreeSet<TopicPartition>> {
    let mut partitions = BTreeSet::new();
    // A topic takes at least three bytes (flexible: lengths of name and list, and the tag count), or six.
    let topic_bytes_min = if is_flexible { 3 } else { 6 };
    for _ in 0..r.array_count(is_flexible, topic_bytes_min)?.unwrap_or(0) {
        let topic = TopicName::from(r.string(is_flexible)?);
        let count = r.array_count(is_flexible, 4)?.ok_or(DecodeError::UnexpectedNull)?;
        for _ in 0..count {
            partitions.insert(TopicPartition { topic: topic.clone(), partition: PartitionIndex(r.i32()?) });
        }
        if is_flexible {
            r.tagged_fields(|_, _| Ok(false))?;
        }
    }
    Ok(partitions)
}

fn decode_tags(r: &mut Reader, txn: &mut TxnMetadata) -> Decoded<()> {
    let (mut last_producer_epoch, mut replaced_producer_id) = (None, None);
    r.tagged_fields(|tag, field| {
        match tag {
            PREVIOUS_PRODUCER_ID_TAG => txn.previous_producer_id = ProducerId(field.i64()?),
            NEXT_PRODUCER_ID_TAG => txn.next_producer_id = ProducerId(field.i64()?),
            CLIENT_TRANSACTION_VERSION_TAG => {
                txn.client_transaction_version = TransactionVersion::from_level(field.i16()?);
            }
            LAST_PRODUCER_EPOCH_TAG => last_producer_epoch = Some(ProducerEpoch(field.i16()?)),
            REPLACED_PRODUCER_ID_TAG => replaced_producer_id = Some(ProducerId(field.i64()?)),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    txn.last_producer_epoch = last_producer_epoch.unwrap_or_else(|| txn.derived_last_producer_epoch());
    txn.replaced_producer_id = replaced_producer_id.unwrap_or_else(|| txn.derived_replaced_producer_id());
    Ok(())
}

#[cfg(test)]
mod tests;
