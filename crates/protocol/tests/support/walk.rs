//! A second reading of `schema.txt`, on purpose apart from the generator: it walks the schema and writes random bytes of
//! a message as the schema says they must look. What the generated codec reads and writes is held against it.

use std::collections::BTreeMap;

const SCHEMA: &str = include_str!("../../schema/schema.txt");

/// Small and seeded: the same seed gives the same bytes.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

/// A line of the schema with the lines under it.
pub struct Node {
    words: Vec<&'static str>,
    children: Vec<Node>,
}

/// A message: its head line and fields.
pub struct Walk {
    head: Node,
    pub low: i16,
    pub high: i16,
    flexible_from: i16,
}

/// Every message and record by its name.
pub fn schema() -> BTreeMap<&'static str, Walk> {
    let mut lines = SCHEMA.lines().filter(|l| !l.is_empty() && !l.starts_with('#')).peekable();
    let mut all = BTreeMap::new();
    while lines.peek().is_some() {
        let head = node(&mut lines, 0);
        let (low, high) = head.after("versions").split_once('-').unwrap();
        let flexible = head.after("flexible").trim_end_matches('+').parse().unwrap_or(i16::MAX);
        let (low, high) = (low.parse().unwrap(), high.parse().unwrap());
        all.insert(head.words[2], Walk { head, low, high, flexible_from: flexible });
    }
    all
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn node(lines: &mut std::iter::Peekable<impl Iterator<Item = &'static str>>, depth: usize) -> Node {
    let words = lines.next().unwrap().split_whitespace().collect();
    let mut children = Vec::new();
    while lines.peek().is_some_and(|line| indent(line) > depth) {
        children.push(node(lines, depth + 2));
    }
    Node { words, children }
}

/// How large and how full the message is to be.
#[derive(Clone, Copy, PartialEq)]
pub enum Fill {
    /// Anything.
    Random,
    /// Defaults wherever the schema allows: what an empty struct must look like.
    Default,
}

impl Walk {
    /// The bytes of the message in `version`.
    pub fn bytes(&self, version: i16, fill: Fill, rng: &mut Rng) -> Vec<u8> {
        let mut out = Vec::new();
        self.fields(&self.head, version, fill, rng, &mut out);
        out
    }

    fn fields(&self, of: &Node, version: i16, fill: Fill, rng: &mut Rng, out: &mut Vec<u8>) {
        let flexible = version >= self.flexible_from;
        let present = || of.children.iter().filter(move |field| self.covers(field.words[2], version));
        for field in present().filter(|field| field.tag().is_none()) {
            self.field(field, version, fill, rng, out);
        }
        if !flexible {
            return;
        }
        let mut tagged: Vec<(u32, Vec<u8>)> = Vec::new();
        for field in present().filter(|field| field.tag().is_some()) {
            let (mut default, mut value) = (Vec::new(), Vec::new());
            self.field(field, version, Fill::Default, rng, &mut default);
            self.field(field, version, fill, rng, &mut value);
            if value != default {
                tagged.push((field.tag().unwrap(), value));
            }
        }
        tagged.sort();
        uvarint(out, tagged.len() as u32);
        for (tag, value) in tagged {
            uvarint(out, tag);
            uvarint(out, value.len() as u32);
            out.extend(value);
        }
    }

    fn field(&self, field: &Node, version: i16, fill: Fill, rng: &mut Rng, out: &mut Vec<u8>) {
        let compact = version >= self.flexible_from;
        let default = field.part("default:");
        let kind = field.words[1];
        let lone_struct = kind == "struct";
        let nullable = field.part("null:").is_some_and(|v| self.covers(v, version))
            || lone_struct && default == Some("null");
        let null = nullable
            && match fill {
                Fill::Default => default == Some("null"),
                Fill::Random => rng.one_in(4),
            };
        if lone_struct && nullable {
            match (field.tag().is_some(), null) {
                (true, _) => uvarint(out, u32::from(!null)),
                (false, true) => out.push(0xff),
                (false, false) => out.push(1),
            }
        }
        if null {
            match kind {
                "struct" => {}
                "string" if !compact => out.extend((-1i16).to_be_bytes()),
                _ if !compact => out.extend((-1i32).to_be_bytes()),
                _ => out.push(0),
            }
            return;
        }
        match kind.strip_prefix("[]") {
            None => self.value(field, kind, version, fill, rng, out),
            Some(element) => {
                let count = if fill == Fill::Default { 0 } else { rng.below(4) as usize };
                length(out, count, compact, false);
                for _ in 0..count {
                    self.value(field, element, version, fill, rng, out);
                }
            }
        }
    }

