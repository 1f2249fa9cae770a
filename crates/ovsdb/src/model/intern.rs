//! Sharing of equal long strings.
//!
//! Databases repeat themselves: option names, project and network ids occur in thousands of rows. Short strings are stored
//! inside [`SmolStr`]. Long ones are looked up in a small cache, so that equal ones share one allocation. Memory stays bounded,
//! and the cache never needs a sweep.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::cell::RefCell;
use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;
use smol_str::SmolStr;

const INLINE: usize = 23;
/// The initial number of slots, enough for a few rows, and the maximum.
const FEW: usize = 256;
const MANY: usize = 8192;

/// A slot for strings whose hashes agree in their last digits. It stores a string when it occurs a second time. For a string that never
/// occurs again it records only a part of the hash, so such strings neither evict others nor have to be freed later. Comparing hashes first
/// avoids reading other strings elsewhere in memory.
#[derive(Clone, Default)]
struct Slot {
    seen: u32,
    hash: u32,
    kept: SmolStr,
}

struct Cache {
    hasher: DefaultHashBuilder,
    slots: Vec<Slot>,
    /// The number of slots that hold a string.
    kept: usize,
}

impl Cache {
    fn new() -> Self {
        Self { hasher: DefaultHashBuilder::default(), slots: vec![Slot::default(); FEW], kept: 0 }
    }

    /// The slot of a string, and the part of its hash that the slot records.
    fn place(&self, text: &str) -> (usize, u32) {
        let hash = self.hasher.hash_one(text);
        (hash as usize % self.slots.len(), (hash >> 32) as u32)
    }

    /// Returns the string, shared if the cache has it.
    fn share(&mut self, text: &str) -> SmolStr {
        let (at, hash) = self.place(text);
        let slot = &mut self.slots[at];
        if slot.hash == hash && slot.kept == text {
            return slot.kept.clone();
        }
        let text = SmolStr::new(text);
        if std::mem::replace(&mut slot.seen, hash) == hash {
            self.kept += usize::from(slot.kept.is_empty());
            (slot.hash, slot.kept) = (hash, text.clone());
            // Each string has only one possible slot. With few occupied slots, strings rarely evict each other.
            if self.kept * 4 > self.slots.len() && self.slots.len() < MANY {
                self.grow();
            }
        }
        text
    }

    /// Doubles the slots. Strings that occurred only once are dropped.
    fn grow(&mut self) {
        let slots = vec![Slot::default(); self.slots.len() * 2];
        let old = std::mem::replace(&mut self.slots, slots);
        self.kept = 0;
        for Slot { kept, .. } in old.into_iter().filter(|slot| !slot.kept.is_empty()) {
            let (at, hash) = self.place(&kept);
            self.slots[at] = Slot { seen: hash, hash, kept };
            self.kept += 1;
        }
    }
}

thread_local! {
    static CACHE: RefCell<Cache> = RefCell::new(Cache::new());
}

/// The string as a [`SmolStr`]. It shares memory with an equal one that this thread has seen recently.
pub(crate) fn intern(text: &str) -> SmolStr {
    if text.len() <= INLINE {
        return SmolStr::new_inline(text);
    }
    CACHE.with_borrow_mut(|cache| cache.share(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_long_texts_share_memory() {
        let text = "neutron:security_group_ids of a port";
        assert_eq!(intern(text), text);
        let (a, b) = (intern(text), intern(text));
        assert_eq!(a, text);
        assert_eq!(a.as_ptr(), b.as_ptr(), "from the second time on");
        for n in 0..100_000 {
            intern(&format!("a text that never comes again, {n}"));
        }
        assert_eq!(a.as_ptr(), intern(text).as_ptr(), "others do not push it out");
        assert_eq!(intern("short"), "short");
    }

    #[test]
    fn the_cache_grows_with_what_is_shared_and_keeps_it() {
        let mut cache = Cache::new();
        let text = |n: usize| format!("a text that comes again and again, {n}");
        let mut twice = |n| (cache.share(&text(n)), cache.share(&text(n))).1;
        let texts: Vec<SmolStr> = (0..500).map(&mut twice).collect();
        let still = (0..500).filter(|n| cache.share(&text(*n)).as_ptr() == texts[*n].as_ptr()).count();
        assert!(still > 350, "{still} of 500 are still shared");
        assert!((FEW + 1..MANY).contains(&cache.slots.len()), "{}", cache.slots.len());
        for n in (500..20_000).flat_map(|n| [n, n]) {
            cache.share(&text(n));
        }
        assert_eq!(cache.slots.len(), MANY, "and no further");
    }
}
