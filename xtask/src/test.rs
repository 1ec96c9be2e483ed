//! `cargo xtask test`: the tests of the default members.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use anyhow::Result;

use crate::summary::Summary;
use crate::workspace;

/// Runs the tests whose name contains the filter and counts them. All binaries run, also after one has failed.
pub fn run(filter: Option<&str>) -> Result<Summary> {
    let mut command = workspace::cargo();
    command.args(["test", "--quiet", "--locked", "--no-fail-fast"]).args(filter);
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().expect("stdout is piped");
    let (mut passed, mut failed) = (0, 0);
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        let (p, f) = counts(&line);
        (passed, failed) = (passed + p, failed + f);
        if f > 0 || !is_noise(&line) {
            println!("{line}");
        }
    }
    if !child.wait()?.success() && failed == 0 {
        // Something did not compile.
        failed = 1;
    }
    Ok(Summary { line: format!("test: {passed} passed, {failed} failed"), passed, failed })
}

/// Passed and failed of a line `test result: ok. 3 passed; 0 failed; …`.
fn counts(line: &str) -> (usize, usize) {
    let Some(rest) = line.strip_prefix("test result: ") else { return (0, 0) };
    let number = |word: &str| {
        let before = rest.split(word).next()?.trim_end();
        before.rsplit([' ', ';']).next()?.parse().ok()
    };
    (number(" passed").unwrap_or(0), number(" failed").unwrap_or(0))
}

fn is_noise(line: &str) -> bool {
    let line = line.trim();
    line.is_empty()
        || line.starts_with("running ")
        || line.starts_with("test result: ok")
        || line.chars().all(|c| ".0123456789/ ".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The closing line of each test binary is counted, other lines are not.
    #[test]
    fn closing_lines() {
        assert_eq!(
            counts(
                "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s"
            ),
            (12, 0)
        );
        assert_eq!(counts("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured"), (3, 2));
        assert_eq!(counts("3 passed; 2 failed"), (0, 0));
        assert!(is_noise("....") && is_noise("running 3 tests") && !is_noise("---- a stdout ----"));
    }
}
