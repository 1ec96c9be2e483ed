//! Buffers that large reads share. Fresh memory of this size comes from the system page by page and goes back when it is
//! dropped; a fetch that catches up would pay for that with every answer.

use std::fmt;
use std::sync::{Arc, Mutex};

use bytes::Bytes;

/// Bytes of one buffer: what a consumer takes of a partition by default.
const BUFFER_BYTES: usize = 1 << 20;
/// Smaller reads get memory of their own, so that an answer never holds more than twice what it shows.
const POOLED_BYTES_MIN: usize = BUFFER_BYTES / 2;
/// Buffers that are kept while nobody uses them.
const FREE_BUFFERS_MAX: usize = 4;

/// The buffers that are free. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Buffers {
    free: Arc<Mutex<Vec<Box<[u8]>>>>,
}

impl fmt::Debug for Buffers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Buffers")
    }
}

impl Buffers {
    /// Up to `count` bytes, as many as `read` says it has put in front. The buffer comes back when the last slice of it is
    /// dropped.
    pub(crate) fn fill<E>(
        &self,
        count: usize,
        read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<Bytes, E> {
        if !(POOLED_BYTES_MIN..=BUFFER_BYTES).contains(&count) {
            let mut buffer = vec![0; count];
            let bytes = read(&mut buffer)?;
            buffer.truncate(bytes);
            return Ok(buffer.into());
        }
        let kept = self.free.lock().expect("no holder of this lock panics").pop();
        let buffer = kept.unwrap_or_else(|| vec![0; BUFFER_BYTES].into_boxed_slice());
        let mut lent = Lent { buffer, bytes: 0, home: self.clone() };
        lent.bytes = read(&mut lent.buffer[..count])?;
        Ok(Bytes::from_owner(lent))
    }
}

/// A buffer on its way; dropping it gives it back.
struct Lent {
    buffer: Box<[u8]>,
    bytes: usize,
    home: Buffers,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.bytes]
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut free = self.home.free.lock().expect("no holder of this lock panics");
        if free.len() < FREE_BUFFERS_MAX {
            free.push(std::mem::take(&mut self.buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(buffers: &Buffers, count: usize, value: u8) -> Bytes {
        let filled = buffers.fill(count, |buffer| {
            buffer.fill(value);
            Ok::<_, ()>(buffer.len() - 1)
        });
        filled.unwrap()
    }

    fn free(buffers: &Buffers) -> usize {
        buffers.free.lock().unwrap().len()
    }

    /// A buffer is not used again while a slice of it is held, and is afterwards.
    #[test]
    fn a_buffer_comes_back_with_its_last_slice() {
        let buffers = Buffers::default();
        let first = read(&buffers, POOLED_BYTES_MIN, 1);
        let slice = first.slice(10..20);
        drop(first);
        let second = read(&buffers, BUFFER_BYTES, 2);
        assert_eq!((&slice[..], second.len(), free(&buffers)), (&[1; 10][..], BUFFER_BYTES - 1, 0));
        drop(slice);
        assert_eq!(free(&buffers), 1);
        let at = second.as_ptr();
        drop(second);
        assert_eq!(read(&buffers, BUFFER_BYTES, 3).as_ptr(), at);
    }

    /// What is kept is bounded; small and larger reads do not touch it; a failed read gives its buffer back.
    #[test]
    fn few_are_kept() {
        let buffers = Buffers::default();
        drop([POOLED_BYTES_MIN - 1, BUFFER_BYTES + 1].map(|count| read(&buffers, count, 1)));
        assert_eq!(free(&buffers), 0);
        assert_eq!(buffers.fill(BUFFER_BYTES, |_| Err(7)), Err(7));
        assert_eq!(free(&buffers), 1);
        drop([0; FREE_BUFFERS_MAX + 2].map(|value| read(&buffers, BUFFER_BYTES, value)));
        assert_eq!(free(&buffers), FREE_BUFFERS_MAX);
    }
}
