//! One file's bytes: as every reader sees them, as they lie on the medium, and what is between the two.

use super::chance;
use crate::rng::Rng;

/// What a medium writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// One change to a file that no sync has followed yet.
#[derive(Clone, Debug)]
enum Change {
    Write { position: usize, bytes: Vec<u8> },
    Truncate { bytes: usize },
}

/// The bytes of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    /// What a read answers.
    current: Vec<u8>,
    /// What is safe.
    durable: Vec<u8>,
    /// From `durable` to `current`, in order.
    pending: Vec<Change>,
}

impl Content {
    pub(super) fn bytes(&self) -> u64 {
        self.current.len() as u64
    }

    pub(super) fn current(&self) -> &[u8] {
        &self.current
    }

    pub(super) fn read(&self, position: u64, buffer: &mut [u8]) -> usize {
        let from = usize::try_from(position).unwrap_or(usize::MAX).min(self.current.len());
        let there = &self.current[from..];
        let count = there.len().min(buffer.len());
        buffer[..count].copy_from_slice(&there[..count]);
        count
    }

    pub(super) fn write(&mut self, position: u64, bytes: Vec<u8>) {
        self.change(Change::Write { position: position as usize, bytes });
    }

    pub(super) fn truncate(&mut self, bytes: u64) {
        self.change(Change::Truncate { bytes: bytes as usize });
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.current);
        self.pending.push(change);
    }

    /// Changes bits in place, on the medium and for readers: it has gone bad.
    pub(super) fn flip(&mut self, position: u64, mask: u8) {
        for bytes in [&mut self.current, &mut self.durable] {
            if let Some(byte) = bytes.get_mut(position as usize) {
                *byte ^= mask;
            }
        }
    }

    pub(super) fn is_synced(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether the medium has what readers see; after a failed sync it has not, though nothing is pending.
    pub(super) fn is_durable(&self) -> bool {
        self.is_synced() && self.current == self.durable
    }

    pub(super) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    /// A sync that failed: some of it may be on the medium, and the system believes that nothing is left to write. A
    /// later sync succeeds and does not bring the rest: readers see what a crash will take away.
    pub(super) fn fail_sync(&mut self, rng: &mut Rng) {
        let survivors = survivors(rng, std::mem::take(&mut self.pending));
        survivors.iter().for_each(|change| change.apply(&mut self.durable));
    }

    /// The machine went down: some of what was not synced is there, at any granularity, or none.
    pub(super) fn crash(&mut self, rng: &mut Rng) {
        self.fail_sync(rng);
        self.current.clone_from(&self.durable);
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { position, bytes } => {
                let end = position + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*position..end].copy_from_slice(bytes);
            }
            Self::Truncate { bytes } => content.resize(*bytes, 0),
        }
    }

    /// What is left of a change that was under way.
    fn tear(self, rng: &mut Rng, torn: &mut Vec<Self>) {
        match self {
            Self::Write { position, mut bytes } if chance(rng, 500) => {
                bytes.truncate(rng.range(0, bytes.len() as u64 + 1) as usize);
                torn.push(Self::Write { position, bytes });
            }
            Self::Write { position, bytes } => tear_sectors(position, &bytes, rng, torn),
            Self::Truncate { .. } => {}
        }
    }
}

/// Each sector of the medium has the new bytes or the old ones.
fn tear_sectors(position: usize, bytes: &[u8], rng: &mut Rng, torn: &mut Vec<Change>) {
    let mut from = 0;
    while from < bytes.len() {
        let in_sector = (position + from) % SECTOR_BYTES;
        let to = bytes.len().min(from + SECTOR_BYTES - in_sector);
        if chance(rng, 500) {
            torn.push(Change::Write { position: position + from, bytes: bytes[from..to].to_vec() });
        }
        from = to;
    }
}

/// What a crash leaves of changes that were not synced: nothing, everything, the first ones with a torn end, or any of
/// them in part.
fn survivors(rng: &mut Rng, pending: Vec<Change>) -> Vec<Change> {
    let mut left = Vec::new();
    match rng.range(0, 4) {
        0 => {}
        1 => left = pending,
        2 => {
            let whole = rng.range(0, pending.len() as u64 + 1) as usize;
            let mut changes = pending.into_iter();
            left.extend(changes.by_ref().take(whole));
            changes.by_ref().take(1).for_each(|change| change.tear(rng, &mut left));
        }
        _ => {
            for change in pending {
                match rng.range(0, 3) {
                    0 => {}
                    1 => left.push(change),
                    _ => change.tear(rng, &mut left),
                }
            }
        }
    }
    left
}
