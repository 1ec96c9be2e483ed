//! Requests that name one thing many times. The answer would hold the thing as often, so a small request could ask for
//! gigabytes.
//!
//! Differs from Kafka, which answers each: the first [`REPEATS_MAX`] names that were there before are answered as Kafka does,
//! those after them are left out, as Kafka itself does it in Metadata. No client names a thing twice.

use std::collections::BTreeSet;

/// Names of one request that are answered although the request has named the same before.
pub(crate) const REPEATS_MAX: usize = 2;

/// What a request has named so far.
pub(crate) struct Repeats<K> {
    seen: BTreeSet<K>,
    repeats: usize,
}

/// Leaves out of `names` what they repeat too often.
pub(crate) fn without_repeats(names: &mut Vec<String>) {
    let mut repeats = Repeats::new();
    names.retain(|name| repeats.allow(name.clone()));
}

impl<K: Ord> Repeats<K> {
    pub(crate) fn new() -> Self {
        Self { seen: BTreeSet::new(), repeats: 0 }
    }

    /// Whether `name`, the next one of the request, is answered.
    pub(crate) fn allow(&mut self, name: K) -> bool {
        if self.seen.insert(name) {
            return true;
        }
        self.repeats += 1;
        self.repeats <= REPEATS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is new is always answered; repeats are, up to a number that all of them share.
    #[test]
    fn repeats_are_counted_together() {
        let mut repeats = Repeats::new();
        assert!((0..1_000).all(|name| repeats.allow(name)));
        assert!((0..REPEATS_MAX).all(|name| repeats.allow(name)));
        assert!(!repeats.allow(0) && !repeats.allow(999));
        assert!(repeats.allow(1_000));
    }
}
