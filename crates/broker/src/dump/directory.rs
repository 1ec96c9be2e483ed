//! From paths to files: each by its kind, a partition's in the order of its segments.

use fencepost_storage::{DirEntry, Disk, DiskError, DiskErrorKind, PartitionDirKind};

use super::index_file::{bad_name, dump_offset_index, dump_time_index};
use super::kind::{FileKind, base_offset, file_name, leftover_of, snapshot_id};
use super::log_file::dump_log;
use super::options::DumpOptions;
use super::output::{Output, Stop, Walked};
use super::partition_check::PartitionCheck;
use super::problem::{KafkaSays, Problem};
use super::producer_windows::dump_producer_windows;
use super::row::FileHead;
use super::snapshot::dump_snapshot;
use super::text_file::{dump_text, read_epochs};
use super::txn_index::{AbortedEntries, dump_txn_index};
use super::window::FileWindow;

/// One run over files.
pub(super) struct Run<'a, 'o> {
    pub(super) disk: &'a dyn Disk,
    pub(super) options: &'a DumpOptions,
    pub(super) output: &'a mut Output<'o>,
}

impl Run<'_, '_> {
    /// A file or a directory.
    pub(super) fn path(&mut self, path: &str) -> Walked {
        match self.disk.list(path) {
            Ok(entries) => self.directory(path.trim_end_matches('/'), &entries, true),
            Err(_) => self.file(path, None),
        }
    }

    /// A partition's directory, or (`is_outer`) a log directory with partitions' directories in it.
    fn directory(&mut self, path: &str, entries: &[DirEntry], is_outer: bool) -> Walked {
        let kind = FileKind::Directory;
        self.output.file(FileHead {
            path: path.to_owned(),
            kind,
            base_offset: None,
            snapshot_id: None,
            bytes: None,
        })?;
        let files: Vec<&str> =
            entries.iter().filter(|entry| !entry.is_dir).map(|entry| entry.name.as_str()).collect();
        self.whole(path, &files)?;
        let mut ordered: Vec<(u8, i64, FileKind, &str)> =
            files.iter().filter_map(|name| order(name)).collect();
        ordered.sort_unstable();
        let mut check = self.check_of(path, &files)?;
        for (.., name) in ordered {
            self.file(&format!("{path}/{name}"), Some(&mut check))?;
        }
        let inner = entries.iter().filter(|entry| entry.is_dir && is_outer);
        for entry in inner.filter(|entry| PartitionDirKind::parse(&entry.name).is_some()) {
            let path = format!("{path}/{}", entry.name);
            match self.disk.list(&path) {
                Ok(entries) => self.directory(&path, &entries, false)?,
                Err(error) => self.output.problem(&Problem::unreadable(&error))?,
            }
        }
        Ok(())
    }

    /// What is wrong with a directory as a whole: files that lack, and files that should be gone.
    fn whole(&mut self, path: &str, files: &[&str]) -> Walked {
        let leftovers: Vec<&&str> = files.iter().filter(|name| leftover_of(name).is_some()).collect();
        if let [first, ..] = leftovers[..] {
            let text =
                format!("the next start removes or puts in place {} files, first {first}", leftovers.len());
            self.output.problem(&Problem::notice("leftovers", text))?;
        }
        let known =
            |name: &str| leftover_of(name).is_some() || FileKind::of_name(name).is_some() || name == ".lock";
        for name in files.iter().filter(|name| !known(name)) {
            let text = format!("{name} is nothing that can be dumped");
            self.output.problem(&Problem::notice("unknown-file", text))?;
        }
        let segments = files.iter().filter(|name| FileKind::of_name(name) == Some(FileKind::Log));
        if segments.count() == 0 || self.options.like_kafka {
            return Ok(());
        }
        for (name, text) in [
            ("partition.metadata", "partition.metadata is missing: Kafka takes the directory for a stray"),
            ("leader-epoch-checkpoint", "leader-epoch-checkpoint is missing"),
        ] {
            if !files.contains(&name) {
                self.output.problem(&Problem::error("missing-file", text))?;
            }
        }
        self.orphans(path, files)
    }

    /// Segments without an index, and indexes without a segment.
    fn orphans(&mut self, path: &str, files: &[&str]) -> Walked {
        for name in files {
            let (Some(kind), Some(stem)) = (FileKind::of_name(name), name.split('.').next()) else {
                continue;
            };
            let partners: &[&str] = match kind {
                FileKind::Log => &[".index", ".timeindex"],
                FileKind::TxnIndex => &[".log"],
                // These say so themselves when they are compared with the log.
                FileKind::OffsetIndex | FileKind::TimeIndex => &[],
                FileKind::ProducerWindows => &[".snapshot"],
                FileKind::ProducerSnapshot
                | FileKind::MetadataSnapshot
                | FileKind::LeaderEpochs
                | FileKind::OffsetCheckpoint
                | FileKind::PartitionMetadata
                | FileKind::MetaProperties
                | FileKind::JsonLine
                | FileKind::Directory
                | FileKind::Unknown => &[],
            };
            for suffix in partners {
                let partner = format!("{stem}{suffix}");
                if !files.contains(&partner.as_str()) {
                    self.output.problem(&Problem::missing(&format!("{path}/{partner}")))?;
                }
            }
        }
        Ok(())
    }

