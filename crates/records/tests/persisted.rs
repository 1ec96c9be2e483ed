//! Every version of every persisted record against a second reading of the schema, and against bytes that Apache Kafka
//! has confirmed.

use std::fmt::Debug;

use bytes::Bytes;
use fencepost_records::persisted::*;
use fencepost_types::wire::{DecodeError, Decoded, Reader, Writer};

#[path = "../../protocol/tests/support/walk.rs"]
mod walk;
use walk::{Fill, Rng, schema};

const CONFIRMED: &str = include_str!("support/persisted-4.4.txt");
const SEEDS: u64 = 40;

/// The functions of one record, whichever it is.
struct Codec<R> {
    name: &'static str,
    decode: fn(&mut Reader, i16) -> Decoded<R>,
    encode: fn(&R, &mut Writer, i16),
}

impl<R: Clone + Debug + PartialEq + Default> Codec<R> {
    fn written(&self, record: &R, version: i16) -> Bytes {
        let mut w = Writer::new();
        (self.encode)(record, &mut w, version);
        w.into_bytes()
    }

    fn same_bytes(&self, bytes: Bytes, version: i16) {
        let at = format!("{} {version}", self.name);
        let mut r = Reader::new(bytes.clone());
        let record = (self.decode)(&mut r, version).expect(&at);
        assert_eq!(r.remaining(), 0, "{at}");
        assert_eq!(self.written(&record, version), bytes, "{at}: {record:?}");
        for end in 0..bytes.len() {
            assert!(
                (self.decode)(&mut Reader::new(bytes.slice(..end)), version).is_err(),
                "{at}: cut at {end}"
            );
        }
    }

    fn check(&self, low: i16, high: i16) {
        let schema = schema();
        let walk = &schema[self.name];
        assert_eq!((low, high), (walk.low, walk.high), "{}", self.name);
        for version in low..=high {
            let empty = walk.bytes(version, Fill::Default, &mut Rng(0));
            assert_eq!(self.written(&R::default(), version), empty, "{} {version}: defaults", self.name);
            for seed in 0..SEEDS {
                self.same_bytes(walk.bytes(version, Fill::Random, &mut Rng(seed)).into(), version);
            }
        }
        assert_eq!(
            (self.decode)(&mut Reader::new(Bytes::new()), high + 1),
            Err(DecodeError::UnsupportedVersion)
        );
        for line in CONFIRMED.lines().filter(|line| !line.starts_with('#')) {
            let [name, version, text] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            if name == self.name {
                self.same_bytes(hex::decode(text).unwrap().into(), version.parse().unwrap());
            }
        }
    }
}

/// One test a record: read whole and written back the same in every version, cut bytes refused, an empty struct
/// written as the schema's defaults.
macro_rules! entry {
    ($name:ident) => {
        #[test]
        #[allow(non_snake_case)]
        fn $name() {
            let codec = Codec { name: stringify!($name), decode: $name::decode, encode: $name::encode };
            codec.check($name::VERSION_MIN, $name::VERSION_MAX);
        }
    };
}

include!("support/persisted.in");

/// A member of the consumer protocol has no classic metadata, and says so: where the tag is left out, a reader
/// takes it for an empty one.
#[test]
fn classic_member_metadata_tells_null_from_absent() {
    let mut record = ConsumerGroupMemberMetadataValue::default();
    assert_eq!(record.classic_member_metadata, Some(Default::default()));
    record.classic_member_metadata = None;
    let mut w = Writer::new();
    record.encode(&mut w, 0);
    let bytes = w.into_bytes();
    // One tagged field: number 0, one byte, null.
    assert_eq!(bytes[bytes.len() - 4..], [1, 0, 1, 0]);
    let back = ConsumerGroupMemberMetadataValue::decode(&mut Reader::new(bytes), 0).unwrap();
    assert_eq!(back.classic_member_metadata, None);
}
