//! Reading a file front to back, or here and there, through one buffer of fixed size.

use std::sync::Arc;

use fencepost_storage::{Disk, DiskFile, DiskResult};

/// The most that is held of a file, and the most that can be asked for at once.
const WINDOW_BYTES: usize = 64 * 1024;

/// An open file and a piece of it.
#[derive(Debug)]
pub(super) struct FileWindow {
    file: Arc<dyn DiskFile>,
    bytes: u64,
    buffer: Vec<u8>,
    /// Where in the file the buffer begins.
    buffer_at: u64,
}

impl FileWindow {
    /// Opens a file. What is appended later is not seen.
    pub(super) fn open(disk: &dyn Disk, path: &str) -> DiskResult<Self> {
        let file = disk.open(path)?;
        let bytes = file.bytes()?;
        Ok(Self { file, bytes, buffer: Vec::new(), buffer_at: 0 })
    }

    /// The file's length when it was opened.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Exactly `count` bytes at a position; `None` where the file ends before.
    pub(super) fn at(&mut self, position: u64, count: usize) -> DiskResult<Option<&[u8]>> {
        assert!(count <= WINDOW_BYTES, "{count} bytes do not fit the window");
        let bytes = self.some_at(position, count)?;
        Ok((bytes.len() >= count).then(|| &bytes[..count]))
    }

    /// The bytes at a position that are at hand, at least `count` unless the file ends before; none at its end.
    pub(super) fn some_at(&mut self, position: u64, count: usize) -> DiskResult<&[u8]> {
        let buffer_end = self.buffer_at + self.buffer.len() as u64;
        let wanted_end = position.saturating_add(count as u64).min(self.bytes);
        if position < self.buffer_at || wanted_end > buffer_end {
            let left = self.bytes.saturating_sub(position);
            self.buffer.resize(left.min(WINDOW_BYTES as u64) as usize, 0);
            let read = self.file.read_at(position, &mut self.buffer)?;
            self.buffer.truncate(read);
            self.buffer_at = position;
        }
        let from = position.saturating_sub(self.buffer_at).min(self.buffer.len() as u64);
        Ok(&self.buffer[from as usize..])
    }

    /// `count` bytes at a position, as a piece of their own. The caller has bounded `count`.
    pub(super) fn copy(&self, position: u64, count: usize) -> DiskResult<Vec<u8>> {
        let mut bytes = vec![0; count];
        let read = self.file.read_at(position, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// The CRC-32C of `[from, to)`.
    pub(super) fn crc32c(&mut self, from: u64, to: u64) -> DiskResult<u32> {
        let (mut at, mut crc) = (from, 0);
        while at < to {
            let chunk = self.some_at(at, 1)?;
            let chunk = &chunk[..chunk.len().min((to - at) as usize)];
            if chunk.is_empty() {
                break;
            }
            crc = crc32c::crc32c_append(crc, chunk);
            at += chunk.len() as u64;
        }
        Ok(crc)
    }
}
