//! Just enough of Rust's grammar to scan its text: comments and literals, test code, matching brackets.

/// The text with the inside of comments and literals turned to spaces. Lines and byte positions stay.
pub fn blanked(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => end_of_line(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => end_of_block_comment(bytes, at),
            b'"' => end_of_string(bytes, at + 1),
            b'r' if !is_word(bytes, at.wrapping_sub(1)) => match end_of_raw_string(bytes, at) {
                Some(end) => end,
                None => at,
            },
            b'\'' => end_of_character(bytes, at),
            _ => at,
        };
        if end == at {
            at += 1;
            continue;
        }
        out[at..end].iter_mut().filter(|b| **b != b'\n').for_each(|b| *b = b' ');
        at = end;
    }
    String::from_utf8(out).expect("whole characters are replaced by spaces")
}

fn is_word(bytes: &[u8], at: usize) -> bool {
    bytes.get(at).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
}

fn end_of_line(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|b| *b == b'\n').map_or(bytes.len(), |n| at + n)
}

fn end_of_block_comment(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0usize);
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn end_of_string(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The end of `r"…"` or `r#"…"#`; none where the `r` is no such thing.
fn end_of_raw_string(bytes: &[u8], at: usize) -> Option<usize> {
    let hashes = bytes[at + 1..].iter().take_while(|b| **b == b'#').count();
    let open = at + 1 + hashes;
    if bytes.get(open) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let found = bytes[open + 1..].windows(close.len()).position(|w| w == close);
    Some(found.map_or(bytes.len(), |n| open + 1 + n + close.len()))
}

/// The end of a character literal; the start itself where the quote opens a lifetime.
fn end_of_character(bytes: &[u8], at: usize) -> usize {
    if bytes.get(at + 1) == Some(&b'\\') {
        let close = bytes[at + 3..].iter().position(|b| *b == b'\'');
        return close.map_or(at, |n| at + 3 + n + 1);
    }
    // One character of one to four bytes, then the closing quote; a lifetime has no such quote.
    let wide = bytes.get(at + 1).map_or(1, |b| match b {
        0..0xC0 => 1,
        0xC0..0xE0 => 2,
        0xE0..0xF0 => 3,
        0xF0.. => 4,
    });
    if bytes.get(at + 1 + wide) == Some(&b'\'') { at + 2 + wide } else { at }
}

/// Where the bracket at `open` closes, in blanked text: the position of the closing one, or the end of the text.
pub fn closing(blanked: &str, open: usize) -> usize {
    let mut depth = 0usize;
    for (at, byte) in blanked.bytes().enumerate().skip(open) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
    }
    blanked.len()
}

/// The number of a line, from 1, that a byte position lies on.
pub fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|b| **b == b'\n').count() + 1
}

/// Blanked text without its test code: what follows `#[cfg(test)]` becomes spaces as well.
pub fn without_tests(blanked: &str) -> String {
    let mut out = blanked.as_bytes().to_vec();
    let mut from = 0;
    while let Some(found) = blanked[from..].find("#[cfg(test)]") {
        let start = from + found;
        let body = blanked[start..].find(['{', ';']).map_or(blanked.len(), |n| start + n);
        let end = if blanked.as_bytes().get(body) == Some(&b'{') { closing(blanked, body) } else { body };
        let end = (end + 1).min(blanked.len());
        out[start..end].iter_mut().filter(|b| **b != b'\n').for_each(|b| *b = b' ');
        from = end;
    }
    String::from_utf8(out).expect("ASCII was replaced by spaces")
}

/// Whether a path holds test code only.
pub fn is_test_path(path: &str) -> bool {
    let directories = ["tests", "test", "testing", "benches", "examples"];
    path.split('/').any(|part| directories.contains(&part.trim_end_matches(".rs")))
        || path.ends_with("_test.rs")
        || path.ends_with("_tests.rs")
}

/// Whether a file says that a tool wrote it.
pub fn is_generated(text: &str) -> bool {
    text.starts_with("// Generated by")
}

/// Whether the line or the one above carries `// allow(RULE): reason`, with a reason.
pub fn allowed(source: &str, line: usize, rule: &str) -> bool {
    let mark = format!("// allow({rule}): ");
    let lines: Vec<&str> = source.lines().collect();
    [line, line.saturating_sub(1)]
        .iter()
        .filter_map(|n| lines.get(n.checked_sub(1)?))
        .any(|text| text.split_once(&mark).is_some_and(|(_, reason)| !reason.trim().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    // What looks like code inside comments and literals is gone; code, lifetimes and positions stay.
    #[test]
    fn comments_and_literals_are_blanked() {
        let source = "let a = \"fn x {\"; // _ =>\n/* { /* } */ */ fn f<'a>(c: &'a u8) { b'}'; '\\''; 'é'; r#\"{\"#; }\n";
        let plain = blanked(source);
        assert_eq!(plain.len(), source.len());
        assert_eq!(plain.lines().count(), 2);
        assert!(!plain.contains("_ =>") && !plain.contains("fn x"));
        assert!(plain.contains("fn f<'a>(c: &'a u8) {"));
        let open = plain.find('{').unwrap();
        assert_eq!(closing(&plain, open), source.rfind('}').unwrap());
    }

    // Test modules vanish, what follows them stays.
    #[test]
    fn test_code_is_left_out() {
        let plain = without_tests(
            "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { {} } }\nfn c() {}\n#[cfg(test)]\nmod d;\nfn e() {}",
        );
        assert!(plain.contains("fn a") && plain.contains("fn c") && plain.contains("fn e"));
        assert!(!plain.contains("fn b") && !plain.contains("mod d"));
    }

    // An exception needs its rule and a reason, on the line or the line above.
    #[test]
    fn an_exception_needs_a_reason() {
        let text = "// allow(clock): the edge reads it\nnow();\nnow(); // allow(clock): same\nnow(); // allow(clock): \n\n";
        assert!(allowed(text, 2, "clock") && allowed(text, 3, "clock"));
        assert!(!allowed(text, 2, "disk") && !allowed("now(); // allow(clock): ", 1, "clock"));
    }

    // Test code is known by its path, as the layout says.
    #[test]
    fn test_paths() {
        assert!(
            is_test_path("crates/storage/tests/golden.rs")
                && is_test_path("crates/records/src/batch/tests.rs")
        );
        assert!(is_test_path("testing/sim/src/lib.rs") && !is_test_path("crates/storage/src/attestation.rs"));
    }
}
