//! The answer to a Produce, put together as its partitions finish.

use fencepost_protocol::messages::produce_response::{PartitionResponses, RecordErrors, Responses};
use fencepost_protocol::messages::{ProduceRequest, ProduceResponse};
use fencepost_records::AppendRefusal;
use fencepost_types::{ErrorCode, Millis, Offset, TopicPartition, Uuid};

use crate::respond::Exchange;

/// What one partition is answered.
#[derive(Clone, Debug)]
pub(crate) struct PartitionAnswer {
    pub(crate) code: ErrorCode,
    pub(crate) base_offset: Offset,
    pub(crate) log_append_time: Millis,
    pub(crate) log_start_offset: Offset,
    pub(crate) record_errors: Vec<(i32, String)>,
    pub(crate) message: Option<String>,
}

impl PartitionAnswer {
    /// A refusal before the log was looked at.
    pub(crate) fn refused(code: ErrorCode) -> Self {
        Self {
            code,
            base_offset: Offset::NONE,
            log_append_time: Millis::NONE,
            log_start_offset: Offset::NONE,
            record_errors: Vec::new(),
            message: None,
        }
    }

    /// A refusal with a reason for people.
    pub(crate) fn explained(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { message: Some(message.into()), ..Self::refused(code) }
    }

    /// A refusal of the content of a batch that was sent to `partition`.
    pub(crate) fn content(
        refusal: &AppendRefusal,
        partition: &TopicPartition,
        log_start_offset: Offset,
    ) -> Self {
        let records = refusal.record_refusals().iter();
        Self {
            log_start_offset: if refusal.carries_log_start_offset() {
                log_start_offset
            } else {
                Offset::NONE
            },
            record_errors: records.map(|record| (record.index, record.message(partition))).collect(),
            message: refusal.message(partition),
            ..Self::refused(refusal.code())
        }
    }
}

/// The places of an answer, in the order of the request.
pub(crate) struct Answers {
    topics: Vec<(String, Uuid, Vec<i32>)>,
    filled: Vec<Option<PartitionAnswer>>,
}

impl Answers {
    /// One empty place for each partition of the request.
    pub(crate) fn of(request: &ProduceRequest) -> Self {
        let topics: Vec<_> = request
            .topic_data
            .iter()
            .map(|topic| {
                let indexes = topic.partition_data.iter().map(|data| data.index).collect();
                (topic.name.clone(), topic.topic_id, indexes)
            })
            .collect();
        let places = topics.iter().map(|(_, _, indexes): &(_, _, Vec<i32>)| indexes.len()).sum();
        Self { topics, filled: vec![None; places] }
    }

    pub(crate) fn put(&mut self, at: usize, answer: PartitionAnswer) {
        self.filled[at] = Some(answer);
    }

    /// The same refusal for every partition.
    pub(crate) fn all(&mut self, code: ErrorCode) {
        self.filled.fill(Some(PartitionAnswer::refused(code)));
    }

    /// Answers. With acks 0 nothing is sent, and an error closes the connection.
    pub(crate) fn reply(self, exchange: Exchange, acks: i16) {
        let failed = self.filled.iter().flatten().any(|answer| !answer.code.is_none());
        if acks == 0 {
            return if failed { exchange.close() } else { exchange.reply_nothing() };
        }
        exchange.reply(self.into_response());
    }

    fn into_response(self) -> ProduceResponse {
        let mut filled = self.filled.into_iter();
        let topics = self.topics.into_iter();
        let responses = topics
            .map(|(name, topic_id, indexes)| Responses {
                name,
                topic_id,
                partition_responses: indexes
                    .into_iter()
                    .map(|index| {
                        let answer = filled.next().flatten();
                        let answer =
                            answer.unwrap_or_else(|| PartitionAnswer::refused(ErrorCode::UnknownServerError));
                        partition_response(index, answer)
                    })
                    .collect(),
            })
            .collect();
        ProduceResponse { responses, ..Default::default() }
    }
}

fn partition_response(index: i32, answer: PartitionAnswer) -> PartitionResponses {
    let record_errors = answer.record_errors.into_iter();
    PartitionResponses {
        index,
        error_code: answer.code.code(),
        base_offset: answer.base_offset.0,
        log_append_time_ms: answer.log_append_time.0,
        log_start_offset: answer.log_start_offset.0,
        record_errors: record_errors
            .map(|(batch_index, message)| RecordErrors {
                batch_index,
                batch_index_error_message: Some(message),
            })
            .collect(),
        error_message: answer.message,
        ..Default::default()
    }
}
