//! Requests of the controller take turns: the next one is decided when what the last one wrote is durable. So a crash can tear
//! one write of the metadata log and no more, and what else is not whole is known to be damaged.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use fencepost_metadata::{Controller, Request};
use fencepost_types::ErrorCode;

use crate::Broker;
use crate::cx::Cx;
use crate::runtime::{AskError, Respond};
use crate::waiting::Waited;

/// The most requests that may wait for their turn; the next one gets `COORDINATOR_LOAD_IN_PROGRESS`.
const WAITING_MAX: usize = 100_000;

/// Who waits for a turn.
#[derive(Default)]
pub(crate) struct ControllerTurns {
    state: Mutex<Turns>,
}

#[derive(Default)]
struct Turns {
    /// Whether a request has its turn: the one that comes waits.
    is_taken: bool,
    waiting: VecDeque<(Request, Respond<Controller>)>,
}

impl ControllerTurns {
    fn lock(&self) -> MutexGuard<'_, Turns> {
        self.state.lock().expect("no holder of this lock panics")
    }
}

impl Broker {
    /// Asks the controller when it is this request's turn; `respond` gets the answer when it is durable.
    pub(crate) fn ask_controller(
        self: &Arc<Self>,
        cx: &mut Cx,
        request: Request,
        respond: Respond<Controller>,
    ) {
        let mut turns = self.controller_turns.lock();
        if turns.waiting.len() >= WAITING_MAX {
            drop(turns);
            return respond(self, cx, Err(AskError::Failed(ErrorCode::CoordinatorLoadInProgress)));
        }
        if turns.is_taken {
            return turns.waiting.push_back((request, respond));
        }
        turns.is_taken = true;
        drop(turns);
        self.take_turn(cx, request, respond);
    }

    /// Asks, and lets the next one come when the log is durable to its end: that is also when this one is answered.
    fn take_turn(self: &Arc<Self>, cx: &mut Cx, request: Request, respond: Respond<Controller>) {
        let controller = self.controller();
        controller.ask(self, cx, request, respond);
        let end = controller.partition().log_end_offset();
        controller.partition().when_high_watermark(
            cx,
            end,
            Box::new(|broker, cx, waited| broker.next_turn(cx, waited)),
        );
    }

    fn next_turn(self: &Arc<Self>, cx: &mut Cx, waited: Waited) {
        let next = {
            let mut turns = self.controller_turns.lock();
            let next = turns.waiting.pop_front();
            turns.is_taken = next.is_some();
            next
        };
        let Some((request, respond)) = next else { return };
        match waited {
            Waited::Reached => self.take_turn(cx, request, respond),
            Waited::Gone(code) => {
                respond(self, cx, Err(AskError::Failed(code)));
                cx.push(Box::new(move |broker, cx| broker.next_turn(cx, waited)));
            }
        }
    }
}
