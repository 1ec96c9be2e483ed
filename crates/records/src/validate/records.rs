//! The checks that look at each record, fed by the walk.

use alloc::vec::Vec;
use fencepost_types::Millis;

use super::refusal::{AppendRefusal, RECORD_REFUSALS_MAX, RecordFault, RecordRefusal};
use super::{AppendOrigin, AppendRules};
use crate::header::{BatchHeader, TimestampType};
use crate::walk::RecordShape;

/// The largest timestamp of a batch and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MaxTimestamp {
    pub(super) timestamp: Millis,
    /// `None` where no record has a timestamp.
    pub(super) offset_delta: Option<i32>,
}

/// What is learned while walking the records of one batch.
pub(super) struct RecordChecks {
    rules: AppendRules,
    origin: AppendOrigin,
    now: Millis,
    base_timestamp: Millis,
    claims_append_time: bool,
    record_count: i32,
    earliest: Millis,
    latest: Millis,
    max: MaxTimestamp,
    wrong_offset_delta: Option<RecordShape>,
    record_bytes_max: i32,
    refused: Vec<RecordRefusal>,
    refused_count: i32,
    any_timestamp_refused: bool,
}

impl RecordChecks {
    pub(super) fn new(header: &BatchHeader, rules: &AppendRules, origin: AppendOrigin, now: Millis) -> Self {
        let is_client = matches!(origin, AppendOrigin::Client { .. });
        Self {
            rules: *rules,
            origin,
            now,
            base_timestamp: header.base_timestamp,
            claims_append_time: header.timestamp_type() == TimestampType::LogAppendTime,
            record_count: header.record_count,
            earliest: Millis(now.0.saturating_sub(rules.timestamp_before_max_ms)),
            latest: now.plus(rules.timestamp_after_max_ms),
            max: MaxTimestamp { timestamp: Millis::NONE, offset_delta: None },
            wrong_offset_delta: None,
            record_bytes_max: if is_client { rules.record_bytes_max } else { i32::MAX },
            refused: Vec::new(),
            refused_count: 0,
            any_timestamp_refused: false,
        }
    }

    /// The most bytes of one record of a compressed batch.
    ///
    /// Source: Kafka DefaultRecord.readFrom.
    pub(super) fn record_bytes_max(&self) -> i32 {
        self.record_bytes_max
    }

    /// Takes in the next record.
    #[inline]
    pub(super) fn see(&mut self, record: RecordShape) {
        if record.offset_delta != record.index {
            self.wrong_offset_delta = self.wrong_offset_delta.or(Some(record));
        }
        let timestamp = Millis(self.base_timestamp.0.wrapping_add(record.timestamp_delta));
        if timestamp > self.max.timestamp {
            self.max = MaxTimestamp { timestamp, offset_delta: Some(record.index) };
        }
        if let AppendOrigin::Client { .. } = self.origin
            && let Some(fault) = self.fault(record, timestamp)
        {
            self.refuse(record.index, fault);
        }
    }

    /// What is wrong with a record. The key comes first: a record with both faults counts as keyless.
    #[inline]
    fn fault(&self, record: RecordShape, timestamp: Millis) -> Option<RecordFault> {
        if self.rules.keys_required && !record.has_key {
            return Some(RecordFault::NoKey);
        }
        match self.rules.timestamp_type {
            TimestampType::LogAppendTime => self.claims_append_time.then_some(RecordFault::ClaimsAppendTime),
            TimestampType::CreateTime if timestamp == Millis::NONE => None,
            TimestampType::CreateTime if timestamp < self.earliest || timestamp > self.latest => {
                Some(RecordFault::Time { timestamp, earliest: self.earliest, latest: self.latest })
            }
            TimestampType::CreateTime => None,
        }
    }

    #[cold]
    fn refuse(&mut self, index: i32, fault: RecordFault) {
        self.refused_count += 1;
        self.any_timestamp_refused |= fault.is_about_time();
        if self.refused.len() < RECORD_REFUSALS_MAX {
            self.refused.push(RecordRefusal { index, fault });
        }
    }

    /// After the last record: what the header's maximum timestamp must be.
    pub(super) fn finish(self) -> Result<MaxTimestamp, AppendRefusal> {
        if let Some(record) = self.wrong_offset_delta {
            return Err(AppendRefusal::OffsetDelta { index: record.index, found: record.offset_delta });
        }
        if self.refused_count > 0 {
            return Err(AppendRefusal::Records {
                refused: self.refused,
                refused_count: self.refused_count,
                record_count: self.record_count,
                any_timestamp_refused: self.any_timestamp_refused,
            });
        }
        Ok(match self.rules.timestamp_type {
            TimestampType::CreateTime => self.max,
            TimestampType::LogAppendTime => MaxTimestamp { timestamp: self.now, offset_delta: Some(0) },
        })
    }
}
