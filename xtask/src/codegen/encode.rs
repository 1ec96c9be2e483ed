//! Writing: the function that writes one struct.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::{Result, bail, ensure};

use super::emit::{Context, default, ident, version_parameter};
use super::schema::{Base, Kind};
use super::shape::Member;
use super::versions::{condition, otherwise};

/// `fn write(&self, w, version)` of a struct.
pub fn write_fn(cx: &Context<'_>) -> Result<String> {
    let (mut tagged, plain): (Vec<&Member>, Vec<&Member>) =
        cx.shape.fields.iter().partition(|m| m.field.tag.is_some());
    tagged.sort_by_key(|m| m.field.tag);
    let mut body = String::new();
    for member in &plain {
        let value = write_value(cx, member, "w")?;
        match condition(&member.field.versions, &cx.shape.versions) {
            None => body.push_str(&value),
            Some(present) => write!(body, "if {present} {{\n{value}}}\n")?,
        }
    }
    body.push_str(&tagged_section(cx, &tagged)?);
    let body = format!("{}{body}", cx.define_compact(&body));
    let version = version_parameter(&body);
    let w = if body.is_empty() { "_w" } else { "w" };
    Ok(format!("fn write(&self, {w}: &mut Writer, {version}: i16) {{\n{body}}}\n"))
}

/// The statements that write a field in the versions that have it.
fn write_value(cx: &Context<'_>, member: &Member, w: &str) -> Result<String> {
    let field = &member.field;
    let at = format!("self.{}", ident(&field.name));
    let compact = cx.compact();
    let present: BTreeSet<i16> = field.versions.intersection(&cx.shape.versions).copied().collect();
    let never_null = field.nullable.is_empty();
    // Where this version knows no null, an empty value stands in.
    let or = |empty: &str| match otherwise(&field.nullable, &present) {
        None => String::new(),
        Some(refused) => format!(".or(({refused}).then_some({empty}))"),
    };
    // The writer of a tagged field is a value, the other one is borrowed already.
    let borrowed = if w == "w" { "w" } else { "&mut inside" };
    if field.array {
        let item = match field.base {
            Base::Plain(plain) => format!("{w}.{plain}(*item);"),
            Base::String => format!("{w}.string(item, {compact});"),
            Base::Struct => format!("item.write({borrowed}, version);"),
            other => bail!("arrays of {other:?} are not known here"),
        };
        return Ok(if never_null {
            format!("{w}.array_count(Some({at}.len()), {compact});\nfor item in &{at} {{ {item} }}\n")
        } else {
            let or = or("0");
            format!(
                "{w}.array_count({at}.as_ref().map(Vec::len){or}, {compact});\nfor item in {at}.iter().flatten() {{ {item} }}\n"
            )
        });
    }
    Ok(match (field.base, never_null) {
        (Base::Plain(plain), _) => format!("{w}.{plain}({at});\n"),
        (Base::String, true) => format!("{w}.string(&{at}, {compact});\n"),
        (Base::String, false) => format!("{w}.nullable_string({at}.as_deref(){}, {compact});\n", or("\"\"")),
        (Base::Struct, true) => format!("{at}.write({borrowed}, version);\n"),
        (Base::Struct, false) => {
            let (none, some) = match field.tag {
                None => (format!("{w}.i8(-1)"), format!("{w}.i8(1);")),
                Some(_) => (format!("{w}.uvarint(0)"), format!("{w}.uvarint(1);")),
            };
            format!(
                "match &{at} {{\nNone => {none},\nSome(it) => {{ {some} it.write({borrowed}, version); }}\n}}\n"
            )
        }
        (Base::Bytes | Base::Records, _) => {
            ensure!(never_null || or("").is_empty(), "{} is null in some versions only", field.name);
            match (never_null, field.base == Base::Records && cx.message.kind == Kind::Response) {
                (true, true) => format!("{w}.nullable_pieces(Some(&{at}), {compact});\n"),
                (false, true) => format!("{w}.nullable_pieces({at}.as_ref(), {compact});\n"),
                (true, false) => format!("{w}.nullable_bytes(Some(&{at}), {compact});\n"),
                (false, false) => format!("{w}.nullable_bytes({at}.as_ref(), {compact});\n"),
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
    let mut out = String::new();
    if tagged.is_empty() {
        out.push_str("w.uvarint(0);\n");
    } else {
        let mut count = Vec::new();
        for member in tagged {
            let (tag, differs) = (member.field.tag.unwrap_or(0), differs_from_default(cx, member)?);
            let guard =
                condition(&member.field.versions, &flexible).map(|c| format!("{c} && ")).unwrap_or_default();
            writeln!(out, "let has_{tag} = {guard}{differs};")?;
            count.push(format!("u32::from(has_{tag})"));
        }
        writeln!(out, "w.uvarint({});", count.join(" + "))?;
        for member in tagged {
            let (tag, value) = (member.field.tag.unwrap_or(0), write_value(cx, member, "inside")?);
            write!(
                out,
                "if has_{tag} {{\nlet mut inside = Writer::new();\n{value}w.tagged_field({tag}, inside);\n}}\n"
            )?;
        }
    }
    Ok(match cx.compact() {
        "compact" => format!("if compact {{\n{out}}}\n"),
        _ => out,
    })
}

/// A tagged field is written only where it differs from its default.
fn differs_from_default(cx: &Context<'_>, member: &Member) -> Result<String> {
    let field = &member.field;
    let at = format!("self.{}", ident(&field.name));
    let default = default(member, cx.message.kind)?;
    Ok(match (field.array || matches!(field.base, Base::String | Base::Bytes), default.as_str()) {
        (_, "None") => format!("{at}.is_some()"),
        (true, _) if field.nullable.is_empty() => format!("!{at}.is_empty()"),
        (true, _) => format!("{at}.as_ref().is_none_or(|it| !it.is_empty())"),
        (_, "false") => at,
        (_, "true") => format!("!{at}"),
        (_, "Uuid::ZERO") => format!("!{at}.is_zero()"),
        _ => format!("{at} != {default}"),
    })
}
