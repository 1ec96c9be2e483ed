//! JSON, written as Kafka's tools write it: no spaces, fields in the order of the schema, ids and bytes as base64.

use std::borrow::Cow;
use std::fmt::{self, Write};

use bytes::Bytes;

/// A JSON value on its way out.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any number, written as Java writes a double.
    Float(f64),
    /// A string.
    Text(Cow<'static, str>),
    /// Bytes, written as base64 with padding.
    Bytes(Bytes),
    /// A list.
    List(Vec<Json>),
    /// Names and values, in this order.
    Object(Vec<(&'static str, Json)>),
}

impl Json {
    /// A string.
    pub fn text(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Text(text.into())
    }

    /// The value, or null where there is none.
    pub fn or_null(value: Option<Self>) -> Self {
        value.unwrap_or(Self::Null)
    }

    /// The value of an object's field; `None` for a field or an object that is none.
    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(fields) => fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value),
            Self::Null
            | Self::Bool(_)
            | Self::Int(_)
            | Self::Float(_)
            | Self::Text(_)
            | Self::Bytes(_)
            | Self::List(_) => None,
        }
    }

    /// As [`Json::get`], to change it.
    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut Self> {
        match self {
            Self::Object(fields) => {
                fields.iter_mut().find(|(field, _)| *field == name).map(|(_, value)| value)
            }
            Self::Null
            | Self::Bool(_)
            | Self::Int(_)
            | Self::Float(_)
            | Self::Text(_)
            | Self::Bytes(_)
            | Self::List(_) => None,
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write_double(f, *value),
            Self::Text(text) => write_text(f, text),
            Self::Bytes(bytes) => {
                f.write_char('"')?;
                write_base64(f, bytes)?;
                f.write_char('"')
            }
            Self::List(items) => {
                f.write_char('[')?;
                for (at, item) in items.iter().enumerate() {
                    let comma = if at > 0 { "," } else { "" };
                    write!(f, "{comma}{item}")?;
                }
                f.write_char(']')
            }
            Self::Object(fields) => {
                f.write_char('{')?;
                for (at, (name, value)) in fields.iter().enumerate() {
                    let comma = if at > 0 { "," } else { "" };
                    write!(f, "{comma}\"{name}\":{value}")?;
                }
                f.write_char('}')
            }
        }
    }
}

/// A string with its quotes; control characters are escaped, everything else stays as it is.
pub(super) fn write_text(out: &mut dyn Write, text: &str) -> fmt::Result {
    out.write_char('"')?;
    let mut plain_from = 0;
    for (at, c) in text.char_indices() {
        if !matches!(c, '"' | '\\' | '\0'..='\x1f') {
            continue;
        }
        out.write_str(&text[plain_from..at])?;
        plain_from = at + 1;
        match c {
            '"' => out.write_str("\\\"")?,
            '\\' => out.write_str("\\\\")?,
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            '\x08' => out.write_str("\\b")?,
            '\x0c' => out.write_str("\\f")?,
            c => write!(out, "\\u{:04X}", c as u32)?,
        }
    }
    out.write_str(&text[plain_from..])?;
    out.write_char('"')
}

fn write_base64(out: &mut dyn Write, bytes: &[u8]) -> fmt::Result {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for group in bytes.chunks(3) {
        let mut three = [0; 3];
        three[..group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for digit in 0..4 {
            let is_padding = digit > group.len();
            let c = ALPHABET[(bits >> (18 - 6 * digit)) as usize & 63] as char;
            out.write_char(if is_padding { '=' } else { c })?;
        }
    }
    Ok(())
}

/// As Java's `Double.toString`: always a point, and an exponent outside 10⁻³ … 10⁷.
fn write_double(out: &mut dyn Write, value: f64) -> fmt::Result {
    if !value.is_finite() {
        let name = match value {
            value if value.is_nan() => "NaN",
            value if value > 0.0 => "Infinity",
            _ => "-Infinity",
        };
        return write!(out, "\"{name}\"");
    }
    let size = value.abs();
    if size == 0.0 || (1e-3..1e7).contains(&size) {
        return write!(out, "{value:?}");
    }
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let point = if digits.contains('.') { "" } else { ".0" };
    write!(out, "{digits}{point}E{exponent}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Doubles as Java prints them.
    #[test]
    fn doubles() {
        for (value, text) in [
            (0.0, "0.0"),
            (-1.5, "-1.5"),
            (1024.0, "1024.0"),
            (0.001, "0.001"),
            (0.0001, "1.0E-4"),
            (9_999_999.0, "9999999.0"),
            (10_000_000.0, "1.0E7"),
            (123_456_789.5, "1.234567895E8"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::NAN, "\"NaN\""),
            (f64::NEG_INFINITY, "\"-Infinity\""),
        ] {
            assert_eq!(Json::Float(value).to_string(), text);
        }
    }

    /// Padding of base64, and the escapes that JSON demands.
    #[test]
    fn bytes_and_escapes() {
        for (bytes, text) in [("", ""), ("a", "YQ=="), ("ab", "YWI="), ("abc", "YWJj"), ("\u{3ff}>", "z78+")]
        {
            assert_eq!(Json::Bytes(Bytes::from_static(bytes.as_bytes())).to_string(), format!("\"{text}\""));
        }
        let odd = Json::Object(vec![("a", Json::text("\"\\\n\r\t\u{8}\u{c}\u{1}\u{1f}/é\u{2028}"))]);
        assert_eq!(odd.to_string(), "{\"a\":\"\\\"\\\\\\n\\r\\t\\b\\f\\u0001\\u001F/é\u{2028}\"}");
        let list = Json::List(vec![Json::Null, Json::Bool(true), Json::Int(-1), Json::Object(vec![])]);
        assert_eq!(list.to_string(), "[null,true,-1,{}]");
    }
}
