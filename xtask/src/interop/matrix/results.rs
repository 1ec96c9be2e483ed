//! The lines that the programs print, and the files that keep them.

use std::fmt;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::broker::Program;
use crate::workspace;

/// Where the lines are kept: a directory for each broker, a file for each client.
const RESULTS: &str = "testing/interop/matrix/results";
/// Longer details are cut.
const DETAIL_MAX: usize = 400;

/// What came of a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done, and what came of it was as it has to be.
    Pass,
    /// It was tried, and something was otherwise.
    Fail,
    /// The client cannot do it.
    None,
}

/// One line of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The name in the table.
    pub client: String,
    /// As the client tells it.
    pub version: String,
    /// One of the columns.
    pub capability: String,
    /// What came of it.
    pub outcome: Outcome,
    /// What was done, or the reason.
    pub detail: String,
}

impl Line {
    /// Reads what a program printed.
    pub fn parse(text: &str) -> Result<Line> {
        let value: Value = serde_json::from_str(text).with_context(|| format!("not a result: {text}"))?;
        let field = |name: &str| {
            value[name].as_str().map(String::from).with_context(|| format!("no {name} in {text}"))
        };
        let outcome = match field("result")?.as_str() {
            "pass" => Outcome::Pass,
            "fail" => Outcome::Fail,
            "none" => Outcome::None,
            other => bail!("no result is named {other}"),
        };
        let detail: String = field("detail")?.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(Line {
            client: field("client")?,
            version: field("version")?,
            capability: field("capability")?,
            outcome,
            detail: detail.chars().take(DETAIL_MAX).collect(),
        })
    }

    /// A capability of which nothing was heard.
    pub fn failed(client: &str, capability: &str, detail: &str) -> Line {
        Line {
            client: client.into(),
            version: String::new(),
            capability: capability.into(),
            outcome: Outcome::Fail,
            detail: detail.into(),
        }
    }

    /// A client that is not to be had.
    pub fn without(client: &str, detail: &str) -> Line {
        Line::failed(client, "produce", detail)
    }

    fn json(&self) -> String {
        let result = match self.outcome {
            Outcome::Pass => "pass",
            Outcome::Fail => "fail",
            Outcome::None => "none",
        };
        json!({
            "client": self.client, "version": self.version, "capability": self.capability,
            "result": result, "detail": self.detail,
        })
        .to_string()
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let result = match self.outcome {
            Outcome::Pass => "OK",
            Outcome::Fail => "FAIL",
            Outcome::None => "none",
        };
        write!(f, "{result} {} {} {}: {}", self.client, self.version, self.capability, self.detail)
    }
}

/// All lines, from every file.
pub struct Results {
    /// Of Fencepost: the name of each file, and its lines.
    pub fencepost: Vec<(String, Vec<Line>)>,
    /// Of Apache Kafka.
    pub kafka: Vec<(String, Vec<Line>)>,
}

/// Replaces what is kept of a client.
pub fn write(broker: Program, client: &str, lines: &[Line]) -> Result<()> {
    let path = directory(broker).join(format!("{client}.jsonl"));
    fs::create_dir_all(directory(broker))?;
    let text: String = lines.iter().map(|line| line.json() + "\n").collect();
    fs::write(&path, text).with_context(|| path.display().to_string())
}

/// What is kept of one client; nothing where it never ran.
pub fn of(broker: Program, client: &str) -> Result<Vec<Line>> {
    let path = directory(broker).join(format!("{client}.jsonl"));
    if !path.exists() {
        return Ok(Vec::new());
    }
    fs::read_to_string(path)?.lines().map(Line::parse).collect()
}

/// Everything that is kept.
pub fn read() -> Result<Results> {
    Ok(Results { fencepost: all(Program::Fencepost)?, kafka: all(Program::Kafka)? })
}

fn all(broker: Program) -> Result<Vec<(String, Vec<Line>)>> {
    let mut names = Vec::new();
    if directory(broker).exists() {
        for entry in fs::read_dir(directory(broker))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            names.extend(name.strip_suffix(".jsonl").map(String::from));
        }
    }
    names.sort();
    names.into_iter().map(|name| of(broker, &name).map(|lines| (name, lines))).collect()
}

fn directory(broker: Program) -> PathBuf {
    let name = match broker {
        Program::Fencepost => "fencepost",
        Program::Kafka => "kafka",
    };
    workspace::root().join(RESULTS).join(name)
}
