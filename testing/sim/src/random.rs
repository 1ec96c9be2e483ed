//! The simulator's randomness: everything comes from one seed, and the same seed gives the same run.

/// A small generator (SplitMix64): fast, and good enough to choose between faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Begins a stream of numbers that `seed` alone decides.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, each as likely. Panics when `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "there is no number below 0");
        // The bias is at most end / 2^64, far below what a simulation could show.
        ((u128::from(self.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// True in `permille` of 1000 cases.
    pub fn chance(&mut self, permille: u32) -> bool {
        permille > 0 && self.below(1000) < u64::from(permille)
    }

    /// A generator of its own, so that what one part of a run draws does not move what another part draws.
    pub fn fork(&mut self) -> Self {
        Self::new(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same seed gives the same numbers, another seed others.
    #[test]
    fn a_seed_decides_everything() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            [random.next_u64(), random.below(10), random.fork().next_u64()]
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    /// Numbers stay below their end, and reach all of it.
    #[test]
    fn numbers_spread_over_their_range() {
        let mut random = Random::new(7);
        let mut seen = [0; 6];
        (0..6000).for_each(|_| seen[random.below(6) as usize] += 1);
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
        assert!((0..1000).filter(|_| random.chance(100)).count() < 200);
        assert!(!random.chance(0));
        assert!(random.chance(1000));
    }
}
