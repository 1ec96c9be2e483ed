//! What validating a batch costs in memory, counted by the allocator.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use fencepost_records::{AppendOrigin, AppendRefusal, AppendRules, Compression, CompressionType, validate};
use fencepost_types::{ErrorCode, Millis};

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const GIB: usize = 1 << 30;
/// What may be held beside the request: pieces of 64 KiB, the codecs' own state, and the new payload.
const BYTES_MAX: usize = 8 << 20;

/// A batch of one record whose value is zeros, 1 GiB less a little in all. Members of gzip may follow one another: one of a
/// mebibyte stands for most of them.
fn a_gibibyte_of_gzip() -> Bytes {
    let gzip = |plain: &[u8]| Compression::new(CompressionType::Gzip).compress(plain).unwrap();
    let value = GIB - 64;
    let head = [&[0, 0, 0, 1], &varint(value)[..]].concat();
    let body = head.len() + value + 1;
    let head = [&varint(body)[..], &head].concat();
    let mebibyte = vec![0; 1 << 20];
    let mut payload = gzip(&head);
    let member = gzip(&mebibyte);
    let zeros = value + 1;
    for _ in 0..zeros / mebibyte.len() {
        payload.extend_from_slice(&member);
    }
    payload.extend(gzip(&mebibyte[..zeros % mebibyte.len()]));
    batch_of(&payload)
}

/// The zigzag number of a record's field.
fn varint(value: usize) -> Vec<u8> {
    let (mut raw, mut out) = (value << 1, Vec::new());
    while raw > 0x7f {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
    out
}

/// A batch of one record with that payload.
fn batch_of(payload: &[u8]) -> Bytes {
    let mut tail = Vec::new();
    tail.extend(1i16.to_be_bytes());
    tail.extend(0i32.to_be_bytes());
    tail.extend(1_000i64.to_be_bytes());
    tail.extend(1_000i64.to_be_bytes());
    tail.extend((-1i64).to_be_bytes());
    tail.extend((-1i16).to_be_bytes());
    tail.extend((-1i32).to_be_bytes());
    tail.extend(1i32.to_be_bytes());
    tail.extend(payload);
    let mut batch = Vec::new();
    batch.extend(0i64.to_be_bytes());
    batch.extend((tail.len() as i32 + 9).to_be_bytes());
    batch.extend((-1i32).to_be_bytes());
    batch.push(2);
    batch.extend(crc32c::crc32c(&tail).to_be_bytes());
    batch.extend(tail);
    batch.into()
}

/// Issue 12, C20: a batch of gzip that inflates to a gibibyte is checked, kept as it is or brought to another codec, and what is
/// held at once stays small; whether it is taken depends on its records alone.
#[test]
fn a_gibibyte_is_validated_in_little_memory() {
    let bytes = a_gibibyte_of_gzip();
    let origin = AppendOrigin::Client { produce_version: 12 };
    let rules = AppendRules { message_bytes_max: 16 << 20, ..AppendRules::default() };
    let costs = |rules: &AppendRules| {
        let before = HELD.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        let outcome = validate(Some(bytes.clone()), rules, origin, Millis(1_000));
        (outcome.map(|batch| batch.total_bytes()), MOST.load(Ordering::Relaxed) - before)
    };
    let (kept, held) = costs(&rules);
    assert_eq!(kept, Ok(bytes.len()));
    assert!(held < BYTES_MAX, "{held} bytes were held");
    let target = |codec| AppendRules { compression: Some(Compression::new(codec)), ..rules };
    let (repacked, held) = costs(&target(CompressionType::Lz4));
    assert!(repacked.is_ok_and(|bytes| bytes < 16 << 20));
    assert!(held < 2 * BYTES_MAX, "{held} bytes were held");
    let (plain, held) = costs(&target(CompressionType::None));
    assert_eq!(plain.map_err(|refusal| refusal.code()), Err(ErrorCode::MessageTooLarge));
    assert!(held < 5 * BYTES_MAX, "{held} bytes were held");
    let limited = AppendRules { record_bytes_max: (GIB - 100) as i32, ..rules };
    let (refused, held) = costs(&limited);
    assert!(matches!(&refused, Err(AppendRefusal::Malformed(_))), "{refused:?}");
    assert_eq!(refused.map_err(|refusal| refusal.code()), Err(ErrorCode::InvalidRecord));
    assert!(held < BYTES_MAX, "{held} bytes were held");
}
