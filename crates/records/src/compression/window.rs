//! The validating walk over a payload that is being decompressed: holds the piece it stands in, nothing more.

use alloc::vec::Vec;

use super::decoder::Decoder;
use crate::walk::{RecordError, Source};

pub(super) struct Window<'a, F> {
    decoder: Decoder<'a>,
    /// Is shown each piece.
    tap: F,
    piece: Vec<u8>,
    at: usize,
    /// Bytes of all earlier pieces.
    before: u64,
}

impl<'a, F: FnMut(&[u8])> Window<'a, F> {
    pub(super) fn new(decoder: Decoder<'a>, tap: F) -> Self {
        Self { decoder, tap, piece: Vec::new(), at: 0, before: 0 }
    }

    /// Replaces the piece, all of which is used, by the next one that is not empty; false at the end.
    fn refill(&mut self) -> Result<bool, RecordError> {
        debug_assert_eq!(self.at, self.piece.len());
        self.before += self.piece.len() as u64;
        self.at = 0;
        self.piece.clear();
        while self.piece.is_empty() {
            if !self.decoder.read_piece(&mut self.piece).map_err(RecordError::Compression)? {
                return Ok(false);
            }
        }
        (self.tap)(&self.piece);
        Ok(true)
    }
}

impl<F: FnMut(&[u8])> Source for Window<'_, F> {
    fn position(&self) -> u64 {
        self.before + self.at as u64
    }

    fn is_at_end(&mut self) -> Result<bool, RecordError> {
        Ok(self.at == self.piece.len() && !self.refill()?)
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, RecordError> {
        if self.at == self.piece.len() && !self.refill()? {
            return Err(RecordError::Truncated);
        }
        self.at += 1;
        Ok(self.piece[self.at - 1])
    }

    #[inline]
    fn skip(&mut self, mut count: u64) -> Result<(), RecordError> {
        loop {
            let here = (self.piece.len() - self.at) as u64;
            if count <= here {
                self.at += count as usize;
                return Ok(());
            }
            self.at = self.piece.len();
            count -= here;
            if !self.refill()? {
                return Err(RecordError::Truncated);
            }
        }
    }
}
