//! How a handler asks the controller.

use std::collections::BTreeMap;
use std::sync::Arc;

use fencepost_metadata::{Reply, Request};
use fencepost_types::ErrorCode;

use crate::Broker;
use crate::cx::Cx;
use crate::runtime::AskError;

/// Why something was not done: the code, and a sentence for whoever reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The code on the wire.
    pub(crate) code: ErrorCode,
    /// The sentence beside it; `None` where the code says everything.
    pub(crate) message: Option<String>,
}

impl Fault {
    /// A code with its sentence.
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: Some(message.into()) }
    }

    /// From a refusal of the core whose sentence is left out where it is the code's own.
    ///
    /// Source: Kafka ApiError.fromThrowable.
    pub(crate) fn unless_plain(refusal: &(impl fencepost_coordinator::Refusal + std::fmt::Display)) -> Self {
        let fault = Self::of(refusal);
        let message = fault.message.filter(|message| message != fault.code.sentence());
        Self { message, ..fault }
    }

    /// From a refusal of the core.
    pub(crate) fn of(refusal: &(impl fencepost_coordinator::Refusal + std::fmt::Display)) -> Self {
        Self::new(refusal.code(), refusal.to_string())
    }
}

/// Sentences that one answer carries. Beyond that a fault has its code alone.
const SENTENCE_BYTES_MAX: usize = 1024 * 1024;

/// What the sentences of an answer may still take: one request can have the same long name told for each of many partitions.
pub(crate) struct Sentences {
    bytes_left: usize,
}

impl Sentences {
    /// For one answer.
    pub(crate) fn new() -> Self {
        Self { bytes_left: SENTENCE_BYTES_MAX }
    }

    /// The fault with its sentence, or without where there is no room.
    pub(crate) fn tell(&mut self, fault: Fault) -> Fault {
        let bytes = fault.message.as_ref().map_or(0, String::len);
        match self.bytes_left.checked_sub(bytes) {
            Some(left) => {
                self.bytes_left = left;
                fault
            }
            None => Fault { message: None, ..fault },
        }
    }
}

impl From<ErrorCode> for Fault {
    fn from(code: ErrorCode) -> Self {
        Self { code, message: None }
    }
}

/// Code and sentence of a result, as answers carry them: 0 and nothing when all is well.
pub(crate) fn code_and_message(result: Result<(), Fault>) -> (i16, Option<String>) {
    match result {
        Ok(()) => (ErrorCode::None.code(), None),
        Err(fault) => (fault.code.code(), fault.message),
    }
}

/// How long a request may wait for its turn at the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience {
    /// What the client has set.
    pub(crate) timeout_ms: i32,
    /// Whether there is anything for the controller in it. What is refused for its form, or asks for nothing, needs no time.
    pub(crate) is_needed: bool,
}

impl Patience {
    fn is_over(self) -> bool {
        self.is_needed && self.timeout_ms <= 0
    }
}

/// [`ask_controller`] for a request with a timeout: where the client leaves no time nothing is done, and all of it is
/// refused. Here a request has its turn when it comes, so that any time at all is enough; what has begun ends.
///
/// Source: Kafka KafkaEventQueue, which looks whether an event is too late when its turn comes.
pub(crate) fn ask_controller_within(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    patience: Patience,
    request: Request,
    then: impl FnOnce(&Arc<Broker>, &mut Cx, Result<Reply, Fault>) + Send + 'static,
) {
    if patience.is_over() {
        return then(broker, cx, Err(ErrorCode::RequestTimedOut.into()));
    }
    ask_controller(broker, cx, request, then);
}

/// Whether one of the keys comes once. Those that come twice are refused for that.
pub(crate) fn has_single<K: Ord>(keys: impl Iterator<Item = K>) -> bool {
    let mut times: BTreeMap<K, usize> = BTreeMap::new();
    keys.for_each(|key| *times.entry(key).or_default() += 1);
    times.into_values().any(|times| times == 1)
}

/// Asks the controller. `then` runs once the change is durable and this broker has taken it in, or has failed.
pub(crate) fn ask_controller(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    request: Request,
    then: impl FnOnce(&Arc<Broker>, &mut Cx, Result<Reply, Fault>) + Send + 'static,
) {
    broker.ask_controller(
        cx,
        request,
        Box::new(move |broker, cx, answer| {
            let answer = answer.map_err(|error| match error {
                AskError::Refused(refusal) => Fault::of(&refusal),
                AskError::Failed(code) => code.into(),
            });
            then(broker, cx, answer);
        }),
    );
}
