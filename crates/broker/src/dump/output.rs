//! Where rows and problems go, and why reading a file may end early.

use std::fmt;

use fencepost_storage::DiskError;

use super::problem::{Problem, Severity};
use super::row::{FileHead, Row};

/// Takes what a dump says, in order.
pub trait Sink {
    /// A file begins.
    fn file(&mut self, file: &FileHead) -> fmt::Result;

    /// Something found in it.
    fn row(&mut self, row: &Row) -> fmt::Result;

    /// Something wrong with it.
    fn problem(&mut self, problem: &Problem) -> fmt::Result;

    /// Nothing more comes. Not called where the run ends as Kafka's does, by an exception.
    fn finish(&mut self) -> fmt::Result;
}

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Files that were looked at.
    pub files: u64,
    /// Problems that no healthy directory has.
    pub errors: u64,
    /// The others.
    pub notices: u64,
    /// Where the run was like Kafka's and that one dies: of which exception.
    pub died_of: Option<String>,
}

/// Why reading ends before its time.
#[derive(Debug)]
pub(super) enum Stop {
    /// The output takes nothing more.
    Output(fmt::Error),
    /// The disk speaks against this file; others may be fine.
    Disk(DiskError),
    /// Kafka's tool would be dead by now.
    Dead,
}

impl From<fmt::Error> for Stop {
    fn from(error: fmt::Error) -> Self {
        Self::Output(error)
    }
}

impl From<DiskError> for Stop {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

/// What reading a file, or a part of it, comes to.
pub(super) type Walked<T = ()> = Result<T, Stop>;

/// The sink, with a count of what went wrong.
pub(super) struct Output<'a> {
    sink: &'a mut dyn Sink,
    pub(super) summary: Summary,
    problems_only: bool,
    like_kafka: bool,
    /// The file that is being read; in a run for problems, not said yet.
    unsaid: Option<FileHead>,
}

impl<'a> Output<'a> {
    pub(super) fn new(sink: &'a mut dyn Sink, problems_only: bool, like_kafka: bool) -> Self {
        Self { sink, summary: Summary::default(), problems_only, like_kafka, unsaid: None }
    }

    /// A file begins.
    pub(super) fn file(&mut self, file: FileHead) -> Walked {
        self.summary.files += 1;
        if self.problems_only {
            self.unsaid = Some(file);
            return Ok(());
        }
        Ok(self.sink.file(&file)?)
    }

    pub(super) fn row(&mut self, row: &Row) -> Walked {
        if self.problems_only { Ok(()) } else { Ok(self.sink.row(row)?) }
    }

    pub(super) fn problem(&mut self, problem: &Problem) -> Walked {
        match problem.severity {
            Severity::Error => self.summary.errors += 1,
            Severity::Notice => self.summary.notices += 1,
        }
        if let Some(file) = self.unsaid.take() {
            self.sink.file(&file)?;
        }
        self.sink.problem(problem)?;
        match problem.kafka_dies_of().filter(|_| self.like_kafka) {
            Some(exception) => {
                self.summary.died_of = Some(exception.to_owned());
                Err(Stop::Dead)
            }
            None => Ok(()),
        }
    }

    pub(super) fn finish(&mut self) -> Walked {
        Ok(self.sink.finish()?)
    }
}
