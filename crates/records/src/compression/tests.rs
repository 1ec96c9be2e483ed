use alloc::vec::Vec;

use super::*;
use fencepost_types::limits::DECOMPRESSED_BATCH_BYTES_MAX;
use proptest::prelude::*;

/// Six records as several clients' codecs hold them: those of the scenario `produce-codecs`.
pub(crate) const SNAPPY_RAW: &str = "\
    a2044cb201000000046b30a00166656e6365706f737420fe0a00090a0000015b0c02046b31fe5b005a5b000c04046b32fe5b005a5b000c06\
    046b33fe5b005a5b000c08046b34fe5b005a5b000c0a046b35fe5b004a5b00";
const LZ4_BLOCK: &str = "\
    4b000000ff05b201000000046b30a00166656e6365706f7374200a003310005b004f02046b315b00444f04046b325b00444f06046b33\
    5b00444f08046b345b00444f0a046b355b003b506f7374200000000000";
const ZSTD_BLOCK: &str = "\
    150200d402b201000000046b30a00166656e6365706f73742000b201000002046b3104046b3206046b3308046b340a046b350600002642\
    60220426423011f2c2744cd1c204";

const CODECS: [CompressionType; 4] =
    [CompressionType::Gzip, CompressionType::Snappy, CompressionType::Lz4, CompressionType::Zstd];

fn six_records() -> Vec<u8> {
    (0..6u8)
        .flat_map(|index| {
            let start = [0xb2, 0x01, 0, 0, index * 2, 4, b'k', b'0' + index, 0xa0, 0x01];
            [&start[..], "fencepost ".repeat(8).as_bytes(), &[0]].concat()
        })
        .collect()
}

/// Each codec's payload as clients send it, by name.
pub(crate) fn client_payloads() -> Vec<(&'static str, CompressionType, Vec<u8>)> {
    let hex = |parts: &[&str]| hex::decode(parts.concat()).unwrap();
    let mut snappy = b"\x82SNAPPY\0\x00\x00\x00\x01\x00\x00\x00\x01".to_vec();
    snappy.extend((SNAPPY_RAW.len() as u32 / 2).to_be_bytes());
    snappy.extend(hex(&[SNAPPY_RAW]));
    let with_size = "04224d186c40220200000000000050";
    vec![
        (
            "gzip",
            CompressionType::Gzip,
            Compression::new(CompressionType::Gzip).compress(&six_records()).unwrap(),
        ),
        ("snappy", CompressionType::Snappy, snappy),
        ("snappy without frames", CompressionType::Snappy, hex(&[SNAPPY_RAW])),
        ("lz4", CompressionType::Lz4, hex(&["04224d18604082", LZ4_BLOCK])),
        ("lz4 with size and checksum", CompressionType::Lz4, hex(&[with_size, LZ4_BLOCK, "586545d3"])),
        ("zstd", CompressionType::Zstd, hex(&["28b52ffd0000", ZSTD_BLOCK])),
        (
            "zstd with size and checksum",
            CompressionType::Zstd,
            hex(&["28b52ffd642201", ZSTD_BLOCK, "fcb39d43"]),
        ),
    ]
}

fn read(codec: CompressionType, payload: &[u8]) -> Result<Vec<u8>, CompressionError> {
    decompress(codec, payload)
}

fn compressed(codec: CompressionType, plain: &[u8]) -> Vec<u8> {
    Compression::new(codec).compress(plain).unwrap()
}

/// storage-formats §5, storage-formats trap 16: what clients write is read, snappy with and without the xerial stream.
#[test]
fn clients_payloads_are_read() {
    for (name, codec, payload) in client_payloads() {
        assert_eq!(read(codec, &payload), Ok(six_records()), "{name}");
        let mut count = 0;
        walk(codec, &payload, 6, i32::MAX, |shape| count += i32::from(shape.has_key)).unwrap();
        assert_eq!(count, 6, "{name}");
    }
}

/// storage-formats §5: the framings that the Java client writes; snappy always with the xerial stream (storage-formats
/// trap 16).
#[test]
fn framings_written() {
    let lz4 = compressed(CompressionType::Lz4, &six_records());
    assert_eq!(lz4[..7], [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82]);
    assert_eq!(lz4[lz4.len() - 4..], [0; 4], "end mark and no content checksum");
    let snappy = compressed(CompressionType::Snappy, &[7; 70_000]);
    assert_eq!(snappy[..16], *b"\x82SNAPPY\0\x00\x00\x00\x01\x00\x00\x00\x01");
    let mut blocks = Vec::new();
    let mut at = 16;
    while at < snappy.len() {
        let length = u32::from_be_bytes(snappy[at..at + 4].try_into().unwrap()) as usize;
        blocks.push(snap::raw::decompress_len(&snappy[at + 4..at + 4 + length]).unwrap());
        at += 4 + length;
    }
    assert_eq!(blocks, [32_768, 32_768, 70_000 - 65_536]);
    assert_eq!(compressed(CompressionType::Gzip, b"x")[..3], [0x1f, 0x8b, 8]);
    assert_eq!(compressed(CompressionType::Zstd, b"x")[..4], [0x28, 0xb5, 0x2f, 0xfd]);
}

