//! [`BitCounters`]: counts how often each bit of a row of words is set, for all bits of a block of words at a time.

/// Levels of a counter: it counts to 2¹² − 1.
const LEVELS: usize = 12;
/// Rows that can be counted before the counters are full.
const ROWS: u32 = (1 << LEVELS) - 1;
/// Words of a block, which the widest vector instructions take at once.
pub const BLOCK: usize = 8;

/// A counter for each bit of some words, in blocks. Level `k` of a block holds bit `k` of all its counters. Adding a block adds its bits
/// to level 0 and propagates the carries. A block without a set bit costs nothing.
#[derive(Clone, Debug, Default)]
pub struct BitCounters {
    blocks: Vec<[[u64; BLOCK]; LEVELS]>,
    rows: u32,
}

impl BitCounters {
    /// Allocates counters for `words` words.
    pub fn reserve(&mut self, words: usize) {
        let blocks = words.div_ceil(BLOCK);
        if self.blocks.len() < blocks {
            self.blocks.resize(blocks, [[0; BLOCK]; LEVELS]);
        }
    }

    /// Counts the set bits of word `at`, which must have been reserved. Each word is added at most once per row.
    #[inline(always)]
    pub fn add(&mut self, at: usize, bits: u64) {
        let Some(levels) = self.blocks.get_mut(at / BLOCK) else {
            return;
        };
        let mut carry = bits;
        for level in levels {
            if carry == 0 {
                return;
            }
            let level = &mut level[at % BLOCK];
            (*level, carry) = (*level ^ carry, *level & carry);
        }
    }

    /// [`add`](Self::add) of the words of block `at`.
    #[inline(always)]
    pub fn add_block(&mut self, at: usize, bits: [u64; BLOCK]) {
        let Some(levels) = self.blocks.get_mut(at) else {
            return;
        };
        let mut carry = bits;
        for level in levels {
            let mut any = 0;
            for (level, carry) in level.iter_mut().zip(&mut carry) {
                (*level, *carry) = (*level ^ *carry, *level & *carry);
                any |= *carry;
            }
            if any == 0 {
                return;
            }
        }
    }

    /// Ends a row. Returns whether the counters are full: then [`take`](Self::take) them before the next row.
    #[inline(always)]
    pub fn end_row(&mut self) -> bool {
        self.rows += 1;
        self.rows >= ROWS
    }

    /// Calls `count(bit, times)` for set bits. A bit may be passed more than once; its count is the sum.
    pub fn for_each(&self, mut count: impl FnMut(usize, i64)) {
        for (block, levels) in self.blocks.iter().enumerate() {
            for (level, words) in levels.iter().enumerate() {
                for (word, &bits) in words.iter().enumerate() {
                    let first = (block * BLOCK + word) * 64;
                    for_each_bit(bits, |bit| count(first + bit, 1 << level));
                }
            }
        }
    }

    /// Like [`for_each`](Self::for_each), but sets all counters to zero.
    pub fn take(&mut self, count: impl FnMut(usize, i64)) {
        self.for_each(count);
        self.blocks.fill([[0; BLOCK]; LEVELS]);
        self.rows = 0;
    }

    /// Bytes on the heap.
    pub fn heap_size(&self) -> usize {
        self.blocks.capacity() * size_of::<[[u64; BLOCK]; LEVELS]>()
    }
}

/// Calls `f` with the index of each set bit.
#[inline(always)]
pub fn for_each_bit(mut bits: u64, mut f: impl FnMut(usize)) {
    while bits != 0 {
        f(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_is_counted() {
        let mut counters = BitCounters::default();
        counters.reserve(2);
        let mut totals = vec![0; 512];
        let mut expected = vec![0; 512];
        let mut noise = 1u64;
        for row in 0..10_000u64 {
            let mut block = [0; BLOCK];
            for word in 0..2 {
                noise = noise.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(row);
                let bits = noise | 1;
                block[word] = bits;
                if row % 2 == 0 {
                    counters.add(word, bits);
                }
                for_each_bit(bits, |bit| expected[word * 64 + bit] += 1);
            }
            if row % 2 == 1 {
                counters.add_block(0, block);
            }
            if counters.end_row() {
                counters.take(|bit, times| totals[bit] += times);
            }
        }
        counters.for_each(|bit, times| totals[bit] += times);
        assert_eq!(totals, expected);
        // A word that was not reserved.
        counters.add(BLOCK, 1);
        counters.add_block(1, [1; BLOCK]);
        assert_eq!(totals[0], 10_000);
    }
}
