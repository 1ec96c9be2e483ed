//! Reading: the function that reads one struct.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::{Result, bail};

use super::emit::{Context, default, ident, version_parameter};
use super::schema::{Base, Field, Kind};
use super::shape::{Member, Shape};
use super::versions::{by_version, condition, otherwise};

/// `fn read(r, version)` of a struct.
pub fn read_fn(cx: &Context<'_>) -> Result<String> {
    let (tagged, plain): (Vec<&Member>, Vec<&Member>) =
        cx.shape.fields.iter().partition(|m| m.field.tag.is_some());
    let mut literal = String::new();
    for member in &plain {
        writeln!(literal, "{}: {},", ident(&member.field.name), read_or_default(cx, member)?)?;
    }
    for member in &tagged {
        writeln!(literal, "{}: {},", ident(&member.field.name), default(member, cx.message.kind)?)?;
    }
    let section = tagged_section(cx, &tagged)?;
    let body = match (section.is_empty(), tagged.is_empty()) {
        (true, _) => format!("Ok(Self {{\n{literal}}})\n"),
        (false, true) => format!("let it = Self {{\n{literal}}};\n{section}Ok(it)\n"),
        (false, false) => format!("let mut it = Self {{\n{literal}}};\n{section}Ok(it)\n"),
    };
    let body = format!("{}{body}", cx.define_compact(&body));
    let version = version_parameter(&body);
    let r = if body.contains("r.") || body.contains("(r,") { "r" } else { "_r" };
    Ok(format!("fn read({r}: &mut Reader, {version}: i16) -> Decoded<Self> {{\n{body}}}\n"))
}

fn read_or_default(cx: &Context<'_>, member: &Member) -> Result<String> {
    let value = read_value(cx, member)?;
    Ok(match condition(&member.field.versions, &cx.shape.versions) {
        None => value,
        Some(present) => {
            format!("if {present} {{ {value} }} else {{ {} }}", default(member, cx.message.kind)?)
        }
    })
}

/// The expression that reads a field in the versions that have it.
fn read_value(cx: &Context<'_>, member: &Member) -> Result<String> {
    let field = &member.field;
    let compact = cx.compact();
    let name = &member.struct_name;
    if field.base == Base::Struct && !field.array {
        // A struct that may be null has a byte before it: −1 or 1; in a tagged section it is a varint, 0 or 1.
        return Ok(match (field.nullable.is_empty(), field.tag) {
            (true, _) => format!("{name}::read(r, version)?"),
            (false, None) => format!("if r.i8()? < 0 {{ None }} else {{ Some({name}::read(r, version)?) }}"),
            (false, Some(_)) => {
                format!("if r.uvarint()? == 0 {{ None }} else {{ Some({name}::read(r, version)?) }}")
            }
        });
    }
    if let (false, Base::Plain(plain)) = (field.array, field.base) {
        return Ok(format!("r.{plain}()?"));
    }
    let optional = match (field.array, field.base) {
        (false, Base::String) => format!("r.nullable_string({compact})?"),
        (false, Base::Records) if cx.message.kind == Kind::Response => {
            format!("r.nullable_bytes({compact})?.map(Pieces::from)")
        }
        (false, _) => format!("r.nullable_bytes({compact})?"),
        (true, Base::String) => format!("r.strings({compact})?"),
        (true, base) => {
            let least = by_version(|v| element_bytes_min(cx, member, v), &field.versions);
            let read = match base {
                Base::Plain(plain) => format!("|r, _| r.{plain}()"),
                Base::Struct => format!("{name}::read"),
                _ => bail!("arrays of {base:?} are not known here"),
            };
            let version = if base == Base::Struct { "version" } else { "0" };
            format!("r.elements({compact}, {least}, {version}, {read})?")
        }
    };
    Ok(if field.nullable.is_empty() {
        match (field.array, field.base) {
            (false, Base::String) => format!("r.string({compact})?"),
            (false, Base::Bytes) => format!("r.bytes({compact})?"),
            _ => format!("{optional}.ok_or(DecodeError::UnexpectedNull)?"),
        }
    } else {
        let present: BTreeSet<i16> = field.versions.intersection(&cx.shape.versions).copied().collect();
        match otherwise(&field.nullable, &present) {
            None => optional,
            Some(refused) => {
                format!(
                    "match {optional} {{ None if {refused} => return Err(DecodeError::UnexpectedNull), value => value }}"
                )
            }
        }
    })
}

fn tagged_section(cx: &Context<'_>, tagged: &[&Member]) -> Result<String> {
    let flexible: BTreeSet<i16> =
        cx.shape.versions.iter().copied().filter(|v| *v >= cx.message.flexible_from).collect();
    if flexible.is_empty() {
        return Ok(String::new());
    }
    let walk = if tagged.is_empty() {
        "r.skip_tagged_fields()?;\n".to_string()
    } else {
        let mut arms = String::new();
        for member in tagged {
            let guard =
                condition(&member.field.versions, &flexible).map(|c| format!(" if {c}")).unwrap_or_default();
            let (tag, name) = (member.field.tag.unwrap_or(0), ident(&member.field.name));
            writeln!(arms, "{tag}{guard} => it.{name} = {},", read_value(cx, member)?)?;
            if !guard.is_empty() {
                writeln!(arms, "{tag} => return Err(DecodeError::UnexpectedTag),")?;
            }
        }
        format!(
            "r.tagged_fields(|tag, r| {{\nmatch tag {{\n{arms}_ => return Ok(false),\n}}\nOk(true)\n}})?;\n"
        )
    };
    Ok(match cx.compact() {
        "compact" => format!("if compact {{\n{walk}}}\n"),
        _ => walk,
    })
}

/// The least bytes that an element of an array takes on the wire.
fn element_bytes_min(cx: &Context<'_>, member: &Member, version: i16) -> usize {
    let compact = version >= cx.message.flexible_from;
    match member.field.base {
        Base::Plain(plain) => plain_bytes(plain),
        Base::String => {
            if compact {
                1
            } else {
                2
            }
        }
        Base::Bytes | Base::Records => {
            if compact {
                1
            } else {
                4
            }
        }
        Base::Struct => {
            let shape = cx.shapes.iter().find(|s| s.name == member.struct_name);
            shape.map_or(1, |shape| struct_bytes_min(cx, shape, version)).max(1)
        }
    }
}

fn struct_bytes_min(cx: &Context<'_>, shape: &Shape, version: i16) -> usize {
    let compact = version >= cx.message.flexible_from;
    let is_there = |field: &Field| field.tag.is_none() && field.versions.contains(&version);
    let fields = shape.fields.iter().filter(|m| is_there(&m.field)).map(|member| {
        match (member.field.array, member.field.base) {
            (true, _) => {
                if compact {
                    1
                } else {
                    4
                }
            }
            (false, Base::Struct) if !member.field.nullable.is_empty() => 1,
            _ => element_bytes_min(cx, member, version),
        }
    });
    fields.sum::<usize>() + usize::from(compact)
}

fn plain_bytes(name: &str) -> usize {
    match name {
        "i8" | "bool" => 1,
        "i16" | "u16" => 2,
        "i32" | "u32" => 4,
        "uuid" => 16,
        _ => 8,
    }
}
