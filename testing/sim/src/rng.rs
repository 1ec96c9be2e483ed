//! The one source of chance in a run.

/// A small generator (SplitMix64): the same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// Numbers that follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` up to, not including, `high`.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        assert!(low < high, "an empty range: {low} to {high}");
        low + self.bits() % (high - low)
    }

    /// True once in `n` times; never for 0.
    pub fn one_in(&mut self, n: u64) -> bool {
        n > 0 && self.range(0, n) == 0
    }

    /// One of `choices`, each as likely.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.range(0, choices.len() as u64) as usize]
    }

    /// A generator of its own for a part of the run, so that what one part draws does not move what another draws.
    pub fn fork(&mut self) -> Self {
        Self::new(self.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same seed gives the same numbers, another seed others.
    #[test]
    fn a_seed_decides_everything() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            [rng.bits(), rng.range(0, 10), rng.fork().bits()]
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    /// Numbers stay in their range and reach all of it; chances are about what they say.
    #[test]
    fn numbers_spread_over_their_range() {
        let mut rng = Rng::new(7);
        let mut seen = [0; 6];
        (0..6000).for_each(|_| seen[rng.range(0, 6) as usize] += 1);
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
        assert!((60..140).contains(&(0..1000).filter(|_| rng.one_in(10)).count()));
        assert!(!rng.one_in(0));
        assert!(rng.one_in(1));
    }
}
