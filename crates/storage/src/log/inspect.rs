//! A look at a log whose records follow one another without a gap: the files are read and none is changed. So the caller can
//! refuse a damaged log and leave it as it is.

use fencepost_records::{Batch, MAGIC};
use fencepost_types::{LeaderEpoch, Offset};

use super::leftovers::offset_files;
use super::torn::{is_torn, whole_batch_after};
use crate::disk::{Disk, DiskErrorKind, DiskFile, join};
use crate::error::StorageError;
use crate::file_name::{FileKind, FileStage};
use crate::scan::{PlacedBatch, Scan};

/// What is in the files of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Whether there is a segment at all.
    pub has_segments: bool,
    /// From here on there is no gap.
    pub first_offset: Offset,
    /// The offset after the last whole batch before the fault, or of all.
    pub end_offset: Offset,
    /// The epoch of that batch, and the first offset of the epoch; `None` without one.
    pub last_epoch: Option<(LeaderEpoch, Offset)>,
    /// The bytes of whole batches from the offset on that the caller asked about.
    pub bytes_from: u64,
    /// The offset that the newest live producer snapshot is named after: the log reached it once.
    pub newest_snapshot: Option<Offset>,
    /// Where the log stops to be whole.
    pub fault: Option<LogFault>,
}

/// Where a log stops to be whole, and what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFault {
    /// The segment's file, relative to the log directory.
    pub path: String,
    /// Where in it, bytes.
    pub position: u64,
    /// The offset that should stand there.
    pub offset: Offset,
    /// What is wrong, as the rest of a sentence.
    pub problem: String,
    /// Whether it is what a loss of power leaves of one last write that was not synced: the file ends within the batch, or
    /// the batch reads as zeros in part; and nothing that is whole follows.
    pub is_torn_tail: bool,
    /// Bytes from there to the end of the last segment.
    pub bytes: u64,
}

/// Walks over the batches of the log in `directory`, checksums and all, and shows each whole one to `visit`; what `visit`
/// refuses is a fault, too. The log may have a gap between two segments only where the later one begins at or below
/// `gaps_below`. Bytes are counted from `count_from` on.
///
/// Errors: the disk refuses to be read.
pub fn inspect_log(
    disk: &dyn Disk,
    directory: &str,
    gaps_below: Offset,
    count_from: Offset,
    visit: &mut dyn FnMut(&Batch) -> Result<(), String>,
) -> Result<Inspection, StorageError> {
    let files = match offset_files(disk, directory) {
        Err(error) if error.kind == DiskErrorKind::NotFound => return Ok(Inspection::default()),
        found => found?,
    };
    let of_kind = |kind: FileKind| {
        let live = files.iter().filter(move |(_, file)| file.stage == FileStage::Live && file.kind == kind);
        live.map(|(name, file)| (file.offset, join(directory, name))).collect::<Vec<_>>()
    };
    let mut segments = Vec::new();
    for (base, path) in of_kind(FileKind::Log) {
        let file = disk.open(&path)?;
        let bytes = file.bytes()?;
        segments.push(Segment { base, path, file, bytes });
    }
    segments.sort_by_key(|segment| segment.base);
    let first_offset = segments.first().map_or(Offset(0), |first| first.base);
    let mut inspector = Inspector {
        found: Inspection {
            has_segments: !segments.is_empty(),
            first_offset,
            end_offset: first_offset,
            newest_snapshot: of_kind(FileKind::Snapshot).into_iter().map(|(offset, _)| offset).max(),
            ..Inspection::default()
        },
        gaps_below,
        count_from,
        visit,
    };
    for at in 0..segments.len() {
        if let Some((position, problem)) = inspector.walk(&segments[at])? {
            inspector.found.fault = Some(fault(&segments[at..], position, problem, &inspector.found)?);
            break;
        }
    }
    Ok(inspector.found)
}

struct Segment {
    base: Offset,
    path: String,
    file: std::sync::Arc<dyn DiskFile>,
    bytes: u64,
}