    fn check_of(&mut self, path: &str, files: &[&str]) -> Walked<PartitionCheck> {
        let name = "leader-epoch-checkpoint";
        if !files.contains(&name) {
            return Ok(PartitionCheck::new(None));
        }
        let opened = FileWindow::open(self.disk, &format!("{path}/{name}"));
        // What is wrong with the file is said where it is dumped.
        let epochs = opened.map_err(Stop::Disk).and_then(|file| read_epochs(&file));
        match epochs {
            Ok(epochs) => Ok(PartitionCheck::new(epochs)),
            Err(Stop::Disk(_)) => Ok(PartitionCheck::new(None)),
            Err(stop) => Err(stop),
        }
    }

    /// One file; `check` where its whole directory is dumped.
    fn file(&mut self, path: &str, check: Option<&mut PartitionCheck>) -> Walked {
        let name = file_name(path);
        let live = leftover_of(name).filter(|_| !self.options.like_kafka).unwrap_or(name);
        let kind = FileKind::of_name(live).unwrap_or(FileKind::Unknown);
        let opened = FileWindow::open(self.disk, path);
        let head = FileHead {
            path: path.to_owned(),
            kind,
            base_offset: base_offset(name),
            snapshot_id: snapshot_id(live),
            bytes: opened.as_ref().ok().map(FileWindow::bytes),
        };
        self.output.file(head.clone())?;
        if kind == FileKind::Unknown || (self.options.like_kafka && !kind.is_known_to_kafka()) {
            let says = KafkaSays::Aside(format!("Ignoring unknown file {path}"));
            let problem = Problem::notice("unknown-file", "nothing that can be dumped");
            return self.output.problem(&problem.kafka(says));
        }
        let walked = match opened {
            Ok(file) => self.content(file, &head, check),
            Err(error) => Err(Stop::Disk(error)),
        };
        match walked {
            Err(Stop::Disk(error)) => self.output.problem(&Problem::unreadable(&error)),
            walked => walked,
        }
    }

    fn content(&mut self, file: FileWindow, head: &FileHead, check: Option<&mut PartitionCheck>) -> Walked {
        let (disk, options) = (self.disk, self.options);
        match head.kind {
            FileKind::Log => self.segment(file, head, check),
            FileKind::MetadataSnapshot => dump_log(file, head, options, self.output, None),
            FileKind::OffsetIndex => dump_offset_index(disk, file, head, options, self.output),
            FileKind::TimeIndex => dump_time_index(disk, file, head, options, self.output),
            FileKind::TxnIndex => dump_txn_index(file, head, self.output),
            FileKind::ProducerSnapshot => dump_snapshot(file, self.output),
            FileKind::ProducerWindows => dump_producer_windows(file, self.output),
            FileKind::LeaderEpochs
            | FileKind::OffsetCheckpoint
            | FileKind::PartitionMetadata
            | FileKind::MetaProperties
            | FileKind::JsonLine
            | FileKind::Directory
            | FileKind::Unknown => dump_text(&file, head.kind, self.output),
        }
    }

    fn segment(&mut self, file: FileWindow, head: &FileHead, check: Option<&mut PartitionCheck>) -> Walked {
        let Some(base) = head.base_offset else { return bad_name(self.output) };
        let Some(check) = check.filter(|_| !self.options.like_kafka) else {
            return dump_log(file, head, self.options, self.output, None);
        };
        let aborted =
            match FileWindow::open(self.disk, &format!("{}.txnindex", head.path.trim_end_matches(".log"))) {
                Ok(file) => Some(AbortedEntries::new(file)),
                Err(DiskError { kind: DiskErrorKind::NotFound, .. }) => None,
                Err(error) => return Err(Stop::Disk(error)),
            };
        check.segment(base, aborted, self.output)?;
        dump_log(file, head, self.options, self.output, Some(check))?;
        check.segment_end(self.output)
    }
}

/// Where a file of a directory stands: text files first, then each segment with its indexes and snapshots, then what has
/// no offset. `None` where it is not dumped.
fn order(name: &str) -> Option<(u8, i64, FileKind, &str)> {
    let kind = FileKind::of_name(name)?;
    let rank = match kind {
        FileKind::LeaderEpochs
        | FileKind::OffsetCheckpoint
        | FileKind::PartitionMetadata
        | FileKind::MetaProperties
        | FileKind::JsonLine => 0,
        FileKind::Log
        | FileKind::OffsetIndex
        | FileKind::TimeIndex
        | FileKind::TxnIndex
        | FileKind::ProducerSnapshot
        | FileKind::ProducerWindows => 1,
        FileKind::MetadataSnapshot => 2,
        FileKind::Directory | FileKind::Unknown => return None,
    };
    Some((rank, base_offset(name).unwrap_or(i64::MAX), kind, name))
}
