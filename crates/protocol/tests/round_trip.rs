//! Every version of every message against a second reading of the schema (W2, W3, W4).

use std::fmt::Debug;

use bytes::Bytes;
use fencepost_protocol::Message;
use fencepost_protocol::messages::*;
use fencepost_types::wire::{Reader, Writer};

#[path = "support/walk.rs"]
mod walk;
use walk::{Fill, Rng, Walk};

const SEEDS: u64 = 40;

fn encode<M: Message>(message: &M, version: i16) -> Bytes {
    let mut w = Writer::new();
    message.encode(&mut w, version);
    w.into_bytes()
}

fn decode<M: Message>(bytes: Bytes, version: i16) -> (M, usize) {
    let mut r = Reader::new(bytes);
    let message = M::decode(&mut r, version).unwrap_or_else(|e| panic!("{} {version}: {e}", M::NAME));
    (message, r.remaining())
}

fn check<M: Message + Clone + Debug + PartialEq + Default>() {
    let schema = walk::schema();
    let walk: &Walk = &schema[M::NAME];
    assert_eq!((M::VERSION_MIN, M::VERSION_MAX), (walk.low, walk.high), "{}", M::NAME);
    for version in walk.low..=walk.high {
        let empty = walk.bytes(version, Fill::Default, &mut Rng(0));
        assert_eq!(encode(&M::default(), version), empty, "{} {version}: defaults", M::NAME);
        for seed in 0..SEEDS {
            round_trip::<M>(walk, version, seed);
        }
    }
}

fn round_trip<M: Message + Clone + Debug + PartialEq>(walk: &Walk, version: i16, seed: u64) {
    let bytes = Bytes::from(walk.bytes(version, Fill::Random, &mut Rng(seed)));
    let (message, rest) = decode::<M>(bytes.clone(), version);
    assert_eq!(rest, 0, "{} {version} seed {seed}", M::NAME);
    assert_eq!(encode(&message, version), bytes, "{} {version} seed {seed}: {message:?}", M::NAME);
    // Bytes behind the body pass, and stay where they are (wire-apis §2).
    let (again, rest) = decode::<M>([&bytes[..], b"more"].concat().into(), version);
    assert_eq!((again, rest), (message.clone(), 4), "{} {version} seed {seed}", M::NAME);
    // A message made for one version can be written in any other: what that one lacks is left out (W3).
    for other in walk.low..=walk.high {
        let cut = encode(&message, other);
        let (as_read, rest) = decode::<M>(cut.clone(), other);
        assert_eq!(rest, 0, "{} {version} as {other} seed {seed}", M::NAME);
        assert_eq!(encode(&as_read, other), cut, "{} {version} as {other} seed {seed}", M::NAME);
    }
}

/// One test a message: what the schema says its bytes are is read whole and written back the same, in every version;
/// and an empty struct is written as the schema's defaults.
macro_rules! entry {
    ($name:ident) => {
        #[test]
        #[allow(non_snake_case)]
        fn $name() {
            check::<$name>();
        }
    };
}

include!("support/table.in");