struct Inspector<'a> {
    found: Inspection,
    gaps_below: Offset,
    count_from: Offset,
    visit: &'a mut dyn FnMut(&Batch) -> Result<(), String>,
}

impl Inspector<'_> {
    /// Answers where the segment stops to be whole, and why.
    fn walk(&mut self, segment: &Segment) -> Result<Option<(u64, Problem)>, StorageError> {
        let expected = self.found.end_offset;
        if segment.base != expected {
            if segment.base < expected || segment.base > self.gaps_below {
                let text = format!(
                    "the segment begins at offset {} and the one before it ends at {expected}",
                    segment.base
                );
                return Ok(Some((0, Problem::Whole(text))));
            }
            self.found.first_offset = segment.base;
            self.found.end_offset = segment.base;
        }
        let mut walk = Scan::walk(&*segment.file, 0, segment.bytes);
        while let Some(placed) = walk.next()? {
            if !walk.is_intact(&placed)? {
                return Ok(Some((
                    placed.position,
                    Problem::Broken("its checksum does not match".to_owned()),
                )));
            }
            if let Err(text) = self.take(&walk, &placed)? {
                return Ok(Some((placed.position, Problem::Whole(text))));
            }
        }
        let position = walk.position();
        Ok((position < segment.bytes)
            .then(|| (position, Problem::Broken("no whole batch stands there".to_owned()))))
    }

    /// Judges a batch whose checksum is right.
    fn take(&mut self, walk: &Scan<'_>, placed: &PlacedBatch) -> Result<Result<(), String>, StorageError> {
        let (header, expected) = (&placed.header, self.found.end_offset);
        if header.base_offset != expected {
            return Ok(Err(format!("the batch says that it begins at offset {}", header.base_offset)));
        }
        if self.found.last_epoch.is_some_and(|(last, _)| header.leader_epoch < last) {
            return Ok(Err(format!(
                "the batch is of epoch {}, older than the one before it",
                header.leader_epoch
            )));
        }
        if placed.magic != MAGIC as u8 {
            return Ok(Err(format!("the batch says that it is of format {}", placed.magic)));
        }
        let Some(batch) = walk.batch(placed)? else {
            return Ok(Err("the batch cannot be read".to_owned()));
        };
        if let Err(text) = (self.visit)(&batch) {
            return Ok(Err(text));
        }
        self.found.end_offset = header.next_offset();
        if self.found.last_epoch.is_none_or(|(last, _)| header.leader_epoch > last) {
            self.found.last_epoch = Some((header.leader_epoch, header.base_offset));
        }
        if header.base_offset >= self.count_from {
            self.found.bytes_from += header.total_bytes() as u64;
        }
        Ok(Ok(()))
    }
}

/// What is wrong where a log stops to be whole.
enum Problem {
    /// The bytes are those of a batch, and it must not stand there.
    Whole(String),
    /// The bytes are no batch.
    Broken(String),
}

/// The fault at `position` of the first of these segments.
fn fault(
    segments: &[Segment],
    position: u64,
    problem: Problem,
    found: &Inspection,
) -> Result<LogFault, StorageError> {
    let (first, later) = (&segments[0], &segments[1..]);
    let is_whole = matches!(problem, Problem::Whole(_));
    let (Problem::Whole(mut text) | Problem::Broken(mut text)) = problem;
    let mut is_torn_tail = false;
    if !is_whole {
        let mut next = whole_batch_after(&*first.file, position, first.bytes, found.end_offset)?;
        for segment in later {
            next = match next {
                Some(next) => Some(next),
                None => whole_batch_after(&*segment.file, 0, segment.bytes, found.end_offset)?,
            };
        }
        if let Some((_, next)) = next {
            text = format!("{text}, and a whole batch of offset {next} follows");
        } else {
            is_torn_tail = is_torn(&*first.file, position, first.bytes)?;
        }
    }
    let later_bytes: u64 = later.iter().map(|segment| segment.bytes).sum();
    Ok(LogFault {
        path: first.path.clone(),
        position,
        offset: found.end_offset,
        problem: text,
        is_torn_tail,
        bytes: first.bytes - position + later_bytes,
    })
}
