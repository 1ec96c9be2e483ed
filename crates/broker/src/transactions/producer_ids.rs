//! Producer ids, handed out from blocks of the controller.
//!
//! Differs from Kafka: no prefetched second block. The embedded controller is in the same process, so a block is one
//! append away; those who come meanwhile wait for it instead of being sent away.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use fencepost_metadata as metadata;
use fencepost_types::ProducerId;

use crate::Broker;
use crate::cx::Cx;

/// Gets a producer id; `None` when no block could be had.
pub(crate) type TakeProducerId = Box<dyn FnOnce(&Arc<Broker>, &mut Cx, Option<ProducerId>) + Send>;

/// Requests that may wait for a block; the next one gets none.
const WAITING_MAX: usize = 10_000;

/// The current block, and who waits for the next one.
#[derive(Default)]
pub(crate) struct ProducerIds {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    block: Range<i64>,
    waiting: VecDeque<TakeProducerId>,
    is_asking: bool,
}

impl ProducerIds {
    /// Hands one id to `take`, at once or when the controller has given a new block.
    pub(crate) fn take(&self, broker: &Arc<Broker>, cx: &mut Cx, take: TakeProducerId) {
        let mut state = self.state.lock().expect("no holder of this lock panics");
        if let Some(id) = state.block.next() {
            drop(state);
            take(broker, cx, Some(ProducerId(id)));
            return;
        }
        if state.waiting.len() >= WAITING_MAX {
            drop(state);
            take(broker, cx, None);
            return;
        }
        state.waiting.push_back(take);
        let asks = !std::mem::replace(&mut state.is_asking, true);
        drop(state);
        if asks {
            ask(broker, cx);
        }
    }

    /// Serves who waits, in the order of coming. If there are more than the block holds, the next one is asked for; if
    /// there was none to be had, nobody gets anything.
    fn got_block(&self, broker: &Arc<Broker>, cx: &mut Cx, block: Range<i64>) {
        let (served, asks) = {
            let mut state = self.state.lock().expect("no holder of this lock panics");
            let failed = block.is_empty();
            state.block = block;
            let mut served = Vec::new();
            while !state.waiting.is_empty() {
                let id = state.block.next();
                if id.is_none() && !failed {
                    break;
                }
                served.extend(state.waiting.pop_front().map(|take| (take, id.map(ProducerId))));
            }
            state.is_asking = !state.waiting.is_empty();
            (served, state.is_asking)
        };
        if asks {
            ask(broker, cx);
        }
        for (take, id) in served {
            take(broker, cx, id);
        }
    }
}

fn ask(broker: &Arc<Broker>, cx: &mut Cx) {
    broker.ask_controller(
        cx,
        metadata::Request::AllocateProducerIds,
        Box::new(|broker, cx, answer| {
            let block = match answer {
                Ok(metadata::Reply::ProducerIds { first, count }) => first.0..first.0 + i64::from(count),
                Ok(other) => unreachable!("the controller answered AllocateProducerIds with {other:?}"),
                Err(error) => {
                    tracing::warn!(code = %error.code(), "no block of producer ids");
                    0..0
                }
            };
            broker.producer_ids.got_block(broker, cx, block);
        }),
    );
}
