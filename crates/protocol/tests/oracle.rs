//! Every version of every message against the public crate `kafka-protocol`, where it has that version: what the schema
//! makes and our codec writes is read and written back unchanged by theirs.

use bytes::{Bytes, BytesMut};
use fencepost_protocol::Message;
use fencepost_types::wire::{Reader, Writer};
use kafka_protocol::protocol::{Decodable, Encodable, Message as Theirs};

#[path = "support/walk.rs"]
mod walk;
use walk::{Fill, Rng};

const SEEDS: u64 = 20;

/// Returns how many versions both know.
fn check<Our: Message, Their: Theirs + Decodable + Encodable>() -> i16 {
    let schema = walk::schema();
    let walk = &schema[Our::NAME];
    let (low, high) = (walk.low.max(Their::VERSIONS.min), walk.high.min(Their::VERSIONS.max));
    for version in low..=high {
        for seed in 0..SEEDS {
            let at = format!("{} {version} seed {seed}", Our::NAME);
            let bytes = Bytes::from(walk.bytes(version, Fill::Random, &mut Rng(seed)));
            let ours = Our::decode(&mut Reader::new(bytes), version).expect(&at);
            let mut w = Writer::new();
            ours.encode(&mut w, version);
            let written = w.into_bytes();

            let mut unread = written.clone();
            let theirs = Their::decode(&mut unread, version).expect(&at);
            assert!(unread.is_empty(), "{at}: they leave {} bytes", unread.len());
            let mut again = BytesMut::new();
            theirs.encode(&mut again, version).expect(&at);
            assert_eq!(again, written, "{at}");

            // And the way back: what they write is read by us.
            let back = Our::decode(&mut Reader::new(again.freeze()), version).expect(&at);
            let mut w = Writer::new();
            back.encode(&mut w, version);
            assert_eq!(w.into_bytes(), written, "{at}");
        }
    }
    (high - low + 1).max(0)
}

/// One test a message. Those that the crate lacks have vectors of their own (`tests/vectors.rs`).
macro_rules! entry {
    (StreamsGroupHeartbeatRequest) => {};
    (StreamsGroupHeartbeatResponse) => {};
    (StreamsGroupDescribeRequest) => {};
    (StreamsGroupDescribeResponse) => {};
    (StreamsGroupTopologyDescriptionUpdateRequest) => {};
    (StreamsGroupTopologyDescriptionUpdateResponse) => {};
    (UnregisterControllerRequest) => {};
    (UnregisterControllerResponse) => {};
    ($name:ident) => {
        #[test]
        #[allow(non_snake_case)]
        fn $name() {
            let versions = check::<fencepost_protocol::messages::$name, kafka_protocol::messages::$name>();
            assert!(versions > 0, "no version in common");
        }
    };
}

include!("support/table.in");
