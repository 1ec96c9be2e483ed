//! What a request allocates, under an allocator that counts.
// The allocator below is the only way to see that; it adds nothing but a counter.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use fencepost_protocol::encode_request;

use crate::harness::{Producer, World};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    /// Bytes that this thread holds, and the most that it has held since it was asked to look.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// From now on the most bytes are noted that this thread holds at once; answers how many it holds.
pub fn start_peak() -> isize {
    PEAK.set(HELD.get());
    HELD.get()
}

/// How many bytes more than `before` were held at once.
pub fn peak_since(before: isize) -> usize {
    usize::try_from(PEAK.get() - before).unwrap_or(0)
}

/// How many allocations this thread makes in `act`.
pub fn allocations_in(act: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    act();
    ALLOCATIONS.get() - before
}

fn hold(bytes: isize) {
    // A thread that ends allocates, too.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends allocates, too.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        hold(layout.size() as isize);
        // SAFETY: the caller's promises are those of this call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        hold(-(layout.size() as isize));
        // SAFETY: the caller's promises are those of this call.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How many allocations the broker makes for a batch in the middle of a transaction of an older client, at least.
fn allocations_of_a_batch(settings: &[(&str, &str)]) -> usize {
    /// Now and then a table grows.
    const BATCHES: usize = 10;
    const PRODUCE: i16 = 11;
    let world = World::with(settings);
    world.create_topic("t", 1);
    let producer = Producer::start(world.client(), "x");
    producer.add_partition("t", 0);
    producer.produce(PRODUCE, "t", 0, &["the first one is verified"]);
    let counts = (0..BATCHES).map(|number| {
        let request = producer.produce_request("t", 0, &["v"]);
        let frame = encode_request(number as i32, Some("test"), PRODUCE, &request).into_bytes();
        let before = ALLOCATIONS.get();
        let outcome = producer.client.send_frame(frame);
        let count = ALLOCATIONS.get() - before;
        assert!(outcome.get().is_none(), "it waits for the sync");
        count
    });
    counts.min().unwrap()
}

/// To see whether a batch of an older client is one that was delayed (KAFKA-17754) takes no allocation.
#[test]
fn an_older_clients_batch_is_judged_without_allocation() {
    let without = allocations_of_a_batch(&[("transaction.partition.verification.enable", "false")]);
    assert!(without > 0);
    assert_eq!(allocations_of_a_batch(&[]), without);
}
