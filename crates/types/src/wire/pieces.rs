//! A byte field, or a whole message, in pieces.

use alloc::vec::Vec;

use bytes::{BufMut, Bytes, BytesMut};

/// A piece of an encoded message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The bytes.
    Held(Bytes),
    /// So many bytes that lie elsewhere, in a file: the sender of the message puts them here.
    Elsewhere(usize),
}

impl Piece {
    /// Its bytes, wherever they are.
    pub fn len(&self) -> usize {
        match self {
            Self::Held(bytes) => bytes.len(),
            Self::Elsewhere(bytes) => *bytes,
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Pieces that follow one another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pieces(pub(super) Vec<Piece>);

impl Pieces {
    /// No bytes.
    pub const EMPTY: Self = Self(Vec::new());

    /// So many bytes that lie elsewhere.
    pub fn elsewhere(bytes: usize) -> Self {
        Self(Vec::from([Piece::Elsewhere(bytes)]))
    }

    /// The bytes of all pieces.
    pub fn len(&self) -> usize {
        self.0.iter().map(Piece::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Piece::is_empty)
    }

    /// The pieces, in order.
    pub fn iter(&self) -> core::slice::Iter<'_, Piece> {
        self.0.iter()
    }

    /// All of it as one; copies when there are several pieces. Panics where one lies elsewhere.
    pub fn into_bytes(mut self) -> Bytes {
        let held = |piece| match piece {
            Piece::Held(bytes) => bytes,
            Piece::Elsewhere(_) => panic!("only the sender of a message has the bytes that lie elsewhere"),
        };
        if self.0.len() == 1 {
            return held(self.0.remove(0));
        }
        let mut whole = BytesMut::with_capacity(self.len());
        self.0.into_iter().for_each(|piece| whole.put_slice(&held(piece)));
        whole.freeze()
    }
}

impl From<Bytes> for Pieces {
    fn from(bytes: Bytes) -> Self {
        Self(Vec::from([Piece::Held(bytes)]))
    }
}

impl FromIterator<Bytes> for Pieces {
    fn from_iter<T: IntoIterator<Item = Bytes>>(pieces: T) -> Self {
        Self(pieces.into_iter().map(Piece::Held).collect())
    }
}

impl IntoIterator for Pieces {
    type Item = Piece;
    type IntoIter = alloc::vec::IntoIter<Piece>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Pieces {
    type Item = &'a Piece;
    type IntoIter = core::slice::Iter<'a, Piece>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
