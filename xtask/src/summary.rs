//! What a task says at its end.

use std::process::ExitCode;

/// One line for people, and the counts behind it.
#[derive(Debug)]
pub struct Summary {
    /// What the task did, in one line.
    pub line: String,
    /// How many of its parts were as wanted.
    pub passed: usize,
    /// How many were not.
    pub failed: usize,
}

impl Summary {
    /// Prints the line; failure where a part has failed.
    pub fn finish(self) -> ExitCode {
        println!("{}", self.line);
        if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
