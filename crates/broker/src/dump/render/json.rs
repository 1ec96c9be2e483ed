//! Rows and problems as JSON: one document, or one object to a line.

use std::fmt::{self, Write};

use crate::dump::json::Json;
use crate::dump::output::Sink;
use crate::dump::problem::{Problem, Severity};
use crate::dump::row::{FileHead, Row};

/// One object to a line: files, rows and problems, each with its `type`, rows and problems with their `file`.
pub struct NdjsonText<'a> {
    out: &'a mut dyn Write,
    path: String,
}

impl<'a> NdjsonText<'a> {
    /// Writes to `out`.
    pub fn new(out: &'a mut dyn Write) -> Self {
        Self { out, path: String::new() }
    }

    fn line(&mut self, name: &'static str, fields: Vec<(&'static str, Json)>) -> fmt::Result {
        let mut all = vec![("type", Json::text(name)), ("file", Json::text(self.path.clone()))];
        all.extend(fields);
        writeln!(self.out, "{}", Json::Object(all))
    }
}

impl Sink for NdjsonText<'_> {
    fn file(&mut self, file: &FileHead) -> fmt::Result {
        self.path.clone_from(&file.path);
        self.line("file", head(file))
    }

    fn row(&mut self, row: &Row) -> fmt::Result {
        self.line(row.name(), row.fields())
    }

    fn problem(&mut self, problem: &Problem) -> fmt::Result {
        self.line("problem", fields(problem))
    }

    fn finish(&mut self) -> fmt::Result {
        Ok(())
    }
}

/// One document: a list of files, each with its rows and problems in the order in which they were met, one to a line.
pub struct JsonText<'a> {
    out: &'a mut dyn Write,
    has_file: bool,
    has_row: bool,
}

impl<'a> JsonText<'a> {
    /// Writes to `out`.
    pub fn new(out: &'a mut dyn Write) -> Self {
        Self { out, has_file: false, has_row: false }
    }

    fn item(&mut self, name: &'static str, fields: Vec<(&'static str, Json)>) -> fmt::Result {
        let mut all = vec![("type", Json::text(name))];
        all.extend(fields);
        let comma = if self.has_row { "," } else { "" };
        self.has_row = true;
        write!(self.out, "{comma}\n{}", Json::Object(all))
    }
}

impl Sink for JsonText<'_> {
    fn file(&mut self, file: &FileHead) -> fmt::Result {
        let before = if self.has_file { "]},\n" } else { "[" };
        (self.has_file, self.has_row) = (true, false);
        write!(self.out, "{before}{{\"file\":{}", Json::text(file.path.clone()))?;
        for (name, value) in head(file) {
            write!(self.out, ",\"{name}\":{value}")?;
        }
        self.out.write_str(",\"rows\":[")
    }

    fn row(&mut self, row: &Row) -> fmt::Result {
        self.item(row.name(), row.fields())
    }

    fn problem(&mut self, problem: &Problem) -> fmt::Result {
        self.item("problem", fields(problem))
    }

    fn finish(&mut self) -> fmt::Result {
        self.out.write_str(if self.has_file { "]}]\n" } else { "[]\n" })
    }
}

fn head(file: &FileHead) -> Vec<(&'static str, Json)> {
    let mut fields = vec![("kind", Json::text(file.kind.name()))];
    fields.extend(file.bytes.map(|bytes| ("bytes", Json::Int(bytes as i64))));
    match file.snapshot_id {
        Some((offset, epoch)) => {
            fields.extend([("endOffset", Json::Int(offset)), ("epoch", Json::Int(epoch.into()))]);
        }
        None => fields.extend(file.base_offset.map(|base| ("baseOffset", Json::Int(base)))),
    }
    fields
}

fn fields(problem: &Problem) -> Vec<(&'static str, Json)> {
    let severity = match problem.severity {
        Severity::Error => "error",
        Severity::Notice => "notice",
    };
    vec![
        ("severity", Json::text(severity)),
        ("problem", Json::text(problem.name)),
        ("text", Json::text(problem.text.clone())),
    ]
}
