//! What happened, line by line; and a fingerprint of it, by which two runs of one seed are compared.

/// Collects lines.
#[derive(Clone, Debug)]
pub struct Trace {
    prints: bool,
    lines: u64,
    hash: u64,
}

/// The start of an FNV-1a hash.
const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;

/// Number of lines, and the hash of everything that was traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// How many lines.
    pub lines: u64,
    /// Over lines, their times, and bytes that were traced without a line.
    pub hash: u64,
}

impl Trace {
    /// A trace that is printed as it grows, or only fingerprinted.
    pub fn new(prints: bool) -> Self {
        Self { prints, lines: 0, hash: HASH_START }
    }

    /// Adds a line with its time in nanoseconds.
    pub fn line(&mut self, at: u64, text: &str) {
        if self.prints {
            println!("{:>12.3} ms  {text}", at as f64 / 1e6);
        }
        self.lines += 1;
        self.bytes(&at.to_be_bytes());
        self.bytes(text.as_bytes());
    }

    /// Adds bytes to the fingerprint alone.
    pub fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// What stands for the whole trace.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint { lines: self.lines, hash: self.hash }
    }
}
