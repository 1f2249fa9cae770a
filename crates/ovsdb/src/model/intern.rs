//! Sharing of equal long strings.
//!
//! Databases repeat themselves: option names, project and network ids stand in thousands of rows. Short strings live
//! inside [`SmolStr`]; long ones are looked up in a small direct-mapped cache, so equal neighbours share one
//! allocation, memory stays bounded, and nothing ever needs to be swept.

use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};

use smol_str::SmolStr;

const INLINE: usize = 23;
const SLOTS: usize = 4096;

struct Cache {
    hasher: RandomState,
    slots: Vec<SmolStr>,
}

thread_local! {
    static CACHE: RefCell<Cache> =
        RefCell::new(Cache { hasher: RandomState::new(), slots: vec![SmolStr::default(); SLOTS] });
}

/// The text as a [`SmolStr`], sharing memory with an equal one seen lately on this thread.
pub fn intern(text: &str) -> SmolStr {
    if text.len() <= INLINE {
        return SmolStr::new_inline(text);
    }
    CACHE.with_borrow_mut(|cache| {
        let slot = cache.hasher.hash_one(text) as usize % SLOTS;
        if cache.slots[slot] != text {
            cache.slots[slot] = SmolStr::new(text);
        }
        cache.slots[slot].clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_long_texts_share_memory() {
        let text = "neutron:security_group_ids of a port";
        let (a, b) = (intern(text), intern(text));
        assert_eq!(a, text);
        assert_eq!(a.as_ptr(), b.as_ptr());
        assert_eq!(intern("short"), "short");
    }
}
