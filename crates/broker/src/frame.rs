//! The frame of an answer: what of it is in memory, and what lies in files until it is sent.

use bytes::Bytes;
use fencepost_storage::{DiskResult, FilePart};
use fencepost_types::wire::{Piece, Pieces};

/// A piece of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// In memory.
    Held(Bytes),
    /// In a file.
    File(FilePart),
}

impl Chunk {
    /// Its length in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Held(bytes) => bytes.len(),
            Self::File(part) => part.bytes(),
        }
    }
}

/// An answer as it leaves, without the length that goes before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame(Vec<Chunk>);

impl Frame {
    /// A message whose `pieces` that lie elsewhere are `parts`, in this order. Panics where they do not fit.
    pub(crate) fn new(pieces: Pieces, parts: Vec<FilePart>) -> Self {
        let mut parts = parts.into_iter();
        let chunk = |piece| match piece {
            Piece::Held(bytes) => Chunk::Held(bytes),
            Piece::Elsewhere(bytes) => {
                let part = parts.next().filter(|part| part.bytes() == bytes);
                Chunk::File(part.expect("a response names the parts that it leaves out"))
            }
        };
        let chunks = pieces.into_iter().map(chunk).collect();
        assert!(parts.next().is_none(), "a response leaves out the parts that it has");
        Self(chunks)
    }

    /// Its pieces, in order. None is empty.
    pub fn chunks(&self) -> &[Chunk] {
        &self.0
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(Chunk::bytes).sum()
    }

    /// What of it takes memory, bytes.
    pub fn held_bytes(&self) -> usize {
        let held = |chunk: &Chunk| match chunk {
            Chunk::Held(bytes) => bytes.len(),
            Chunk::File(_) => 0,
        };
        self.0.iter().map(held).sum()
    }

    /// All of it, for who has no socket to send it to.
    ///
    /// Errors: a file that cannot be read.
    pub fn read(&self) -> DiskResult<Bytes> {
        let mut whole = vec![0; self.bytes()];
        let mut rest = &mut whole[..];
        for chunk in &self.0 {
            let (this, behind) = rest.split_at_mut(chunk.bytes());
            match chunk {
                Chunk::Held(bytes) => this.copy_from_slice(bytes),
                Chunk::File(part) => part.read_exact(0, this)?,
            }
            rest = behind;
        }
        Ok(whole.into())
    }
}

impl From<Bytes> for Frame {
    fn from(bytes: Bytes) -> Self {
        Self(if bytes.is_empty() { Vec::new() } else { vec![Chunk::Held(bytes)] })
    }
}
