use std::collections::BTreeSet;

use bytes::Bytes;
use proptest::prelude::*;

use super::{Field, Kind, Layout, Versions};

/// What Kafka 4.4.0's own converters make of each record in each version: name, version, bytes, JSON.
const CONVERTERS: &str = include_str!("../../../testdata/dump/converters.txt");
/// The schema that the codecs are generated from.
const SCHEMA: &str = include_str!("../../../../protocol/schema/schema.txt");

fn bytes_of(hex: &str) -> Bytes {
    let digits: Vec<u8> = hex.bytes().map(|c| (c as char).to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect::<Vec<u8>>().into()
}

/// Default values, every field set, every null that may be: each is shown as Kafka shows it, and every layout is met in
/// every version.
#[test]
fn records_are_shown_as_kafka_shows_them() {
    let mut met = BTreeSet::new();
    for line in CONVERTERS.lines() {
        let [name, version, hex, json] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let version: i16 = version.parse().unwrap();
        let layout = Layout::named(name).unwrap_or_else(|| panic!("no layout of {name}"));
        let decoded = layout.decode_whole(bytes_of(hex), version);
        let shown = decoded.unwrap_or_else(|error| panic!("{name} {version}: {error}")).to_string();
        assert_eq!(shown, json, "{name} {version}");
        met.insert((name, version));
    }
    for layout in Layout::all() {
        for version in layout.versions.low..=layout.versions.high {
            assert!(met.contains(&(layout.name, version)), "{} {version}", layout.name);
        }
    }
}

/// Names as the schema writes them: `previousProducerId` is `previous_producer_id`.
fn snake(name: &str) -> String {
    let mut text = String::new();
    let mut before = 'A';
    for c in name.chars() {
        if c.is_uppercase() && (before.is_lowercase() || before.is_ascii_digit()) && text != "k" {
            text.push('_');
        }
        text.extend(c.to_lowercase());
        before = c;
    }
    text
}

fn lines(path: &str, fields: &[Field], found: &mut BTreeSet<String>) {
    for field in fields {
        let path = format!("{path}/{}", snake(field.name));
        let kind = match field.kind {
            Kind::Bool => "boolean",
            Kind::Int8 => "int8",
            Kind::Int16 => "int16",
            Kind::Uint16 => "uint16",
            Kind::Int32 => "int32",
            Kind::Int64 => "int64",
            Kind::Float64 => "float64",
            Kind::Uuid => "uuid",
            Kind::Text => "string",
            Kind::Bytes => "bytes",
            Kind::Struct => "struct",
        };
        let array = if field.is_array { "[]" } else { "" };
        let Versions { low, high } = field.versions;
        let mut line = format!("{path} {array}{kind} {low}-{high}");
        line.extend(field.nullable.map(|versions| format!(" null:{}-{}", versions.low, versions.high)));
        line.extend(field.tag.map(|tag| format!(" tag:{tag}")));
        line.extend(field.default.map(|default| format!(" default:{default}")));
        found.insert(line);
        lines(&path, &field.fields, found);
    }
}

/// Field by field the layouts say what the schema says of the records that it has; of each it lacks none.
#[test]
fn the_layouts_agree_with_the_schema() {
    let mut compared = 0;
    for message in SCHEMA.split("\n\n").filter(|message| message.starts_with("record ")) {
        let head: Vec<&str> = message.lines().next().unwrap().split(' ').collect();
        if head[2] == "EndTxnMarker" {
            continue;
        }
        let layout = Layout::named(head[2]).unwrap_or_else(|| panic!("no layout of {}", head[2]));
        // The parser takes tags without versions; those of the schema are the field's own.
        let text: Vec<String> = message
            .lines()
            .map(|line| {
                line.split(' ')
                    .map(|word| word.split_once('@').map_or(word, |(tag, _)| tag))
                    .collect::<Vec<_>>()
            })
            .map(|words| words.join(" "))
            .collect();
        let text = text.join("\n").replacen("record ", "embedded ", 1);
        let schema = &super::parse::parse(String::leak(text))[0];
        let (mut ours, mut theirs) = (BTreeSet::new(), BTreeSet::new());
        lines(layout.name, &layout.fields, &mut ours);
        lines(layout.name, &schema.fields, &mut theirs);
        assert_eq!(ours, theirs);
        assert_eq!((layout.versions, layout.flexible_from), (schema.versions, schema.flexible_from));
        compared += 1;
    }
    assert!(compared > 60, "{compared}");
}

proptest! {
    /// No bytes make the decoder panic, whatever record they are taken for; nor do damaged good ones.
    #[test]
    fn any_bytes_are_survived(
        layout in 0..Layout::all().len(),
        version in 0i16..5,
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        line in 0..CONVERTERS.lines().count(),
        at in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let _ = Layout::all()[layout].decode(bytes.into(), version);
        let line: Vec<&str> = CONVERTERS.lines().nth(line).unwrap().split('\t').collect();
        let mut damaged = bytes_of(line[2]).to_vec();
        if !damaged.is_empty() {
            let at = at.index(damaged.len());
            damaged[at] = byte;
            let _ = Layout::named(line[0]).unwrap().decode(damaged.into(), line[1].parse().unwrap());
        }
    }
}

/// A few bytes that announce millions of empty strings are refused before they fill the memory.
#[test]
fn an_array_of_nothing_is_bounded() {
    let layout = Layout::named("ConsumerGroupRegularExpressionValue").unwrap();
    // Two million compact empty strings.
    let mut bytes = vec![0x81, 0x89, 0x7a];
    bytes.resize(3 + 2_000_000 + 17, 1);
    assert!(layout.decode(bytes.into(), 0).is_err());
}
