//! W1: cut frames, huge counts and lengths, and garbage, under an allocator that counts.
// The allocator below is the only way to see what decoding takes; it adds nothing but a counter.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bytes::Bytes;
use fencepost_protocol::{ApiKey, RequestBody, ResponseBody};
use fencepost_types::limits::DECODED_ELEMENT_BYTES_FREE;
use fencepost_types::wire::Reader;

#[path = "support/walk.rs"]
mod walk;
use walk::{Fill, Rng, uvarint};

/// Elements of arrays take five times their bytes, a string that is not UTF-8 three times; the rest is slices.
const TIMES_FRAME: usize = 8;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.with(|sum| sum.set(sum.get().saturating_add(layout.size())));
        // SAFETY: the caller's promises are those of this call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are those of this call.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Clone, Copy)]
enum Side {
    Request,
    Response,
}

/// Decodes; fails the test where that took more than W1 allows. Everything ever allocated counts, freed or not.
fn decode(side: Side, key: ApiKey, version: i16, frame: Vec<u8>) -> bool {
    let length = frame.len();
    let mut r = Reader::new(Bytes::from(frame));
    ALLOCATED.set(0);
    let good = match side {
        Side::Request => RequestBody::decode(key, version, &mut r).is_ok(),
        Side::Response => ResponseBody::decode(key, version, &mut r).is_ok(),
    };
    let allocated = ALLOCATED.get();
    let limit = DECODED_ELEMENT_BYTES_FREE + TIMES_FRAME * length;
    assert!(allocated <= limit, "{} {version}: {allocated} bytes for a frame of {length}", key.name());
    good
}

/// Calls with every API, side and version, and well-formed bytes of it, at most `bytes_max`.
fn each(bytes_max: usize, mut with: impl FnMut(Side, ApiKey, i16, Vec<u8>)) {
    let schema = walk::schema();
    for key in ApiKey::ALL {
        for (side, suffix) in [(Side::Request, "Request"), (Side::Response, "Response")] {
            let name = format!("{}{suffix}", key.name());
            assert_eq!(schema[&*name].low, *key.versions().start());
            for version in key.versions() {
                let sample = |seed| schema[&*name].bytes(version, Fill::Random, &mut Rng(seed));
                let mut samples: Vec<Vec<u8>> = (0..12).map(sample).collect();
                samples.sort_by_key(Vec::len);
                // The fullest that is small enough, or the smallest.
                let fitting = samples.iter().rposition(|sample| sample.len() <= bytes_max).unwrap_or(0);
                with(side, key, version, samples.swap_remove(fitting));
            }
        }
    }
}

/// A frame that ends early is malformed, wherever it ends.
#[test]
fn every_cut_is_refused() {
    each(2048, |side, key, version, frame| {
        assert!(decode(side, key, version, frame.clone()), "{} {version}", key.name());
        for end in 0..frame.len() {
            assert!(
                !decode(side, key, version, frame[..end].to_vec()),
                "{} {version} cut at {end}",
                key.name()
            );
        }
    });
}

/// Numbers put over any place of a good frame, where a count or a length may stand.
#[test]
fn huge_numbers_anywhere_take_no_memory() {
    let numbers: [&[u8]; 6] = [
        &[0x7f, 0xff, 0xff, 0xff],
        &[0x80, 0, 0, 0],
        &[0x00, 0x10, 0x00, 0x00],
        &[0xff, 0xff, 0xff, 0xff, 0x07],
        &[0xff, 0xff, 0xff, 0xff, 0xff],
        &[0x80, 0x80, 0x40],
    ];
    each(400, |side, key, version, frame| {
        for at in 0..frame.len() {
            for number in numbers {
                let mut spoiled = frame.clone();
                let end = frame.len().min(at + number.len());
                spoiled[at..end].copy_from_slice(&number[..end - at]);
                decode(side, key, version, spoiled);
            }
        }
    });
}

/// Counts that the bytes behind them do hold, of the smallest elements there are: the memory they would take is
/// bounded by the budget for elements.
#[test]
fn many_small_elements_stay_within_the_budget() {
    const BEHIND: u32 = 192 * 1024;
    let mut rng = Rng(11);
    each(4096, |side, key, version, frame| {
        for filler in [0u8, 1, 2] {
            let at = rng.below(frame.len() as u64 + 1) as usize;
            let mut long = frame[..at].to_vec();
            if key.is_flexible(version) {
                uvarint(&mut long, BEHIND / (1 + u32::from(filler)));
            } else {
                long.extend((BEHIND / 8).to_be_bytes());
            }
            long.extend(vec![filler; BEHIND as usize]);
            decode(side, key, version, long);
        }
    });
}

/// The worst there is: a frame of empty strings, and of the smallest structs, as long as the frame goes.
#[test]
fn arrays_of_nothing_are_refused() {
    let mut frame = Vec::new();
    uvarint(&mut frame, 4 << 20);
    frame.extend(vec![1u8; 4 << 20]);
    for key in [ApiKey::DescribeGroups, ApiKey::DeleteGroups, ApiKey::DescribeTransactions] {
        assert!(!decode(Side::Request, key, *key.versions().end(), frame.clone()), "{}", key.name());
    }
}

/// Garbage never panics and never takes memory beyond the limit.
#[test]
fn garbage_is_harmless() {
    let mut rng = Rng(5);
    for round in 0..24u64 {
        for key in ApiKey::ALL {
            for version in key.versions() {
                for side in [Side::Request, Side::Response] {
                    let length = rng.below(1 << (round / 2 + 2)) as usize;
                    // Small bytes make arrays and strings that are taken, large ones end at once.
                    let bound = [256, 3, 16][(round % 3) as usize];
                    let frame = (0..length).map(|_| rng.below(bound) as u8).collect();
                    decode(side, key, version, frame);
                }
            }
        }
    }
}
