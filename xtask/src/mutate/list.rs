//! The form in which mistakes are listed: a title, the lines that are changed, the tests that must fail.
//!
//! ```text
//! == trap 2: the producer is looked at first
//! in crates/transaction/src/partitions.rs
//! -        self.refuse_completing(id, txn)?;
//! +
//! fails crates/transaction/src/partitions/tests.rs: adding_in_every_state_by_every_producer
//! ```

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

/// How a file of transcripts ends.
const TRANSCRIPT: &str = ".script";
/// The test that reads them.
const TRANSCRIPTS: &str = "transcripts::transcripts_read_the_same";

/// One mistake.
#[derive(Debug, Default)]
pub struct Mutation {
    /// What is wrong with it.
    pub title: String,
    /// What is changed.
    pub changes: Vec<Change>,
    /// What must fail then, each by itself.
    pub tests: Vec<Test>,
}

/// Whole lines that stand once in a file, and what stands there instead.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Below the root.
    pub path: String,
    /// With the line break at its end.
    pub from: String,
    /// Likewise, or empty.
    pub to: String,
}

/// A test by its file and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Test {
    file: String,
    name: String,
}

/// The mistakes of one list.
pub fn parse(text: &str) -> Result<Vec<Mutation>> {
    let mut mutations: Vec<Mutation> = Vec::new();
    let mut path = None;
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(title) = line.strip_prefix("== ") {
            mutations.push(Mutation { title: title.to_owned(), ..Default::default() });
            continue;
        }
        let mutation = mutations.last_mut().with_context(|| format!("before the first title: {line}"))?;
        if let Some(file) = line.strip_prefix("in ") {
            path = Some(file.to_owned());
            mutation.changes.push(Change { path: file.to_owned(), ..Default::default() });
        } else if let Some(test) = line.strip_prefix("fails ") {
            let (file, name) = test.split_once(": ").with_context(|| format!("file: test in {line}"))?;
            mutation.tests.push(Test { file: file.to_owned(), name: name.to_owned() });
        } else {
            let file = path.clone().with_context(|| format!("in which file? {line}"))?;
            add_line(mutation, file, line)?;
        }
    }
    for mutation in &mutations {
        let title = &mutation.title;
        ensure!(!mutation.tests.is_empty(), "{title}: no test is named");
        ensure!(mutation.changes.iter().all(|change| !change.from.is_empty()), "{title}: no line is named");
        ensure!(mutation.changes.iter().all(|change| change.from != change.to), "{title}: the same again");
    }
    Ok(mutations)
}

/// A line that goes, or one that comes in its place. What goes after something came is another change.
fn add_line(mutation: &mut Mutation, path: String, line: &str) -> Result<()> {
    let (sign, text) = line.split_at(1);
    let is_next = mutation.changes.last().is_none_or(|change| sign == "-" && !change.to.is_empty());
    if is_next {
        mutation.changes.push(Change { path, ..Default::default() });
    }
    let change = mutation.changes.last_mut().expect("there is one now");
    let side = match sign {
        "-" => &mut change.from,
        "+" => &mut change.to,
        _ => bail!("neither - nor +: {line}"),
    };
    side.push_str(text);
    side.push('\n');
    Ok(())
}

impl Test {
    fn parts(&self) -> Vec<&str> {
        self.file.split('/').collect()
    }

    /// `fencepost-transaction` of `crates/transaction/src/…`.
    pub fn package(&self) -> String {
        format!("fencepost-{}", self.parts()[1])
    }

    /// The title of the transcript that it is, if it is one. One test reads them all, and says which differ.
    pub fn title(&self) -> Option<&str> {
        self.file.ends_with(TRANSCRIPT).then_some(&*self.name)
    }

    /// The arguments that choose the library or one of the test binaries.
    pub fn target(&self) -> Vec<String> {
        match self.parts()[2..] {
            ["testdata", ..] => vec!["--test".to_owned(), "conversations".to_owned()],
            ["tests", target, ..] => {
                let target = target.strip_suffix(".rs").unwrap_or(target);
                vec!["--test".to_owned(), target.to_owned()]
            }
            _ => vec!["--lib".to_owned()],
        }
    }

    /// The test's name with its modules.
    pub fn path(&self) -> String {
        if self.title().is_some() {
            return TRANSCRIPTS.to_owned();
        }
        let parts = self.parts();
        // The modules below `src/`, or below the directory of a test binary.
        let below = if parts[2] == "src" { 3 } else { 4 };
        let mut modules: Vec<&str> = parts.get(below..).unwrap_or_default().to_vec();
        if let Some(last) = modules.last_mut() {
            *last = Path::new(*last).file_stem().and_then(|stem| stem.to_str()).unwrap_or(last);
        }
        let is_inline =
            parts[2] == "src" && modules.last() != Some(&"tests") && modules.first() != Some(&"tables");
        if is_inline {
            modules.push("tests");
        }
        modules.push(&self.name);
        modules.join("::")
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.name, self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(file: &str) -> Test {
        Test { file: file.to_owned(), name: "t".to_owned() }
    }

    // A title, two changes of one file, and what must fail.
    #[test]
    fn a_list_is_read() {
        let text = "# words\n== one\nin a.rs\n-  x\n-  y\n+  z\n-  q\nfails crates/c/src/a/tests.rs: t\n";
        let [mutation] = &parse(text).unwrap()[..] else { panic!("one") };
        let change = |from: &str, to: &str| Change { path: "a.rs".into(), from: from.into(), to: to.into() };
        assert_eq!(mutation.changes, [change("  x\n  y\n", "  z\n"), change("  q\n", "")]);
        assert_eq!(mutation.tests, [test("crates/c/src/a/tests.rs")]);
        for wrong in
            ["-x\n", "== a\n-x\n", "== a\nin f\n x\n", "== a\nin f\n-x\n", "== a\nin f\n+x\nfails f: t\n"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    // Where a test is, as cargo wants to be told.
    #[test]
    fn tests_are_found_by_their_file() {
        for (file, target, path) in [
            ("crates/c/src/a/tests.rs", &["--lib"][..], "a::tests::t"),
            ("crates/c/src/a.rs", &["--lib"], "a::tests::t"),
            ("crates/c/src/tables/a.rs", &["--lib"], "tables::a::t"),
            ("crates/c/tests/a.rs", &["--test", "a"], "t"),
            ("crates/c/tests/engine/b.rs", &["--test", "engine"], "b::t"),
            ("crates/c/testdata/a.script", &["--test", "conversations"], TRANSCRIPTS),
        ] {
            let test = test(file);
            assert_eq!((test.package().as_str(), test.path().as_str()), ("fencepost-c", path));
            assert_eq!(test.target(), target);
        }
    }
}