/// Whatever level is asked for, out of range or not, the result reads back.
#[test]
fn levels() {
    for codec in CODECS {
        for level in [i32::MIN, -1, 0, 1, 3, 9, 17, 22, i32::MAX] {
            let payload = Compression { codec, level: Some(level) }.compress(&six_records()).unwrap();
            assert_eq!(read(codec, &payload), Ok(six_records()), "{codec} {level}");
        }
    }
}

/// Streams may come in several pieces: gzip members, zstd frames, xerial streams one after the other.
#[test]
fn several_streams_in_one_payload() {
    for codec in [CompressionType::Gzip, CompressionType::Zstd, CompressionType::Snappy] {
        let payload = [compressed(codec, b"one "), compressed(codec, b"two")].concat();
        assert_eq!(read(codec, &payload).as_deref(), Ok(&b"one two"[..]), "{codec}");
    }
}

/// A payload that is cut off anywhere, or is no such payload, is corrupt. Scenario `produce-compressed-garbage`.
#[test]
fn cut_off_and_garbage() {
    for (name, codec, payload) in client_payloads() {
        for length in 0..payload.len() {
            let cut = &payload[..length];
            let walked = walk(codec, cut, 6, i32::MAX, |_| ());
            assert!(walked.is_err(), "{name} cut to {length}");
        }
        // What one payload broke off does not reach into the next.
        assert_eq!(read(codec, &payload), Ok(six_records()), "{name}");
    }
    for codec in CODECS {
        let garbage = b"\x13garbage".repeat(5);
        assert_eq!(read(codec, &garbage), Err(CompressionError::Corrupt(codec)));
    }
}

/// storage-formats trap 15: what the Java client refuses to read is not taken: dependent blocks, other versions,
/// dictionaries, wrong header checksums (which only formats 0 and 1 had), blocks above their size.
#[test]
fn lz4_frames_that_java_refuses() {
    let header = |flags: u8, descriptor: u8| {
        let checksum = (xxhash32::xxhash32(&[flags, descriptor]) >> 8) as u8;
        let mut frame = vec![0x04, 0x22, 0x4d, 0x18, flags, descriptor, checksum];
        frame.extend(hex::decode(LZ4_BLOCK).unwrap());
        frame
    };
    let refused = Err(CompressionError::Corrupt(CompressionType::Lz4));
    assert_eq!(read(CompressionType::Lz4, &header(0x60, 0x40)), Ok(six_records()));
    assert_eq!(read(CompressionType::Lz4, &header(0x60, 0x70)), Ok(six_records()), "blocks up to 4 MiB");
    assert_eq!(read(CompressionType::Lz4, &header(0x40, 0x40)), refused, "dependent blocks");
    assert_eq!(read(CompressionType::Lz4, &header(0x20, 0x40)), refused, "version 0");
    assert_eq!(read(CompressionType::Lz4, &header(0x61, 0x40)), refused, "dictionary");
    assert_eq!(read(CompressionType::Lz4, &header(0x60, 0x30)), refused, "block size 3");
    let mut wrong = header(0x60, 0x40);
    wrong[6] ^= 1;
    assert_eq!(read(CompressionType::Lz4, &wrong), refused, "header checksum");
    // A checksum that leaves out the magic or takes it in was the old formats' mistake.
    let old = (xxhash32::xxhash32(&[0x04, 0x22, 0x4d, 0x18, 0x60, 0x40]) >> 8) as u8;
    wrong[6] = old;
    assert_eq!(read(CompressionType::Lz4, &wrong), refused, "header checksum of formats 0 and 1");
    let mut large = vec![0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];
    large.extend((65_537u32 | 1 << 31).to_le_bytes());
    large.extend([0; 65_537]);
    large.extend([0; 4]);
    assert_eq!(read(CompressionType::Lz4, &large), refused, "block above 64 KiB");
}

