//! How a handler asks the controller.

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

    /// From a refusal of the core.
    pub(crate) fn of(refusal: &(impl fencepost_coordinator::Refusal + std::fmt::Display)) -> Self {
        Self::new(refusal.code(), refusal.to_string())
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

/// Asks the controller. `then` runs once the change is durable and this broker has taken it in, or has failed.
pub(crate) fn ask_controller(
    broker: &Arc<Broker>,
    cx: &mut Cx,
    request: Request,
    then: impl FnOnce(&Arc<Broker>, &mut Cx, Result<Reply, Fault>) + Send + 'static,
) {
    broker.controller().ask(
        broker,
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
