//! The schema as a tree: parsing of `schema.txt`.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail, ensure};

/// Which way a message goes, or that it is persisted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Request,
    Response,
    Record,
}

/// One message or persisted record.
#[derive(Clone, Debug)]
pub struct Message {
    pub kind: Kind,
    pub key: i16,
    pub name: String,
    pub controller_listener: bool,
    pub latest_unstable: bool,
    pub versions: BTreeSet<i16>,
    /// First flexible version; beyond every version where there is none.
    pub flexible_from: i16,
    pub fields: Vec<Field>,
}

/// What a field holds, arrays apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// A number, boolean or uuid: the name of its reader and writer, which is its Rust type but for `Uuid`.
    Plain(&'static str),
    String,
    Bytes,
    Records,
    Struct,
}

/// One field; those of a struct stand in `fields`.
#[derive(Clone, Debug)]
pub struct Field {
    pub name: String,
    pub array: bool,
    pub base: Base,
    pub versions: BTreeSet<i16>,
    pub nullable: BTreeSet<i16>,
    pub tag: Option<u32>,
    pub default: Option<String>,
    pub fields: Vec<Field>,
}

/// Reads the whole file.
pub fn parse(text: &str) -> Result<Vec<Message>> {
    let mut messages: Vec<Message> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let depth = (line.len() - line.trim_start().len()) / 2;
        let parsed = if depth == 0 {
            parse_head(line).map(|message| messages.push(message))
        } else {
            add_field(&mut messages, depth, line)
        };
        parsed.with_context(|| format!("schema line {}: {line}", at + 1))?;
    }
    Ok(messages)
}

fn parse_head(line: &str) -> Result<Message> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let after = |word: &str| words.iter().position(|w| *w == word).and_then(|at| words.get(at + 1)).copied();
    let kind = match words[0] {
        "request" => Kind::Request,
        "response" => Kind::Response,
        "record" => Kind::Record,
        other => bail!("unknown kind {other}"),
    };
    let (low, high) = after("versions").and_then(|v| v.split_once('-')).context("no versions")?;
    let flexible_from = match after("flexible").context("no `flexible`")? {
        "none" => i16::MAX,
        first => first.trim_end_matches('+').parse()?,
    };
    Ok(Message {
        kind,
        key: words.get(1).context("no key")?.parse()?,
        name: words.get(2).context("no name")?.to_string(),
        controller_listener: line.contains("controller"),
        latest_unstable: words.contains(&"latest-unstable"),
        versions: (low.parse()?..=high.parse()?).collect(),
        flexible_from,
        fields: Vec::new(),
    })
}

fn add_field(messages: &mut [Message], depth: usize, line: &str) -> Result<()> {
    let message = messages.last_mut().context("a field before any message")?;
    let field = parse_field(line, &message.versions)?;
    let mut siblings = &mut message.fields;
    for _ in 1..depth {
        siblings = &mut siblings.last_mut().context("indented without a parent")?.fields;
    }
    siblings.push(field);
    Ok(())
}

fn parse_field(line: &str, all: &BTreeSet<i16>) -> Result<Field> {
    let words: Vec<&str> = line.split_whitespace().collect();
    ensure!(words.len() >= 3, "name, type and versions are needed");
    let part = |prefix: &str| words[3..].iter().find_map(|w| w.strip_prefix(prefix));
    let (array, base) = match words[1].strip_prefix("[]") {
        Some(element) => (true, parse_base(element)?),
        None => (false, parse_base(words[1])?),
    };
    let versions = parse_versions(words[2], all)?;
    let mut nullable = part("null:").map(|v| parse_versions(v, all)).transpose()?.unwrap_or_default();
    let default = part("default:").map(str::to_string);
    if default.as_deref() == Some("null") && base == Base::Struct && !array {
        nullable = versions.clone();
    }
    let tag = match part("tag:").and_then(|tag| tag.split_once('@')) {
        Some((number, tagged)) => {
            ensure!(parse_versions(tagged, all)? == versions, "tagged in some versions only");
            Some(number.parse()?)
        }
        None => None,
    };
    Ok(Field {
        name: words[0].to_string(),
        array,
        base,
        versions,
        nullable,
        tag,
        default,
        fields: Vec::new(),
    })
}

fn parse_base(name: &str) -> Result<Base> {
    Ok(match name {
        "int8" => Base::Plain("i8"),
        "int16" => Base::Plain("i16"),
        "uint16" => Base::Plain("u16"),
        "int32" => Base::Plain("i32"),
        "uint32" => Base::Plain("u32"),
        "int64" => Base::Plain("i64"),
        "float64" => Base::Plain("f64"),
        "boolean" => Base::Plain("bool"),
        "uuid" => Base::Plain("uuid"),
        "string" => Base::String,
        "bytes" => Base::Bytes,
        "records" => Base::Records,
        "struct" => Base::Struct,
        other => bail!("unknown type {other}"),
    })
}

/// `3+`, `4-12`, `5`, or several with commas, within the versions of the message.
fn parse_versions(text: &str, all: &BTreeSet<i16>) -> Result<BTreeSet<i16>> {
    let newest = *all.last().context("no versions")?;
    let mut versions = BTreeSet::new();
    for part in text.split(',') {
        let (low, high) = match (part.strip_suffix('+'), part.split_once('-')) {
            (Some(low), _) => (low.parse()?, newest),
            (None, Some((low, high))) => (low.parse()?, high.parse()?),
            (None, None) => (part.parse()?, part.parse()?),
        };
        versions.extend(low..=high);
    }
    ensure!(versions.is_subset(all), "versions outside those of the message");
    Ok(versions)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Version words are clipped by the message, and a struct with a null default may be null.
    #[test]
    fn a_message_is_parsed() {
        let text = "request 7 ThingRequest listeners=[broker] versions 1-4 flexible 3+\n  a []struct 2-3,4 null:4\n    b int16 2+ default:-1\n  c struct 1+ default:null\n";
        let messages = parse(text).unwrap();
        let fields = &messages[0].fields;
        assert_eq!(fields[0].versions, BTreeSet::from([2, 3, 4]));
        assert_eq!(fields[0].nullable, BTreeSet::from([4]));
        assert_eq!(fields[0].fields[0].default.as_deref(), Some("-1"));
        assert_eq!(fields[1].nullable, messages[0].versions);
        assert!(parse("request 7 ThingRequest versions 1-4 flexible 3+\n  a int32 0+\n").is_err());
    }
}
