//! Several answers that become one.

use std::sync::{Arc, Mutex, MutexGuard};

use crate::Broker;
use crate::cx::Cx;
use crate::deadlines::DeadlineKey;
use crate::once::Once;

type Done<T> = Box<dyn FnOnce(&Arc<Broker>, &mut Cx, Vec<T>) + Send>;

/// Collects a fixed number of values, each for its place, and hands them over once all are there.
pub(crate) struct Gather<T> {
    slots: Mutex<Slots<T>>,
    done: Once<Done<T>>,
}

struct Slots<T> {
    values: Vec<Option<T>>,
    missing: usize,
    deadline: Option<DeadlineKey>,
}

impl<T: Send + 'static> Gather<T> {
    /// Waits for `count` values. With none to wait for, `done` runs at once.
    pub(crate) fn new(
        broker: &Arc<Broker>,
        cx: &mut Cx,
        count: usize,
        done: impl FnOnce(&Arc<Broker>, &mut Cx, Vec<T>) + Send + 'static,
    ) -> Arc<Self> {
        let values = std::iter::repeat_with(|| None).take(count).collect();
        let gather = Arc::new(Self {
            slots: Mutex::new(Slots { values, missing: count, deadline: None }),
            done: Once::new(Box::new(done)),
        });
        if count == 0 {
            gather.finish(broker, cx, Vec::new());
        }
        gather
    }

    /// Puts the value for place `at`. A place that has one keeps it.
    pub(crate) fn put(&self, broker: &Arc<Broker>, cx: &mut Cx, at: usize, value: T) {
        let values = {
            let mut slots = self.lock();
            if slots.values.get(at).is_none_or(Option::is_some) {
                return;
            }
            slots.values[at] = Some(value);
            slots.missing -= 1;
            if slots.missing > 0 {
                return;
            }
            std::mem::take(&mut slots.values)
        };
        self.finish(broker, cx, values.into_iter().flatten().collect());
    }

    /// Fills every empty place with what `value` gives for it.
    pub(crate) fn fill(&self, broker: &Arc<Broker>, cx: &mut Cx, value: impl Fn(usize) -> T) {
        let values = {
            let mut slots = self.lock();
            if slots.missing == 0 {
                return;
            }
            slots.missing = 0;
            std::mem::take(&mut slots.values)
        };
        let values = values.into_iter().enumerate();
        self.finish(broker, cx, values.map(|(at, slot)| slot.unwrap_or_else(|| value(at))).collect());
    }

    /// Fills every empty place with what `value` gives for it when `wait_ms` have passed.
    pub(crate) fn fill_after(
        self: &Arc<Self>,
        broker: &Arc<Broker>,
        cx: &Cx,
        wait_ms: i64,
        value: impl Fn(usize) -> T + Send + 'static,
    ) {
        if self.lock().missing == 0 {
            return;
        }
        let gather = Arc::clone(self);
        let due = Box::new(move |broker: &Arc<Broker>, cx: &mut Cx| gather.fill(broker, cx, value));
        let key = broker.add_deadline(cx.now.mono.plus_ms(wait_ms), due);
        let mut slots = self.lock();
        if slots.missing > 0 {
            slots.deadline = Some(key);
        } else {
            // The last value came meanwhile.
            drop(slots);
            broker.deadlines.cancel(key);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Slots<T>> {
        self.slots.lock().expect("no holder of this lock panics")
    }

    fn finish(&self, broker: &Arc<Broker>, cx: &mut Cx, values: Vec<T>) {
        let deadline = self.lock().deadline.take();
        if let Some(key) = deadline {
            broker.deadlines.cancel(key);
        }
        if let Some(done) = self.done.take() {
            done(broker, cx, values);
        }
    }
}
