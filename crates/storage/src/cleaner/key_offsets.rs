//! The newest offset of each key of the dirty part: a table of fixed memory, by a hash of the key.

use fencepost_types::Offset;
use sha2::{Digest, Sha256};

use super::plan::CleanerConfig;

/// Bytes of a slot: 16 of the hash, 8 of the offset, as in Kafka.
const SLOT_BYTES: u64 = 24;
/// A table never has fewer slots, whatever is configured: a pass must get on.
const SLOTS_MIN: usize = 64;
/// Of a key's hash so much is kept. Two keys that agree in it would pass for one, so it is a hash that nobody can
/// steer (Kafka takes MD5).
type KeyHash = [u64; 2];

/// Hash, then offset + 1; all zero where there is none.
type Slot = [u64; 3];

/// Newest offsets by key, and up to where the log is covered.
#[derive(Debug)]
pub(crate) struct KeyOffsets {
    slots: Vec<Slot>,
    len: usize,
    /// Entries from which on no further batch is taken. One batch may lead beyond it: the first must always fit.
    len_max: usize,
    load_factor: f64,
    covered_end: Offset,
}

impl KeyOffsets {
    /// An empty table, for at most `records_max` records, that covers the log up to `covered_end`.
    pub(crate) fn new(config: &CleanerConfig, records_max: u64, covered_end: Offset) -> Self {
        let load_factor = config.load_factor.clamp(0.1, 0.9);
        let slots_max = (config.dedupe_buffer_bytes / SLOT_BYTES).max(SLOTS_MIN as u64);
        let wanted = ((records_max as f64 / load_factor) as u64).saturating_add(1);
        let slots = usize::try_from(wanted.clamp(SLOTS_MIN as u64, slots_max)).unwrap_or(usize::MAX);
        let len_max = (slots_max as f64 * load_factor) as usize;
        Self { slots: vec![[0; 3]; slots], len: 0, len_max, load_factor, covered_end }
    }

    /// Whether the next batch must wait for another pass.
    pub(crate) fn is_full(&self) -> bool {
        self.len >= self.len_max
    }

    /// Keys in the table.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Notes a record; offsets rise.
    pub(crate) fn put(&mut self, key: &[u8], offset: Offset) {
        if self.len + 1 > (self.slots.len() as f64 * self.load_factor) as usize {
            self.grow();
        }
        let hash = hash(key);
        let at = self.find(hash);
        let slot = &mut self.slots[at];
        if slot[2] == 0 {
            self.len += 1;
        }
        *slot = [hash[0], hash[1], (offset.0 as u64).wrapping_add(1)];
    }

    /// The newest offset of a key, if it was seen.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Offset> {
        let offset = self.slots[self.find(hash(key))][2];
        (offset != 0).then(|| Offset(offset.wrapping_sub(1) as i64))
    }

    /// Everything below `end` was seen.
    pub(crate) fn cover(&mut self, end: Offset) {
        self.covered_end = self.covered_end.max(end);
    }

    /// Everything below was seen: a record there that the table does not have is not in the dirty part.
    pub(crate) fn covered_end(&self) -> Offset {
        self.covered_end
    }

    /// Where the hash is, or would go: the table is never full.
    fn find(&self, hash: KeyHash) -> usize {
        let mut at = (hash[0] % self.slots.len() as u64) as usize;
        loop {
            let slot = &self.slots[at];
            if slot[2] == 0 || (slot[0], slot[1]) == (hash[0], hash[1]) {
                return at;
            }
            at = if at + 1 == self.slots.len() { 0 } else { at + 1 };
        }
    }

    /// Only a batch that leads beyond the limit, or a log that holds more records than its offsets say, comes here.
    fn grow(&mut self) {
        let larger = vec![[0; 3]; self.slots.len() * 2];
        for slot in std::mem::replace(&mut self.slots, larger) {
            if slot[2] != 0 {
                let at = self.find([slot[0], slot[1]]);
                self.slots[at] = slot;
            }
        }
    }
}

fn hash(key: &[u8]) -> KeyHash {
    let digest = Sha256::digest(key);
    let word = |at: usize| {
        let bytes: [u8; 8] = *digest[at..].first_chunk().expect("a digest has 32 bytes");
        u64::from_be_bytes(bytes)
    };
    [word(0), word(8)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn config(dedupe_buffer_bytes: u64) -> CleanerConfig {
        CleanerConfig { dedupe_buffer_bytes, ..CleanerConfig::default() }
    }

    proptest! {
        /// The table is a map, also when it had to grow.
        #[test]
        fn a_table_is_a_map(keys in proptest::collection::vec(0..300_u32, 0..800), records_max in 0..900_u64) {
            let mut table = KeyOffsets::new(&config(1 << 20), records_max, Offset(0));
            let mut model = BTreeMap::new();
            for (offset, key) in keys.iter().enumerate() {
                table.put(&key.to_be_bytes(), Offset(offset as i64));
                model.insert(*key, Offset(offset as i64));
            }
            prop_assert_eq!(table.len(), model.len());
            for key in 0..300_u32 {
                prop_assert_eq!(table.get(&key.to_be_bytes()), model.get(&key).copied());
            }
        }
    }

    /// 24 bytes a slot, nine in ten of them used, and never less than gets a pass on.
    #[test]
    fn memory_is_bounded() {
        let mut table = KeyOffsets::new(&config(24 * 1000), u64::MAX, Offset(7));
        assert_eq!(table.slots.len(), 1000);
        for key in 0..900_u32 {
            assert!(!table.is_full(), "{key}");
            table.put(&key.to_be_bytes(), Offset(0));
        }
        assert!(table.is_full());
        assert_eq!(table.slots.len(), 1000);
        assert_eq!(table.covered_end(), Offset(7));
        let small = KeyOffsets::new(&config(0), 0, Offset(0));
        assert_eq!((small.slots.len(), small.is_full()), (SLOTS_MIN, false));
        let few = KeyOffsets::new(&config(1 << 40), 9, Offset(0));
        assert_eq!(few.slots.len(), SLOTS_MIN, "no more than there are records");
    }
}
