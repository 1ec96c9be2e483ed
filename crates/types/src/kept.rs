//! Bytes that outlive the request or the read that they came in.

use core::fmt;
use core::ops::Deref;

use bytes::Bytes;

/// Bytes of their own. A [`Bytes`] out of a frame is a slice of it and keeps all of it in memory, however few bytes it has; so
/// what is kept beyond a request is of this type, which can only be made by copying. Clones share the copy.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeptBytes(Bytes);

impl KeptBytes {
    /// Copies.
    pub fn copy_of(bytes: &[u8]) -> Self {
        Self(Bytes::copy_from_slice(bytes))
    }

    /// The bytes for an answer or a record, without another copy.
    pub fn share(&self) -> Bytes {
        self.0.clone()
    }
}

impl Deref for KeptBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for KeptBytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B9: what is kept does not hold what it was cut from; its clones share it.
    #[test]
    fn a_copy_lets_go_of_the_whole() {
        let whole = Bytes::from(alloc::vec![7; 1_000]);
        let kept = KeptBytes::copy_of(&whole.slice(10..20));
        assert!(whole.is_unique(), "nothing but the test holds it");
        assert_eq!(kept[..], [7; 10]);
        assert_eq!(kept.share().as_ptr(), kept.clone().share().as_ptr());
        assert!(KeptBytes::default().is_empty());
    }
}
