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
        if std::mem::replace(&mut state.is_asking, true) {
            return;
        }
        drop(state);
        broker.controller().ask(
            broker,
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

    fn got_block(&self, broker: &Arc<Broker>, cx: &mut Cx, block: Range<i64>) {
        let waiting = {
            let mut state = self.state.lock().expect("no holder of this lock panics");
            state.is_asking = false;
            let failed = block.is_empty();
            state.block = block;
            if failed || state.waiting.len() <= state.block.clone().count() {
                std::mem::take(&mut state.waiting)
            } else {
                let count = state.block.clone().count();
                state.waiting.drain(..count).collect()
            }
        };
        for take in waiting {
            let id = self.state.lock().expect("no holder of this lock panics").block.next();
            take(broker, cx, id.map(ProducerId));
        }
        self.ask_if_waited_for(broker, cx);
    }

    /// More came than one block holds: the rest waits for the next one.
    fn ask_if_waited_for(&self, broker: &Arc<Broker>, cx: &mut Cx) {
        let first = self.state.lock().expect("no holder of this lock panics").waiting.pop_front();
        if let Some(first) = first {
            self.take(broker, cx, first);
        }
    }
}
