//! Sixty-four bytes of JSON at once: one bit for each relevant byte.
//!
//! Most of a large message is the inside of short strings. Going from one quote to the next costs more than comparing every
//! byte with every character of interest, many at a time.

#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use wide::u8x16;

/// The number of bytes of a block.
pub(super) const BLOCK: usize = 64;

/// The positions of the relevant bytes of a block; the first byte is the lowest bit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) quotes: u64,
    pub(super) escapes: u64,
    pub(super) opens: u64,
    pub(super) closes: u64,
}

impl Block {
    pub(super) fn look(bytes: &[u8; BLOCK]) -> Self {
        // Braces and brackets differ in one bit only.
        const FOLD: u8 = b'{' ^ b'[';
        let mut block = Self { quotes: 0, escapes: 0, opens: 0, closes: 0 };
        let (lanes, _) = bytes.as_chunks();
        for (n, lane) in lanes.iter().enumerate() {
            let lane = u8x16::new(*lane);
            let folded = lane | u8x16::splat(FOLD);
            let bits = |lane: u8x16, byte: u8| {
                u64::from(lane.cmp_eq(u8x16::splat(byte)).move_mask().cast_unsigned()) << (16 * n)
            };
            block.quotes |= bits(lane, b'"');
            block.escapes |= bits(lane, b'\\');
            block.opens |= bits(folded, b'{');
            block.closes |= bits(folded, b'}');
        }
        block
    }

    /// The bytes within strings, opening quotes among them, where there are no escapes.
    pub(super) fn strings(&self, begins_inside: bool) -> u64 {
        // Each bit becomes the parity of the quotes up to it.
        let mut parity = self.quotes;
        for shift in [1, 2, 4, 8, 16, 32] {
            parity ^= parity << shift;
        }
        if begins_inside { !parity } else { parity }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_told_by_its_bit() {
        let mut bytes = [b' '; BLOCK];
        let found = [(0, b'{'), (1, b'"'), (15, b'['), (16, b'}'), (17, b'"'), (62, b']'), (63, b'\\')];
        for (at, byte) in found {
            bytes[at] = byte;
        }
        let block = Block::look(&bytes);
        assert_eq!(block.opens, 1 | 1 << 15);
        assert_eq!(block.closes, 1 << 16 | 1 << 62);
        assert_eq!(block.quotes, 1 << 1 | 1 << 17);
        assert_eq!(block.escapes, 1 << 63);
        assert_eq!(block.strings(false), (1 << 17) - (1 << 1));
        assert_eq!(block.strings(true), !((1 << 17) - (1 << 1)));
    }

    #[test]
    fn bytes_that_only_look_alike_are_none() {
        for byte in 0..=u8::MAX {
            let block = Block::look(&[byte; BLOCK]);
            let all = |yes: bool| if yes { u64::MAX } else { 0 };
            assert_eq!(block.opens, all(matches!(byte, b'{' | b'[')), "{byte}");
            assert_eq!(block.closes, all(matches!(byte, b'}' | b']')), "{byte}");
            assert_eq!(block.quotes, all(byte == b'"'), "{byte}");
            assert_eq!(block.escapes, all(byte == b'\\'), "{byte}");
        }
    }
}
