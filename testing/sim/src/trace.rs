//! What happened, line by line; and a fingerprint of it, by which two runs of one seed are compared.

/// Collects lines.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    prints: bool,
    lines: u64,
    fingerprint: u64,
}

impl Trace {
    /// A trace that is printed as it grows, or only fingerprinted.
    pub fn new(prints: bool) -> Self {
        Self { prints, lines: 0, fingerprint: 0xcbf2_9ce4_8422_2325 }
    }

    /// Adds a line with its time in nanoseconds.
    pub fn line(&mut self, at: u64, text: &str) {
        if self.prints {
            println!("{:>12.3} ms  {text}", at as f64 / 1e6);
        }
        self.lines += 1;
        for byte in at.to_be_bytes().iter().chain(text.as_bytes()) {
            self.fingerprint = (self.fingerprint ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Number of lines, and their hash.
    pub fn fingerprint(&self) -> (u64, u64) {
        (self.lines, self.fingerprint)
    }
}
