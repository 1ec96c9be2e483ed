//! Kafka's UUID: 16 bytes, written as 22 characters of URL-safe base64 without padding.

use alloc::string::String;
use core::fmt;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// An id of 128 bits: topics, directories, incarnations.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// No id.
    pub const ZERO: Self = Self([0; 16]);
    /// The id of the metadata topic.
    pub const METADATA_TOPIC: Self = Self::from_u128(1);

    /// From its value as one big-endian number.
    pub const fn from_u128(value: u128) -> Self {
        Self(value.to_be_bytes())
    }

    /// Makes a random (version 4) id out of 128 random bits, avoiding what Kafka avoids: the first hundred values,
    /// and ids whose text starts with a dash. Deterministic: the same bits give the same id.
    ///
    /// Source: Kafka Uuid.randomUuid.
    pub fn from_random(bits: u128) -> Self {
        let mut bytes = bits.to_be_bytes();
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        // The first character stands for the top six bits; 62 is the dash.
        if bytes[0] >> 2 == 62 {
            bytes[0] &= 0x7f;
        }
        Self(bytes)
    }

    /// Parses the 22 characters; `None` if they are anything else.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 22 {
            return None;
        }
        let mut value: u128 = 0;
        for (at, c) in text.bytes().enumerate() {
            let digit = ALPHABET.iter().position(|a| *a == c)? as u128;
            if at < 21 {
                value = (value << 6) | digit;
            } else {
                value = (value << 2) | (digit >> 4);
            }
        }
        Some(Self::from_u128(value))
    }

    /// Whether this is [`Self::ZERO`].
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// The 22 characters.
    pub fn to_text(self) -> String {
        let value = u128::from_be_bytes(self.0);
        (0..22)
            .map(|at| {
                let digit = if at < 21 { value >> (122 - 6 * at) & 63 } else { (value & 3) << 4 };
                ALPHABET[digit as usize] as char
            })
            .collect()
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The metadata topic's id is written so in every partition.metadata of a metadata log.
    #[test]
    fn text_is_kafkas() {
        assert_eq!(Uuid::METADATA_TOPIC.to_text(), "AAAAAAAAAAAAAAAAAAAAAQ");
        assert_eq!(Uuid::parse("AAAAAAAAAAAAAAAAAAAAAQ"), Some(Uuid::METADATA_TOPIC));
        assert_eq!(Uuid::parse("short"), None);
        for seed in [0u128, u128::MAX, 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef] {
            let id = Uuid::from_random(seed);
            assert_eq!(Uuid::parse(&id.to_text()), Some(id));
            assert!(!id.to_text().starts_with('-'));
        }
    }
}
