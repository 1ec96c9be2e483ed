//! Java's properties format: comments, continued lines, escapes, `=`, `:` or blanks between key and value.

use alloc::string::String;
use alloc::vec::Vec;

/// A line that no properties file can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PropertiesError {
    /// The line, counted from 1.
    pub line: usize,
}

impl core::fmt::Display for PropertiesError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "line {} holds \\u without four hexadecimal digits", self.line)
    }
}

impl core::error::Error for PropertiesError {}

/// Reads key-value pairs, in order. A key may come twice; the later one counts.
///
/// Source: java.util.Properties.load.
pub fn parse_properties(text: &str) -> Result<Vec<(String, String)>, PropertiesError> {
    let mut pairs = Vec::new();
    let mut lines = text.split(['\n', '\r']).enumerate();
    while let Some((at, line)) = lines.next() {
        let start = line.trim_start_matches(is_blank);
        if start.is_empty() || start.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = String::from(start);
        while ends_with_escape(&logical) {
            logical.pop();
            let Some((_, next)) = lines.next() else { break };
            logical.push_str(next.trim_start_matches(is_blank));
        }
        let (key, value) = split_pair(&logical);
        let line = at + 1;
        pairs.push((unescape(key, line)?, unescape(value, line)?));
    }
    Ok(pairs)
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}

/// Whether the line goes on: an odd number of backslashes at its end.
fn ends_with_escape(line: &str) -> bool {
    line.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1
}

/// Splits at the first `=`, `:` or blank that is not escaped; blanks around one `=` or `:` do not count.
fn split_pair(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line
        .char_indices()
        .find(|(_, c)| {
            let ends = !escaped && (matches!(c, '=' | ':') || is_blank(*c));
            escaped = *c == '\\' && !escaped;
            ends
        })
        .map_or(line.len(), |(at, _)| at);
    let rest = line[end..].trim_start_matches(is_blank);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (&line[..end], value.trim_start_matches(is_blank))
}

fn unescape(text: &str, line: usize) -> Result<String, PropertiesError> {
    let mut units: Vec<u16> = Vec::new();
    let mut chars = text.chars();
    let push = |units: &mut Vec<u16>, c: char| units.extend_from_slice(c.encode_utf16(&mut [0; 2]));
    while let Some(c) = chars.next() {
        if c != '\\' {
            push(&mut units, c);
            continue;
        }
        match chars.next() {
            Some('n') => push(&mut units, '\n'),
            Some('t') => push(&mut units, '\t'),
            Some('r') => push(&mut units, '\r'),
            Some('f') => push(&mut units, '\u{c}'),
            Some('u') => {
                let digits: String = chars.by_ref().take(4).collect();
                let unit = u16::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4);
                units.push(unit.ok_or(PropertiesError { line })?);
            }
            Some(other) => push(&mut units, other),
            None => {}
        }
    }
    Ok(String::from_utf16_lossy(&units))
}