/// Block checksums are verified, the content's is not (storage-formats §5).
#[test]
fn lz4_checksums() {
    let shape = lz4_flex::frame::FrameInfo::new()
        .block_mode(lz4_flex::frame::BlockMode::Independent)
        .block_checksums(true)
        .content_checksum(true);
    let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(shape, Vec::new());
    std::io::Write::write_all(&mut encoder, &six_records()).unwrap();
    let frame = encoder.finish().unwrap();
    assert_eq!(read(CompressionType::Lz4, &frame), Ok(six_records()));
    let mut content = frame.clone();
    *content.last_mut().unwrap() ^= 1;
    assert_eq!(read(CompressionType::Lz4, &content), Ok(six_records()));
    let mut block = frame.clone();
    let block_checksum_at = frame.len() - 12;
    block[block_checksum_at] ^= 1;
    assert_eq!(read(CompressionType::Lz4, &block), Err(CompressionError::Corrupt(CompressionType::Lz4)));
}

/// A record with a value of so many bytes: zeros, or numbers below `below`.
pub(crate) fn record(below: Option<usize>, bytes: usize) -> Vec<u8> {
    let mut body = Vec::from([0, 0, 0, 1]);
    crate::varint::put_varint(&mut body, bytes as i32);
    let before = body.len();
    body.resize(before + bytes, 0);
    if let Some(below) = below {
        body[before..].iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * at % below) as u8);
    }
    body.push(0);
    let mut whole = Vec::new();
    crate::varint::put_varint(&mut whole, body.len() as i32);
    whole.extend(body);
    whole
}

/// R2: who wants all the records at once is held to the limit; who looks at them one after the other is not.
#[test]
fn bombs_are_looked_at_and_not_held() {
    let payload = compressed(CompressionType::Zstd, &record(None, DECOMPRESSED_BATCH_BYTES_MAX));
    let too_large = CompressionError::TooLarge { bytes_max: DECOMPRESSED_BATCH_BYTES_MAX };
    assert_eq!(read(CompressionType::Zstd, &payload), Err(too_large));
    assert_eq!(walk(CompressionType::Zstd, &payload, 1, i32::MAX, |_| ()), Ok(()));
}

/// R2: a size that is announced and not there allocates nothing.
#[test]
fn announced_sizes_are_not_believed() {
    // A bare snappy block that says it holds 4 GiB − 1, and a framed one.
    let raw = [0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0];
    let corrupt = Err(CompressionError::Corrupt(CompressionType::Snappy));
    assert_eq!(read(CompressionType::Snappy, &raw), corrupt);
    let framed = [b"\x82SNAPPY\0\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x07", &raw[..]].concat();
    assert_eq!(read(CompressionType::Snappy, &framed), corrupt);
    // A zstd frame that asks for a window of 2 GiB.
    let window = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 0x01, 0x00, 0x00];
    assert_eq!(read(CompressionType::Zstd, &window), Err(CompressionError::Corrupt(CompressionType::Zstd)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What is compressed is read back, in whatever pieces it comes.
    #[test]
    fn round_trip(plain in proptest::collection::vec(any::<u8>(), 0..200_000), repeat in 1usize..4) {
        let plain = plain.repeat(repeat);
        for codec in CODECS {
            let found = decompress(codec, &compressed(codec, &plain));
            prop_assert!(found.as_deref() == Ok(&plain[..]), "{codec}");
        }
    }

    /// What is brought to another codec piece by piece holds the same records; in blocks of a fixed size it is the same bytes too.
    #[test]
    fn repacked_payloads_hold_the_same(values in proptest::collection::vec(0usize..90_000, 1..6)) {
        let plain: Vec<u8> = values.iter().flat_map(|bytes| record(Some(251), *bytes)).collect();
        let count = values.len() as i32;
        for codec in CODECS {
            for target in CompressionType::ALL {
                let payload = compressed(codec, &plain);
                let repacked = repack(codec, &payload, Compression::new(target), usize::MAX, count, i32::MAX, |_| ());
                let Ok(Repacked::Payload(payload)) = repacked else { panic!("{codec} to {target}: {repacked:?}") };
                prop_assert!(decompress(target, &payload).as_deref() == Ok(&plain[..]), "{codec} to {target}");
                if [CompressionType::Snappy, CompressionType::Lz4].contains(&target) {
                    prop_assert!(payload == compressed(target, &plain), "{codec} to {target}");
                }
            }
        }
    }

    /// Garbage, and payloads with bytes changed, are read or refused, never more.
    #[test]
    fn mutations_never_panic(which in 0usize..7, flips in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..4)) {
        let (_, codec, mut payload) = client_payloads().swap_remove(which);
        for (at, byte) in flips {
            let at = at % payload.len();
            payload[at] = byte;
        }
        let whole = read(codec, &payload);
        let walked = walk(codec, &payload, 6, i32::MAX, |_| ());
        let agreed = whole.is_ok_and(|plain| crate::walk(&plain, 6, |_| ()).is_ok());
        prop_assert_eq!(agreed, walked.is_ok());
    }
}
