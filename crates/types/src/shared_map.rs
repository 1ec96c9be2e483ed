//! Ordered maps and sets whose copies share what is the same in both: a decision starts from a copy of the group, a new
//! metadata image from a copy of the last one, and copying costs the same whether there are ten entries or ten thousand.

use core::borrow::Borrow;
use core::fmt;
use core::ops::{Index, RangeBounds};

use rpds::RedBlackTreeMapSync;

/// An ordered map that is copied in no time.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SharedMap<K: Ord, V>(RedBlackTreeMapSync<K, V>);

/// An ordered set that is copied in no time.
pub type SharedSet<K> = SharedMap<K, ()>;

impl<K: Ord, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self(RedBlackTreeMapSync::new_sync())
    }
}

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    /// Puts `value` under `key`; gives back what was there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let earlier = self.0.get(&key).cloned();
        self.0.insert_mut(key, value);
        earlier
    }

    /// Takes out what is under `key`.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let earlier = self.0.get(key).cloned();
        if earlier.is_some() {
            self.0.remove_mut(key);
        }
        earlier
    }

    /// What is under `key`, to be changed: in this copy alone.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.0.get_mut(key)
    }
}

impl<K: Ord + Clone> SharedSet<K> {
    /// Puts `key` in.
    pub fn put(&mut self, key: K) {
        self.0.insert_mut(key, ());
    }
}

impl<K: Ord, V> SharedMap<K, V> {
    /// What is under `key`.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.0.get(key)
    }

    /// Whether there is something under `key`.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.contains_key(key)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.size()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All, in order of the keys.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.0.iter()
    }

    /// Those whose keys lie in `range`, in order of the keys. The first of them is found without a look at those before.
    pub fn range<Q: Ord + ?Sized, R: RangeBounds<Q>>(
        &self,
        range: R,
    ) -> impl DoubleEndedIterator<Item = (&K, &V)>
    where
        K: Borrow<Q>,
    {
        self.0.range(range)
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    /// The values, in order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }
}

impl<K: Ord, V> Index<&K> for SharedMap<K, V> {
    type Output = V;

    fn index(&self, key: &K) -> &V {
        self.get(key).expect("who asks for it knows that it is there")
    }
}

impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for SharedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut map = Self::default();
        pairs.into_iter().for_each(|(key, value)| map.0.insert_mut(key, value));
        map
    }
}

impl<K: Ord + fmt::Debug, V: fmt::Debug> fmt::Debug for SharedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A copy goes its own way; what is the same compares the same, however it came to be.
    #[test]
    fn a_copy_goes_its_own_way() {
        let mut first: SharedMap<i32, i32> = (0..100).map(|number| (number, number)).collect();
        let mut second = first.clone();
        assert_eq!((second.insert(5, 50), second.remove(&7), second.remove(&700)), (Some(5), Some(7), None));
        *second.get_mut(&9).unwrap() = 90;
        assert_eq!((first.len(), first[&5], first.get(&7), first[&9]), (100, 5, Some(&7), 9));
        assert_eq!((second.len(), second[&5], second.get(&7), second[&9]), (99, 50, None, 90));
        assert_ne!(first, second);
        first.insert(5, 50);
        first.remove(&7);
        first.insert(9, 90);
        assert_eq!(first, second);
        assert!(first.keys().eq(second.keys()) && first.values().eq(second.values()));
        assert!(first.range(97..).map(|(key, _)| *key).eq([97, 98, 99]), "a range has its beginning");
    }
}
