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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, broker, later};

    /// Where the collected values go.
    #[derive(Clone, Default)]
    struct Collected(Arc<Mutex<Vec<Vec<u32>>>>);

    impl Collected {
        fn gather(&self, broker: &Arc<Broker>, cx: &mut Cx, count: usize) -> Arc<Gather<u32>> {
            let to = Arc::clone(&self.0);
            Gather::new(broker, cx, count, move |_, _, values| to.lock().unwrap().push(values))
        }

        fn all(&self) -> Vec<Vec<u32>> {
            self.0.lock().unwrap().clone()
        }
    }

    /// Values come in any order and keep their places; a second value for a place, or one for none, changes nothing; the
    /// end comes once.
    #[test]
    fn values_keep_their_places() {
        let (broker, collected) = (broker(), Collected::default());
        let mut cx = Cx::new(NOW);
        let gather = collected.gather(&broker, &mut cx, 3);
        for (at, value) in [(2, 12), (0, 10), (2, 99), (7, 99)] {
            gather.put(&broker, &mut cx, at, value);
            assert!(collected.all().is_empty());
        }
        gather.put(&broker, &mut cx, 1, 11);
        assert_eq!(collected.all(), [[10, 11, 12]]);
        gather.put(&broker, &mut cx, 1, 99);
        gather.fill(&broker, &mut cx, |_| 99);
        assert_eq!(collected.all(), [[10, 11, 12]]);
    }

    /// Nothing to wait for is there at once.
    #[test]
    fn none_are_there_at_once() {
        let (broker, collected) = (broker(), Collected::default());
        collected.gather(&broker, &mut Cx::new(NOW), 0);
        assert_eq!(collected.all(), [[0u32; 0]]);
    }

    /// When the time is over, what is missing is filled in and what is there is kept; a value that comes later is late.
    #[test]
    fn what_is_missing_is_filled_in() {
        let (broker, collected) = (broker(), Collected::default());
        let mut cx = Cx::new(NOW);
        let gather = collected.gather(&broker, &mut cx, 3);
        gather.fill_after(&broker, &cx, 100, |at| 70 + at as u32);
        gather.put(&broker, &mut cx, 1, 11);
        broker.tick(later(99));
        assert!(collected.all().is_empty());
        broker.tick(later(100));
        assert_eq!(collected.all(), [[70, 11, 72]]);
        gather.put(&broker, &mut cx, 0, 10);
        assert_eq!(collected.all().len(), 1);
    }

    /// The deadline goes with the last value, and none is left where that came before.
    #[test]
    fn no_deadline_is_left_behind() {
        let (broker, collected) = (broker(), Collected::default());
        let idle = broker.next_deadline();
        let mut cx = Cx::new(NOW);
        let gather = collected.gather(&broker, &mut cx, 1);
        gather.fill_after(&broker, &cx, 1, |_| 0);
        assert_ne!(broker.next_deadline(), idle);
        gather.put(&broker, &mut cx, 0, 1);
        assert_eq!(broker.next_deadline(), idle);
        gather.fill_after(&broker, &cx, 1, |_| 0);
        assert_eq!(broker.next_deadline(), idle);
    }
}
