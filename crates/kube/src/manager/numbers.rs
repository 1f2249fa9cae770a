//! Numbers from a range, each with at most one owner.
//!
//! A new owner gets the next number after the last one given, so that a number that was just freed stays unused for as long as
//! possible: somewhere an old row with it may still exist.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;

/// The numbers from `min` to `max`, and their owners.
#[derive(Clone, Debug)]
pub(super) struct Numbers<K> {
    min: u32,
    max: u32,
    last: Option<u32>,
    by_owner: BTreeMap<K, u32>,
    by_number: BTreeMap<u32, K>,
}

impl<K: Ord + Clone> Numbers<K> {
    pub(super) fn new(min: u32, max: u32) -> Numbers<K> {
        Numbers { min, max, last: None, by_owner: BTreeMap::new(), by_number: BTreeMap::new() }
    }

    /// The owner's number.
    pub(super) fn get(&self, owner: &K) -> Option<u32> {
        self.by_owner.get(owner).copied()
    }

    /// The number's owner.
    pub(super) fn owner(&self, number: u32) -> Option<&K> {
        self.by_number.get(&number)
    }

    /// Gives a certain number to an owner without one. False if somebody else has it.
    ///
    /// The number may be outside of the range: an older program may have given it.
    pub(super) fn reserve(&mut self, owner: &K, number: u32) -> bool {
        match (self.by_number.get(&number), self.by_owner.get(owner)) {
            (Some(other), _) => other == owner,
            (None, Some(_)) => false,
            (None, None) => {
                self.take(owner, number);
                // After a restart, the largest number in use stands for the last one given.
                self.last = self.last.max(Some(number).filter(|number| *number <= self.max));
                true
            }
        }
    }

    /// The owner's number, a new one if it has none. `None` if all are in use.
    pub(super) fn allocate(&mut self, owner: &K) -> Option<u32> {
        if let Some(number) = self.get(owner) {
            return Some(number);
        }
        let start = self.last.map_or(self.min, |last| last.saturating_add(1).max(self.min));
        let number = self.free_from(start).or_else(|| self.free_from(self.min))?;
        self.take(owner, number);
        self.last = Some(number);
        Some(number)
    }

    /// The first free number from `start` on.
    fn free_from(&self, start: u32) -> Option<u32> {
        let mut next = start;
        // The numbers in use are sorted, so the first gap is the answer.
        for used in self.by_number.range(start..).map(|(number, _)| *number) {
            if used != next {
                break;
            }
            next = next.checked_add(1)?;
        }
        (next <= self.max).then_some(next)
    }

    fn take(&mut self, owner: &K, number: u32) {
        self.by_owner.insert(owner.clone(), number);
        self.by_number.insert(number, owner.clone());
    }

    /// Frees the numbers of all owners that are not to be kept.
    pub(super) fn retain(&mut self, keep: impl Fn(&K) -> bool) {
        self.by_owner.retain(|owner, _| keep(owner));
        self.by_number.retain(|_, owner| keep(owner));
    }

    pub(super) fn owners(&self) -> impl Iterator<Item = &K> {
        self.by_owner.keys()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_freed_number_comes_again_last() {
        let mut numbers = Numbers::new(2, 5);
        for (owner, number) in [("a", 2), ("b", 3), ("c", 4)] {
            assert_eq!(numbers.allocate(&owner), Some(number));
            assert_eq!(numbers.allocate(&owner), Some(number));
        }
        numbers.retain(|owner| *owner != "b");
        assert_eq!(numbers.allocate(&"d"), Some(5));
        assert_eq!(numbers.allocate(&"e"), Some(3));
        assert_eq!(numbers.allocate(&"f"), None);
        assert_eq!((numbers.get(&"e"), numbers.owner(3)), (Some(3), Some(&"e")));
    }

    #[test]
    fn reserved_numbers_belong_to_the_first() {
        let mut numbers = Numbers::new(10, 20);
        assert!(numbers.reserve(&"a", 12) && numbers.reserve(&"a", 12));
        assert!(!numbers.reserve(&"b", 12), "it has an owner");
        assert!(!numbers.reserve(&"a", 13), "it has a number");
        assert!(numbers.reserve(&"old", 3), "an older program gave it");
        assert_eq!(numbers.allocate(&"b"), Some(13));
    }

    proptest! {
        #[test]
        fn no_number_has_two_owners(steps in proptest::collection::vec((0u8..4, 0u8..12, 0u32..14), 0..80)) {
            let mut numbers = Numbers::new(2, 9);
            for (what, owner, number) in steps {
                match what {
                    0 => drop(numbers.allocate(&owner)),
                    1 => drop(numbers.reserve(&owner, number)),
                    _ => numbers.retain(|it| *it != owner),
                }
                let used: BTreeSet<u32> = numbers.by_owner.values().copied().collect();
                prop_assert_eq!(used.len(), numbers.by_owner.len());
                prop_assert_eq!(numbers.by_number.len(), numbers.by_owner.len());
                for (owner, number) in &numbers.by_owner {
                    prop_assert_eq!(numbers.by_number.get(number), Some(owner));
                }
                if numbers.by_owner.values().filter(|number| (2..=9).contains(*number)).count() < 8 {
                    let mut copy = numbers.clone();
                    prop_assert!(copy.allocate(&99).is_some(), "a free number was not found");
                }
            }
        }
    }
}
