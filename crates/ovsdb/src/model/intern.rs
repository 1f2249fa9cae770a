//! Sharing of equal long strings.
//!
//! Databases repeat themselves: option names, project and network ids stand in thousands of rows. Short strings live
//! inside [`SmolStr`]; long ones are looked up in a small cache, so equal ones share one allocation, memory stays
//! bounded, and nothing ever needs to be swept.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::cell::RefCell;
use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;
use smol_str::SmolStr;

const INLINE: usize = 23;
const SLOTS: usize = 8192;

/// A place for texts whose hashes agree in their last digits. A text is kept when it comes a second time: of texts that
/// are never seen again only a part of the hash is noted, so they neither push out others nor have to be freed later.
/// The hashes spare a look at texts elsewhere in memory that are not the one.
#[derive(Clone, Default)]
struct Slot {
    seen: u32,
    hash: u32,
    kept: SmolStr,
}

struct Cache {
    hasher: DefaultHashBuilder,
    slots: Vec<Slot>,
}

thread_local! {
    static CACHE: RefCell<Cache> =
        RefCell::new(Cache { hasher: DefaultHashBuilder::default(), slots: vec![Slot::default(); SLOTS] });
}

/// The text as a [`SmolStr`], sharing memory with an equal one seen lately on this thread.
pub fn intern(text: &str) -> SmolStr {
    if text.len() <= INLINE {
        return SmolStr::new_inline(text);
    }
    CACHE.with_borrow_mut(|cache| {
        let hash = cache.hasher.hash_one(text);
        let (slot, hash) = (&mut cache.slots[hash as usize % SLOTS], (hash >> 32) as u32);
        if slot.hash == hash && slot.kept == text {
            return slot.kept.clone();
        }
        let text = SmolStr::new(text);
        if std::mem::replace(&mut slot.seen, hash) == hash {
            (slot.hash, slot.kept) = (hash, text.clone());
        }
        text
    })
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
}
