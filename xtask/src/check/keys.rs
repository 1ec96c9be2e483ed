//! A key that the documentation calls used is read by code.
//!
//! A key counts as read when a typed field of it is read outside its declaration, when code names it as a literal, or when it
//! stands behind a topic's key that is read. Limits that groups' keys are held to are found by a name that is put together
//! ([`GROUP_LIMITS`]). Test code does not count.

use std::collections::BTreeMap;

use regex::Regex;

use super::rust_text::{blanked, is_test_path, without_tests};
use crate::workspace::SourceFile;

const TABLES: &str = "crates/metadata/src/keys/";
const SYNONYMS: &str = "crates/metadata/src/keys/synonyms.rs";
const TOPIC_TABLE: &str = "crates/metadata/src/keys/topic.rs";
/// Where typed settings are declared, with the name of the type.
const DECLARATIONS: [(&str, &str); 2] = [
    ("crates/metadata/src/config/broker.rs", "BrokerConfig"),
    ("crates/metadata/src/config/topic.rs", "TopicConfig"),
];
/// How code gets at typed settings; a field of the same name elsewhere is another's.
const HOLDERS: &str = r"\b(?:config|broker|topic|topic_config|self)(?:\([^()]*\))?(?:\.load\(\))?";

/// `group.PROTOCOL.min.REST` and `.max.`: the literal that code puts such names together with.
const GROUP_LIMITS: &str = "group.{protocol}.{which}.{rest}";

/// One sentence for each key that is called used and read by no code, and for each typed field that nothing reads.
pub fn violations(files: &[SourceFile]) -> Vec<String> {
    let sources: Vec<Source> = files.iter().filter_map(Source::new).collect();
    let fields = fields(files);
    let mut found = Vec::new();
    let mut is_read = BTreeMap::new();
    for (key, (field, holder)) in &fields {
        let read = sources.iter().any(|source| source.reads_field(field, holder));
        if !read {
            found.push(format!("{holder}.{field} ({key}) is read by no code: drop it, or make it work"));
        }
        is_read.insert(key.as_str(), read);
    }
    let synonyms = text_of(files, SYNONYMS);
    let topic_keys = used_keys(text_of(files, TOPIC_TABLE));
    for file in files.iter().filter(|f| f.path.starts_with(TABLES) && !is_test_path(&f.path)) {
        for key in used_keys(file.text.as_deref().unwrap_or_default()) {
            let stands_behind = file.path != TOPIC_TABLE
                && (topic_keys.contains(&key) || synonyms.contains(&format!("\"{key}\"")));
            let is_limit = key.starts_with("group.consumer.min.") || key.starts_with("group.consumer.max.");
            let literal = if is_limit && !key.ends_with(".size") { GROUP_LIMITS } else { key.as_str() };
            let is_typed = is_read.contains_key(key.as_str());
            if !stands_behind && !is_typed && !sources.iter().any(|source| source.names(literal)) {
                found.push(format!("{}: {key} is marked as used and read by no code", file.path));
            }
        }
    }
    found
}

fn text_of<'a>(files: &'a [SourceFile], path: &str) -> &'a str {
    files.iter().find(|file| file.path == path).and_then(|file| file.text.as_deref()).unwrap_or_default()
}

/// Key → (field, type), out of the declarations of typed settings.
fn fields(files: &[SourceFile]) -> BTreeMap<String, (String, &'static str)> {
    let row = Regex::new(r#"(?m)^\s+(\w+): [\w<>]+ =\s+"([^"]+)","#).expect("a pattern of ours");
    let mut fields = BTreeMap::new();
    for (path, holder) in DECLARATIONS {
        for hit in row.captures_iter(text_of(files, path)) {
            fields.entry(hit[2].to_string()).or_insert((hit[1].to_string(), holder));
        }
    }
    fields
}

/// The keys of a table that are marked as used.
fn used_keys(table: &str) -> Vec<String> {
    let rows = table.split("\n    key(\"").skip(1);
    rows.filter(|row| row.contains(".used()"))
        .filter_map(|row| row.split('"').next().map(str::to_string))
        .collect()
}

/// Code that is shipped, without the tables.
struct Source {
    text: String,
    code: String,
}

impl Source {
    fn new(file: &SourceFile) -> Option<Self> {
        let is_shipped = file.path.starts_with("crates/")
            && file.path.ends_with(".rs")
            && file.path.contains("/src/")
            && !file.path.starts_with(TABLES)
            && !is_test_path(&file.path);
        let text = file.text.clone().filter(|_| is_shipped)?;
        let mut code = without_tests(&blanked(&text));
        if DECLARATIONS.iter().any(|(path, _)| *path == file.path) {
            // The declarations themselves read nothing.
            let (Some(from), Some(to)) = (code.find("typed_config! {"), code.find("\n}\n")) else {
                return None;
            };
            code.replace_range(from..to, &" ".repeat(to - from));
        }
        Some(Self { text, code })
    }

    fn reads_field(&self, field: &str, holder: &str) -> bool {
        let reach = ["config(", "_config(", holder].iter().any(|word| self.code.contains(word));
        let read = Regex::new(&format!(r"{HOLDERS}\s*\.{field}\b")).expect("a pattern of ours");
        reach && read.is_match(&self.code)
    }

    /// Whether the key's name is a literal in code.
    fn names(&self, key: &str) -> bool {
        let literal = format!("\"{key}\"");
        // Literals are blanked, and whole lines of test code: code that is shipped has something beside its literal.
        self.text.match_indices(&literal).any(|(at, _)| {
            let from = self.code[..at].rfind('\n').map_or(0, |end| end + 1);
            let to = self.code[at..].find('\n').map_or(self.code.len(), |end| at + end);
            !self.code[from..to].trim().is_empty()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_string(), bytes: text.len() as u64, text: Some(text.to_string()) }
    }

    /// Issue 12, C17: a typed field that only its declaration or a test names, and a key that no literal names, are told.
    #[test]
    fn unread_keys_are_told() {
        let table = "[\n    key(\"a.b\", x).used(),\n    key(\"c.d\", x).used(),\n    key(\"e.f\", x),\n    key(\"g.h\", x).used(),\n]";
        let declared = "typed_config! {\n    BrokerConfig => {\n        a_b: i32 = \"a.b\",\n        g_h: i32 = \"g.h\",\n    }\n}\n";
        let reader = "fn f(config: &BrokerConfig) { config.g_h; }\n#[cfg(test)]\nmod tests { fn f() { config.a_b; g(\"c.d\"); } }\n";
        let files = [
            file("crates/metadata/src/keys/broker_log.rs", table),
            file("crates/metadata/src/config/broker.rs", declared),
            file("crates/broker/src/reader.rs", reader),
        ];
        let found = violations(&files);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("a.b") && found[1].contains("c.d"), "{found:?}");
    }

    /// A field of that name in another struct does not count.
    #[test]
    fn another_struct_does_not_count() {
        let declared =
            "typed_config! {\n    TopicConfig => {\n        flush_ms: i64 = \"flush.ms\",\n    }\n}\n";
        let files = [
            file("crates/metadata/src/config/topic.rs", declared),
            file("crates/storage/src/log.rs", "fn f(log: &Log) { log.config.flush_ms; }"),
        ];
        assert_eq!(violations(&files).len(), 1);
    }
}
