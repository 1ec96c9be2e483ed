//! Handles of a simulated disk: open files and held locks.

use std::fmt;
use std::sync::{Arc, MutexGuard};

use fencepost_storage::{DiskError, DiskErrorKind, DiskFile, DiskLock, DiskResult};
use fencepost_types::Millis;

use super::directory::FileCell;
use super::{Machine, SimDisk, chance, input_output, no_space};

/// An open file; dead once the process that opened it is.
pub(super) struct SimFile {
    pub(super) disk: SimDisk,
    pub(super) generation: u64,
    pub(super) path: String,
    pub(super) file: Arc<FileCell>,
}

impl SimFile {
    /// The machine, if this handle has not died with an earlier process.
    fn machine(&self, operation: &'static str) -> DiskResult<MutexGuard<'_, Machine>> {
        let machine = self.disk.machine();
        if machine.generation != self.generation {
            let text = "the process that opened the file has died";
            return Err(DiskError::new(DiskErrorKind::Io, operation, &self.path, text));
        }
        Ok(machine)
    }
}

impl DiskFile for SimFile {
    fn write_at(&self, position: u64, slices: &[&[u8]]) -> DiskResult<()> {
        let mut machine = self.machine("write")?;
        machine.check_power("write", &self.path)?;
        machine.calls.changes += 1;
        machine.spend_power();
        let mut bytes = slices.concat();
        let length = self.file.state().content.bytes();
        let room = length.saturating_add(machine.room());
        let mut outcome = Ok(());
        let write_error_permille = machine.faults.write_error_permille;
        if chance(&mut machine.rng, write_error_permille) {
            bytes.truncate(machine.rng.range(0, bytes.len() as u64 + 1) as usize);
            outcome = Err(input_output("write", &self.path));
        }
        if position.saturating_add(bytes.len() as u64) > room {
            bytes.truncate(machine.rng.range(0, room.saturating_sub(position) + 1) as usize);
            outcome = Err(no_space("write", &self.path));
        }
        let mut state = self.file.state();
        if !bytes.is_empty() {
            state.content.write(position, bytes);
            state.modified = machine.now;
        }
        outcome
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> DiskResult<usize> {
        self.machine("read")?.check_read("read", &self.path)?;
        Ok(self.file.state().content.read(position, buffer))
    }

    fn bytes(&self) -> DiskResult<u64> {
        self.machine("stat")?.check_power("stat", &self.path)?;
        Ok(self.file.state().content.bytes())
    }

    fn truncate(&self, bytes: u64) -> DiskResult<()> {
        let mut machine = self.machine("truncate")?;
        machine.check_change("truncate", &self.path)?;
        let now = machine.now;
        let growth = bytes.saturating_sub(self.file.state().content.bytes());
        if growth > machine.room() {
            return Err(no_space("truncate", &self.path));
        }
        let mut state = self.file.state();
        state.content.truncate(bytes);
        state.modified = now;
        Ok(())
    }

    fn sync(&self) -> DiskResult<()> {
        let mut machine = self.machine("sync")?;
        let mut state = self.file.state();
        if machine.sync_fails(&self.path, state.content.is_synced())? {
            state.content.fail_sync(&mut machine.rng);
            return Err(input_output("sync", &self.path));
        }
        state.content.sync();
        Ok(())
    }

    fn modified(&self) -> DiskResult<Millis> {
        self.machine("stat")?.check_power("stat", &self.path)?;
        Ok(self.file.state().modified)
    }
}

/// A held lock; the end of the process frees it, too.
pub(super) struct SimLock {
    pub(super) disk: SimDisk,
    pub(super) generation: u64,
    pub(super) path: String,
}

impl DiskLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut machine = self.disk.machine();
        if machine.generation == self.generation {
            machine.locked.remove(&self.path);
        }
    }
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimFile({})", self.path)
    }
}

impl fmt::Debug for SimLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimLock({})", self.path)
    }
}
