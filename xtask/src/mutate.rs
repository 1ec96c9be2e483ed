//! `cargo xtask mutate`: every mistake of `testing/mutations`, made for a moment in a copy of the tree. The tests named
//! with it must fail, and pass without it: a test that cannot fail says nothing.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::process::{Guarded, wait};
use crate::summary::Summary;
use crate::workspace;

mod list;

use list::{Mutation, Test};

/// Where the mistakes are listed.
const DIRECTORY: &str = "testing/mutations";
/// Longer than any test takes, and what depends on a core crate takes to build.
const LIMIT: Duration = Duration::from_secs(600);

/// What to try.
#[derive(Args, Debug)]
pub struct Mutate {
    /// Only mistakes whose title or file contains this.
    filter: Option<String>,
}

/// How a test ended.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Passed,
    Failed,
    /// Nothing was run: it does not build, or there is no such test.
    NotRun(String),
}

/// Makes the mistakes one by one.
pub fn run(options: &Mutate) -> Result<Summary> {
    let mut mutations = read_lists()?;
    if let Some(filter) = &options.filter {
        mutations.retain(|mutation| mutation.title.contains(filter) || mutation.is_in(filter));
    }
    let tree = copy_of_the_tree()?;
    let mut wrong = Vec::new();
    let tests: BTreeSet<&Test> = mutations.iter().flat_map(|mutation| &mutation.tests).collect();
    for test in &tests {
        match run_test(&tree, test)? {
            Ended::Passed => {}
            other => wrong.push(format!("{test}: {other:?} without any mistake")),
        }
    }
    for mutation in &mutations {
        let undo = mutation.make(&tree)?;
        let survived = survivors(&tree, mutation);
        for (path, text) in undo {
            fs::write(tree.join(path), text)?;
        }
        let survived = survived?;
        println!("{}: {}", mutation.title, if survived.is_empty() { "noticed" } else { "NOT NOTICED" });
        wrong.extend(survived);
    }
    wrong.iter().for_each(|line| println!("{line}"));
    let (all, failed) = (mutations.len(), wrong.len());
    let line = format!("mutate: {all} mistakes, {} tests, {failed} not noticed", tests.len());
    Ok(Summary { line, passed: all.saturating_sub(failed), failed })
}

/// The tests that do not fail though the mistake is made.
fn survivors(tree: &Path, mutation: &Mutation) -> Result<Vec<String>> {
    let mut survived = Vec::new();
    for test in &mutation.tests {
        match run_test(tree, test)? {
            Ended::Failed => {}
            other => survived.push(format!("{}: {test}: {other:?}", mutation.title)),
        }
    }
    Ok(survived)
}

fn read_lists() -> Result<Vec<Mutation>> {
    let mut mutations = Vec::new();
    let mut paths: Vec<PathBuf> = fs::read_dir(workspace::root().join(DIRECTORY))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    paths.sort();
    for path in paths {
        let text = fs::read_to_string(&path)?;
        mutations.extend(list::parse(&text).with_context(|| path.display().to_string())?);
    }
    Ok(mutations)
}

/// The tree as it stands, in the build directory, with one of its own. What has not changed since the last time keeps its
/// time, so that it is not built again.
fn copy_of_the_tree() -> Result<PathBuf> {
    let tree = workspace::target_dir().join("xtask/mutate");
    for file in workspace::files()? {
        let (from, to) = (workspace::root().join(&file.path), tree.join(&file.path));
        let content = fs::read(from)?;
        if fs::read(&to).is_ok_and(|old| old == content) {
            continue;
        }
        fs::create_dir_all(to.parent().context("a file lies in a directory")?)?;
        fs::write(to, content)?;
    }
    Ok(tree)
}

fn run_test(tree: &Path, test: &Test) -> Result<Ended> {
    let mut command: Command = workspace::cargo();
    command.current_dir(tree).args(["test", "--locked", "--package", &test.package()]);
    command.args(test.target()).args(["--", "--exact", &test.path()]);
    // Two streams into one file: neither can fill up while the other is read.
    let output = tree.join("target-output.txt");
    let file = fs::File::create(&output)?;
    // Cargo tells a copy from the original by neither name nor path: what is built of a mistake must not be found by others.
    command.env("CARGO_TARGET_DIR", tree.join("target"));
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let mut child = Guarded(command.spawn()?);
    let Ok(status) = wait(&mut child, LIMIT) else {
        // A test that never ends has noticed something.
        return Ok(Ended::Failed);
    };
    let said = fs::read_to_string(&output)?;
    Ok(judge(status.success(), &said, test.title()))
}

/// A transcript has failed if it is among those that differ.
fn judge(success: bool, said: &str, title: Option<&str>) -> Ended {
    let is_other = title.is_some_and(|title| !success && !said.contains(&format!("== {title}\n")));
    if is_other {
        Ended::NotRun("other transcripts differ".to_owned())
    } else if success && said.contains("test result: ok. 1 passed") {
        Ended::Passed
    } else if !success && said.contains("running 1 test") {
        Ended::Failed
    } else {
        Ended::NotRun(said.lines().filter(|line| line.contains("error")).take(5).collect())
    }
}

impl Mutation {
    /// Makes the mistake, and answers the files as they were.
    fn make(&self, tree: &Path) -> Result<Vec<(String, String)>> {
        let mut undo: Vec<(String, String)> = Vec::new();
        for change in &self.changes {
            let path = tree.join(&change.path);
            let text = fs::read_to_string(&path).with_context(|| change.path.clone())?;
            let count = text.matches(&change.from).count();
            if count != 1 {
                bail!("{}: found {count} times in {}: {}", self.title, change.path, change.from);
            }
            fs::write(&path, text.replacen(&change.from, &change.to, 1))?;
            if undo.iter().all(|(path, _)| *path != change.path) {
                undo.push((change.path.clone(), text));
            }
        }
        ensure!(!undo.is_empty(), "{} changes nothing", self.title);
        Ok(undo)
    }

    fn is_in(&self, part: &str) -> bool {
        self.changes.iter().any(|change| change.path.contains(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Passed, failed, and the ways in which nothing was tested.
    #[test]
    fn ends_are_told_apart() {
        let judge_test = |success, said| judge(success, said, None);
        assert_eq!(judge_test(true, "running 1 test\ntest result: ok. 1 passed; 0 failed"), Ended::Passed);
        assert_eq!(
            judge_test(false, "running 1 test\ntest result: FAILED. 0 passed; 1 failed"),
            Ended::Failed
        );
        assert_eq!(judge_test(false, "running 1 test\nprocess abort signal"), Ended::Failed);
        assert_eq!(judge_test(true, "test result: ok. 0 passed"), Ended::NotRun(String::new()));
        let no_build = Ended::NotRun("error[E0308]: no".to_owned());
        assert_eq!(judge_test(false, "error[E0308]: no"), no_build);
        let said = "running 1 test\nx.script:\n== a\n";
        assert_eq!(judge(false, said, Some("a")), Ended::Failed);
        assert!(matches!(judge(false, said, Some("b")), Ended::NotRun(_)));
    }
}
