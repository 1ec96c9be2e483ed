//! The Rust module of one message: its structs, defaults, reading and writing.

use std::fmt::Write as _;

use anyhow::{Result, bail};

use super::decode::read_fn;
use super::encode::write_fn;
use super::schema::{Base, Field, Kind, Message};
use super::shape::{Member, Shape};
use super::versions;

/// What the functions that emit code for one struct need to know of its message.
pub struct Context<'a> {
    pub message: &'a Message,
    pub shapes: &'a [Shape],
    pub shape: &'a Shape,
}

impl Context<'_> {
    /// The expression that says whether lengths are compact here.
    pub fn compact(&self) -> &'static str {
        let flexible = |v: &i16| *v >= self.message.flexible_from;
        match (self.shape.versions.iter().all(flexible), self.shape.versions.iter().any(flexible)) {
            (true, _) => "true",
            (_, false) => "false",
            _ => "compact",
        }
    }

    /// The statement that defines `compact`, where it depends on the version and is used.
    pub fn define_compact(&self, body: &str) -> String {
        if self.compact() == "compact" && body.contains("compact") {
            format!("let compact = version >= {};\n", self.message.flexible_from)
        } else {
            String::new()
        }
    }
}

/// The module of a message, not yet formatted.
pub fn module(message: &Message, shapes: &[Shape]) -> Result<String> {
    let mut body = String::new();
    for shape in shapes {
        let cx = Context { message, shapes, shape };
        body.push_str(&definition(&cx)?);
    }
    body.push_str(&entry_points(message));
    for shape in shapes {
        let cx = Context { message, shapes, shape };
        let (read_gate, write_gate) = gates(message.kind);
        write!(body, "\n{read_gate}impl {} {{\n{}}}\n", shape.name, read_fn(&cx)?)?;
        write!(body, "\n{write_gate}impl {} {{\n{}}}\n", shape.name, write_fn(&cx)?)?;
    }
    Ok(format!("//! {}.\n\n{}{body}", title(message), imports(message.kind, &body)))
}

/// Brokers read requests and write responses; the other way round is for clients. Records go both ways.
fn gates(kind: Kind) -> (&'static str, &'static str) {
    const CLIENT: &str = "#[cfg(feature = \"client\")]\n";
    match kind {
        Kind::Request => ("", CLIENT),
        Kind::Response => (CLIENT, ""),
        Kind::Record => ("", ""),
    }
}

fn title(message: &Message) -> String {
    let newest = *message.versions.last().unwrap_or(&0);
    let flexible = match message.flexible_from {
        i16::MAX => "never flexible".to_string(),
        from => format!("flexible from {from}"),
    };
    let key = match (message.kind, message.key) {
        (Kind::Record, -1) => String::new(),
        (Kind::Record, key) => format!(", type {key}"),
        (_, key) => format!(", API key {key}"),
    };
    format!("{}{key}: versions {}–{newest}, {flexible}", message.name, message.versions.first().unwrap_or(&0))
}

fn imports(kind: Kind, body: &str) -> String {
    let has = |word: &str| body.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == word);
    let mut out = String::new();
    for (word, path) in
        [("String", "alloc::string::String"), ("Vec", "alloc::vec::Vec"), ("Bytes", "bytes::Bytes")]
    {
        if has(word) {
            let _ = writeln!(out, "use {path};");
        }
    }
    if has("Uuid") {
        out.push_str("use fencepost_types::Uuid;\n");
    }
    let (read_gate, write_gate) = gates(kind);
    let _ = writeln!(out, "{read_gate}use fencepost_types::wire::{{DecodeError, Decoded, Reader}};");
    let _ = writeln!(out, "{write_gate}use fencepost_types::wire::Writer;");
    if has("Pieces") {
        out.push_str("use fencepost_types::wire::Pieces;\n");
    }
    out.push('\n');
    out
}

fn definition(cx: &Context<'_>) -> Result<String> {
    let shape = cx.shape;
    let newest = *cx.message.versions.last().unwrap_or(&0);
    let defaults: Vec<String> =
        shape.fields.iter().map(|m| default(m, cx.message.kind)).collect::<Result<_>>()?;
    let derived = shape.fields.iter().zip(&defaults).all(|(m, d)| is_std_default(&m.field, d));
    let mut out = String::new();
    if shape.name == cx.message.name {
        writeln!(out, "/// {}.", title(cx.message))?;
    } else {
        writeln!(out, "/// In versions {}.", versions::text(&shape.versions, newest))?;
    }
    let default_derive = if derived { ", Default" } else { "" };
    writeln!(out, "#[derive(Clone, Debug, PartialEq{default_derive})]\npub struct {} {{", shape.name)?;
    for member in &shape.fields {
        writeln!(out, "/// {}.", field_doc(&member.field, newest))?;
        writeln!(out, "pub {}: {},", ident(&member.field.name), rust_type(member, cx.message.kind))?;
    }
    writeln!(out, "}}\n")?;
    if !derived {
        writeln!(out, "impl Default for {} {{\nfn default() -> Self {{\nSelf {{", shape.name)?;
        for (member, default) in shape.fields.iter().zip(&defaults) {
            writeln!(out, "{}: {default},", ident(&member.field.name))?;
        }
        writeln!(out, "}}\n}}\n}}\n")?;
    }
    Ok(out)
}