    fn value(&self, field: &Node, kind: &str, version: i16, fill: Fill, rng: &mut Rng, out: &mut Vec<u8>) {
        let compact = version >= self.flexible_from;
        let number = |rng: &mut Rng| -> i64 {
            match (fill, field.part("default:")) {
                (Fill::Default, Some(text)) => text.parse().unwrap(),
                (Fill::Default, None) => 0,
                (Fill::Random, _) => match rng.below(4) {
                    0 => rng.below(4) as i64 - 2,
                    _ => rng.next() as i64,
                },
            }
        };
        match kind {
            "struct" => self.fields(field, version, fill, rng, out),
            "boolean" => match (fill, field.part("default:")) {
                (Fill::Default, default) => out.push(u8::from(default == Some("true"))),
                (Fill::Random, _) => out.push(rng.below(2) as u8),
            },
            "int8" => out.push(number(rng) as u8),
            "int16" | "uint16" => out.extend((number(rng) as i16).to_be_bytes()),
            "int32" | "uint32" => out.extend((number(rng) as i32).to_be_bytes()),
            "int64" => out.extend(number(rng).to_be_bytes()),
            "float64" => out.extend((number(rng) as i32 as f64 / 8.0).to_be_bytes()),
            "uuid" => (0..2)
                .for_each(|_| out.extend((if fill == Fill::Default { 0 } else { rng.next() }).to_be_bytes())),
            "string" => {
                let count = if fill == Fill::Default { 0 } else { rng.below(12) };
                let text: String =
                    (0..count).map(|_| ['a', 'Z', '-', 'é', '語', '0'][rng.below(6) as usize]).collect();
                length(out, text.len(), compact, true);
                out.extend(text.as_bytes());
            }
            "bytes" | "records" => {
                // Now and then longer than what a writer copies.
                let bound = if rng.one_in(8) { 1500 } else { 20 };
                let count = if fill == Fill::Default { 0 } else { rng.below(bound) as usize };
                length(out, count, compact, false);
                out.extend((0..count).map(|_| rng.next() as u8));
            }
            other => panic!("type {other}"),
        }
    }

    /// Whether `3+`, `4-12` or `5` (with commas between) covers a version.
    fn covers(&self, versions: &str, version: i16) -> bool {
        versions.split(',').any(|part| {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let low_end: i16 = low.trim_end_matches('+').parse().unwrap();
            let high_end = if high.ends_with('+') { self.high } else { high.parse().unwrap() };
            (low_end..=high_end).contains(&version)
        })
    }
}

impl Node {
    fn after(&self, word: &str) -> &'static str {
        self.words[self.words.iter().position(|w| *w == word).unwrap() + 1]
    }

    fn part(&self, prefix: &str) -> Option<&'static str> {
        self.words[3..].iter().find_map(|word| word.strip_prefix(prefix))
    }

    fn tag(&self) -> Option<u32> {
        Some(self.part("tag:")?.split_once('@').unwrap().0.parse().unwrap())
    }
}

fn length(out: &mut Vec<u8>, length: usize, compact: bool, short: bool) {
    match (compact, short) {
        (true, _) => uvarint(out, length as u32 + 1),
        (false, true) => out.extend((length as i16).to_be_bytes()),
        (false, false) => out.extend((length as i32).to_be_bytes()),
    }
}

/// Unsigned LEB128.
pub fn uvarint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
