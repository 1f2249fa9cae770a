//! Finds the end of a JSON value without decoding it.
//!
//! Large messages should be read in as few passes as possible. This pass knows nesting, strings and escapes and nothing else.
//! The decoder, which gets every relevant piece, validates the JSON.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::block::{BLOCK, Block};

/// The state of a scan inside a JSON object or array. It can stop and resume anywhere.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scan {
    depth: u32,
    in_string: bool,
    escaped: bool,
}

impl Scan {
    /// Whether it is outside of any value.
    pub(crate) fn is_outside(self) -> bool {
        self.depth == 0
    }

    /// Scans further bytes; returns the number of them that belong to the value, if its end is among them.
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let piece = &rest[..rest.len().min(BLOCK)];
            let end = match rest.first_chunk().map_or_else(|| Block::look(&padded(piece)), Block::look) {
                block if block.escapes == 0 && !self.escaped => self.block(&block),
                // Escapes are rare, so checking these bytes one by one is fast enough.
                _ => self.bytewise(piece),
            };
            if let Some(end) = end {
                return Some(at + end);
            }
            at += piece.len();
        }
        None
    }

    /// Scans a block without escapes.
    fn block(&mut self, block: &Block) -> Option<usize> {
        let strings = block.strings(self.in_string);
        let (opens, closes) = (block.opens & !strings, block.closes & !strings);
        if self.depth > closes.count_ones() {
            self.depth = self.depth + opens.count_ones() - closes.count_ones();
            self.in_string = strings >> (BLOCK - 1) == 1;
            return None;
        }
        // The end may be in this block.
        let mut turns = opens | closes;
        while turns != 0 {
            let at = turns.trailing_zeros();
            if opens >> at & 1 == 1 {
                self.depth += 1;
            } else {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    self.in_string = false;
                    return Some(at as usize + 1);
                }
            }
            turns &= turns - 1;
        }
        self.in_string = strings >> (BLOCK - 1) == 1;
        None
    }

    /// Scans a few bytes of any kind.
    fn bytewise(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, &byte) in bytes.iter().enumerate() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'"' => self.in_string = !self.in_string,
                b'\\' if self.in_string => self.escaped = true,
                _ if self.in_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// The last bytes as a block, padded with irrelevant bytes.
fn padded(piece: &[u8]) -> [u8; BLOCK] {
    let mut block = [b' '; BLOCK];
    block[..piece.len()].copy_from_slice(piece);
    block
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blocks_find_the_end_that_bytes_find(
            bytes in proptest::collection::vec(prop_oneof![
                3 => Just(b'{'), 2 => Just(b'}'), 1 => Just(b'['), 1 => Just(b']'), 2 => Just(b'"'), 1 => Just(b'\\'), 9 => any::<u8>()
            ], 0..400),
            cut in 0usize..400,
        ) {
            let (mut whole, mut single) = (Scan::default(), Scan::default());
            let (front, back) = bytes.split_at(cut.min(bytes.len()));
            let found = whole.advance(front).or_else(|| whole.advance(back).map(|end| end + front.len()));
            prop_assert_eq!(found, single.bytewise(&bytes));
            prop_assert_eq!(format!("{whole:?}"), format!("{single:?}"));
        }
    }
}