fn field_doc(field: &Field, newest: i16) -> String {
    let mut doc = format!("Versions {}", versions::text(&field.versions, newest));
    if !field.nullable.is_empty() {
        let _ = write!(doc, "; null allowed in {}", versions::text(&field.nullable, newest));
    }
    if let Some(tag) = field.tag {
        let _ = write!(doc, "; tag {tag}");
    }
    if let Some(default) = &field.default {
        let _ = write!(doc, "; default {}", default.replace('-', "−"));
    }
    doc
}

fn entry_points(message: &Message) -> String {
    let Message { name, kind, key, versions, .. } = message;
    let (low, high) = (versions.first().unwrap_or(&0), versions.last().unwrap_or(&0));
    let (read_gate, write_gate) = gates(*kind);
    let key = match (kind, key) {
        (Kind::Record, 0..) => format!(
            "/// Its type in the metadata log, or the version that stands before its coordinator's log key.\npub const RECORD_TYPE: i16 = {key};\n"
        ),
        _ => String::new(),
    };
    format!(
        "impl {name} {{
        {key}/// The lowest version.
        pub const VERSION_MIN: i16 = {low};
        /// The highest version.
        pub const VERSION_MAX: i16 = {high};

        /// Reads the message as `version` has it.
        {read_gate}pub fn decode(r: &mut Reader, version: i16) -> Decoded<Self> {{
            if !(Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version) {{
                return Err(DecodeError::UnsupportedVersion);
            }}
            Self::read(r, version)
        }}

        /// Writes the message as `version` has it; fields that the version lacks are left out.
        {write_gate}pub fn encode(&self, w: &mut Writer, version: i16) {{
            assert!((Self::VERSION_MIN..=Self::VERSION_MAX).contains(&version), \"{name} has no version {{version}}\");
            self.write(w, version);
        }}
        }}\n"
    )
}

/// The parameter `version`, with an underscore where the body does not use it; a field may have that name too.
pub fn version_parameter(body: &str) -> &'static str {
    let used = body.match_indices("version").any(|(at, word)| {
        let (before, after) = (&body[..at], &body[at + word.len()..]);
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        !before.ends_with(is_word)
            && !after.starts_with(|c: char| is_word(c) && c != '.')
            && !after.starts_with(':')
    });
    if used { "version" } else { "_version" }
}

/// A field's name as an identifier.
pub fn ident(name: &str) -> String {
    if matches!(name, "match" | "type") { format!("r#{name}") } else { name.to_string() }
}

/// The element's type, or the field's where it is no array; without `Option`.
pub fn base_type(member: &Member, kind: Kind) -> String {
    match member.field.base {
        Base::Plain("uuid") => "Uuid".to_string(),
        Base::Plain(name) => name.to_string(),
        Base::String => "String".to_string(),
        Base::Records if kind == Kind::Response => "Pieces".to_string(),
        Base::Bytes | Base::Records => "Bytes".to_string(),
        Base::Struct => member.struct_name.clone(),
    }
}

fn rust_type(member: &Member, kind: Kind) -> String {
    let mut name = base_type(member, kind);
    if member.field.array {
        name = format!("Vec<{name}>");
    }
    if !member.field.nullable.is_empty() {
        name = format!("Option<{name}>");
    }
    name
}

/// The value of a field that is absent, as an expression.
pub fn default(member: &Member, kind: Kind) -> Result<String> {
    let field = &member.field;
    let given = field.default.as_deref();
    if given == Some("null") {
        return Ok("None".to_string());
    }
    let plain = match (field.array, field.base, given) {
        (true, _, None) => "Vec::new()".to_string(),
        (false, Base::Plain("bool"), given) => given.unwrap_or("false").to_string(),
        (false, Base::Plain("uuid"), None) => "Uuid::ZERO".to_string(),
        (false, Base::Plain("f64"), None) => "0.0".to_string(),
        (false, Base::Plain(_), given) => match given.unwrap_or("0") {
            "9223372036854775807" => "i64::MAX".to_string(),
            "2147483647" => "i32::MAX".to_string(),
            "-2147483648" => "i32::MIN".to_string(),
            number => number.to_string(),
        },
        (false, Base::String, None) => "String::new()".to_string(),
        (false, Base::Records, None) if kind == Kind::Response => "Pieces::EMPTY".to_string(),
        (false, Base::Bytes | Base::Records, None) => "Bytes::new()".to_string(),
        (false, Base::Struct, None) => format!("{}::default()", member.struct_name),
        (_, _, Some(other)) => bail!("field {}: a default {other} is not known here", field.name),
    };
    Ok(if field.nullable.is_empty() { plain } else { format!("Some({plain})") })
}

fn is_std_default(field: &Field, default: &str) -> bool {
    matches!(
        (field.nullable.is_empty(), default),
        (
            true,
            "0" | "0.0"
                | "false"
                | "Uuid::ZERO"
                | "String::new()"
                | "Vec::new()"
                | "Bytes::new()"
                | "Pieces::EMPTY"
        ) | (false, "None")
    ) || (field.nullable.is_empty() && field.base == Base::Struct && !field.array)
}
