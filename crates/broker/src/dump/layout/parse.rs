//! `layouts.txt` as values. The file is part of the program, so a mistake in it is ours.

use super::{Field, Kind, Layout, Owner, Versions};

/// Reads the whole text.
///
/// # Panics
/// On a line that says nothing: the tests read every line.
pub(super) fn parse(text: &'static str) -> Vec<Layout> {
    let mut layouts: Vec<Layout> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let depth = (line.len() - line.trim_start().len()) / 2;
        let read = if depth == 0 { head(line).map(|layout| layouts.push(layout)) } else { None };
        let read = read.or_else(|| add_field(layouts.last_mut()?, depth, line));
        assert!(read.is_some(), "a line of layouts.txt that says nothing: {line}");
    }
    layouts
}

fn head(line: &'static str) -> Option<Layout> {
    let mut words = line.split(' ');
    let owner = match words.next()? {
        "offsets" => Owner::Offsets,
        "transactions" => Owner::Transactions,
        "shares" => Owner::Shares,
        "metadata" => Owner::Metadata,
        "control" => Owner::Control,
        "embedded" => Owner::Embedded,
        _ => return None,
    };
    let record_type = words.next()?.parse().ok()?;
    let name = words.next()?;
    let (low, high) = words.nth(1)?.split_once('-')?;
    let versions = Versions { low: low.parse().ok()?, high: high.parse().ok()? };
    let flexible_from = match words.nth(1)? {
        "none" => i16::MAX,
        first => first.strip_suffix('+')?.parse().ok()?,
    };
    Some(Layout { owner, record_type, name, versions, flexible_from, fields: Vec::new() })
}

fn add_field(layout: &mut Layout, depth: usize, line: &'static str) -> Option<()> {
    let field = field(line, layout.versions)?;
    let mut siblings = &mut layout.fields;
    for _ in 1..depth {
        siblings = &mut siblings.last_mut()?.fields;
    }
    siblings.push(field);
    Some(())
}

fn field(line: &'static str, all: Versions) -> Option<Field> {
    let mut words = line.split_whitespace();
    let (name, type_name) = (words.next()?, words.next()?);
    let element = type_name.strip_prefix("[]");
    let mut field = Field {
        name,
        kind: kind(element.unwrap_or(type_name))?,
        is_array: element.is_some(),
        versions: versions(words.next()?, all)?,
        nullable: None,
        tag: None,
        default: None,
        fields: Vec::new(),
    };
    for word in words {
        match word.split_once(':')? {
            ("null", range) => field.nullable = Some(versions(range, all)?),
            ("tag", tag) => field.tag = Some(tag.parse().ok()?),
            ("default", value) => field.default = Some(value),
            _ => return None,
        }
    }
    if field.kind == Kind::Struct && !field.is_array && field.default == Some("null") {
        field.nullable = Some(field.versions);
    }
    Some(field)
}

fn kind(name: &str) -> Option<Kind> {
    Some(match name {
        "boolean" => Kind::Bool,
        "int8" => Kind::Int8,
        "int16" => Kind::Int16,
        "uint16" => Kind::Uint16,
        "int32" => Kind::Int32,
        "int64" => Kind::Int64,
        "float64" => Kind::Float64,
        "uuid" => Kind::Uuid,
        "string" => Kind::Text,
        "bytes" => Kind::Bytes,
        "struct" => Kind::Struct,
        _ => return None,
    })
}

/// `3+` (up to the newest), `4-12`, or `5`.
fn versions(text: &str, all: Versions) -> Option<Versions> {
    if let Some(low) = text.strip_suffix('+') {
        return Some(Versions { low: low.parse().ok()?, high: all.high });
    }
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    Some(Versions { low: low.parse().ok()?, high: high.parse().ok()? })
}
